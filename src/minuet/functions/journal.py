"""The journal of a function instance: what its code has got from outside, in order.

An entry is made of each result of a step, each timer that was over, each signal, each end of a
child run, and of each call of `ctx.now()` and the like. Entries are kept as the steps of the node
instance. A replay gives the code the same entries in the same order; code that asks for something
else has been changed, and is stopped. Only the changes that `ctx.version` has noted have no place
in the order: code that asks for one earlier or later, or no longer, is still the same.

When a run, or its node, is tried again after a failure, that failure must not come out of the
journal once more: the errors at the end of what the earlier attempts recorded are left out, and
these steps are executed again, and what followed them is noted again. An error that the code has
handled, and gone on with another step, stays.
"""

from __future__ import annotations

import difflib
import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from minuet.errors import DamagedRowError, ReplayError

#: Begins the names of entries that are not steps, and of what tasks keep with `ctx.step`. No step
#: of an author begins with it.
RESERVED = "$"

#: Begins the names of what tasks keep.
OF_TASK = "$task:"

#: Begins the names of what is noted of steps that are tried again later. Workers that do not know
#: of it take it for something of a task, and begin with the first attempt.
OF_RETRY = f"{OF_TASK}$retry:"

#: What an entry is: the result of a step; a time that is over; a signal; the end of a child run;
#: a value that the code asked for; the beginning, which is noted when it matters.
Kind: TypeAlias = Literal[
    "step", "timer", "signal", "child", "now", "random", "uuid", "version", "start"
]

#: Values that the code gets at once.
NOTES: frozenset[Kind] = frozenset(("now", "random", "uuid"))

#: Arguments above this size are not kept, but their hash is.
INPUT_BYTES_MAX = 16 * 1024

#: The name of a timer that is no sleep, but limits something.
TIMEOUT = "timeout"

#: The attempt that made an entry: the run's generation, and the attempt of the node.
Epoch: TypeAlias = tuple[int, int]


#: No JSON at all: left out.
NOTHING = msgspec.Raw(b"")


