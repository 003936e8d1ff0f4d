"""A worker's loop: hand in, renew and take in one exchange; begin what was granted; rest.

One coroutine makes every exchange, one at a time, so a session's calls are in order. Handlers run
beside it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TypeAlias

from minuet.bridge.translate import full_failure, limit_failure
from minuet.store.base import Store
from minuet.store.exchange import (
    Exchange,
    Failed,
    Item,
    Released,
    Reply,
    Result,
    Retried,
    Slot,
    Take,
    Waiting,
)
from minuet.store.records import Key
from minuet.telemetry.observer import Observer
from minuet.worker.assignment import Assignment
from minuet.worker.counts import Counts
from minuet.worker.draining import Draining
from minuet.worker.executing import Executing
from minuet.worker.pipeline import Pipeline
from minuet.worker.queues import INLINE, Queues
from minuet.worker.reporting import Reporting
from minuet.worker.session import Session
from minuet.worker.sharing import SHARE
from minuet.worker.sweeping import Sweeping
from minuet.worker.take_pause import TakePause
from minuet.worker.workload import ITEMS_MAX, Workload

_log = logging.getLogger("minuet.worker")

#: Called with what the store has answered to what became of a token: its key, lease and result.
Settled: TypeAlias = Callable[[Key, str, Result], None]

#: Items whose tokens fall due later.
_DELAYED = (Retried, Waiting)

#: Inline nodes taken in one exchange: enough to share a commit, few enough to be quick.
INLINE_TAKE_MAX = 500

#: Least number of tokens granted at once that are executed in two parts, where that helps.
PARTS_MIN = 16

#: Longest idle wait: other processes' work is found by polling.
IDLE_MS = 1_000


def _without(kept_back: int, limit: int) -> int:
    """How many tokens to take when so many results are kept back: it must not keep more and more
    of them, but the other runs must go on."""
    return max(min(limit, SHARE), limit - kept_back)


class Loop:
    """The rounds of one worker."""

    def __init__(
        self,
        store: Store,
        tenant: str,
        *,
        concurrency: int,
        lease_ms: int,
        workload: Workload,
        queues: Queues,
        session: Session,
        pipeline: Pipeline,
        executing: Executing,
        sweeping: Sweeping,
        reporting: Reporting,
        draining: Draining,
        pause: TakePause,
        counts: Counts,
        observer: Observer,
        settled: Settled | None = None,
    ) -> None:
        self._store = store
        self._tenant = tenant
        #: Handlers that run at once.
        self.concurrency = concurrency
        self._settled = settled
        self._lease_ms = lease_ms
        self._workload = workload
        self._queues = queues
        self._session = session
        self._pipeline = pipeline
        self._executing = executing
        self._sweeping = sweeping
        self._reporting = reporting
        self._draining = draining
        self._pause = pause
        self._counts = counts
        self._observer = observer
        #: When leases are to be renewed, by the event loop's clock.
        self.renew_at = 0.0
        #: How many of those granted last may need a permit.
        self._asked = 0

    async def work(self) -> None:
        """Make rounds until the worker drains."""
        workload, draining = self._workload, self._draining
        while not draining.is_begun:
            more = await (self._round_with_sweep() if self._sweep_is_due() else self.round())
            # Handlers that do not wait for anything finish in one turn of the event loop, and
            # their callbacks run in the next. Results that are kept back are no reason to go on
            # without those of what was just begun.
            for _ in range(2):
                if draining.is_begun or (workload.finished and not workload.kept_back):
                    break
                await asyncio.sleep(0)
            if not (more or workload.finished or draining.is_begun):
                await self._rest()

    # ── one round ───────────────────────────────────────────────────────────────────────

    async def round(self) -> bool:
        """Exchange once if there is anything to say; whether to go on at once."""
        workload, loop = self._workload, asyncio.get_running_loop()
        workload.wake.clear()
        if workload.asked:
            self._executing.give_up()
        apart = self._executing.seconds_apart(loop.time()) > 0
        idle = self._draining.is_begun or apart or self._queues.runs == set()
        takes = () if idle else self._takes()
        renewing = loop.time() >= self.renew_at
        held = tuple(workload.held()) if renewing else ()
        if not (takes or workload.finished or held):
            self._begin_granted(len(workload.granted))
            return bool(workload.finished)
        # What is finished is not renewed, so nothing is kept back for long.
        batch = workload.next_finished(
            loop.time(), give_way=not (renewing or self._draining.is_begun)
        )
        request = self._session.next_exchange(
            tuple([item for _, item in batch]),
            held,
            takes,
            self._queues.only_runs(),
            self._queues.leases(),
        )
        sent_at = loop.time()
        reply = await self._exchange(request)
        self._sweeping.set_clock(reply.now_ms)
        if renewing:
            self.renew_at = sent_at + self._lease_ms / 3000
        for (assignment, item), result in zip(batch, reply.results, strict=True):
            if result == "applied":
                self._apply(assignment, item)
            else:
                self._judge(assignment, item, result, reply)
        if reply.unreported:
            self._reporting.report(reply.unreported)
        for lost in reply.revoked:
            workload.revoke((lost.run, lost.node, lost.scope), lost.lease)
        workload.grant([Assignment(grant, reply.runs[grant.run]) for grant in reply.granted])
        self._begin_first()
        self._executing.try_suspect()
        # A worker that got all it asked for may get more; one that did not waits for more to come.
        limit = min((take.limit for take in takes), default=1)
        return bool(workload.finished or workload.granted) or len(reply.granted) >= limit

    def _takes(self) -> tuple[Take, ...]:
        workload = self._workload
        # A token that asks for a slot may come back to be run at once.
        asking = sum([isinstance(item, Slot) for _, item in workload.finished[:ITEMS_MAX]])
        waiting = min(self._asked, len(workload.granted))
        room = self.concurrency - len(workload.executing) - asking - waiting
        if self._store.overlaps:
            # The other half runs while the store works on this one.
            room = min(room, (self.concurrency + 1) // 2)
        room = _without(workload.kept_back, room)
        self._asked = max(room, 0)
        takes = []
        if len(workload.finished) < ITEMS_MAX:
            takes.append(Take(INLINE, _without(workload.kept_back, INLINE_TAKE_MAX)))
        if room > 0:
            takes += self._queues.takes(room, workload.running)
        return tuple(takes)

    async def _exchange(self, request: Exchange) -> Reply:
        """Call the store, and begin meanwhile what was granted before."""
        granted = self._workload.granted
        if not granted:
            return await self._session.call(request)
        call = asyncio.get_running_loop().create_task(self._session.call(request))
        try:
            # One turn of the event loop, and the request is on its way.
            await asyncio.sleep(0)
            self._begin_granted(len(self._workload.granted))
            return await call
        finally:
            call.cancel()

    def _begin_first(self) -> None:
        """Begin what was granted. Where it helps, leave some to be done while the next call is
        under way: all of it when there is something to hand in already, else a half. While
        results are kept back, nothing is left: the next node of a small run is to be handed in
        with the next call, not with the one after it."""
        count = len(self._workload.granted)
        if self._store.overlaps and not self._workload.kept_back:
            if self._workload.finished:
                count = 0
            elif count >= PARTS_MIN:
                count //= 2
        self._begin_granted(count)

    def _begin_granted(self, count: int) -> None:
        for assignment in self._workload.next_granted(count):
            self._executing.begin(assignment)

    # ── what the store says ─────────────────────────────────────────────────────────────

    def _apply(self, assignment: Assignment, item: Item) -> None:
        """The store has done as asked."""
        self._counts.add(item)
        self._observer.settled(assignment.grant, assignment.header, item)
        if not isinstance(item, Released):
            self._pause.succeed()
        self._forget(assignment, item, "applied")
        if isinstance(item, Failed) and not item.hold:
            # Only then has it ended the run. One that came too late says nothing about
            # the run, which may have been retried since.
            self._workload.abandon_run(assignment.grant.run)

    def _judge(self, assignment: Assignment, item: Item, result: Result, reply: Reply) -> None:
        """Do what follows when the store has not done as asked."""
        workload, run = self._workload, assignment.grant.run
        if result == "held":
            assignment.has_got_slot = True
            self._executing.start(assignment)
        elif result == "replan" and run in reply.runs:
            # The run has another plan by now: route the same result on it.
            assignment.header = reply.runs[run]
            self._executing.start(assignment)
        elif result == "limit":
            item = self._pipeline.settle_as(assignment, limit_failure(item))
            workload.finish(assignment, item)
        elif result == "full" and run in reply.runs:
            workload.finish(assignment, full_failure(item, reply.runs[run]))
        else:
            if result in ("stale", "closed") and not isinstance(item, Slot):
                _log.info("%s of run %s came too late (%s)", assignment.key[1], run, result)
            self._forget(assignment, item, result)

    def _forget(self, assignment: Assignment, item: Item, result: Result) -> None:
        """The store has answered for good."""
        if isinstance(item, _DELAYED) and result not in ("stale", "closed"):
            self._sweeping.expect(item)
        self._workload.forget(assignment)
        # The two know each other: they would stay until the next garbage collection.
        assignment.context = None
        if self._settled is not None:
            self._settled(assignment.key, assignment.grant.lease, result)

    # ── between rounds ──────────────────────────────────────────────────────────────────

    def _sweep_is_due(self) -> bool:
        now = asyncio.get_running_loop().time()
        if now < self._sweeping.due_at:
            return False
        # Its own leases first: the next round renews them.
        return now < self.renew_at or not any(self._workload.held())

    async def _round_with_sweep(self) -> bool:
        """Sweep, and exchange meanwhile. A store that works on both together lets the exchange take
        what the sweep makes ready, and needs one commit for both."""
        sweep = asyncio.get_running_loop().create_task(self._sweeping.sweep())
        try:
            # One turn of the event loop, and the sweep is on its way.
            await asyncio.sleep(0)
            more = await self.round()
            more = await sweep or more
        finally:
            sweep.cancel()
        self._reporting.look()
        return more

    async def _rest(self) -> None:
        """Wait until a handler has finished, work may have come, or something is due."""
        workload, loop = self._workload, asyncio.get_running_loop()
        if workload.wake.is_set():
            return
        until = self._sweeping.due_at
        if workload.assignments:
            until = min(until, self.renew_at)
        if workload.asked:
            until = min(until, self._executing.gives_up_at)
        has_room = len(workload.executing) < self.concurrency
        queues = self._queues.open(workload.running) if has_room else INLINE
        apart = self._executing.seconds_apart(loop.time())
        if apart > 0:
            queues, until = (), min(until, loop.time() + apart)
        timeout_ms = max(1, min(IDLE_MS, int((until - loop.time()) * 1000)))
        runs = self._queues.only_runs()
        waiting = loop.create_task(
            self._store.wait_for_work(self._tenant, queues, timeout_ms, runs)
        )
        waiting.add_done_callback(self._stop_resting)
        try:
            await workload.wake.wait()
        finally:
            waiting.cancel()

    def _stop_resting(self, waiting: asyncio.Task[bool]) -> None:
        if not waiting.cancelled():
            # A store that is not available says so at the next exchange as well.
            waiting.exception()
            self._workload.wake.set()
