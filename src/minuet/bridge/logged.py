"""Open a store in two halves that can rebuild its runs.

A logged store brings lost runs back from their events. This needs their plans, which the store
layer does not know. So it gets a function that makes the rows (`store.logged.base.Rebuild`), and
this is the one place that makes it.
"""

from __future__ import annotations

from minuet.bridge.programs import Programs
from minuet.bridge.rebuild import rebuild
from minuet.bridge.snapshot import plan_of
from minuet.clock import Clock
from minuet.store.logged import LoggedStore
from minuet.store.logged.base import HotStore, Log
from minuet.store.records import Snapshot


def logged_store(hot: HotStore, log: Log, clock: Clock) -> LoggedStore:
    """A store of these halves, not open yet. Runs are rebuilt by the plans that it holds."""

    async def make_rows(logged: Snapshot) -> Snapshot:
        run = logged.run
        loaded = await programs.load(plan_of(logged) or "", run=run.run, tenant=run.tenant)
        return rebuild(logged, loaded.program, clock.now_ms())

    store = LoggedStore(hot, log, make_rows)
    programs = Programs(store)
    return store
