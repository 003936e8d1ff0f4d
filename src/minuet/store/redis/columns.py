"""How rows are kept on Redis: their columns, in the order in which they are stored.

The columns of runs and tokens are the fields of `records.Run` and `records.Token`. This module
says only where each of them is kept since layout 3, which never changes. A field that a record gets
later comes last in the tail of its row, with no further declaration.

A row of a run or a token is numbers, then strings with their lengths, and then the tail: packed
values, of which nil stands for the default, and which is left out when all are nil. The other rows
are packed values only. `script.py` turns the names of columns in scripts into places in an array.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any, Literal, NamedTuple, get_args, get_origin

import msgspec
from msgspec.structs import FieldInfo

from minuet.store.fields import is_optional, sort_of
from minuet.store.lenient import default_of, plain_type
from minuet.store.records import (
    Arrival,
    DeadLetter,
    Join,
    Read,
    Run,
    Signal,
    Token,
    WorkflowVersion,
)

#: No time, where a number is needed.
NEVER = -(2**53)

#: The fields of a run's hash, by the first byte of their names.
FIELDS = {
    # What changes of the run, what never changes, and its input. At its creation it may have had
    # another input.
    "run": "R",
    "origin": "I",
    "input": "i",
    "first_input": "o",
    # Each with more behind it, which names one of them. `listed`: a live arrival, by its number.
    "token": "t",
    "join": "j",
    "arrival": "a",
    "listed": "n",
    "step": "s",
    "event": "e",
    "dead_letter": "d",
    "signal": "g",
    # Up to which event the log behind this store has the run.
    "logged": "m",
}

#: The result of an item, as one byte of an answer.
RESULT_CODES = {
    "applied": "a",
    "held": "h",
    "duplicate": "d",
    "stale": "s",
    "replan": "r",
    "closed": "c",
    "limit": "l",
    "full": "f",
}


class Column(NamedTuple):
    """A column that is packed."""

    name: str
    #: How a script holds it: `boolean`, `number`, `string` or `table`.
    kind: str
    #: What it holds, where that is not the plain value: `payload`, `json` or `reads`.
    form: str
    #: What nil stands for.
    default: Any
    #: Whether it is a field of the record, or only kept by this store.
    is_field: bool


class Layout:
    """The columns of one kind of row."""

    def __init__(
        self,
        letter: str,
        record: type[msgspec.Struct],
        *,
        implied: tuple[str, ...],
        numbers: dict[str, str] | None = None,
        strings: tuple[str, ...] = (),
        tail: tuple[str, ...],
        extra: dict[str, type] | None = None,
        of_call: dict[str, str] | None = None,
        least: int | None = None,
    ) -> None:
        #: What the names of its columns begin with in scripts.
        self.letter = letter
        fields = {field.name: field for field in msgspec.structs.fields(record)}
        extra = extra or {}
        #: By name: the type of a number in `struct`.
        self.numbers = numbers or {}
        self.strings = strings
        known = {*implied, *self.numbers, *strings, *tail}
        names = (*tail, *(name for name in fields if name not in known))
        self.tail = tuple(_column(name, fields.get(name), extra.get(name)) for name in names)
        #: How many columns the tail has in rows of the earliest layout.
        self.least = len(tail) if least is None else least
        #: What only one call needs, and how that begins in a script.
        self.of_call = of_call or {}
        self.defaults = {name: default_of(field) for name, field in fields.items()}
        #: Columns that have no default, and those that may be nothing.
        self.required = {name for name, field in fields.items() if field.required}
        self.optional = {name for name, field in fields.items() if is_optional(field)}
        self.struct = struct.Struct(">" + "".join(code[0] for code in self.numbers.values()))

    @property
    def has_struct(self) -> bool:
        return bool(self.numbers)

    @property
    def stored(self) -> tuple[str, ...]:
        """Names of what is stored, in their order; `tail` stands for where the tail begins."""
        tail = tuple(column.name for column in self.tail)
        return (*self.numbers, *self.strings, "tail", *tail) if self.has_struct else tail

    @property
    def format(self) -> str:
        """The numbers and strings of a row, as `struct` of Lua reads them."""
        return self.numbers_format + "I4c0" * len(self.strings)

    @property
    def numbers_format(self) -> str:
        return ">" + "".join(self.numbers.values())


def _column(name: str, field: FieldInfo | None, extra: type | None) -> Column:
    if field is None:
        assert extra is not None, f"{name} is not a field of the record"
        return Column(name, _KINDS[extra], "", None, False)
    return Column(name, *_kind(field), default_of(field), True)


#: How a script holds what is neither an object nor a list. A `Literal` has no type of its own.
_KINDS = {bool: "boolean", int: "number", str: "string", bytes: "string"}


def _kind(field: FieldInfo) -> tuple[str, str]:
    """How a script holds a field, and in which form."""
    kind = plain_type(field)
    match sort_of(field):
        case "object":
            return ("string", "json")
        case "list":
            return ("string", "reads") if get_args(kind)[0] is Read else ("table", "")
        case "free":
            return ("string", "")
    if get_origin(kind) is Literal:
        return ("string", "")
    return (_KINDS[kind], "payload" if kind is bytes else "")


def _nothing(names: Iterable[str]) -> dict[str, str]:
    return dict.fromkeys(names, "false")


ORIGIN = Layout(
    "O",
    Run,
    implied=tuple(Run.__struct_fields__),
    tail=(
        *("workflow", "plan", "created_ms", "tags", "idempotency_key", "parent"),
        *("version", "tag"),
    ),
    # `version` and `tag` came with layout 4.
    least=6,
)

RUN = Layout(
    "R",
    Run,
    # The name of its hash says which run it is; the rest is in fields of its own.
    implied=(
        *("run", "input", "created_ms", "tags", "idempotency_key", "parent"),
        *("version", "tag"),
    ),
    numbers={"started_ms": "d", "counter": "I4", "seq": "I4", "generation": "I4"},
    strings=("tenant", "workflow", "plan", "status"),
    tail=("deadline_ms", "scoped", "dead_letters", "ended_ms", "error"),
    # Whether an instance in a loop or a map has an output.
    extra={"scoped": bool},
    of_call={
        **_nothing(("name", "key")),
        # Fields to write, and how many values they are.
        "out": "false",
        "count": "0",
        # Outputs of this call's events by number; whether it has changed; whether it is new.
        **_nothing(("outputs", "changed", "new")),
        # The first event of this call; outputs that come with tokens taken, by number.
        **_nothing(("fed", "sent")),
        # What it was before; what never changes of it and its input, where they are known.
        **_nothing(("old_status", "old_deadline", "old_ended", "cold", "input")),
    },
)

TOKEN = Layout(
    "T",
    Token,
    implied=("run", "node", "scope", "tenant"),
    numbers={
        "due_ms": "d",
        "taken_ms": "d",
        "hop": "I4",
        "attempt": "I4",
        "delivery": "I4",
        "event": "I4",
        "source_event": "I4",
    },
    strings=("state", "outcome", "lease", "session", "queue", "source"),
    tail=(
        *("skip", "source_scope", "reads", "joined", "lane", "expiry", "cursor"),
        *("wait", "wait_key", "resolution", "slot", "slot_limit", "lost"),
    ),
    # The event that holds its source's output (0: it is looked up); whether it comes from a join.
    extra={"source_event": int, "joined": bool},
    # Name in sorted sets; its run's row; its field there, if it was loaded; whether it has changed,
    # is new, was leased; what comes with it when it is taken.
    of_call=_nothing(
        ("member", "run", "node", "scope", "field", "changed", "new", "was_leased", "fit")
    ),
    # `lost` came with layout 3.
    least=12,
)

JOIN = Layout(
    "J",
    Join,
    implied=("run", "node", "scope"),
    tail=("need", "total", "live", "skipped", "fired", "hop", "listed"),
    # How many live arrivals are listed.
    extra={"listed": int},
    # Its run's row; node and scope; live arrivals of this call.
    of_call=_nothing(("run", "name", "pending")),
)

ARRIVAL = Layout(
    "A",
    Arrival,
    implied=("run", "node", "scope", "source"),
    tail=("source_scope", "live", "late"),
)

#: A live arrival, with the event that holds its output.
LISTED = Layout(
    "N",
    Arrival,
    implied=tuple(Arrival.__struct_fields__),
    tail=("source", "source_scope", "event"),
    extra={"event": int},
)

DEAD_LETTER = Layout(
    "D",
    DeadLetter,
    implied=("run",),
    tail=(
        *("node", "scope", "generation", "tenant", "queue", "reason", "error"),
        *("fingerprint", "attempts", "at_ms", "status"),
    ),
)

#: A version of a deployed workflow.
VERSION = Layout(
    "V",
    WorkflowVersion,
    implied=("tenant", "name", "version"),
    tail=("plan", "document", "message", "created_ms", "created_by"),
)

SIGNAL = Layout(
    "S",
    Signal,
    implied=("run", "id"),
    tail=("name", "seq", "node", "scope"),
    of_call=_nothing(("id",)),
)

#: By the name that constructors in scripts have for them.
LAYOUTS = {
    "origin": ORIGIN,
    "run": RUN,
    "token": TOKEN,
    "join": JOIN,
    "arrival": ARRIVAL,
    "listed": LISTED,
    "dead_letter": DEAD_LETTER,
    "version": VERSION,
    "signal": SIGNAL,
}
