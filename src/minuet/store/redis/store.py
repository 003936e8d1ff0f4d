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

from collections.abc import Collection, Sequence
from typing import Any

from minuet.errors import RunNotFoundError, StoreUnusableError
from minuet.store.blob import blob_ref
from minuet.store.exchange import Exchange, Held, Reply, Swept
from minuet.store.records import DEFAULT_TENANT, SESSION_MS_MAX, TIMED_OUT, BlobEntry
from minuet.store.redis import request as requests
from minuet.store.redis.calls import LISTENING_POLL_MS, POLL_MS, check_key
from minuet.store.redis.cells import RedisCells
from minuet.store.redis.layout import check_layout
from minuet.store.redis.listen import Listener
from minuet.store.redis.packing import opaque
from minuet.store.redis.partitions import Partitions
from minuet.store.redis.runs import RedisRuns
from minuet.store.redis.server import check_servers
from minuet.store.redis.workers import RedisWorkers
from minuet.store.retention import DELETED_PER_SWEEP

#: Shortest time between two hints that there are new events.
FEED_PAUSE_S = 0.01


class RedisStore(RedisRuns, RedisWorkers, RedisCells):
    """Runs on a Redis server: `redis://[:password@]host:port/database?prefix=minuet`."""

    overlaps = True

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
                self._feed_listener = Listener(
                    self._connection, f"{name}:feed", self._changed.notify, pause_s=FEED_PAUSE_S
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
        for listener in (self._listener, self._end_listener, self._feed_listener):
            if listener is not None:
                await listener.stop()
        await self._ends.close()
        await self._connection.close()
        self._work.notify()
        self._changed.notify()

    # ── the exchange ────────────────────────────────────────────────────────────────────

    async def exchange(self, request: Exchange) -> Reply:
        check_key("tenant", request.tenant)
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

    # ── blobs ───────────────────────────────────────────────────────────────────────────

    async def put_blob(
        self, data: bytes, *, run: str | None = None, tenant: str = DEFAULT_TENANT
    ) -> str:
        check_key("tenant", tenant)
        if run is None:
            return await self._shared.put(tenant, data)
        check_key("run", run)
        ref = blob_ref(data)
        if not await self._run("put_blob", self._home(run), tenant, run, ref, opaque(data)):
            raise RunNotFoundError(run)
        return ref

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
