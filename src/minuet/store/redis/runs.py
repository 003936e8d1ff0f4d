"""Runs on Redis: created, changed, deleted, put in place, waited for."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

from minuet.errors import RunConflictError, RunNotFoundError, StoreUnavailableError
from minuet.events import Place
from minuet.store.blob import blob_ref
from minuet.store.changes import Change, NewRun, SendSignal
from minuet.store.check import check_change, check_new_runs, check_resolution, check_steps
from minuet.store.exchange import NewStep, Refusal
from minuet.store.records import Key, Run, Snapshot
from minuet.store.redis import request as requests
from minuet.store.redis import rows
from minuet.store.redis.calls import POLL_MS, check_key
from minuet.store.redis.packing import opaque
from minuet.store.redis.put_run import WholeRun, packed
from minuet.store.redis.reads import RedisReads
from minuet.store.rules.shared import check_rows, key_conflict

#: Parts of a run that is put in its place in several calls are kept for this long between them.
STAGED_S = 600

#: Why a step was not recorded, by the number that stands for it in an answer.
REFUSALS: tuple[Refusal, ...] = ("lost", "gone")


class RedisRuns(RedisReads):
    """The verbs of runs."""

    async def create_runs(self, runs: Sequence[NewRun]) -> list[Run | RunConflictError]:
        check_new_runs(runs)
        for new in runs:
            check_key("tenant", new.tenant)
            check_key("run", new.run)
        return await self._partitions.create_runs(runs, self._create_runs, self._reserve)

    async def _create_runs(
        self, partition: str, runs: Sequence[NewRun]
    ) -> list[Run | RunConflictError]:
        staged = [await self._stage_blobs(new.tenant, new.run, new.blobs) for new in runs]
        packed = requests.create_runs(runs, staged, self._now_ms())
        answers, *work = await self._connection.run("create_runs", partition, packed)
        if not work:
            raise StoreUnavailableError("the inputs of runs took too long to be written")
        self._notify(work[0])
        return [_created(answer) for answer in answers]

    async def _reserve(self, partition: str, new: NewRun) -> str:
        """The run that has an idempotency key, which is this one if no other call was faster."""
        name: bytes = await self._run(
            "reserve_key", partition, new.tenant, new.idempotency_key, new.run
        )
        return name.decode()

    async def change_run(
        self, tenant: str, run: str, change: Change, expected_seq: int | None = None
    ) -> Run:
        change = check_change(run, change)
        packed = requests.change_run(tenant, run, change, expected_seq, self._now_ms())
        # A run gets a signal of each id once.
        once = not isinstance(change, SendSignal)
        kind, *answer = await self._connection.run("change_run", self._home(run), packed, once=once)
        if kind == b"missing":
            raise RunNotFoundError(run)
        if kind == b"conflict":
            raise _conflict(answer)
        self._notify(answer[1])
        return rows.run_of(answer[0])

    async def resolve(
        self, tenant: str, key: Key, resolution: bytes, *, by: str = "", wait_key: str | None = None
    ) -> bool:
        resolved, work = await self._run(
            "resolve",
            self._home(key[0]),
            self._now_ms(),
            tenant,
            *key,
            opaque(check_resolution(resolution)),
            by,
            wait_key,
        )
        self._notify(work)
        return bool(resolved)

    async def record_steps(self, tenant: str, steps: Sequence[NewStep]) -> list[bytes | Refusal]:
        check_steps(steps)
        answers: dict[int, bytes | Refusal] = {}
        numbered = list(enumerate(steps))
        for partition, part in self._partitions.by_run(numbered, lambda one: one[1].run):
            packed = requests.record_steps(tenant, [new for _, new in part], self._now_ms())
            found = await self._connection.run("record_steps", partition, packed)
            for (place, _), answer in zip(part, found, strict=True):
                answers[place] = answer if isinstance(answer, bytes) else REFUSALS[answer]
        self._notify(0)
        return [answers[place] for place in range(len(steps))]

    async def discard_dead_letter(
        self, tenant: str, run: str, generation: int, why: str = "", held: Place | None = None
    ) -> bool:
        request = (self._now_ms(), tenant, run, generation, why, *(held or (None, None)))
        return bool(await self._run("discard_dead_letter", self._home(run), *request))

    async def list_unreported(self, *, after: str = "", limit: int = 1000) -> list[Run]:
        found = [rows.run_of(row) for row in await self._all("list_unreported", after, limit)]
        return sorted(found, key=lambda run: run.run)[: max(limit, 0)]

    async def mark_reported(self, tenant: str, run: str, seq: int) -> bool:
        return bool(await self._run("mark_reported", self._home(run), tenant, run, seq))

    async def list_notable(self, *, after: str = "", limit: int = 1000) -> list[Run]:
        found = [rows.run_of(row) for row in await self._all("list_notable", after, limit)]
        return sorted(found, key=lambda run: run.run)[: max(limit, 0)]

    async def mark_noted(self, tenant: str, run: str, upto: int) -> bool:
        return bool(await self._run("mark_noted", self._home(run), tenant, run, upto))

    async def delete_runs(self, tenant: str, runs: Sequence[str]) -> int:
        count = 0
        for partition, names in self._partitions.by_run(runs, lambda name: name):
            removed, released = await self._run("delete_runs", partition, tenant, names)
            count += removed
            await self._release(released)
        return count

    async def put_run(
        self,
        tenant: str,
        rows: Snapshot,
        expected_seq: int | None,
        *,
        blobs: Sequence[bytes] = (),
    ) -> bool:
        check_key("tenant", tenant)
        check_key("run", rows.run.run)
        check_rows(rows)
        if rows.run.tenant != tenant:
            return False
        key = rows.run.idempotency_key
        if key is None or len(self._partitions.names) == 1:
            return await self._put_run(rows, expected_seq, blobs)
        # On a cluster the key is reserved first, wherever it belongs.
        owner = self._partitions.of_run(f"{tenant}\0{key}")
        name = await self._run("reserve_key", owner, tenant, key, rows.run.run)
        if name.decode() != rows.run.run:
            raise key_conflict(rows.run, name.decode())
        put = await self._put_run(rows, expected_seq, blobs)
        if not put:
            stored = await self.read_run(tenant, rows.run.run)
            if stored is None or stored.idempotency_key != key:
                await self._release([(f"{tenant}\0{key}".encode(), name)])
        return put

    async def _put_run(
        self, rows: Snapshot, expected_seq: int | None, blobs: Sequence[bytes]
    ) -> bool:
        run, whole = rows.run, WholeRun(rows)
        home = self._home(run.run)
        *early, last = whole.portions()
        place = _place(run.run) if early else None
        for portion in early:
            await self._run("stage_run", home, place, STAGED_S, packed(portion))
        answer, *rest = await self._run(
            *("put_run", home, run.tenant, run.run, expected_seq, opaque(whole.row)),
            *(run.idempotency_key, place, sum(map(len, early)), packed(last)),
            *(whole.live, whole.scoped, whole.letters, whole.kept, whole.awaited),
            *await self._stage_blobs(run.tenant, run.run, blobs),
        )
        if answer == b"key":
            raise key_conflict(run, rest[0].decode())
        if answer == b"gone":
            raise StoreUnavailableError(f"run {run.run}: it took too long to be written")
        if answer == b"put":
            self._notify(rest[0])
            await self._release(rest[1])
        return bool(answer == b"put")

    async def wait_for_change(self, run: str, after_seq: int, timeout_ms: int) -> bool:
        async def is_there() -> bool:
            seq: int = await self._run("read_seq", self._home(run), run)
            return seq > after_seq

        return await self._wait(self._changed, is_there, timeout_ms, POLL_MS)

    async def wait_for_end(self, run: str, timeout_ms: int) -> bool:
        if self._end_listener is None:
            return await self._ends.wait(run, timeout_ms)
        with self._end_listener.waiting():
            return await self._ends.wait(run, timeout_ms)

    async def _stage_blobs(
        self, tenant: str, run: str, blobs: Sequence[bytes]
    ) -> tuple[str | None, int]:
        """Store the blobs of a new run aside, each by a call of its own; return where, and how
        many."""
        own = {f"{tenant}\0{blob_ref(data)}": data for data in blobs}
        place = _place(run) if own else None
        for field in own.items():
            await self._run("stage_run", self._home(run), place, STAGED_S, packed([field]))
        return place, len(own)


def _place(run: str) -> str:
    """A name for what is kept aside of a run."""
    return f"{run}\0{secrets.token_hex(8)}"


def _created(answer: Sequence[Any]) -> Run | RunConflictError:
    kind, *rest = answer
    if kind == b"run":
        return rows.run_of(rest[0])
    return _conflict(rest)


def _conflict(answer: Sequence[Any]) -> RunConflictError:
    """Why a run was not created or changed, as `redis/lua/rules/runs.lua` says it."""
    run, message, status, seq = answer
    return RunConflictError(run.decode(), message.decode(), status=status.decode(), seq=seq)
