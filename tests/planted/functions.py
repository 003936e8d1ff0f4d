"""Wrong versions of what runs durable functions, for `tests.planted.bugs`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any

import msgspec

from minuet.errors import RunConflictError
from minuet.functions.instance import Call
from minuet.functions.journal import Entry, Journal
from minuet.store.changes import NewRun
from minuet.store.families import awaited_children
from minuet.store.logged import guard
from minuet.store.logged.runs import LoggedRuns
from minuet.store.records import Key, Run, Snapshot, Token
from minuet.store.rules.transition import Transition
from minuet.worker.children import Children
from minuet.worker.flow_arrivals import Arrival
from minuet.worker.flow_inbox import FlowInbox
from minuet.worker.flow_journal import FlowJournal
from minuet.worker.flows import FlowRun


def replaced(
    owner: Any, name: str, make: Callable[[Any], Any]
) -> Callable[[], AbstractContextManager[None]]:
    """A context in which an attribute is what `make` makes of it."""

    @contextmanager
    def patch() -> Iterator[None]:
        right = getattr(owner, name)
        setattr(owner, name, make(right))
        try:
            yield
        finally:
            setattr(owner, name, right)

    return patch


# ── the journal ─────────────────────────────────────────────────────────────────────────────


def _reversed(right: Callable[[Journal], list[Entry]]) -> Any:
    def wrong(self: Journal) -> list[Entry]:
        unsaved = right(self)
        numbers = [entry.n for entry in unsaved]
        return [
            msgspec.structs.replace(entry, n=number)
            for entry, number in zip(unsaved, reversed(numbers), strict=True)
        ]

    return wrong


#: What the code has got in one turn is numbered from the end.
order_lost = replaced(Journal, "take_unsaved", _reversed)


def _miscounted(right: Callable[[Journal, Any, str], int]) -> Any:
    def wrong(self: Journal, kind: Any, name: str) -> int:
        count = right(self, kind, name)
        return count + 1 if self.is_replaying and count > 1 else count

    return wrong


#: In a replay, the second one of a name counts as the third.
miscounted = replaced(Journal, "count", _miscounted)

#: What failed fails again from the journal when the run is retried.
errors_stay = replaced(Journal, "_drop_errors", lambda right: lambda self, joined: None)


def _later(right: Callable[[FlowRun], Any]) -> Any:
    async def keep(self: FlowRun) -> None:
        with suppress(Exception):
            await right(self)

    async def wrong(self: FlowRun) -> None:
        keeping = asyncio.get_running_loop().create_task(keep(self))
        assert self._instance is not None
        if self._instance.is_over:
            await keeping

    return wrong


#: The next steps are started while what led to them is being kept.
no_barrier = replaced(FlowRun, "_keep", _later)


def _forgetful(right: Callable[[FlowJournal], Any]) -> Any:
    async def wrong(self: FlowJournal) -> list[Entry]:
        entries: list[Entry] = await right(self)
        self.backoffs.clear()
        return entries

    return wrong


#: A function that is taken up again begins with the first attempt of a step that has failed.
attempts_forgotten = replaced(FlowJournal, "load", _forgetful)


# ── steps ───────────────────────────────────────────────────────────────────────────────────


class StepsFollowNothing(Transition):
    def _has_step(self, key: Key, name: str) -> bool:
        return True


# ── signals ─────────────────────────────────────────────────────────────────────────────────


class FunctionsIgnoreKeptSignals(Transition):
    def _find_awaited(self, run: Run, token: Token) -> None:
        """It waits for the next one."""


class WaitsForLostChildren(Transition):
    """A function waits for a child run that a failover has lost."""

    def _is_missing(self, run: Run, child: str) -> bool:
        return False


class SignalsWakeNoFunction(Transition):
    def _wake_functions(self, run: Run, name: str) -> None:
        """They are kept."""


# ── time ────────────────────────────────────────────────────────────────────────────────────


def _hasty(right: Callable[[FlowRun], Any]) -> Any:
    def wrong(self: FlowRun) -> Any:
        assert self._instance is not None
        for call in self._instance.timers():
            if call.due_ms <= self._flows.now_ms() + 200:
                return Arrival(call, {})
        return right(self)

    return wrong


#: A timer is over a little too early.
timers_early = replaced(FlowRun, "_next_arrival", _hasty)


def _endless(right: Callable[[FlowRun], int | None]) -> Any:
    def wrong(self: FlowRun) -> int | None:
        assert self._inbox is not None
        return None if self._inbox.awaited() else right(self)

    return wrong


#: A function that waits for a signal forgets how long.
timers_never = replaced(FlowRun, "_next_due_ms", _endless)


# ── child runs ──────────────────────────────────────────────────────────────────────────────


def _renumbered(right: Callable[[FlowInbox, Call], Any]) -> Any:
    async def wrong(self: FlowInbox, call: Call) -> None:
        call.number += len(self._instance.journal)
        await right(self, call)

    return wrong


#: Child runs are numbered by how far the journal has got: after a wait, another one is started.
child_again = replaced(FlowInbox, "start_child", _renumbered)


def _kept_open(right: Callable[[FlowInbox, Call], Any]) -> Any:
    async def wrong(self: FlowInbox, call: Call) -> None:
        self.children = {child: one for child, one in self.children.items() if one is not call}

    return wrong


#: A child run that the code no longer waits for goes on.
child_goes_on = replaced(FlowInbox, "cancel_child", _kept_open)


def _unfinished(right: Callable[..., Any]) -> Any:
    async def wrong(self: Children, *args: Any, **options: Any) -> Run:
        found: Run = await right(self, *args, **options)
        return msgspec.structs.replace(found, status="RUNNING")

    return wrong


#: A function that goes on after a retry waits for child runs that have ended meanwhile.
ended_child_awaited = replaced(Children, "start", _unfinished)


def _only_of_nodes(right: Any) -> Any:
    def wrong(rows: Snapshot) -> list[str]:
        nodes = [token for token in rows.tokens if token.wait == "child"]
        return awaited_children(msgspec.structs.replace(rows, tokens=tuple(nodes)))

    return wrong


#: A store that was emptied gets a function back without the child runs that it waits for.
children_stay_lost = replaced(guard, "awaited_children", _only_of_nodes)


def _trusting(right: Any) -> Any:
    async def wrong(self: LoggedRuns, runs: Sequence[NewRun]) -> list[Run | RunConflictError]:
        answers = await self._hot.create_runs(runs)
        await self._durable(*(answer.run for answer in answers if isinstance(answer, Run)))
        return answers

    return wrong


#: What is left to be logged of a child run is nothing, and so it counts as durable.
lost_child_acknowledged = replaced(LoggedRuns, "_start_children", _trusting)
