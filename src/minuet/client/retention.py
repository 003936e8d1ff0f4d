"""Deletes runs by a server."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterable, Sequence

from minuet.app.options import Seconds, duration_ms
from minuet.app.retention import GRACE_S, Deleted, Retention
from minuet.client.base import Remote, only_local, remote
from minuet.client.runs import RemoteRuns
from minuet.client.transport import Transport
from minuet.errors import RunConflictError
from minuet.types import ENDED, RunStatus

#: Runs that are looked through at once.
PAGE = 500


@remote
class RemoteRetention(Remote, Retention):
    """Deletes runs that are over, by a server."""

    def __init__(self, transport: Transport, runs: RemoteRuns) -> None:
        self._transport = transport
        self._runs = runs

    async def delete(self, run_ids: Sequence[str], *, dry_run: bool = False) -> Deleted:
        """Delete runs that are over."""
        return await self._runs.delete(run_ids, dry_run=dry_run)

    async def delete_older(
        self,
        older_than: Seconds,
        *,
        statuses: Iterable[RunStatus] = (),
        tenants: Sequence[str] | None = None,
        dry_run: bool = False,
    ) -> AsyncIterator[Deleted]:
        """Delete runs that ended longer ago than that, by the clock of this machine; yields the
        counts after each page. Only those of the client's own tenant."""
        if tenants is not None:
            only_local("deleting runs of other tenants", "use `minuet gc --store URL`")
        latest_ms = int(time.time() * 1000) - duration_ms(older_than)
        wanted = tuple(statuses) or ENDED
        deleted = Deleted()
        before = None
        while page := await self._runs.list(statuses=wanted, before=before, limit=PAGE):
            for run in page:
                if (run.ended_ms or 0) <= latest_ms:
                    try:
                        deleted.runs += (await self._runs.delete([run.run], dry_run=dry_run)).runs
                    except RunConflictError:
                        deleted.named += 1
            yield deleted
            before = page[-1].run

    async def collect(
        self,
        *,
        grace: Seconds = GRACE_S,
        audit_older_than: Seconds | None = None,
        dry_run: bool = False,
    ) -> AsyncIterator[Deleted]:
        """Not possible: it needs the store."""
        only_local("removing plans and sessions", "use `minuet gc --store URL` beside the store")
        yield Deleted()
