"""The store on a Redis or Valkey server, or on a cluster of them.

Every verb is one Lua call on one partition, and a partition lies on one server: all its keys share
a hash tag. A single server has one partition; on a cluster, runs are spread over several by the
hash of their name (`partitions`), and each part of an exchange is atomic for itself.

Queues are sorted sets, by time and then by name, and not Streams: a token that is delayed, paused
or cancelled leaves its queue at once, there is no list of pending entries that could be trimmed
away, and the order is exact. The token's row is the truth, the queue shows it, and both change in
the same step. Streams of one entry only wake waiters: for work, and for runs that have ended.

How durable an answer is, is the server's setting: `RedisStore.durability` says it in words.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

from minuet.clock import Clock
from minuet.errors import (
    RunConflictError,
    RunNotFoundError,
    StoreError,
    StoreUnavailableError,
    StoreUnusableError,
)
from minuet.store.blob import blob_ref
from minuet.store.check import (
    check_change,
    check_new_runs,
    check_resolution,
    check_steps,
    check_worker,
)
from minuet.store.ends import Ends
from minuet.store.records import (
    DEFAULT_TENANT,
    SESSION_MS_MAX,
    TIMED_OUT,
    WORKER_MS_MAX,
    BlobEntry,
    Change,
    DeadLetter,
    EventRecord,
    Exchange,
    Forgotten,
    Held,
    Key,
    NewRun,
    NewStep,
    QueueDepth,
    Refusal,
    Reply,
    Run,
    SendSignal,
    Signal,
    Snapshot,
    Swept,
    Token,
    WorkerEntry,
    WorkerRecord,
)
from minuet.store.redis import request as requests
from minuet.store.redis import rows
from minuet.store.redis.address import parse_address
from minuet.store.redis.blobs import SharedBlobs
from minuet.store.redis.columns import FIELDS
from minuet.store.redis.connection import Connection
from minuet.store.redis.layout import check_layout
from minuet.store.redis.listen import Listener
from minuet.store.redis.packing import as_json, opaque, pack
from minuet.store.redis.partitions import Partitions
from minuet.store.redis.put_run import WholeRun, packed
from minuet.store.redis.server import check_servers
from minuet.store.redis.workflows import RedisWorkflows
from minuet.store.retention import DELETED_PER_SWEEP
from minuet.store.rules.shared import check_rows, key_conflict
from minuet.store.wake import Wake
from minuet.types import RunStatus

#: Interval of polls for changes by other processes, while there are waiters.
POLL_MS = 100
#: The same, when the server sends hints about new work.
LISTENING_POLL_MS = 1000

#: Parts of a run that is put in its place in several calls are kept for this long between them.
STAGED_S = 600

_STATUSES: tuple[RunStatus, ...] = (
    *("PENDING", "RUNNING", "PAUSED"),
    *("COMPLETED", "FAILED", "CANCELLED"),
)

#: Why a step was not recorded, by the number that stands for it in an answer.
REFUSALS: tuple[Refusal, ...] = ("lost", "gone")

_LETTER_STATUSES = ("pending", "reprocessed", "discarded")


class RedisStore(RedisWorkflows):
    """Runs on a Redis server: `redis://[:password@]host:port/database?prefix=minuet`."""

    overlaps = True

    def __init__(self, url: str, *, clock: Clock | None = None, logged: bool = False) -> None:
        self._address = parse_address(url)
        if logged:
            # The record keeps what the server may lose.
            self._address = replace(self._address, accept_loss=True)
        #: Whether a record keeps its events as well.
        self._logged = logged
        #: In front of a log, runs leave this store and stay in the log.
        self.retention_ms = self._address.retention_ms
        #: None: the server's clock decides.
        self._clock = clock
        self._connection = Connection(self._address, logged=logged)
        self._partitions = Partitions(self._address.prefix, 1)
        self._shared = SharedBlobs(self._connection, self._address.prefix, self._now_ms)
        self._work = Wake()
        self._changed = Wake()
        self._ends = Ends(self._find_ended)
        self._listener: Listener | None = None
        self._end_listener: Listener | None = None
        self._durability = ""

    async def open(self) -> None:
        await self._connection.open()
        try:
            self._durability, is_cluster = await check_servers(self._connection, self._address)
            if is_cluster:
                self._partitions = Partitions.of_cluster(self._address.prefix)
            else:
                name = self._partitions.names[0]
                self._listener = Listener(self._connection, f"{name}:wake", self._work.notify)
                self._end_listener = Listener(
                    self._connection, f"{name}:ends", self._ends.poll_soon
                )
            await check_layout(self._connection, self._partitions.names, self._address)
            await self._check_record()
        except BaseException:
            await self._connection.close()
            raise

    @property
    def durability(self) -> str:
        return self._durability

    async def _check_record(self) -> None:
        """Refuse to change runs without their record."""
        born = f"{self._partitions.names[0]}:born"
        if not self._logged and await self._connection.command("EXISTS", born):
            raise StoreUnusableError(
                f"the Redis server at {self._address.shown} has a record elsewhere: "
                "add it to the store's URL (?record=postgresql://…), or use another ?prefix="
            )

    async def close(self) -> None:
        for listener in (self._listener, self._end_listener):
            if listener is not None:
                await listener.stop()
        await self._ends.close()
        await self._connection.close()
        self._work.notify()
        self._changed.notify()

    def _now_ms(self) -> int | None:
        return None if self._clock is None else self._clock.now_ms()

    async def _run(self, name: str, partition: str, *arguments: Any) -> Any:
        return await self._connection.run(name, partition, pack(arguments))

    async def _all(self, name: str, *arguments: Any) -> list[Any]:
        """The same question to all partitions."""
        answers = [await self._run(name, p, *arguments) for p in self._partitions.names]
        return [row for answer in answers for row in answer]

    def _notify(self, work: int) -> None:
        if work:
            self._work.notify()
        self._changed.notify()

    # ── the exchange ────────────────────────────────────────────────────────────────────

    async def exchange(self, request: Exchange) -> Reply:
        _check_name("tenant", request.tenant)
        return await self._partitions.exchange(request, self._exchange)

    async def _exchange(self, partition: str, request: Exchange, *, strict: bool) -> Any:
        packed = requests.exchange(request, self._now_ms(), SESSION_MS_MAX, strict=strict)
        answer = await self._connection.run("exchange", partition, packed)
        if answer[0] == b"reply":
            self._notify(answer[6])
            self._ends.notify(name.decode() for name in answer[9])
        return answer

    async def wait_until_durable(self, tenant: str, held: Held) -> bool:
        return True

    async def sweep(self, limit: int = 1000) -> Swept:
        swept = Swept()
        for partition in self._partitions.names:
            *counts, next_due_ms, more, work, released = await self._run(
                "sweep",
                partition,
                self._now_ms(),
                limit,
                opaque(TIMED_OUT),
                self.retention_ms,
                DELETED_PER_SWEEP,
            )
            await self._release(released)
            if any(counts):
                self._notify(work)
            due = [ms for ms in (swept.next_due_ms, next_due_ms) if ms is not None]
            swept = Swept(
                swept.expired + counts[0],
                swept.resumed + counts[1],
                swept.cancelled + counts[2],
                min(due, default=None),
                swept.more or bool(more),
            )
        return swept

    async def wait_for_work(
        self,
        tenant: str,
        queues: Sequence[str],
        timeout_ms: int,
        runs: Collection[str] | None = None,
    ) -> bool:
        async def is_there() -> bool:
            only = None if runs is None else list(runs)
            for partition in self._partitions.names:
                if await self._run("find_work", partition, self._now_ms(), tenant, queues, only):
                    return True
            return False

        if self._listener is None:
            return await self._wait(self._work, is_there, timeout_ms, POLL_MS)
        with self._listener.waiting():
            return await self._wait(self._work, is_there, timeout_ms, LISTENING_POLL_MS)

    async def _wait(
        self, wake: Wake, is_there: Callable[[], Awaitable[bool]], timeout_ms: int, poll_ms: int
    ) -> bool:
        """Poll, wait for a hint or the next interval, and poll again."""
        loop = asyncio.get_running_loop()
        end = loop.time() + timeout_ms / 1000
        while True:
            since = wake.count
            try:
                if await is_there():
                    return True
            except StoreUnavailableError:
                if self._connection.is_open:
                    raise
                # Closed while a caller waited: nothing more will come.
                return False
            left_ms = (end - loop.time()) * 1000
            if left_ms <= 0:
                return False
            await wake.wait(min(left_ms, poll_ms), since)

    # ── runs ────────────────────────────────────────────────────────────────────────────

    async def create_runs(self, runs: Sequence[NewRun]) -> list[Run | RunConflictError]:
        check_new_runs(runs)
        for new in runs:
            _check_name("tenant", new.tenant)
            _check_name("run", new.run)
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

    def _home(self, run: str) -> str:
        return self._partitions.of_run(run)

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

    async def list_unreported(self, *, after: str = "", limit: int = 1000) -> list[Run]:
        found = [rows.run_of(row) for row in await self._all("list_unreported", after, limit)]
        return sorted(found, key=lambda run: run.run)[: max(limit, 0)]

    async def mark_reported(self, tenant: str, run: str, seq: int) -> bool:
        return bool(await self._run("mark_reported", self._home(run), tenant, run, seq))

    async def delete_runs(self, tenant: str, runs: Sequence[str]) -> int:
        count = 0
        for partition, names in self._partitions.by_run(runs, lambda name: name):
            removed, released = await self._run("delete_runs", partition, tenant, names)
            count += removed
            await self._release(released)
        return count

    async def _release(self, keys: Sequence[tuple[bytes, bytes]]) -> None:
        """Idempotency keys of runs that are gone are free again, wherever they were reserved."""
        if len(self._partitions.names) > 1:
            for field, run in keys:
                owner = self._partitions.of_run(field.decode())
                await self._run("release_key", owner, opaque(field), opaque(run))

    async def put_run(
        self,
        tenant: str,
        rows: Snapshot,
        expected_seq: int | None,
        *,
        blobs: Sequence[bytes] = (),
    ) -> bool:
        _check_name("tenant", tenant)
        _check_name("run", rows.run.run)
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
            *(whole.live, whole.scoped, whole.letters, whole.kept),
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

    async def _find_ended(self, runs: Collection[str]) -> Collection[str]:
        ended: list[str] = []
        for partition, names in self._partitions.by_run(runs, lambda run: run):
            found = await self._run("find_ended", partition, names)
            ended += [name.decode() for name in found]
        return ended

    # ── reads ───────────────────────────────────────────────────────────────────────────

    async def read_run(self, tenant: str, run: str) -> Run | None:
        found = await self._run("read_run", self._home(run), tenant, run)
        return rows.run_of(found) if found else None

    async def list_runs(
        self,
        tenant: str,
        *,
        statuses: Sequence[RunStatus] = (),
        workflow: str | None = None,
        before: str | None = None,
        limit: int = 100,
    ) -> list[Run]:
        wanted = sorted(set(statuses)) or _STATUSES
        found = await self._all("list_runs", tenant, wanted, workflow, before, limit)
        runs = [rows.run_of(row) for row in found]
        return sorted(runs, key=lambda run: run.run, reverse=True)[:limit]

    async def read_events(
        self, tenant: str, run: str, after_seq: int = 0, limit: int = 1000
    ) -> list[EventRecord]:
        found = await self._run("read_events", self._home(run), tenant, run, after_seq, limit)
        return [rows.event_of(run, seq, data) for seq, data in enumerate(found, after_seq + 1)]

    async def _read_rows(self, tenant: str, run: str, prefix: str) -> dict[bytes, bytes]:
        flat = await self._run("read_rows", self._home(run), tenant, run, prefix)
        return dict(zip(flat[::2], flat[1::2], strict=True))

    async def read_tokens(self, tenant: str, run: str) -> list[Token]:
        found = await self._read_rows(tenant, run, FIELDS["token"])
        tokens = []
        for field, data in found.items():
            node, scope = field[1:].decode().split("\0")
            tokens.append(rows.token_of(tenant, run, node, scope, data))
        return sorted(tokens, key=lambda token: token.key)

    async def read_steps(self, tenant: str, key: Key) -> dict[str, bytes]:
        run, node, scope = key
        prefix = f"{FIELDS['step']}{node}\0{scope}\0"
        found = await self._read_rows(tenant, run, prefix)
        return {f.decode().removeprefix(prefix): value for f, value in sorted(found.items())}

    async def read_signals(self, tenant: str, run: str) -> list[Signal]:
        flat = await self._run("read_signals", self._home(run), tenant, run)
        pairs = zip(flat[::2], flat[1::2], strict=True)
        return [rows.signal_of(run, id.decode(), data) for id, data in pairs]

    async def read_snapshot(self, tenant: str, run: str) -> Snapshot | None:
        found = await self._read_rows(tenant, run, "")
        return rows.snapshot_of(tenant, run, found) if found else None

    async def find_break(self, tenant: str, run: str) -> int | None:
        return None  # It keeps no hashes.

    async def list_waiting(
        self, tenant: str, kind: str, *, key: str | None = None, limit: int = 100
    ) -> list[Token]:
        found = await self._all("list_waiting", tenant, kind, key, limit)
        tokens = [
            rows.token_of(tenant, run.decode(), node.decode(), scope.decode(), data)
            for run, node, scope, data in found
        ]
        return sorted(tokens, key=lambda token: token.key)[:limit]

    async def list_dead_letters(
        self,
        tenant: str,
        *,
        run: str | None = None,
        status: str | None = "pending",
        limit: int = 100,
    ) -> list[DeadLetter]:
        statuses = _LETTER_STATUSES if status is None else (status,)
        found = await self._all("list_dead_letters", tenant, run, statuses, limit)
        letters = [rows.dead_letter_of(name.decode(), data) for name, data in found]
        letters.sort(key=lambda x: (x.at_ms, x.run, x.node, x.scope, x.generation))
        return letters[:limit]

    async def discard_dead_letter(self, tenant: str, key: Key) -> bool:
        return bool(await self._run("discard_dead_letter", self._home(key[0]), tenant, *key))

    async def list_queues(self) -> list[QueueDepth]:
        depths: dict[tuple[str, str], QueueDepth] = {}
        for name, ready, leased, oldest in await self._all("list_queues"):
            tenant, queue = name.decode().split("\0", 1)
            known = depths.get((tenant, queue), QueueDepth(tenant, queue, 0, 0))
            due = [ms for ms in (known.oldest_due_ms, oldest) if ms is not None]
            depths[tenant, queue] = QueueDepth(
                tenant, queue, known.ready + ready, known.leased + leased, min(due, default=None)
            )
        return [depths[key] for key in sorted(depths)]

    async def list_tenants(self) -> list[str]:
        # They are part of the names of the lists of their runs; a list without runs is gone.
        heads = [f"{partition}:runs:".encode() for partition in self._partitions.names]
        found = {
            key.removeprefix(head).split(b"\0")[0].decode()
            for key in await self._connection.find_keys(f"{self._address.prefix}:*:runs:*")
            for head in heads
            if key.startswith(head)
        }
        return sorted(found | await self._shared.tenants())

    async def list_plans(
        self, tenant: str, *, after: str = "", limit: int = 1000
    ) -> tuple[list[str], str]:
        # By names and not by states, which change meanwhile; the newest first, so what is
        # created meanwhile is left out.
        page = await self.list_runs(tenant, before=after or None, limit=limit)
        plans = sorted({run.plan for run in page})
        return plans, page[-1].run if len(page) == limit else ""

    async def find_queues(
        self, tenant: str, prefix: str, *, after: str = "", limit: int = 1000
    ) -> list[str]:
        names = {name.decode() for name in await self._all("find_queues", tenant, prefix)}
        return sorted(name for name in names if name > after)[: max(limit, 0)]

    # ── workers: all of them in the first partition ─────────────────────────────────────

    async def register_worker(self, record: WorkerRecord) -> bool:
        check_worker(record)
        _check_name("tenant", record.tenant)
        _check_name("worker", record.worker)
        names = (record.tenant, record.worker)
        data = as_json(record)
        return bool(
            await self._run(
                "register_worker", self._registry, self._now_ms(), *names, data, WORKER_MS_MAX
            )
        )

    @property
    def _registry(self) -> str:
        return self._partitions.names[0]

    async def drain_worker(self, tenant: str, worker: str) -> bool:
        return bool(await self._run("drain_worker", self._registry, tenant, worker))

    async def remove_worker(self, tenant: str, worker: str) -> bool:
        return bool(await self._run("remove_worker", self._registry, tenant, worker))

    async def list_workers(self, tenant: str, *, limit: int = 10_000) -> list[WorkerEntry]:
        found = await self._run("list_workers", self._registry, self._now_ms(), tenant)
        entries = [rows.worker_of(row) for row in found]
        return sorted(entries, key=lambda entry: entry.record.worker)[: max(limit, 0)]

    async def forget_idle(self) -> Forgotten:
        # The server expires sessions.
        count = 0
        while True:
            some = await self._run("forget_workers", self._registry, self._now_ms(), WORKER_MS_MAX)
            if not some:
                return Forgotten(workers=count)
            count += some

    # ── blobs ───────────────────────────────────────────────────────────────────────────

    async def put_blob(
        self, data: bytes, *, run: str | None = None, tenant: str = DEFAULT_TENANT
    ) -> str:
        _check_name("tenant", tenant)
        if run is None:
            return await self._shared.put(tenant, data)
        _check_name("run", run)
        ref = blob_ref(data)
        if not await self._run("put_blob", self._home(run), tenant, run, ref, opaque(data)):
            raise RunNotFoundError(run)
        return ref

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

    async def get_blob(
        self, ref: str, *, run: str | None = None, tenant: str = DEFAULT_TENANT
    ) -> bytes | None:
        data: bytes | None = None
        if run is not None:
            own = f"{self._home(run)}:blobs:{run}"
            data = await self._connection.command("HGET", own, f"{tenant}\0{ref}")
        return data if data is not None else await self._shared.get(tenant, ref)

    async def touch_blobs(self, tenant: str, refs: Sequence[str]) -> list[str]:
        return await self._shared.touch(tenant, refs)

    async def list_blobs(
        self, tenant: str, *, idle_ms: int, after: str = "", limit: int = 1000
    ) -> list[BlobEntry]:
        return await self._shared.entries(tenant, idle_ms, after, limit)

    async def delete_blobs(self, tenant: str, blobs: Sequence[BlobEntry]) -> int:
        return await self._shared.delete(tenant, blobs)


def _check_name(what: str, name: str) -> None:
    """Names are parts of keys, up to a null character: one must not reach into another's."""
    if "\0" in name:
        raise StoreError(f"the name of a {what} has no null character")


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
