"""Reads of a store in two halves."""

from __future__ import annotations

from collections.abc import Sequence

from minuet.store.feed import FeedPage, poll_feed
from minuet.store.logged.gates import Gates
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
from minuet.store.wake import Wake
from minuet.types import RunStatus

#: Interval of polls for events that any process has added to the log.
POLL_MS = 50


class LoggedReads(Gates):
    """The verbs that read."""

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

    async def read_feed(
        self, after: str | None, *, limit: int = 1000, wait_ms: int = 0
    ) -> FeedPage:
        # What the hot half can lose is not in the feed.
        return await poll_feed(
            lambda: self._log.read_feed(after, limit),
            Wake(),
            wait_ms if after is not None else 0,
            POLL_MS,
        )

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
        after: LetterPlace = FIRST_PLACE,
        limit: int = 100,
    ) -> list[DeadLetter]:
        async def read() -> list[DeadLetter]:
            return await self._hot.list_dead_letters(
                tenant, run=run, status=status, after=after, limit=limit
            )

        while True:
            server = await self._hot.identity()
            before = await read()
            if not before:
                return []
            runs = dict.fromkeys(letter.run for letter in before)
            if not await self._may_be_unlogged(runs) and await self._hot.identity() == server:
                return before  # The log had them when they were read.
            # As `_twice`; but one that is retried meanwhile is the same dead letter, and a page is
            # only empty if none comes after it.
            await self._durable(*runs)
            still = {letter.place for letter in await read()}
            found = [letter for letter in before if letter.place in still]
            if found:
                return found
            after = before[-1].place

    async def count_runs(self, tenant: str) -> RunCounts:
        return await self._hot.count_runs(tenant)

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
