"""Runs in two halves: created, changed, deleted, put in place, waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import msgspec

from minuet import events
from minuet.errors import RunConflictError, RunNotFoundError, StoreUnavailableError
from minuet.events import Place
from minuet.store.changes import (
    Cancel,
    Change,
    NewPlan,
    NewRun,
    Pause,
    Repair,
    ReportStall,
    Resume,
    RetryRun,
    Rollback,
    SendSignal,
    Start,
)
from minuet.store.check import check_new_runs
from minuet.store.exchange import Held, NewStep, Refusal
from minuet.store.logged.gates import Gates
from minuet.store.records import Key, Run, Snapshot

Value = TypeVar("Value")

#: The event that a change leaves.
_LEAVES: dict[type[Change], type[events.Event] | tuple[type[events.Event], ...]] = {
    Start: events.RunStarted,
    Cancel: events.RunCancelled,
    Pause: events.RunPaused,
    Resume: events.RunResumed,
    RetryRun: events.RunRetried,
    NewPlan: events.RunPatched,
    SendSignal: events.SignalReceived,
    Rollback: events.RunCompensating,
    ReportStall: events.RunStalled,
    Repair: (events.NodeRepaired, events.NodeEdited),
}


class LoggedRuns(Gates):
    """The verbs of runs."""

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
        started = [answer.run for answer in answers if isinstance(answer, Run)]
        await self._durable(*started)
        # Nothing is left to be logged of one that was lost, and its parent's lease need not be.
        logged = {one.run for one in await self._hot.read_standings(started) if one.logged}
        if not logged.issuperset(started):
            raise StoreUnavailableError("a child run was lost before it was durable")
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

    async def discard_dead_letter(
        self, tenant: str, run: str, generation: int, why: str = "", held: Place | None = None
    ) -> bool:
        return await self._hot.discard_dead_letter(tenant, run, generation, why, held)

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

    async def list_notable(self, *, after: str = "", limit: int = 1000) -> list[Run]:
        async def read() -> list[Run]:
            return await self._hot.list_notable(after=after, limit=limit)

        return await self._twice(read, lambda run: run.run)

    async def mark_noted(self, tenant: str, run: str, upto: int) -> bool:
        return await self._hot.mark_noted(tenant, run, upto)

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

    async def wait_for_change(self, run: str, after_seq: int, timeout_ms: int) -> bool:
        if not await self._hot.wait_for_change(run, after_seq, timeout_ms):
            return False
        return await self._durable_within(run, timeout_ms)

    async def wait_for_end(self, run: str, timeout_ms: int) -> bool:
        if not await self._hot.wait_for_end(run, timeout_ms):
            return False
        return await self._durable_within(run, timeout_ms)
