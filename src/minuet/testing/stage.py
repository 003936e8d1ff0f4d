"""The world of a play: the real App and worker, a store in memory, and a clock that skips waits.

The worker asks the store to wait for work when it has nothing to do. That is where a play goes on:
it sends a signal that a node waits for, or else sets the clock to the next moment at which
something is due. If neither is possible, the run would wait forever, and the play ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Protocol

import msgspec

from minuet.app.app import App
from minuet.app.watch import instance_name
from minuet.approvals import APPROVAL_WAIT, id_of
from minuet.clock import ManualClock
from minuet.errors import PlayError
from minuet.plan.plan import FLOW, HIDDEN, author_of
from minuet.store.memory import MemoryStore
from minuet.store.records import LIVE_STATES, SIGNAL_WAIT, Run, Token
from minuet.testing.decisions import GivenDecisions
from minuet.testing.played import read_played
from minuet.types import OPEN, TERMINAL

#: How many waiting instances an error describes.
WAITS_SHOWN_MAX = 5


class PlayStore(MemoryStore):
    """A store in memory that says when its worker has found nothing to do."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self.rested = asyncio.Event()

    async def wait_for_work(
        self,
        tenant: str,
        queues: Sequence[str],
        timeout_ms: int,
        runs: Collection[str] | None = None,
    ) -> bool:
        self.rested.set()
        return await super().wait_for_work(tenant, queues, timeout_ms, runs)


class Signals(Protocol):
    """The signals that a play has."""

    def take(self, run_id: str, name: str) -> list[Any]:
        """The data of the next signal for a node that waits, or nothing."""
        ...

    def advise(self, name: str) -> str:
        """What to do about a signal that does not come."""
        ...


class GivenSignals:
    """Signals that a test gives: one value for all waits, or a list with one for each."""

    def __init__(self, signals: Mapping[str, Any]) -> None:
        self._signals = {
            name: list(data) if isinstance(data, list) else data for name, data in signals.items()
        }

    def take(self, run_id: str, name: str) -> list[Any]:
        """The data of the next signal for a node that waits, or nothing."""
        data = self._signals.get(name, [])
        if not isinstance(data, list):
            return [data]
        return [data.pop(0)] if data else []

    def advise(self, name: str) -> str:
        """What to do about a signal that does not come."""
        if name in self._signals:
            return "all that `signals` has of this name were sent"
        close = get_close_matches(name, list(self._signals), n=1)
        return f"pass signals={{{name!r}: …}}{f', not {close[0]!r}' if close else ''}"


