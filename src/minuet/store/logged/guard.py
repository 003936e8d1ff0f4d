"""Detect that the hot half has lost something, and bring it back from the log.

The hot half's identity changes when its server was restarted or emptied, or when another one has
taken its place. Then, before any worker takes work again, all runs that are open in the log (or
were until recently) are compared with the hot half, and those that lack something are rebuilt. One
process does it, and the others wait.

A rebuilt run has no leases: results of the workers that held them are stale, and its tokens are
ready again. Its handlers get the same inputs and the same idempotency keys.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from minuet.errors import (
    MinuetError,
    RunConflictError,
    RunNotFoundError,
    StoreError,
    StoreUnavailableError,
    StoreUnusableError,
)
from minuet.store.changes import Cancel
from minuet.store.families import awaited_children
from minuet.store.logged.base import HotStore, Log, Rebuild
from minuet.store.records import Snapshot
from minuet.types import TERMINAL

_log = logging.getLogger("minuet.store.logged")

#: Seconds between two checks of the hot half's identity.
POLL_S = 1.0

#: How long a caller that needs a run which the hot half lacks waits until it is compared.
SOUND_S = 30.0

#: Runs that ended this recently are compared too: in the hot half they may still be open.
ENDED_MS = 3_600_000

#: Submissions older than this without an event were left by a process that died.
SUBMITTED_MS = 2_000

#: Runs compared at once, and rebuilt at the same time.
PAGE = 500
AT_ONCE = 50

#: Deleted runs that are searched for in the hot half.
DELETED = 10_000


class Guard:
    """Knows whether the hot half has all that the log has."""

    def __init__(self, hot: HotStore, log: Log, rebuild: Rebuild, owner: str) -> None:
        self._hot = hot
        self._log = log
        self._rebuild = rebuild
        self._owner = owner
        #: The identity of the hot half that was compared with the log last.
        self.identity: str | None = None
        self._is_sound = asyncio.Event()
        self._in_doubt = asyncio.Event()
        #: The hot half that this process is comparing.
        self._claimed: str | None = None
        #: Runs that cannot be rebuilt, and why.
        self.broken: dict[str, MinuetError] = {}

    async def wait_until_sound(self) -> None:
        """Wait until the hot half has all that the log has."""
        await self._is_sound.wait()

    async def is_sound(self) -> bool:
        """Whether the hot half is still the one that was compared with the log."""
        if not self._is_sound.is_set():
            return False
        if await self._hot.identity() == self.identity:
            return True
        self._is_sound.clear()
        self._in_doubt.set()
        return False

    async def release(self) -> None:
        """Let another process take over a comparison that is not done."""
        if self._claimed is not None:
            try:
                await self._log.release_comparison(self._claimed, self._owner)
            except MinuetError as error:
                _log.info("other processes will wait until the claim expires: %s", error)

    async def attach(self) -> None:
        """Refuse a hot half that belongs to another log: this one lacks the beginning of its runs,
        so all of them would fail."""
        ours = await self._log.identity()
        theirs = await self._hot.attach(ours)
        if theirs.id != ours.id:
            raise StoreUnusableError(
                f"this Redis has its record in {theirs.shown}, and not in {ours.shown}: correct "
                "?record= in the URL of the store, or give this record a ?prefix= of its own"
            )

    async def work(self) -> None:
        """Check the hot half until cancelled."""
        while True:
            self._in_doubt.clear()
            try:
                await self.check()
            except StoreUnavailableError as error:
                _log.info("cannot check the hot store for now: %s", error)
            except MinuetError as error:
                _log.error("cannot check the hot store: %s", error)
            try:
                async with asyncio.timeout(POLL_S):
                    await self._in_doubt.wait()
            except TimeoutError:
                pass

    async def check(self) -> None:
        """Compare with the log if the hot half has changed its identity; create runs that were
        submitted and left."""
        identity = await self._hot.identity()
        if identity != self.identity:
            self._is_sound.clear()
            if self.identity is not None:
                # Another server, or one that was emptied: it may belong to another log by now.
                await self.attach()
            if await self._compare(identity):
                self.identity = identity
                self._is_sound.set()
        for new in await self._log.list_submitted(SUBMITTED_MS, PAGE):
            await self._hot.create_runs([new])

    async def _compare(self, identity: str) -> bool:
        """Bring back what is missing; False: another process is doing it, ask again later."""
        self._claimed = identity
        claim = await self._log.claim_comparison(identity, self._owner)
        if claim != "yours":
            self._claimed = None
            return claim == "done"
        # These first: one of them may have the idempotency key of a run that is put back.
        await self._remove_deleted()
        after, count = "", 0
        while True:
            page = await self._log.list_logged(after, ENDED_MS, PAGE)
            standings = {s.run: s for s in await self._hot.read_standings([r.run for r in page])}
            gone, doubtful = [], []
            for logged in page:
                stands = standings.get(logged.run)
                if stands is None:
                    # Of one that has ended, somebody outside may still have to learn something.
                    if logged.status not in TERMINAL or logged.is_notable:
                        gone.append(logged.run)
                elif stands.logged != logged.seq or stands.seq < logged.seq:
                    doubtful.append(logged.run)
            count += await self._restore_all(gone, self._put_back)
            count += await self._restore_all(doubtful, self._restore)
            await self._log.claim_comparison(identity, self._owner)
            if len(page) < PAGE:
                break
            after = page[-1].run
        if count:
            _log.warning("the hot store had lost something: %d runs were rebuilt", count)
        await self._log.finish_comparison(identity)
        self._claimed = None
        return True

    # ── rebuilding a run ────────────────────────────────────────────────────────────────

    async def _restore_all(
        self, runs: Sequence[str], restore: Callable[[Snapshot], Awaitable[bool]]
    ) -> int:
        count = 0
        for first in range(0, len(runs), AT_ONCE):
            some = await self._log.read_logs(runs[first : first + AT_ONCE])
            count += sum(await asyncio.gather(*(restore(logged) for logged in some)))
        return count

    async def restore(self, run: str) -> bool:
        """Rebuild a run, if it lacks what the log has; whether it did."""
        for logged in await self._log.read_logs([run]):
            return await self._restore(logged)
        new = await self._log.read_submitted(run)
        if new is not None:
            await self._hot.create_runs([new])
        return new is not None

    async def _restore(self, logged: Snapshot) -> bool:
        run, tenant = logged.run.run, logged.run.tenant
        stored = await self._hot.read_snapshot(tenant, run)
        if stored is None and logged.run.status in TERMINAL:
            return False
        if stored is not None and stored.run.seq != len(stored.events):
            self.broken[run] = StoreError(
                f"run {run} is damaged: it has {len(stored.events)} events and says that it has "
                f"{stored.run.seq}; fix it with `minuet doctor --repair`"
            )
            return False
        if stored is not None and stored.events[: len(logged.events)] == logged.events:
            return False
        return await self._put_back(logged, stored.run.seq if stored else None)

    async def _put_back(self, logged: Snapshot, expected_seq: int | None = None) -> bool:
        """Rebuild a run and replace what the hot half has of it, up to the expected event."""
        run = logged.run
        try:
            rows = await self._rebuild(logged)
        except StoreUnavailableError:
            raise
        except MinuetError as error:
            _log.error("run %s cannot be rebuilt from its log: %s", run.run, error)
            self.broken[run.run] = error
            return False
        # A child run may be in the log whose start no event of its parent says.
        rows.run.children = max(1, rows.run.children)
        is_put = await self._hot.put_run(run.tenant, rows, expected_seq)
        if is_put:
            await self._bring_relatives(rows)
        return is_put

    async def _bring_relatives(self, rows: Snapshot) -> None:
        """Bring back the ended parent of a run that was put back, and the ended children that it
        waits for. The log never knows them as reported, so they are reported again."""
        run = rows.run
        names = awaited_children(rows)
        names += [run.parent] if run.parent is not None else []
        there = {standing.run for standing in await self._hot.read_standings(names)}
        for relative in await self._log.read_logs([name for name in names if name not in there]):
            if relative.run.tenant == run.tenant and relative.run.status in TERMINAL:
                await self._put_back(relative)

    async def _remove_deleted(self) -> None:
        deleted = {run: tenant for tenant, run in await self._log.list_deleted(ENDED_MS, DELETED)}
        for stands in await self._hot.read_standings(list(deleted)):
            await self.remove(deleted[stands.run], stands.run)

    async def remove(self, tenant: str, run: str) -> None:
        """Remove a deleted run that the hot half has again, or still has."""
        try:
            await self._hot.change_run(tenant, run, Cancel("deleted", undo=False))
        except (RunConflictError, RunNotFoundError):
            pass
        found = await self._hot.read_run(tenant, run)
        if found is not None and found.unreported:
            # Its relatives have learned of its end: before that, it could not be deleted.
            await self._hot.mark_reported(tenant, run, found.seq)
        await self._hot.delete_runs(tenant, [run])

    async def bring_back(self, tenant: str, run: str) -> bool:
        """Bring back a run that ended and left the hot half; whether there is one."""
        try:
            async with asyncio.timeout(SOUND_S):
                # Before, a run that was deleted may have its idempotency key.
                while not await self.is_sound():
                    await self.wait_until_sound()
        except TimeoutError:
            raise StoreUnavailableError(
                "the hot store is not compared with its record yet"
            ) from None
        for logged in await self._log.read_logs([run]):
            if logged.run.tenant == tenant:
                rows = await self._rebuild(logged)
                return await self._hot.put_run(tenant, rows, None)
        return False
