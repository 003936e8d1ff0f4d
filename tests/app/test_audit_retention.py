"""Entries of the audit log are kept for a time of their own."""

from __future__ import annotations

from minuet.app.app import App
from minuet.app.audit import STEP, AuditWriter
from minuet.clock import ManualClock

DAY_MS = 86_400_000


async def collect(app: App, days: int | None, *, dry_run: bool = False) -> int:
    older = None if days is None else days * DAY_MS / 1000
    collecting = app.retention.collect(audit_older_than=older, dry_run=dry_run)
    return [found.audit async for found in collecting][-1]


async def paths(app: App, tenant: str) -> list[str]:
    return [one.path for one in await app.for_tenant(tenant).audit.list()]


async def test_old_entries_of_all_tenants_are_removed_and_young_ones_stay(store_url: str) -> None:
    clock = ManualClock(400 * DAY_MS)
    async with App(store_url, worker=False, clock=clock) as app:
        for path in ("/old", "/edge", "/young"):
            for tenant in ("acme", "emca/ü"):
                writer = AuditWriter(app.for_tenant(tenant))
                await writer.begin(by="ann", shown="", address="", action="POST /x", path=path)
            clock.advance(DAY_MS)
        clock.advance(28 * DAY_MS)

        assert await collect(app, None) == 0
        assert await collect(app, 30, dry_run=True) == 2
        assert await paths(app, "acme") == ["/young", "/edge", "/old"]
        assert await collect(app, 30) == 2
        assert await collect(app, 30) == 0
        assert await paths(app, "acme") == await paths(app, "emca/ü") == ["/young", "/edge"]
        clock.advance(1)
        assert await collect(app, 30) == 2


async def test_many_entries_are_removed_in_steps() -> None:
    clock = ManualClock(400 * DAY_MS)
    async with App("memory://", worker=False, clock=clock) as app:
        writer = AuditWriter(app)
        for _ in range(STEP + 1):
            await writer.begin(by="", shown="", address="", action="POST /x", path="/old")
        clock.advance(DAY_MS)

        assert await collect(app, 1) == 0
        clock.advance(1)
        assert await collect(app, 1) == STEP + 1
        assert await app.audit.list() == []
