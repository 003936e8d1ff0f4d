"""A store in two halves: a hot one that is fast, and a log that is durable.

Workers exchange tokens on the hot half (Redis), so a hop costs what it costs there. Its events
flow to the log (PostgreSQL) within milliseconds (`flusher`). What makes the pair as durable as
the log alone:

* **Submitting** writes the log first. A run that was accepted and is not in the hot half is
  created there by the process that finds it (`guard`).
* **The take gate**: `wait_until_durable` holds a handler back until its inputs are in the log.
  Nodes without effects do not wait.
* **The report gate**: runs and events are read from the log; a change from outside is answered
  when the log has it.
* **The log is right**: what the hot half loses is brought back from it, run by run.

So progress that the log does not have yet can be lost. It is then made again, from the same inputs
and with the same idempotency keys. Nothing that was answered or reported can be lost.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import TypeVar

import msgspec

from minuet import events
from minuet.errors import RunConflictError, RunNotFoundError, StoreUnavailableError
from minuet.store.check import check_new_runs
from minuet.store.lenient import DAMAGE
from minuet.store.logged.base import HotStore, Log, Rebuild
from minuet.store.logged.flusher import Flusher
from minuet.store.logged.guard import Guard
from minuet.store.records import (
    DEFAULT_TENANT,
    BlobEntry,
    Cancel,
    Change,
    DeadLetter,
    Deployed,
    DeployedWorkflow,
    EventRecord,
    Exchange,
    Forgotten,
    Held,
    Key,
    NewPlan,
    NewRun,
    NewStep,
    Pause,
    QueueDepth,
    Refusal,
    Reply,
    Resume,
    RetryRun,
    Run,
    SendSignal,
    Signal,
    Snapshot,
    Start,
    Swept,
    Token,
    WorkerEntry,
    WorkerRecord,
    WorkflowVersion,
)
from minuet.store.retention import DELETED_PER_SWEEP
from minuet.store.wake import end
from minuet.types import RunStatus

Value = TypeVar("Value")

#: Seconds that closing waits for events that are not logged; other processes find them later.
CLOSE_S = 5.0

#: Seconds after which a caller gets the error that its change is not durable yet.
ANSWER_S = 30.0

#: Seconds that a read waits for the log to catch up, and runs that it waits for.
CATCH_UP_S = 2.0
LIST_MAX = 1000

#: The event that a change leaves.
_LEAVES: dict[type[Change], type[events.Event]] = {
    Start: events.RunStarted,
    Cancel: events.RunCancelled,
    Pause: events.RunPaused,
    Resume: events.RunResumed,
    RetryRun: events.RunRetried,
    NewPlan: events.RunPatched,
    SendSignal: events.SignalReceived,
}


class LoggedStore:
    """A hot store and its log."""

    def __init__(
        self, hot: HotStore, log: Log, rebuild: Rebuild, *, owner: str | None = None
    ) -> None:
        self._hot = hot
        self._log = log
        self.overlaps = hot.overlaps
        #: What leaves the hot half earlier stays in the log.
        self.retention_ms = log.retention_ms
        #: `owner` distinguishes this process from others that compare the same hot half.
        self._guard = Guard(hot, log, rebuild, owner or secrets.token_hex(8))
        self._flusher = Flusher(hot, log, self._guard)
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def durability(self) -> str:
        return f"{self._log.durability} (in front of it: {self._hot.durability.partition(':')[0]})"

    async def open(self) -> None:
        await self._log.open()
        try:
            await self._hot.open()
            await self._guard.attach()
        except BaseException:
            await self._hot.close()
            await self._log.close()
            raise
        self.start()

    def start(self) -> None:
        """Start logging events and checking the hot half."""
        self._flusher = Flusher(self._hot, self._log, self._guard)
        loop = asyncio.get_running_loop()
        self._tasks = [
            loop.create_task(self._flusher.work()),
            loop.create_task(self._guard.work()),
        ]

    async def close(self) -> None:
        if self._tasks:
            await self._flusher.drain(CLOSE_S)
        tasks, self._tasks = self._tasks, []
        await end(*tasks)
        await self._guard.release()
        self._flusher.fail(StoreUnavailableError("the store is closed"))
        await self._hot.close()
        await self._log.close()

    # ── the exchange ────────────────────────────────────────────────────────────────────

    async def exchange(self, request: Exchange) -> Reply:
        await self._guard.wait_until_sound()
        reply = await self._hot.exchange(request)
        self._flusher.want(item.run for item in request.hand_in)
        return reply

    async def wait_until_durable(self, tenant: str, held: Held) -> bool:
        """The take gate."""
        return await self._flusher.durable(held.run, held)

    async def sweep(self, limit: int = 1000) -> Swept:
        await self._guard.wait_until_sound()
        swept = await self._hot.sweep(limit)
        is_full = self.retention_ms is not None and await self._delete_outdated(self.retention_ms)
        return msgspec.structs.replace(swept, more=True) if is_full else swept

    async def _delete_outdated(self, retention_ms: int) -> bool:
        """Delete runs that ended longer ago than they are kept; whether there may be more."""
        outdated = await self._log.list_outdated(retention_ms, DELETED_PER_SWEEP)
        for tenant in {tenant for tenant, _ in outdated}:
            await self.delete_runs(tenant, [run for of, run in outdated if of == tenant])
        return len(outdated) == DELETED_PER_SWEEP

    async def wait_for_work(
        self,
        tenant: str,
        queues: Sequence[str],
        timeout_ms: int,
        runs: Collection[str] | None = None,
    ) -> bool:
        return await self._hot.wait_for_work(tenant, queues, timeout_ms, runs)

    # ── what comes from outside ─────────────────────────────────────────────────────────

    async def create_runs(self, runs: Sequence[NewRun]) -> list[Run | RunConflictError]:
        # The log comes first, and does not check what it gets.
        check_new_runs(runs)
        children = [new for new in runs if new.parent is not None]
        if children:
            others = [new for new in runs if new.parent is None]
            answers = [*await self._start_children(children), *await self.create_runs(others)]
            by_name = dict(zip([new.run for new in (*children, *others)], answers, strict=True))
            return [by_name[new.run] for new in runs]
        submitted = await self._log.submit(runs)
        new = [one for one in submitted if isinstance(one, NewRun)]
        created = iter(await self._create(new) if new else ())
        answers = [next(created) if isinstance(one, NewRun) else one for one in submitted]
        await self._durable(*(answer.run for answer in answers if isinstance(answer, Run)))
        return answers

    async def _start_children(self, runs: Sequence[NewRun]) -> list[Run | RunConflictError]:
        """Child runs are progress of their parents: the hot half alone knows whether the token
        that starts one is held. One that is lost before it is durable is started again."""
        for new in runs:
            for data in new.blobs:
                # A worker may need it before the log knows the run that it belongs to.
                await self._log.put_blob(data, tenant=new.tenant)
        bare = [msgspec.structs.replace(new, blobs=()) for new in runs]
        answers = await self._hot.create_runs(bare)
        await self._durable(*(answer.run for answer in answers if isinstance(answer, Run)))
        for new, answer in zip(runs, answers, strict=True):
            for data in new.blobs if isinstance(answer, Run) else ():
                await self._log.put_blob(data, run=new.run, tenant=new.tenant)
        return answers

    async def _create(self, new: Sequence[NewRun]) -> list[Run | RunConflictError]:
        answers = await self._hot.create_runs(new)
        # The log has decided which run has a key. Another run that has it was deleted.
        others = [
            (one.tenant, answer.run)
            for one, answer in zip(new, answers, strict=True)
            if isinstance(answer, Run) and answer.run != one.run
        ]
        for tenant, run in others:
            await self._guard.remove(tenant, run)
        return await self._hot.create_runs(new) if others else answers

    async def change_run(
        self, tenant: str, run: str, change: Change, expected_seq: int | None = None
    ) -> Run:
        async def make() -> Run:
            return await self._hot.change_run(tenant, run, change, expected_seq)

        before = await self._seq(tenant, run)
        changed = await self._with_run(tenant, run, make)
        wanted = _LEAVES[type(change)]

        def is_it(event: events.Event) -> bool:
            if isinstance(change, SendSignal) and getattr(event, "id", "") != change.id:
                return False
            return isinstance(event, wanted)

        # A signal that was sent again may have its event before.
        earlier = 0 if isinstance(change, SendSignal) else before
        await self._acknowledge(tenant, run, before, is_it, earlier)
        return changed

    async def resolve(
        self, tenant: str, key: Key, resolution: bytes, *, by: str = "", wait_key: str | None = None
    ) -> bool:
        def is_it(event: events.Event) -> bool:
            return isinstance(event, events.NodeResumed) and (event.node, event.scope) == key[1:]

        before = await self._seq(tenant, key[0])
        resolved = await self._hot.resolve(tenant, key, resolution, by=by, wait_key=wait_key)
        if resolved:
            await self._acknowledge(tenant, key[0], before, is_it)
        else:
            # A caller that does not try again must not rely on what may be lost.
            await self._durable(key[0])
        return resolved

    async def record_steps(self, tenant: str, steps: Sequence[NewStep]) -> list[bytes | Refusal]:
        while True:
            hot = self._guard.identity
            answers = await self._hot.record_steps(tenant, steps)
            kept = [
                Held(new.run, new.node, new.scope, new.lease)
                for new, answer in zip(steps, answers, strict=True)
                if isinstance(answer, bytes)
            ]
            holders = list(dict.fromkeys(kept))
            # Handlers continue from here, with effects of their own.
            durable = await asyncio.gather(
                *(self._flusher.durable(held.run, held) for held in holders)
            )
            if self._guard.identity == hot:
                break
            # The server that kept them may have lost them, but not the leases.
            steps = [
                msgspec.structs.replace(new, value=answer) if isinstance(answer, bytes) else new
                for new, answer in zip(steps, answers, strict=True)
            ]
        lost = {held for held, is_held in zip(holders, durable, strict=True) if not is_held}
        return [
            "lost" if Held(new.run, new.node, new.scope, new.lease) in lost else answer
            for new, answer in zip(steps, answers, strict=True)
        ]

    async def delete_runs(self, tenant: str, runs: Sequence[str]) -> int:
        await self._durable(*runs)
        await self._hot.delete_runs(tenant, runs)
        # It keeps what is not over, and what relatives need.
        kept = {standing.run for standing in await self._hot.read_standings(runs)}
        return await self._log.delete_runs(tenant, [run for run in runs if run not in kept])

    async def list_unreported(self, *, after: str = "", limit: int = 1000) -> list[Run]:
        async def read() -> list[Run]:
            return await self._hot.list_unreported(after=after, limit=limit)

        return await self._twice(read, lambda run: run.run)

    async def mark_reported(self, tenant: str, run: str, seq: int) -> bool:
        return await self._hot.mark_reported(tenant, run, seq)

    async def put_run(
        self,
        tenant: str,
        rows: Snapshot,
        expected_seq: int | None,
        *,
        blobs: Sequence[bytes] = (),
    ) -> bool:
        name = rows.run.run
        stored = await self._hot.read_run(tenant, name)
        logged = await self._log.read_run(tenant, name)
        known = stored or logged
        if rows.run.tenant != tenant or (known.seq if known else None) != expected_seq:
            return False
        # The log first: if the hot half does not follow, it is rebuilt from the log.
        if not await self._log.put_log(rows, logged.seq if logged else None, blobs=blobs):
            return False
        self._guard.broken.pop(name, None)
        return await self._hot.put_run(tenant, rows, stored.seq if stored else None)

    async def _with_run(self, tenant: str, run: str, call: Callable[[], Awaitable[Value]]) -> Value:
        """Make a call about a run that the hot half may have removed since it ended."""
        try:
            return await call()
        except RunNotFoundError:
            if not await self._guard.bring_back(tenant, run):
                raise
            return await call()

    async def _acknowledge(
        self,
        tenant: str,
        run: str,
        before: int,
        is_it: Callable[[events.Event], bool],
        earlier: int | None = None,
    ) -> None:
        """Wait until what was just done to a run after event `before` is in the log; or, if that
        was done already, what was done after `earlier`.

        The hot half may have lost it by now. Or it lacked events when it did this, and the log has
        another event in its place. Then StoreUnavailableError.
        """
        made = await self._find_made(tenant, run, before, is_it)
        if made is None and earlier is not None and earlier < before:
            made = await self._find_made(tenant, run, earlier, is_it)
        await self._durable(run)
        if made is None or not await self._has(tenant, made):
            raise StoreUnavailableError(f"run {run}: this was lost before it was durable")

    async def _find_made(
        self, tenant: str, run: str, after: int, is_it: Callable[[events.Event], bool]
    ) -> EventRecord | None:
        while True:
            page = await self._hot.read_events(tenant, run, after, LIST_MAX)
            for record in page:
                try:
                    event = events.decode_event(record.data)
                except DAMAGE:
                    continue  # A damaged event is not the one that was just made.
                if is_it(event):
                    return record
            if len(page) < LIST_MAX:
                return None
            after = page[-1].seq

    async def _seq(self, tenant: str, run: str) -> int:
        row = await self._hot.read_run(tenant, run)
        return row.seq if row is not None else 0

    async def _has(self, tenant: str, event: EventRecord) -> bool:
        return await self._log.read_events(tenant, event.run, event.seq - 1, 1) == [event]

    async def _durable(self, *runs: str) -> None:
        """The report gate: what is not durable is not answered."""
        try:
            async with asyncio.timeout(ANSWER_S):
                await asyncio.gather(*(self._flusher.durable(run) for run in dict.fromkeys(runs)))
        except TimeoutError:
            raise StoreUnavailableError(
                "this has happened, but is not durable yet: the record cannot be written for now"
            ) from None

    async def _catch_up(self, *runs: str) -> None:
        """Before a read of the log: wait until it has all that has happened by now.

        If that takes long, the hot half or the log is not available, and what was durable before is
        the best answer.
        """
        try:
            async with asyncio.timeout(CATCH_UP_S):
                left = runs or await self._hot.list_unlogged(0, LIST_MAX)
                await asyncio.gather(*(self._flusher.durable(run) for run in left))
        except (TimeoutError, StoreUnavailableError):
            pass

    async def wait_for_change(self, run: str, after_seq: int, timeout_ms: int) -> bool:
        if not await self._hot.wait_for_change(run, after_seq, timeout_ms):
            return False
        return await self._durable_within(run, timeout_ms)

    async def wait_for_end(self, run: str, timeout_ms: int) -> bool:
        if not await self._hot.wait_for_end(run, timeout_ms):
            return False
        return await self._durable_within(run, timeout_ms)

    async def _durable_within(self, run: str, timeout_ms: int) -> bool:
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await self._flusher.durable(run)
        except TimeoutError:
            return False

    # ── reads of the log ────────────────────────────────────────────────────────────────

    async def read_run(self, tenant: str, run: str) -> Run | None:
        await self._catch_up(run)
        return await self._log.read_run(tenant, run)

    async def list_runs(
        self,
        tenant: str,
        *,
        statuses: Sequence[RunStatus] = (),
        workflow: str | None = None,
        before: str | None = None,
        limit: int = 100,
    ) -> list[Run]:
        await self._catch_up()
        return await self._log.list_runs(
            tenant, statuses=statuses, workflow=workflow, before=before, limit=limit
        )

    async def read_events(
        self, tenant: str, run: str, after_seq: int = 0, limit: int = 1000
    ) -> list[EventRecord]:
        await self._catch_up(run)
        return await self._log.read_events(tenant, run, after_seq, limit)

    # ── reads of the hot half, answered when they are durable ───────────────────────────

    async def read_snapshot(self, tenant: str, run: str) -> Snapshot | None:
        while True:
            found = await self._hot.read_snapshot(tenant, run)
            if found is None:
                if not await self._guard.bring_back(tenant, run):
                    return None
                continue
            await self._durable(run)
            if await self._has(tenant, found.events[-1]):
                return found

    async def read_tokens(self, tenant: str, run: str) -> list[Token]:
        found = await self.read_snapshot(tenant, run)
        return list(found.tokens) if found is not None else []

    async def read_steps(self, tenant: str, key: Key) -> dict[str, bytes]:
        # A handler reads them after the take gate: they are durable.
        return await self._hot.read_steps(tenant, key)

    async def read_signals(self, tenant: str, run: str) -> list[Signal]:
        async def read() -> list[Signal]:
            return await self._hot.read_signals(tenant, run)

        # A step names a signal by its number: that of one that is lost may be another's later.
        return await self._twice(read, lambda signal: signal.run)

    async def list_waiting(
        self, tenant: str, kind: str, *, key: str | None = None, limit: int = 100
    ) -> list[Token]:
        async def read() -> list[Token]:
            return await self._hot.list_waiting(tenant, kind, key=key, limit=limit)

        return await self._twice(read, lambda token: token.run)

    async def list_dead_letters(
        self,
        tenant: str,
        *,
        run: str | None = None,
        status: str | None = "pending",
        limit: int = 100,
    ) -> list[DeadLetter]:
        async def read() -> list[DeadLetter]:
            return await self._hot.list_dead_letters(tenant, run=run, status=status, limit=limit)

        return await self._twice(read, lambda letter: letter.run)

    async def _twice(
        self, read: Callable[[], Awaitable[list[Value]]], run_of: Callable[[Value], str]
    ) -> list[Value]:
        """What is there before and after its runs are durable."""
        before = await read()
        await self._durable(*map(run_of, before))
        after = await read() if before else []
        return [one for one in before if one in after]

    async def discard_dead_letter(self, tenant: str, key: Key) -> bool:
        return await self._hot.discard_dead_letter(tenant, key)

    async def list_queues(self) -> list[QueueDepth]:
        return await self._hot.list_queues()

    async def find_queues(
        self, tenant: str, prefix: str, *, after: str = "", limit: int = 1000
    ) -> list[str]:
        return await self._hot.find_queues(tenant, prefix, after=after, limit=limit)

    async def list_tenants(self) -> list[str]:
        await self._catch_up()
        return await self._log.list_tenants()

    async def list_plans(
        self, tenant: str, *, after: str = "", limit: int = 1000
    ) -> tuple[list[str], str]:
        # A run is in the log before it is anywhere else; one with a new plan is there by now.
        await self._catch_up()
        return await self._log.list_plans(tenant, after=after, limit=limit)

    async def find_break(self, tenant: str, run: str) -> int | None:
        return await self._log.find_break(tenant, run)

    # ── workers: heartbeats repeat, so the hot half is enough ───────────────────────────

    async def register_worker(self, record: WorkerRecord) -> bool:
        return await self._hot.register_worker(record)

    async def drain_worker(self, tenant: str, worker: str) -> bool:
        return await self._hot.drain_worker(tenant, worker)

    async def remove_worker(self, tenant: str, worker: str) -> bool:
        return await self._hot.remove_worker(tenant, worker)

    async def list_workers(self, tenant: str, *, limit: int = 10_000) -> list[WorkerEntry]:
        return await self._hot.list_workers(tenant, limit=limit)

    async def forget_idle(self) -> Forgotten:
        return await self._hot.forget_idle()

    # ── deployed workflows: they are few, and durable when answered: the log has them ───

    async def deploy_workflow(
        self, new: WorkflowVersion, tags: Sequence[str] = ()
    ) -> Deployed | None:
        return await self._log.deploy_workflow(new, tags)

    async def read_workflow(
        self, tenant: str, name: str, at: int | str | None = None
    ) -> DeployedWorkflow | None:
        return await self._log.read_workflow(tenant, name, at)

    async def list_workflows(
        self, tenant: str, *, after: str = "", limit: int = 100
    ) -> list[DeployedWorkflow]:
        return await self._log.list_workflows(tenant, after=after, limit=limit)

    async def list_versions(
        self, tenant: str, *, after: tuple[str, int] = ("", 0), limit: int = 1000
    ) -> list[WorkflowVersion]:
        return await self._log.list_versions(tenant, after=after, limit=limit)

    # ── blobs ───────────────────────────────────────────────────────────────────────────

    async def put_blob(
        self, data: bytes, *, run: str | None = None, tenant: str = DEFAULT_TENANT
    ) -> str:
        return await self._log.put_blob(data, run=run, tenant=tenant)

    async def get_blob(
        self, ref: str, *, run: str | None = None, tenant: str = DEFAULT_TENANT
    ) -> bytes | None:
        return await self._log.get_blob(ref, run=run, tenant=tenant)

    async def touch_blobs(self, tenant: str, refs: Sequence[str]) -> list[str]:
        return await self._log.touch_blobs(tenant, refs)

    async def list_blobs(
        self, tenant: str, *, idle_ms: int, after: str = "", limit: int = 1000
    ) -> list[BlobEntry]:
        return await self._log.list_blobs(tenant, idle_ms=idle_ms, after=after, limit=limit)

    async def delete_blobs(self, tenant: str, blobs: Sequence[BlobEntry]) -> int:
        return await self._log.delete_blobs(tenant, blobs)
