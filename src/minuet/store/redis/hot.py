"""A Redis server as the hot half of a logged store.

Steps note which runs have events that the record lacks (a sorted set, by when that began), and a
run's hash says up to which event it has them. All else is the ordinary store: a server that keeps
nothing on disk will do, because the record does.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from minuet.clock import Clock
from minuet.store.exchange import Held
from minuet.store.logged.base import LogIdentity, Mark, Standing, Unlogged
from minuet.store.redis import rows
from minuet.store.redis.store import RedisStore


class HotRedisStore(RedisStore):
    """Runs on a Redis server whose events go to a record."""

    def __init__(self, url: str, *, clock: Clock | None = None) -> None:
        super().__init__(url, clock=clock, logged=True)

    async def identity(self) -> str:
        words = await self._all("identity", secrets.token_hex(8))
        return " ".join(word.decode() for word in words)

    async def attach(self, log: LogIdentity) -> LogIdentity:
        found = await self._all("attach", log.id, log.shown)
        known = [LogIdentity(name.decode(), shown.decode()) for name, shown in found]
        # On a cluster, whichever partition belongs to another one.
        return next((one for one in known if one.id != log.id), log)

    async def list_unlogged(self, age_ms: int, limit: int) -> list[str]:
        found = await self._all("list_unlogged", self._now_ms(), age_ms, limit)
        return [name.decode() for name in found[:limit]]

    async def read_unlogged(self, runs: Sequence[str], *, whole: bool = False) -> list[Unlogged]:
        found = []
        for partition, names in self._partitions.by_run(runs, str):
            for reply, recorded, digest, events in await self._run(
                "read_unlogged", partition, names, whole
            ):
                run = rows.run_of(reply)
                records = (
                    rows.event_of(run.run, seq, data)
                    for seq, data in enumerate(events, recorded + 1)
                )
                found.append(Unlogged(run, recorded, tuple(records), digest.decode()))
        return found

    async def mark_logged(
        self, marks: Sequence[Mark], held: Sequence[Held] = ()
    ) -> tuple[list[bool], list[bool]]:
        marked: dict[str, bool] = {}
        current: dict[Held, bool] = {}
        asked: list[Mark | Held] = [*marks, *held]
        for partition, some in self._partitions.by_run(asked, lambda one: one.run):
            here = [one for one in some if isinstance(one, Mark)]
            leases = [one for one in some if isinstance(one, Held)]
            answers = await self._run(
                "mark_logged",
                partition,
                [(one.run, one.logged, one.seq, one.digest) for one in here],
                [(one.run, one.node, one.scope, one.lease) for one in leases],
            )
            marked |= {one.run: bool(a) for one, a in zip(here, answers[0], strict=True)}
            current |= {one: bool(a) for one, a in zip(leases, answers[1], strict=True)}
        return [marked[mark.run] for mark in marks], [current[one] for one in held]

    async def read_standings(self, runs: Sequence[str]) -> list[Standing]:
        found = []
        for partition, names in self._partitions.by_run(runs, str):
            for name, seq, recorded in await self._run("read_standings", partition, names):
                found.append(Standing(name.decode(), seq, recorded))
        return found