class Stage:
    """Takes a run to its end."""

    def __init__(
        self,
        app: App,
        store: PlayStore,
        clock: ManualClock,
        signals: Signals,
        decisions: GivenDecisions,
    ) -> None:
        self._app, self._store, self._clock = app, store, clock
        self._signals = signals
        self._decisions = decisions

    async def finish(self, run_id: str, timeout: float) -> None:
        """Play until the run is over; PlayError if it cannot go on, or within this many seconds
        of real time."""
        try:
            async with asyncio.timeout(timeout) as limit:
                while not await self._is_over(run_id):
                    await self._go_on(run_id)
        except TimeoutError:
            if not limit.expired():
                raise
            raise await self._took_too_long(run_id, timeout) from None

    async def _is_over(self, run_id: str) -> bool:
        """Wait until the worker has nothing to do; whether the run is over, and its child runs
        know."""
        worker = self._app.worker
        assert worker is not None
        while True:
            await self._store.rested.wait()
            self._store.rested.clear()
            self._app.check_worker()
            if worker.is_idle and not await self._store.list_unreported(limit=1):
                return (await self._app.runs.get(run_id)).status in TERMINAL

    async def _go_on(self, run_id: str) -> None:
        live = await self._live()
        if any(map(self._is_takeable, live)):
            return  # The worker has not looked since.
        if await self._send_signal(live):
            return
        if await self._decide([token for token in live if token.wait == APPROVAL_WAIT]):
            return
        swept = await self._store.sweep()
        if swept.resumed or swept.cancelled:
            return  # The time had come before anybody looked.
        if swept.next_due_ms is None or await self._only_reminds(live):
            raise await self._stuck(run_id)
        self._clock.advance(max(0, swept.next_due_ms - self._clock.now_ms()))
        # It makes ready what is due, and wakes the worker.
        await self._store.sweep()

    def _is_takeable(self, token: Token) -> bool:
        """Whether the worker can take a token now, or holds it."""
        if token.state == "leased":
            return True
        assert self._app.worker is not None
        is_due = (token.due_ms or 0) <= self._clock.now_ms()
        is_ready = (token.state, token.lane) == ("ready", "") and is_due
        return is_ready and self._app.worker.may_serve(token.queue)

    # ── signals ─────────────────────────────────────────────────────────────────────────

    async def _send_signal(self, waiting: list[Token]) -> bool:
        """Send a signal that one of these waits for, if there is one."""
        for token in sorted(waiting, key=lambda token: (token.run, token.wait_event)):
            for name in _awaited(token):
                for data in self._signals.take(token.run, name):
                    await self._app.signal(token.run, name, data)
                    return True
        return False

    async def _decide(self, waiting: list[Token]) -> bool:
        """Decide what one of these waits for, if the test says how."""
        for token in sorted(waiting, key=lambda token: (token.run, token.wait_event)):
            id = id_of(token.wait_key)
            approval = await self._app.approvals.show(id)
            made = self._decisions.take(approval)
            if made is not None:
                await self._app.approvals.decide(id, **made, groups=approval.approvers)
                return True
        return False

    async def _only_reminds(self, live: list[Token]) -> bool:
        """Whether people would be reminded forever, and nothing else would happen."""
        approvals = [token for token in live if token.wait == APPROVAL_WAIT]
        if not approvals or any(t.due_ms is not None for t in live if t.wait != APPROVAL_WAIT):
            return False
        runs = {token.run: await self._app.runs.get(token.run) for token in live}
        if any(run.deadline_ms is not None for run in runs.values()):
            return False
        shown = [await self._app.approvals.show(id_of(token.wait_key)) for token in approvals]
        return all(one.timeout_ms is None for one in shown)

    # ── what stops a play ───────────────────────────────────────────────────────────────

    async def _live(self) -> list[Token]:
        """The live tokens of all open runs."""
        store, tenant = self._store, self._app.tenant
        runs: list[Run] = await store.list_runs(tenant, statuses=OPEN, limit=1_000)
        tokens = [token for run in runs for token in await store.read_tokens(tenant, run.run)]
        return [token for token in tokens if token.state in LIVE_STATES]

    async def _stuck(self, run_id: str) -> PlayError:
        live = [token for token in await self._live() if token.wait != "child"]
        waits = [await self._explain(token) for token in live[:WAITS_SHOWN_MAX]]
        played = await read_played(self._app, run_id)
        return PlayError(run_id, "it would wait forever", waits, played)

    async def _explain(self, token: Token) -> str:
        """Why a token does not go on, and what to do about it."""
        text = f"node {token.node!r}"
        if not token.node.startswith(HIDDEN):
            name = instance_name(token.node, token.scope)
            text = (await self._app.runs.explain(token.run, name)).summary
        if token.wait == APPROVAL_WAIT:
            text += f" (pass decisions={{{author_of(token.node)!r}: 'approve'}})"
        for name in _awaited(token):
            text += f" ({self._signals.advise(name)})"
        return text

    async def _took_too_long(self, run_id: str, timeout: float) -> PlayError:
        worker = self._app.worker
        running = [] if worker is None else worker.unfinished()
        waits = [f"the handler of {name} still runs" for name in running[:WAITS_SHOWN_MAX]]
        played = await read_played(self._app, run_id)
        reason = f"it did not end within {timeout:g} s of real time"
        return PlayError(run_id, reason, waits, played)


def _awaited(token: Token) -> list[str]:
    """The names of the signals that an instance waits for."""
    if token.wait == SIGNAL_WAIT:
        return [token.wait_key]
    if token.wait != FLOW or not token.wait_key:
        return []
    names: list[str] = msgspec.json.decode(token.wait_key)
    # That a child run is over is a signal, too, which is not a test's.
    return [name for name in names if not name.startswith("$")]
