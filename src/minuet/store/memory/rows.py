"""The tables of the store in memory, as a transition loads and changes them."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable
from typing import TypeAlias

from minuet.clock import Clock, SystemClock
from minuet.store.blob import BlobTable
from minuet.store.ends import Ends
from minuet.store.exchange import Held, Result
from minuet.store.feed import MemoryFeed
from minuet.store.records import (
    Arrival,
    DeadLetter,
    EventRecord,
    Join,
    Key,
    Run,
    Signal,
    Token,
    WorkerEntry,
    WorkflowVersion,
)
from minuet.store.rules.transition import Transition
from minuet.store.rules.workflows import Named
from minuet.store.tables import RunTable, Table, TokenTable
from minuet.store.wake import Wake
from minuet.types import TERMINAL

#: Number, lease, results, revoked and time of a session's last call.
LastCall: TypeAlias = tuple[int, str, tuple[Result, ...], tuple[Held, ...], int]


class MemoryRows:
    """What a store in memory holds."""

    def __init__(
        self,
        clock: Clock | None = None,
        *,
        transition: type[Transition] = Transition,
        retention_ms: int | None = None,
    ) -> None:
        self._clock = clock or SystemClock()
        self.retention_ms = retention_ms
        #: The rules; the simulation plants mistakes in them.
        self._transition = transition
        self._runs = RunTable()
        self._tokens = TokenTable()
        self._joins: Table[Key, Join] = Table(run=lambda key: key[0])
        self._arrivals: Table[tuple[Key, str], Arrival] = Table(
            run=lambda key: key[0][0], join=lambda key: key[0]
        )
        self._events: dict[str, list[EventRecord]] = {}
        self._feed = MemoryFeed(self._clock.now_ms())
        self._steps: Table[tuple[Key, str], bytes] = Table(
            run=lambda key: key[0][0], token=lambda key: key[0]
        )
        self._signals: Table[tuple[str, str], Signal] = Table(run=lambda key: key[0])
        self._dead_letters: Table[tuple[Key, int], DeadLetter] = Table(run=lambda key: key[0][0])
        self._sessions: dict[tuple[str, str], LastCall] = {}
        self._blobs = BlobTable()
        self._named: dict[tuple[str, str], Named] = {}
        self._versions: dict[tuple[str, str, int], WorkflowVersion] = {}
        self._cells: dict[str, bytes] = {}
        #: By tenant and id; removed ones are kept until they are forgotten.
        self._workers: dict[tuple[str, str], WorkerEntry] = {}
        self._removed: dict[tuple[str, str], WorkerEntry] = {}
        self._work = Wake()
        self._change = Wake()
        self._ends = Ends(self._find_ended)

    def load_run(self, run: str) -> Run | None:
        return copy.copy(self._runs.get(run))

    def load_token(self, key: Key) -> Token | None:
        return copy.copy(self._tokens.get(key))

    def has_token(self, key: Key) -> bool:
        return key in self._tokens

    def hold_token(self, key: Key) -> None:
        pass  # Nothing else runs while a step is computed.

    def load_join(self, key: Key) -> Join | None:
        return copy.copy(self._joins.get(key))

    def has_arrival(self, key: Key, source: str) -> bool:
        return (key, source) in self._arrivals

    def has_own_blob(self, run: str, ref: str) -> bool:
        return (self._runs[run].tenant, run, ref) in self._blobs

    def find_tokens(self, run: str, states: tuple[str, ...]) -> Iterable[Token]:
        tokens = self._tokens.of("run", run).values()
        return [copy.copy(t) for t in tokens if t.state in states]

    def find_waiters(self, tenant: str, slot: str) -> Iterable[Token]:
        waiters = [
            copy.copy(t)
            for t in self._tokens.live.values()
            if (t.tenant, t.slot, t.lane, t.state) == (tenant, slot, "slot", "ready")
        ]
        return sorted(waiters, key=by_due)

    def count_holders(self, tenant: str, slot: str) -> int:
        return sum(
            t.tenant == tenant and t.slot == slot and t.lane != "slot"
            for t in self._tokens.live.values()
        )

    def load_step(self, key: Key, name: str, *, with_signal: bool) -> bytes | None:
        return self._steps.get((key, name))

    def has_step(self, key: Key, name: str) -> bool:
        return (key, name) in self._steps

    def load_event(self, run: str, seq: int) -> bytes | None:
        found = self._events.get(run, [])
        return found[seq - 1].data if 0 < seq <= len(found) else None

    def load_signal(self, run: str, id: str) -> Signal | None:
        return copy.copy(self._signals.get((run, id)))

    def find_signals(self, run: str) -> Iterable[Signal]:
        return [copy.copy(s) for s in self._signals.of("run", run).values() if not s.node]

    def load_kept(self, run: str, seq: int) -> Signal | None:
        return next((s for s in self.find_signals(run) if s.seq == seq), None)

    def find_waiting(self, run: Run, kind: str, key: str | None = None) -> Iterable[Token]:
        tokens = self.find_tokens(run.run, ("waiting",))
        return [t for t in tokens if t.wait == kind and key in (None, t.wait_key)]

    async def _find_ended(self, runs: Collection[str]) -> Collection[str]:
        return [run for run in runs if run in self._runs and self._runs[run].status in TERMINAL]

    def _commit(self, step: Transition) -> None:
        step.promote_waiters()
        for run in step.changed_runs:
            self._runs[run] = step.runs[run]
        for key in step.changed_tokens:
            self._tokens[key] = step.tokens[key]
        for key in step.changed_joins:
            self._joins[key] = step.joins[key]
        self._arrivals.update(step.arrivals)
        self._steps.update(step.steps)
        self._signals.update(step.signals)
        for event in step.events:
            self._events.setdefault(event.run, []).append(event)
        self._feed.add(step.events)
        for run in step.reprocessed:
            for letter in self._dead_letters.of("run", run).values():
                if letter.status == "pending":
                    letter.status, letter.settled_ms = "reprocessed", step.now_ms
        for key, generation, status, why in step.settled_letters:
            held = self._dead_letters.get((key, generation))
            if held is not None and held.status == "pending":
                held.status, held.settled_ms, held.why = status, step.now_ms, why
        for letter in step.dead_letters:
            self._dead_letters[((letter.run, letter.node, letter.scope), letter.generation)] = (
                letter
            )
        self._work.notify()
        self._change.notify()
        self._ends.notify(step.ended)


def by_due(token: Token) -> tuple[int, Key]:
    return (token.due_ms or 0, token.key)


def by_key(token: Token) -> Key:
    return token.key
