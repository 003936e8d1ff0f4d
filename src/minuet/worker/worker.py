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
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from minuet.bridge.programs import Programs
from minuet.clock import Clock, SystemClock
from minuet.errors import SessionError, StoreUnavailableError
from minuet.ids import Ids, SystemIds
from minuet.kernel.scope import show
from minuet.kernel.settle import Failed
from minuet.nodes.handler import REGISTERED, Handlers
from minuet.plan.plan import RETRY_DEFAULT
from minuet.plan.plan import Retry as RetryPolicy
from minuet.store.base import Store
from minuet.store.identifiers import NAME_BYTES_MAX
from minuet.store.records import (
    DEFAULT_TENANT,
    Exchange,
    Held,
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
    WorkerRecord,
)
from minuet.store.records import Failed as BrokenItem
from minuet.worker.counts import Counts, Outage
from minuet.worker.execute import CRASHES_MAX, Executor
from minuet.worker.identity import Identity, identity_here
from minuet.worker.job import Job
from minuet.worker.membership import Membership
from minuet.worker.placed_queues import Whose
from minuet.worker.quarantine import Quarantine
from minuet.worker.queues import INLINE, Queues
from minuet.worker.standstill import Standstill
from minuet.worker.take_pause import TakePause

_log = logging.getLogger("minuet.worker")

#: Handlers that run at once, unless somebody says otherwise.
CONCURRENCY = 4

#: Inline nodes taken in one exchange: enough to share a commit, little enough to be brief.
INLINE_TAKE_MAX = 500

#: Items handed in by one exchange.
ITEMS_MAX = 1_000

#: So many tokens granted at once are worth executing in two parts, where that helps.
PARTS_MIN = 16

LEASE_MS = 30_000

#: Longest time between two sweeps; earlier when something falls due.
SWEEP_MS = 1_000

#: Longest idle wait: other processes' work is found by looking.
IDLE_MS = 1_000

#: Time between two signs of life.
HEARTBEAT_MS = 5_000

