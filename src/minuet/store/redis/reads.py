"""Reads of the store on Redis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from minuet.store.records import (
    FIRST_PLACE,
    DeadLetter,
    EventRecord,
    Key,
    LetterPlace,
    QueueDepth,
    Run,
    RunCounts,
    Signal,
    Snapshot,
    Token,
)
from minuet.store.redis import rows
from minuet.store.redis.columns import FIELDS
from minuet.store.redis.feed import RedisFeed
from minuet.types import OPEN, STATUSES, LetterStatus, RunStatus


class RedisReads(RedisFeed):
    """The verbs that read."""

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
        wanted = sorted(set(statuses)) or STATUSES
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
        after: LetterPlace = FIRST_PLACE,
        limit: int = 100,
    ) -> list[DeadLetter]:
        member = rows.letter_member(after)
        statuses = get_args(LetterStatus) if status is None else (status,)
        # Each partition gives its share of a page, so that none is read again for every page.
        homes = self._partitions.names if run is None else (self._home(run),)
        share = -(-limit // len(homes))
        letters, ends = [], []
        for home in homes:
            found = await self._run(
                "list_dead_letters", home, tenant, run, statuses, after[0], member, share
            )
            some = [rows.dead_letter_of(name.decode(), data) for name, data in found]
            letters += some
            if some and len(some) == share:
                ends.append(some[-1].place)
        letters.sort(key=lambda letter: letter.place)
        # What comes next in one of them may come before what another has given.
        end = min(ends, default=None)
        return [letter for letter in letters if end is None or letter.place <= end][:limit]

    async def count_runs(self, tenant: str) -> RunCounts:
        answers = [
            await self._run("count_runs", partition, tenant, OPEN)
            for partition in self._partitions.names
        ]
        *runs, letters = [sum(numbers) for numbers in zip(*answers, strict=True)]
        return RunCounts(dict(zip(OPEN, runs, strict=True)), letters)

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
