"""The worker: takes tokens, has them executed, hands them in, again and again.

One coroutine (`run`) makes every exchange, one at a time, so a session's calls are in order.
Each round hands in whatever has finished, renews what runs, and takes as much as there is room
for; handlers run beside it. Nothing here decides what a workflow means (the kernel does) or
what is true (the store does): a worker may die at any line, and its tokens are taken by
another once their leases have run out.

`run` ends after `stop`: no more takes, running handlers get `drain_ms` to finish, the rest is
given back, and everything is handed in.
"""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from minuet.clock import Clock, SystemClock
from minuet.errors import SessionError, StoreUnavailableError
from minuet.ids import Ids, SystemIds
from minuet.kernel.settle import Failed
from minuet.nodes.catalog import NODE_TYPES
from minuet.nodes.handler import REGISTERED, Handlers
from minuet.store.base import Store
from minuet.store.records import (
    DEFAULT_TENANT,
    Exchange,
    Item,
    Key,
    Released,
    Reply,
    Result,
    Retry,
    RunHeader,
    Slot,
    Take,
    Waiting,
)
from minuet.worker.execute import CRASHES_MAX, Executor
from minuet.worker.job import Job
from minuet.worker.programs import Programs

_log = logging.getLogger("minuet.worker")

#: Handlers that run at once, unless somebody says otherwise.
CONCURRENCY = 4

#: Inline nodes taken in one exchange: enough to share a commit, little enough to be brief.
INLINE_TAKE_MAX = 500

#: Items handed in by one exchange.
ITEMS_MAX = 1_000

LEASE_MS = 30_000

#: Longest time between two sweeps; earlier when something falls due.
SWEEP_MS = 1_000

#: Longest idle wait: other processes' work is found by looking.
IDLE_MS = 1_000

#: First and longest pause after the store was not available.
BACKOFF_MS = (50, 5_000)