#: Time for cancelled handlers to come to an end when the worker stops.
RELEASE_MS = 5_000

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
        queues: tuple[str, ...] | None = None,
        named_runs_only: bool = False,
        identity: Identity | None = None,
        heartbeat_ms: int | None = HEARTBEAT_MS,
        lease_ms: int = LEASE_MS,
        drain_ms: int = 30_000,
        crashes_max: int = CRASHES_MAX,
        retry: RetryPolicy = RETRY_DEFAULT,
        clock: Clock | None = None,
        ids: Ids | None = None,
        programs: Programs | None = None,
    ) -> None:
        self._store = store
        self._tenant = tenant
        self.concurrency = concurrency
        self.lease_ms = lease_ms
        self.drain_ms = drain_ms
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
            retry=retry,
        )
        self._session = self._ids.token()
        self._seq = 0
        self._identity = identity or identity_here()
        #: Its name in the store's list of workers; "": it does not stand there.
        self.id = self._ids.token() if heartbeat_ms is not None else ""
        self._queues = Queues(handlers, self._identity, self.id, queues)
        #: The runs that it works on; None: any run.
        self._runs: set[str] | None = set() if named_runs_only else None
        self._membership: Membership | None = None
        if heartbeat_ms is not None:
            self._membership = Membership(
                store,
                tenant,
                self.id,
                record=self._record,
                drain=self.stop,
                found=self._found,
                heartbeat_ms=heartbeat_ms,
            )
        self.counts = Counts()
        self._outage = Outage()
        #: Finished, to be handed in; and all jobs that the store has not settled yet.
        self._items: list[tuple[Job, Item]] = []
        self._jobs: dict[Key, Job] = {}
        #: Granted, to be begun while the next call is under way; how many may need a permit.
        self._granted: list[Job] = []
        self._asked = 0
        self._suspect = Quarantine(crashes_max)
        self._abstinence = TakePause(*BACKOFF_MS)
        #: Permits in use: handlers that run, threads that cannot be stopped included.
        self._executing: set[Job] = set()
        self._standstill = Standstill(lease_ms, lambda: self._executing)
        self._stopping = False
        #: Set once it takes nothing more.
        self.stopping = asyncio.Event()
        self._deadline: float | None = None
        self._wake = asyncio.Event()
        self._renew_at = self._sweep_at = 0.0
        #: How far the store's clock is ahead of ours; negative when it is behind.
        self._ahead_ms = 0

    def serve(self, queues: tuple[str, ...]) -> None:
        """Take from these queues as well, except for those of handlers that are not here."""
        self._queues.serve(queues)
        self._found(queues)
        self._wake.set()

    def work_on(self, runs: Iterable[str]) -> None:
        """Work on these runs as well, if it works on named runs only."""
        if self._runs is not None:
            self._runs.update(runs)
            self._wake.set()

    def leave(self, run: str) -> None:
        """Work on this run no more, if it works on named runs only."""
        if self._runs is not None:
            self._runs.discard(run)

    def _found(self, queues: Sequence[str]) -> None:
        """Something is ready, or will be, in these queues."""
        if self._queues.find(queues, asyncio.get_running_loop().time()):
            self._wake.set()

    def _record(self) -> WorkerRecord:
        identity = self._identity
        return WorkerRecord(
            self.id,
            self._tenant,
            identity.name,
            identity.host,
            identity.pid,
            identity.version,
            self._session,
            self.concurrency,
            len(self._executing),
            self._stopping,
            self._queues.plain,
            tuple(sorted(self._queues.offer().executors)),
            identity.capabilities,
            self._only_runs(),
        )

    def _only_runs(self) -> tuple[str, ...] | None:
        return None if self._runs is None else tuple(sorted(self._runs))

    @property
    def queues(self) -> tuple[str, ...]:
        """All queues that it takes from."""
        return self._queues.all

    def may_serve(self, queue: str) -> bool:
        """Whether it takes from this queue, or will once it has heard of it."""
        return self._queues.may_serve(queue)

    @property
    def name(self) -> str:
        """What people call it."""
        return self._identity.name

    def stop(self) -> None:
        """Begin to drain."""
        self._stopping = True
        self.stopping.set()
        self._wake.set()

    def unfinished(self) -> list[str]:
        """The node instances whose handlers run, in words; also those that nobody wants."""
        return sorted(
            f"{job.key[1]}{show(job.scope)} of run {job.key[0]}" for job in tuple(self._executing)
        )

    @property
    def is_idle(self) -> bool:
        """Whether nothing runs and nothing is to be handed in."""
        return not (self._jobs or self._items or self._granted)

    async def run(self) -> None:
        """Work until `stop`, then drain."""
        loop = asyncio.get_running_loop()
        if self._membership is not None:
            self._membership.begin()
        self._standstill.begin()
        try:
            while not self._stopping:
                await self._sweep_when_due(loop)
                if await self._round(loop) or self._stopping:
                    continue
                # Handlers that do not wait for anything finish in one turn of the loop, and
                # are heard of in the next.
                await asyncio.sleep(0)
                if not self._items:
                    await asyncio.sleep(0)
                if not self._items:
                    await self._rest(loop)
            await self._drain(loop)
            if self._membership is not None:
                await self._membership.leave()
        except StoreUnavailableError as error:
            _log.warning("the store is not available (%s); leases will run out", error)
        finally:
            self._standstill.end()
            if self._membership is not None:
                self._membership.end()
            for job in self._jobs.values():
                job.abandon()
            if self._pool is not None:
                self._pool.shutdown(wait=False, cancel_futures=True)

    # ── one round ───────────────────────────────────────────────────────────────────────

    async def _round(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Exchange once if there is anything to say; whether to go on at once."""
        self._wake.clear()
        apart = self._seconds_apart(loop.time()) > 0
        idle = self._stopping or apart or self._runs == set()
        takes = () if idle else self._takes()
        renewing = loop.time() >= self._renew_at
        held = tuple(self._held()) if renewing else ()
        if not (takes or self._items or held):
            self._begin_granted(len(self._granted))
            return bool(self._items)
        batch, self._items = self._items[:ITEMS_MAX], self._items[ITEMS_MAX:]
        self._seq += 1
        request = Exchange(
            session=self._session,
            seq=self._seq,
            lease=self._ids.token(),
            lease_ms=self.lease_ms,
            tenant=self._tenant,
            hand_in=tuple(item for _, item in batch),
            renew=held,
            take=takes,
            runs=self._only_runs(),
        )
        sent_at = loop.time()
        reply = await self._exchange(request)
        self._ahead_ms = reply.now_ms - self._clock.now_ms()
        if renewing:
            self._renew_at = sent_at + self.lease_ms / 3000
        for (job, item), result in zip(batch, reply.results, strict=True):
            self._settled(job, item, result, reply)
        for lost in reply.revoked:
            self._abandon((lost.run, lost.node, lost.scope), lost.lease)
        self._granted += [Job(grant, reply.runs[grant.run]) for grant in reply.granted]
        self._begin_first()
        self._try_suspect(loop)
        # Who got all that was asked for may get more; who did not waits for it to come.
        limit = min((take.limit for take in takes), default=1)
        return bool(self._items or self._granted) or len(reply.granted) >= limit

    def _held(self) -> Iterator[Held]:
        """What it works on, or will."""
        for job in self._jobs.values():
            if job.task or (job is self._suspect.job and job.outcome is None):
                yield job.held

    def _begin_first(self) -> None:
        """Begin what was granted. Where it helps, leave some to be done while the next call is
        under way: all of it when there is something to hand in already, else a half."""
        count = len(self._granted)
        if self._store.overlaps:
            if self._items:
                count = 0
            elif count >= PARTS_MIN:
                count //= 2
        self._begin_granted(count)

    def _begin_granted(self, count: int) -> None:
        begun, self._granted = self._granted[:count], self._granted[count:]
        for job in begun:
            self._begin(job)

    async def _exchange(self, request: Exchange) -> Reply:
        """Call the store, and begin meanwhile what was granted before."""
        if not self._granted:
            return await self._call(request)
        call = asyncio.get_running_loop().create_task(self._call(request))
        try:
            # One turn of the loop, and the request is on its way.
            await asyncio.sleep(0)
            self._begin_granted(len(self._granted))
            return await call
        finally:
            call.cancel()

    def _takes(self) -> tuple[Take, ...]:
        # A token that asks for a slot may come back to be run at once.
        asking = sum(isinstance(item, Slot) for _, item in self._items[:ITEMS_MAX])
        waiting = min(self._asked, len(self._granted))
        room = self.concurrency - len(self._executing) - asking - waiting
        if self._store.overlaps:
            # The other half runs while the store works on this one.
            room = min(room, (self.concurrency + 1) // 2)
        self._asked = max(room, 0)
        takes = []
        if len(self._items) < ITEMS_MAX:
            takes.append(Take(INLINE, INLINE_TAKE_MAX))
        if room > 0:
            takes += self._queues.takes(room, self._running)
        return tuple(takes)

    def _running(self) -> Counter[Whose]:
        """How many instances of each node are in hand here and not done, or still run although
        nobody wants them any more."""
        done = {job for job, item in self._items if not isinstance(item, Slot)}
        busy = {job for job in self._jobs.values() if job not in done} | self._executing
        busy.update(self._granted)
        return Counter((job.header.workflow, job.grant.node) for job in busy)

    async def _call(self, request: Exchange) -> Reply:
        """Exchange, and do not give up: the same call may be repeated until it is answered."""
        pause_ms = BACKOFF_MS[0]
        while True:
            try:
                reply = await self._store.exchange(request)
                self._store_is_back(asyncio.get_running_loop().time())
                return reply
            except SessionError:
                # The store has forgotten us (it was restored, or replaced). Leases decide
                # what of our work still counts, so handing it in again is safe.
                _log.warning("the store does not know this session; starting a new one")
                self._session, self._seq = self._ids.token(), 1
                request = _renumbered(request, self._session, 1, self._ids.token())
            except StoreUnavailableError as error:
                now = asyncio.get_running_loop().time()
                if self._stopping and self._stop_by() <= now:
                    raise
                self._outage.begin(error, now)
                await asyncio.sleep(pause_ms / 1000)
                pause_ms = min(pause_ms * 2, BACKOFF_MS[1])

    def _store_is_back(self, now: float) -> None:
        """If leases may have run out while the store was away, let the others come back and renew
        theirs before anything is given to somebody else."""
        away_s = self._outage.end(now)
        if away_s * 1000 >= self.lease_ms / 2:
            grace_ms = min(BACKOFF_MS[1] + SWEEP_MS, self.lease_ms)
            self._sweep_at = max(self._sweep_at, now + grace_ms / 1000)

    def _settled(self, job: Job, item: Item, result: Result, reply: Reply) -> None:
        """The store has judged an item."""
        if result == "held":
            job.holds_slot = True
            self._spawn(job)
        elif result == "replan" and job.grant.run in reply.runs:
            self._replan(job, reply.runs[job.grant.run])
        elif result == "limit":
            job.outcome = _limit(item)
            self._items.append((job, self._executor.settle(job)))
        else:
            if result in ("stale", "closed") and not isinstance(item, Slot):
                _log.info("%s of run %s came too late (%s)", job.key[1], job.key[0], result)
            elif isinstance(item, Retry | Waiting):
                self._look_again(item)
            if result == "applied":
                self.counts.add(item)
                if not isinstance(item, Released):
                    self._abstinence.succeed()
            self._forget(job)
            if isinstance(item, BrokenItem) and result == "applied":
                # Only then has it ended the run. One that came too late says nothing about
                # the run, which may have been retried since.
                self.abandon_run(job.grant.run)

    def _look_again(self, item: Retry | Waiting) -> None:
        """Something falls due later: sweep then, and not at the next turn."""
        delay_ms = item.delay_ms
        if delay_ms is None:
            due_ms = item.due_ms if isinstance(item, Waiting) else None
            if due_ms is None:
                return
            delay_ms = due_ms - self._now_ms()
        at = asyncio.get_running_loop().time() + max(delay_ms, 1) / 1000
        self._sweep_at = min(self._sweep_at, at)

    def _replan(self, job: Job, header: RunHeader) -> None:
        """The run has another plan by now: route the same result on it."""
        job.header = header
        self._spawn(job)

    def abandon_run(self, run: str) -> None:
        """The run is over: tell the handlers that still work on it, instead of letting them
        find out when their leases are not renewed."""
        self._granted = [job for job in self._granted if job.grant.run != run]
        for job in [job for job in self._jobs.values() if job.grant.run == run]:
            job.abandon()
            self._forget(job)

    def _forget(self, job: Job) -> None:
        if self._jobs.get(job.key) is job:
            del self._jobs[job.key]
        self._suspect.forget(job)

    def _abandon(self, key: Key, lease: str) -> None:
        job = self._jobs.get(key)
        if job is not None and job.grant.lease == lease:
            job.abandon()
            self._forget(job)

    # ── executing ───────────────────────────────────────────────────────────────────────

    def _begin(self, job: Job) -> None:
        lost = self._jobs.get(job.key)
        if lost is not None:
            # Its lease ran out, and the token has come back to this very worker. Say that nobody
            # died: the lease itself is worth nothing any more.
            lost.abandon()
            self._items.append((lost, Released(*lost.token)))
        self._jobs[job.key] = job
        try:
            item = self._executor.execute_now(job)
        except Exception:
            # A bug of ours. The token is not lost: its lease runs out.
            _log.exception("node %s of run %s could not be executed", job.key[1], job.key[0])
            self._forget(job)
            return
        now = asyncio.get_running_loop().time()
        if item is not None:
            self._items.append((job, item))
        elif not self._suspect.is_like(job):
            self._spawn(job)
        elif self._suspect.job is None:
            self._suspect.keep(job, now)
        else:
            self._suspect.refuse(now)
            self._items.append((job, Released(*job.token)))

    def _try_suspect(self, loop: asyncio.AbstractEventLoop) -> None:
        """Run the job on its last chance once everything else is handed in."""
        job = None if self._items or self._granted else self._suspect.begin(loop.time())
        if job is not None and self._stopping:
            self._items.append((job, Released(*job.token)))
        elif job is not None:
            self._spawn(job)

    def _spawn(self, job: Job) -> None:
        self._executing.add(job)
        self._standstill.note(job)
        job.task = asyncio.get_running_loop().create_task(self._next_item(job))
        job.task.add_done_callback(lambda task: self._finished(job, task))

    def _finished(self, job: Job, task: asyncio.Task[Item | None]) -> None:
        """A task has ended: by itself, cancelled (perhaps before it began), or by a bug."""
        job.task = None
        if job.thread is not None and not job.thread.done():
            job.thread.add_done_callback(lambda _: self._give_permit_back(job))
        else:
            self._executing.discard(job)
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
            if isinstance(item, Released) and not self._stopping:
                # A part of the store is away.
                self._abstinence.begin(asyncio.get_running_loop().time())
        if item is not None:
            self._items.append((job, item))
        else:
            self._forget(job)
        self._wake.set()

    async def _next_item(self, job: Job) -> Item | None:
        """Ask for a slot first if the node needs one; else run it."""
        if job.outcome is not None:
            # Its result is known; only the plan is new.
            return await self._executor.settle_again(job)
        if job.loaded is None or (job.node is not None and job.node.concurrency is not None):
            slot = await self._executor.slot_request(job)
            if slot is not None:
                return slot
        return await self._executor.execute(job)

    def _give_permit_back(self, job: Job) -> None:
        self._executing.discard(job)
        self._wake.set()

    def _threads(self) -> ThreadPoolExecutor:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.concurrency, thread_name_prefix="minuet-handler")
        return self._pool

    # ── waiting, sweeping, draining ─────────────────────────────────────────────────────

    async def _rest(self, loop: asyncio.AbstractEventLoop) -> None:
        """Wait until a handler has finished, work may have come, or something is due."""
        if self._wake.is_set():
            return
        until = min(self._sweep_at, self._renew_at if self._jobs else self._sweep_at)
        queues = self._queues.open(self._running) if self._has_room() else INLINE
        apart = self._seconds_apart(loop.time())
        if apart > 0:
            queues, until = (), min(until, loop.time() + apart)
        timeout_ms = max(1, min(IDLE_MS, int((until - loop.time()) * 1000)))
        waiting = loop.create_task(
            self._store.wait_for_work(self._tenant, queues, timeout_ms, self._only_runs())
        )
        waiting.add_done_callback(self._stop_resting)
        try:
            await self._wake.wait()
        finally:
            waiting.cancel()

    def _stop_resting(self, waiting: asyncio.Task[bool]) -> None:
        if not waiting.cancelled():
            # A store that is not available says so at the next exchange as well.
            waiting.exception()
            self._wake.set()

    def _seconds_apart(self, now: float) -> float:
        """How long to take nothing; 0: take."""
        return max(self._suspect.seconds_alone(now), self._abstinence.seconds_left(now))

    def _has_room(self) -> bool:
        return len(self._executing) < self.concurrency

    async def _sweep_when_due(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        if now < self._sweep_at:
            return
        if now >= self._renew_at and any(self._held()):
            return  # Its own leases first: the next round renews them.
        delay_ms = SWEEP_MS
        try:
            swept = await self._store.sweep()
            if swept.next_due_ms is not None:
                delay_ms = min(SWEEP_MS, max(0, swept.next_due_ms - self._now_ms()))
            if swept.more:
                delay_ms = 0
        except StoreUnavailableError as error:
            self._outage.begin(error, loop.time())
        # Never at once again: what is due now may need a later tick of the store's clock.
        self._sweep_at = loop.time() + max(delay_ms, 1) / 1000

    def _now_ms(self) -> int:
        """The store's time, as far as it is known here: it decides what is due."""
        return self._clock.now_ms() + self._ahead_ms

    def _stop_by(self) -> float:
        """When draining ends, counted from the first time somebody asks."""
        if self._deadline is None:
            self._deadline = asyncio.get_running_loop().time() + self.drain_ms / 1000
        return self._deadline

    async def _drain(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let running handlers finish, give the others back, hand everything in."""
        deadline = self._stop_by()
        last = deadline + RELEASE_MS / 1000
        while not self.is_idle:
            if loop.time() >= deadline:
                for job in self._jobs.values():
                    if job.task is not None and not job.releasing:
                        job.release()
            if loop.time() >= last:
                _log.warning(
                    "handlers do not stop, and their leases will run out: %s",
                    ", ".join(self.unfinished()),
                )
                break
            await self._round(loop)
            if self._jobs and not self._items and not self._wake.is_set():
                until = deadline if loop.time() < deadline else last
                timeout = min(until, self._renew_at) - loop.time()
                try:
                    await asyncio.wait_for(self._wake.wait(), max(0.01, timeout))
                except TimeoutError:
                    pass
        # The session is left to be forgotten in time. Were it ended now, a copy of its first
        # call that is still on its way would begin it anew, and take tokens for nobody.


def _limit(item: Item) -> Failed:
    if isinstance(item, Slot):
        return _NO_SLOTS
    return _KEY_TOO_LONG if isinstance(item, Waiting) else _TOO_LARGE


_TOO_LARGE = Failed({"code": "payload_limit", "message": "the output is too large"})
_KEY_TOO_LONG = Failed(
    {
        "code": "key_limit",
        "message": f"the key that the node waits for is longer than {NAME_BYTES_MAX} bytes: "
        "use a shorter one, or a hash of it",
    }
)
_NO_SLOTS = Failed(
    {
        "code": "no_slots",
        "message": "this store cannot count the holders of a concurrency key: "
        "use a single Redis server, PostgreSQL or SQLite",
    }
)


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
        runs=request.runs,
    )