class Entry(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One thing that the code has got."""

    #: Its number in the journal, beginning with 1.
    n: int
    kind: Kind
    #: When it came, in milliseconds since 1970.
    at_ms: int
    #: Name of the task, the signal, the change; and which one of that name this is.
    name: str = ""
    occurrence: int = 1
    #: When the step began.
    started_ms: int | None = None
    #: The arguments, the result or the error, and how often the step was tried.
    input: msgspec.Raw = NOTHING
    #: Of arguments that are too large to be kept.
    input_hash: str = ""
    output: msgspec.Raw = NOTHING
    #: The blob with the output, if it is large.
    blob: str = ""
    error: dict[str, Any] | None = None
    attempts: int = 1
    #: The child run, and the generation of it that ended.
    child: str = ""
    child_generation: int = 0
    #: The generation of the run and the attempt of the node that made the entry.
    generation: int = 1
    attempt: int = 1

    @property
    def epoch(self) -> Epoch:
        """The attempt that made it."""
        return (self.generation, self.attempt)

    @property
    def label(self) -> str:
        """How people read it: `charge`, `charge #2`, `signal paid`."""
        return label_of(self.kind, self.name, self.occurrence)

    @property
    def key(self) -> str:
        """The name under which it is kept."""
        key = key_of(self.kind, self.name, self.occurrence)
        return key if self.epoch == (1, 1) else f"{key}~{self.epoch[0]}.{self.epoch[1]}"


def key_of(kind: Kind, name: str, occurrence: int) -> str:
    """What an entry is found by: the same for each replay."""
    base = name if kind == "step" else f"{RESERVED}{kind}" + (f":{name}" if name else "")
    return base if occurrence == 1 else f"{base}#{occurrence}"


def label_of(kind: Kind, name: str, occurrence: int) -> str:
    """What an entry is called in messages."""
    match kind:
        case "step":
            base = name
        case "timer":
            base = name or "sleep"
        case "start":
            base = "the start of a timer"
        case _:
            base = f"{kind} {name}".strip()
    return base if occurrence == 1 else f"{base} #{occurrence}"


class Backoff(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """That an attempt of a step has failed, and the next one comes later. It is not an entry: the
    code does not get it."""

    #: The step, and the attempt that failed, beginning with 1.
    key: str
    attempt: int
    #: When the next attempt begins, and when the first one did.
    due_ms: int
    started_ms: int
    #: Type and message of what the attempt raised.
    error: dict[str, Any]
    epoch: Epoch = (1, 1)


def is_entry(name: str) -> bool:
    """Whether a step of a function instance that is kept under this name is an entry."""
    return not name.startswith(OF_TASK)


def backoff_name(backoff: Backoff) -> str:
    """The name under which it is kept."""
    generation, attempt = backoff.epoch
    return f"{OF_RETRY}{generation}.{attempt}:{backoff.attempt}:{backoff.key}"


_decoder = msgspec.json.Decoder(Entry)
_backoff_decoder = msgspec.json.Decoder(Backoff)
_encoder = msgspec.json.Encoder()
_sorting_encoder = msgspec.json.Encoder(order="deterministic")


def encode_entry(entry: Entry) -> bytes:
    """An entry in its stored form."""
    return _encoder.encode(entry)


def input_fields(data: bytes) -> dict[str, Any]:
    """The arguments of a step, as they are kept."""
    if len(data) > INPUT_BYTES_MAX:
        return {"input_hash": _hash(data)}
    return {"input": msgspec.Raw(data)} if data else {}


def has_input(entry: Entry, data: bytes) -> bool:
    """Whether a step was called with these arguments, as far as that is known."""
    if not data:
        return True
    if entry.input_hash:
        return entry.input_hash == _hash(data)
    recorded = bytes(entry.input)
    # The order of named arguments does not matter.
    return recorded in (b"", data) or msgspec.json.decode(recorded) == msgspec.json.decode(data)


def _hash(data: bytes) -> str:
    return hashlib.sha256(_sorting_encoder.encode(msgspec.json.decode(data))).hexdigest()


def decode_entries(run: str, steps: Iterable[bytes]) -> list[Entry]:
    """The entries of an instance, in order."""
    try:
        return sorted(map(_decoder.decode, steps), key=lambda entry: (entry.epoch, entry.n))
    except msgspec.DecodeError as error:
        raise DamagedRowError(run, "a step of its function", str(error)) from None


def encode_backoff(backoff: Backoff) -> bytes:
    """A backoff in its stored form."""
    return _encoder.encode(backoff)


def decode_backoffs(run: str, steps: Mapping[str, bytes], epoch: Epoch) -> dict[str, Backoff]:
    """The last backoff of each step that has one in this attempt, by the step's key."""
    found: dict[str, Backoff] = {}
    try:
        for name, value in steps.items():
            if name.startswith(OF_RETRY):
                backoff = _backoff_decoder.decode(value)
                known = found.get(backoff.key)
                is_last = known is None or known.attempt < backoff.attempt
                if is_last and backoff.epoch == epoch:
                    found[backoff.key] = backoff
    except msgspec.DecodeError as error:
        raise DamagedRowError(run, "a step of its function", str(error)) from None
    return found


class Journal:
    """The entries of one instance, and how far a replay has come."""

    def __init__(self, entries: Iterable[Entry], epoch: Epoch) -> None:
        self.epoch = epoch
        #: Errors of earlier attempts whose steps are executed again, by key.
        self.dropped: dict[str, Entry] = {}
        #: The changes of the code that are in force.
        self.versions: set[str] = set()
        self._entries = self._join(entries)
        self._last_number = max((entry.n for entry in self._entries), default=0)
        self._position = 0
        self._occurrences: Counter[tuple[Kind, str]] = Counter()
        #: Entries that are not kept yet.
        self.unsaved: list[Entry] = []
        self._time_ms: int | None = None

    def _join(self, entries: Iterable[Entry]) -> list[Entry]:
        """What the attempts have recorded, each going on where the one before it failed."""
        joined: list[Entry] = []
        last = (1, 1)
        for entry in entries:
            if entry.epoch != last:
                self._drop_errors(joined)
                last = entry.epoch
            if entry.kind == "version":
                self.versions.add(entry.name)
            else:
                joined.append(entry)
        if self.epoch != last:
            self._drop_errors(joined)
        return joined

    def _drop_errors(self, joined: list[Entry]) -> None:
        kept = len(joined)
        for at in range(len(joined) - 1, -1, -1):
            if joined[at].error is not None:
                kept = at
            elif joined[at].kind not in NOTES:
                break
        for entry in joined[kept:]:
            self.dropped[key_of(entry.kind, entry.name, entry.occurrence)] = entry
        del joined[kept:]

    @property
    def is_replaying(self) -> bool:
        """Whether there are entries that the code has not got yet."""
        return self._position < len(self._entries)

    @property
    def next(self) -> Entry | None:
        """The next entry of a replay."""
        return self._entries[self._position] if self.is_replaying else None

    @property
    def time_ms(self) -> int | None:
        """When the last entry came that the code has got."""
        return self._time_ms

    def __len__(self) -> int:
        return len(self._entries)

    def count(self, kind: Kind, name: str) -> int:
        """The code asks for another one of this name; which one it is."""
        self._occurrences[kind, name] += 1
        return self._occurrences[kind, name]

    def advance(self) -> Entry:
        """The code gets the next entry."""
        entry = self._entries[self._position]
        self._position += 1
        self._time_ms = entry.at_ms
        return entry

    def add(self, entry: Entry) -> Entry:
        """The code gets a new entry."""
        self._last_number = entry.n
        self.unsaved.append(entry)
        if entry.kind == "version":
            self.versions.add(entry.name)
            return entry
        self._entries.append(entry)
        return self.advance()

    def new(self, kind: Kind, name: str, occurrence: int, at_ms: int, **fields: Any) -> Entry:
        """Make the next entry."""
        # The time of a journal never goes back, even if a clock does.
        at_ms = max(at_ms, self._time_ms or 0)
        generation, attempt = self.epoch
        return Entry(
            n=self._last_number + 1,
            kind=kind,
            at_ms=at_ms,
            name=name,
            occurrence=occurrence,
            generation=generation,
            attempt=attempt,
            **fields,
        )

    def take_unsaved(self) -> list[Entry]:
        """What is to be kept now."""
        unsaved, self.unsaved = self.unsaved, []
        return unsaved


def mismatch(found: Entry, asked: list[tuple[str, str]], otherwise: str) -> ReplayError:
    """The journal goes on with an entry that the code does not ask for.

    `asked` are the labels of what it asks for, each with the place in the code; if there are none,
    `otherwise` is what it does."""
    labels = [label for label, _ in asked]
    wanted = [f"{label!r} ({place})" for label, place in asked]
    now = f"asks for {_listed(wanted)}" if wanted else otherwise
    close = difflib.get_close_matches(found.label, labels, n=1)
    hint = f" Was {found.label!r} renamed to {close[0]!r}?" if close else ""
    return ReplayError(
        f"the code has changed since this run began: its journal goes on with {found.label!r} "
        f"(entry {found.n}), but the code now {now}.{hint} {ADVICE}",
        recorded=found.label,
        wanted=labels,
    )


#: What to do when the code has changed.
ADVICE = (
    "Run it with the code that it began with, or keep the former way for runs like this one: "
    'if ctx.version("…"): new way, else: former way'
)


def _listed(parts: list[str]) -> str:
    shown = parts[:5] + ([f"{len(parts) - 5} more"] if len(parts) > 5 else [])
    return " and ".join(shown) if len(shown) < 3 else ", ".join(shown)