class Worker:
    """Runs the nodes of a tenant's runs."""

    def __init__(
        self,
        store: Store,
        *,
        handlers: Handlers = REGISTERED,
        tenant: str = DEFAULT_TENANT,
        concurrency: int = CONCURRENCY,
        queues: tuple[str, ...] = (),
        lease_ms: int = LEASE_MS,
        drain_ms: int = 30_000,
        crashes_max: int = CRASHES_MAX,
        clock: Clock | None = None,
        ids: Ids | None = None,
        programs: Programs | None = None,
    ) -> None:
        self._store = store
        self._tenant = tenant
        self._concurrency = concurrency
        self._lease_ms = lease_ms
        self._drain_ms = drain_ms
        self._clock = clock or SystemClock()
        self._ids = ids or SystemIds()
        self._programs = programs or Programs(store)
        self._pool: ThreadPoolExecutor | None = None
        self._executor = Executor(
            store=store,
            tenant=tenant,
            handlers=handlers,
            ids=self._ids,
            programs=self._programs,
            threads=self._threads,
            crashes_max=crashes_max,
        )
        self._session = self._ids.token()
        self._seq = 0
        #: Queues of inline nodes ("" holds skips), and of nodes that need a permit.
        self._inline_queues: tuple[str, ...] = ("", "inline")
        built_in = {t.queue for t in NODE_TYPES.values() if t.kind == "handler"}
        self._queues: tuple[str, ...] = tuple(sorted(built_in | set(queues)))
        #: Finished, to be handed in; and all jobs that the store has not settled yet.
        self._items: list[tuple[Job, Item]] = []
        self._jobs: dict[Key, Job] = {}
        #: Permits in use: handlers that run, threads that cannot be stopped included.
        self._running = 0
        self._stopping = False
        self._wake = asyncio.Event()
        self._renew_at = self._sweep_at = 0.0

    def serve(self, queues: tuple[str, ...]) -> None:
        """Take from these queues as well."""
        known = set(self._inline_queues) | set(self._queues)
        new = tuple(sorted(set(queues) - known))
        if new:
            self._queues += new
            self._wake.set()

    def stop(self) -> None:
        """Begin to drain."""
        self._stopping = True
        self._wake.set()

    @property
    def is_idle(self) -> bool:
        """Whether nothing runs and nothing is to be handed in."""
        return not self._jobs and not self._items

    async def run(self) -> None:
        """Work until `stop`, then drain."""
        loop = asyncio.get_running_loop()
        try:
            while not self._stopping:
                await self._sweep_when_due(loop)
                busy = await self._round(loop)
                if not busy and not self._stopping:
                    await self._rest(loop)
            await self._drain(loop)
        finally:
            for job in self._jobs.values():
                job.abandon()
            if self._pool is not None:
                self._pool.shutdown(wait=False, cancel_futures=True)

    # ── one round ───────────────────────────────────────────────────────────────────────

    async def _round(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Exchange once if there is anything to say; whether to go on at once."""
        self._wake.clear()
        takes = () if self._stopping else self._takes()
        renewing = loop.time() >= self._renew_at
        held = tuple(job.held for job in self._jobs.values() if job.task) if renewing else ()
        if not (takes or self._items or held):
            return False
        batch, self._items = self._items[:ITEMS_MAX], self._items[ITEMS_MAX:]
        self._seq += 1
        request = Exchange(
            session=self._session,
            seq=self._seq,
            lease=self._ids.token(),
            lease_ms=self._lease_ms,
            tenant=self._tenant,
            hand_in=tuple(item for _, item in batch),
            renew=held,
            take=takes,
        )
        sent_at = loop.time()
        reply = await self._call(request)
        if renewing:
            self._renew_at = sent_at + self._lease_ms / 3000
        for (job, item), result in zip(batch, reply.results, strict=True):
            self._settled(job, item, result, reply)
        for lost in reply.revoked:
            self._abandon((lost.run, lost.node, lost.scope), lost.lease)
        for grant in reply.granted:
            self._begin(Job(grant, reply.runs[grant.run]))
        return bool(reply.granted or self._items)

    def _takes(self) -> tuple[Take, ...]:
        room = self._concurrency - self._running
        takes = []
        if len(self._items) < ITEMS_MAX:
            takes.append(Take(self._inline_queues, INLINE_TAKE_MAX))
        if room > 0:
            takes.append(Take(self._queues, room))
        return tuple(takes)

    async def _call(self, request: Exchange) -> Reply:
        """Exchange, and do not give up: the same call may be repeated until it is answered."""
        pause_ms = BACKOFF_MS[0]
        while True:
            try:
                return await self._store.exchange(request)
            except SessionError:
                # The store has forgotten us (it was restored, or replaced). Leases decide
                # what of our work still counts, so handing it in again is safe.
                _log.warning("the store does not know this session; starting a new one")
                self._session, self._seq = self._ids.token(), 1
                request = _renumbered(request, self._session, 1, self._ids.token())
            except StoreUnavailableError as error:
                _log.warning("the store is not available (%s); trying again", error)
                await asyncio.sleep(pause_ms / 1000)
                pause_ms = min(pause_ms * 2, BACKOFF_MS[1])

    def _settled(self, job: Job, item: Item, result: Result, reply: Reply) -> None:
        """The store has judged an item."""
        if result == "held":
            job.holds_slot = True
            self._spawn(job)
        elif result == "replan":
            self._replan(job, reply.runs[job.grant.run])
        elif result == "limit":
            job.outcome = Failed({"code": "payload_limit", "message": "the output is too large"})
            self._items.append((job, self._executor.settle(job)))
        else:
            if result in ("stale", "closed") and not isinstance(item, Slot):
                _log.info("%s of run %s came too late (%s)", job.key[1], job.key[0], result)
            elif isinstance(item, Retry | Waiting):
                self._look_again(item)
            self._forget(job)

    def _look_again(self, item: Retry | Waiting) -> None:
        """Something falls due later: sweep then, and not at the next turn."""
        delay_ms = item.delay_ms
        if delay_ms is None:
            due_ms = item.due_ms if isinstance(item, Waiting) else None
            if due_ms is None:
                return
            delay_ms = due_ms - self._clock.now_ms()
        at = asyncio.get_running_loop().time() + max(delay_ms, 1) / 1000
        self._sweep_at = min(self._sweep_at, at)

    def _replan(self, job: Job, header: RunHeader) -> None:
        """The run has another plan by now: route the same result on it."""
        job.header = header
        self._spawn(job)

    def _forget(self, job: Job) -> None:
        if self._jobs.get(job.key) is job:
            del self._jobs[job.key]

    def _abandon(self, key: Key, lease: str) -> None:
        job = self._jobs.get(key)
        if job is not None and job.grant.lease == lease:
            job.abandon()
            self._forget(job)

    # ── executing ───────────────────────────────────────────────────────────────────────

    def _begin(self, job: Job) -> None:
        self._jobs[job.key] = job
        item = self._executor.execute_now(job)
        if item is not None:
            self._items.append((job, item))
        else:
            self._spawn(job)

    def _spawn(self, job: Job) -> None:
        self._running += 1
        job.task = asyncio.get_running_loop().create_task(self._next_item(job))
        job.task.add_done_callback(lambda task: self._finished(job, task))

    def _finished(self, job: Job, task: asyncio.Task[Item | None]) -> None:
        """A task has ended: by itself, cancelled (perhaps before it began), or by a bug."""
        job.task = None
        if job.thread is not None and not job.thread.done():
            job.thread.add_done_callback(self._give_permit_back)
        else:
            self._running -= 1
        item: Item | None = None
        if task.cancelled():
            item = Released(*job.token) if job.releasing else None
        elif task.exception() is not None:
            # The token is not lost: its lease runs out.
            _log.error(
                "node %s of run %s could not be executed",
                job.key[1],
                job.key[0],
                exc_info=task.exception(),
            )
        else:
            item = task.result()
        if item is not None:
            self._items.append((job, item))
        else:
            self._forget(job)
        self._wake.set()

    async def _next_item(self, job: Job) -> Item | None:
        """Ask for a slot first if the node needs one; else run it."""
        if job.outcome is not None:
            # Its result is known; only the plan is new.
            await self._executor.load(job)
            return self._executor.settle(job)
        slot = await self._executor.slot_request(job)
        return slot or await self._executor.execute(job)

    def _give_permit_back(self, _: Any) -> None:
        self._running -= 1
        self._wake.set()

    def _threads(self) -> ThreadPoolExecutor:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._concurrency, thread_name_prefix="minuet-handler")
        return self._pool

    # ── waiting, sweeping, draining ─────────────────────────────────────────────────────

    async def _rest(self, loop: asyncio.AbstractEventLoop) -> None:
        """Wait until a handler has finished, work may have come, or something is due."""
        if self._wake.is_set():
            return
        until = min(self._sweep_at, self._renew_at if self._jobs else self._sweep_at)
        timeout_ms = max(1, min(IDLE_MS, int((until - loop.time()) * 1000)))
        queues = (*self._inline_queues, *(self._queues if self._has_room() else ()))
        waiting = loop.create_task(self._store.wait_for_work(self._tenant, queues, timeout_ms))
        waiting.add_done_callback(lambda _: self._wake.set())
        try:
            await self._wake.wait()
        finally:
            waiting.cancel()

    def _has_room(self) -> bool:
        return self._running < self._concurrency

    async def _sweep_when_due(self, loop: asyncio.AbstractEventLoop) -> None:
        if loop.time() < self._sweep_at:
            return
        delay_ms = SWEEP_MS
        try:
            swept = await self._store.sweep()
            if swept.next_due_ms is not None:
                delay_ms = min(SWEEP_MS, max(0, swept.next_due_ms - self._clock.now_ms()))
            if swept.more:
                delay_ms = 0
        except StoreUnavailableError as error:
            _log.warning("the sweep failed (%s); trying again", error)
        # Never at once again: what is due now may need a later tick of the store's clock.
        self._sweep_at = loop.time() + max(delay_ms, 1) / 1000

    async def _drain(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let running handlers finish, give the others back, hand everything in."""
        deadline = loop.time() + self._drain_ms / 1000
        while self._jobs or self._items:
            if loop.time() >= deadline:
                for job in self._jobs.values():
                    if job.task is not None and not job.releasing:
                        job.release()
            await self._round(loop)
            if self._jobs and not self._items and not self._wake.is_set():
                timeout = min(deadline, self._renew_at) - loop.time()
                try:
                    await asyncio.wait_for(self._wake.wait(), max(0.01, timeout))
                except TimeoutError:
                    pass
        await self._store.end_session(self._session)


def _renumbered(request: Exchange, session: str, seq: int, lease: str) -> Exchange:
    return Exchange(
        session=session,
        seq=seq,
        lease=lease,
        lease_ms=request.lease_ms,
        tenant=request.tenant,
        hand_in=request.hand_in,
        renew=request.renew,
        take=request.take,
    )
