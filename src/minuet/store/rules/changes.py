"""What one atomic step has touched: rows as it sees them, and what must be written back.

No rule is here; `redis/lua/changes.lua` does the same for the rows of Redis.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from minuet import events
from minuet.store.records import Arrival, DeadLetter, EventRecord, Join, Key, Run, Signal, Token
from minuet.types import LetterStatus


class Source(Protocol):
    """The committed rows. What it returns belongs to the caller, who may change it."""

    def load_run(self, run: str) -> Run | None: ...

    def load_token(self, key: Key) -> Token | None: ...

    def has_token(self, key: Key) -> bool: ...

    def hold_token(self, key: Key) -> None:
        """Keep a ready token from being taken before this step is committed."""
        ...

    def load_join(self, key: Key) -> Join | None: ...

    def has_arrival(self, key: Key, source: str) -> bool: ...

    def find_tokens(self, run: str, states: tuple[str, ...]) -> Iterable[Token]:
        """All tokens of a run in these states."""
        ...

    def find_waiters(self, tenant: str, slot: str) -> Iterable[Token]:
        """Tokens that wait for a slot, first come first."""
        ...

    def count_holders(self, tenant: str, slot: str) -> int: ...

    def load_step(self, key: Key, name: str, *, with_signal: bool) -> bytes | None:
        """A step's result. A store may leave it to its index to find a step that exists already,
        except for one with a signal: receiving the signal would be refused before."""
        ...

    def has_step(self, key: Key, name: str) -> bool: ...

    def load_event(self, run: str, seq: int) -> bytes | None: ...

    def load_signal(self, run: str, id: str) -> Signal | None: ...

    def find_signals(self, run: str) -> Iterable[Signal]:
        """The signals of a run that are kept: no instance has received them."""
        ...

    def load_kept(self, run: str, seq: int) -> Signal | None:
        """The kept signal of a run that has this event."""
        ...

    def find_waiting(self, run: Run, kind: str, key: str | None = None) -> Iterable[Token]:
        """The tokens of a run that wait for something of this kind and key; None: of any key."""
        ...

    def has_own_blob(self, run: str, ref: str) -> bool:
        """Whether a run has a blob, or may have it where this cannot look."""
        ...


class Changes:
    """The rows that one atomic step has touched."""

    def __init__(self, source: Source, now_ms: int) -> None:
        self._source = source
        self.now_ms = now_ms
        self.runs: dict[str, Run] = {}
        self.tokens: dict[Key, Token] = {}
        self.joins: dict[Key, Join] = {}
        #: Rows that do not exist yet, and rows that were changed (new ones included).
        self.new_runs: set[str] = set()
        self.new_tokens: set[Key] = set()
        self.new_joins: set[Key] = set()
        self.changed_runs: set[str] = set()
        #: Runs that this step has brought to their end.
        self.ended: set[str] = set()
        #: Runs of which this step has made something that their relatives have to learn.
        self.unreported: set[str] = set()
        #: Changed runs of which more has changed than the counter and the event number.
        self.rewritten_runs: set[str] = set()
        self.changed_tokens: set[Key] = set()
        #: Changed tokens of which a result has changed what it always does, and nothing else has
        #: changed: outcome, event, and that they are done.
        self.settled_tokens: set[Key] = set()
        self.changed_joins: set[Key] = set()
        self.events: list[EventRecord] = []
        self.arrivals: dict[tuple[Key, str], Arrival] = {}
        self.dead_letters: list[DeadLetter] = []
        #: Runs whose pending dead letters were taken up again.
        self.reprocessed: set[str] = set()
        #: Pending dead letters of tokens that were held: key, generation, status, why.
        self.settled_letters: list[tuple[Key, int, LetterStatus, str]] = []
        #: Tokens of which something has changed that only a repair changes.
        self.repaired_tokens: set[Key] = set()
        self.steps: dict[tuple[Key, str], bytes] = {}
        #: Signals by run and id that are new or have been received.
        self.signals: dict[tuple[str, str], Signal] = {}
        #: Outputs that this step has committed.
        self.outputs: dict[Key, bytes] = {}
        #: Change in the number of holders of a slot, and slots that may have room.
        self.holders: dict[tuple[str, str], int] = {}
        self._freed: dict[tuple[str, str], None] = {}

    def run(self, run: str) -> Run | None:
        """The run, as this step sees it."""
        row = self.runs.get(run)
        if row is None:
            row = self._source.load_run(run)
            if row is not None:
                self.runs[run] = row
        return row

    def token(self, key: Key) -> Token | None:
        """The token, as this step sees it."""
        row = self.tokens.get(key)
        if row is None:
            row = self._source.load_token(key)
            if row is not None:
                self.tokens[key] = row
        return row

    def _tokens_in(self, run: str, states: tuple[str, ...]) -> list[Token]:
        """All tokens of a run that are in these states by now, in the order of their keys."""
        found: dict[Key, Token] = {}
        for row in self._source.find_tokens(run, states):
            found[row.key] = self.tokens.setdefault(row.key, row)
        for key, row in self.tokens.items():
            if key[0] == run:
                found[key] = row
        return [found[key] for key in sorted(found) if found[key].state in states]

    def _append(self, run: Run, event: events.Event) -> int:
        run.seq += 1
        self.changed_runs.add(run.run)
        self.events.append(EventRecord(run.run, run.seq, self.now_ms, events.encode_event(event)))
        return run.seq
