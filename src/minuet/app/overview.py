"""`app.overview`: the state of a tenant's part of a store, in one bounded answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from minuet.app.options import to_ms
from minuet.app.search import Histogram
from minuet.app.workers import QueueView
from minuet.bridge.stalls import STALLING, find_stall
from minuet.store.records import APPROVAL_WAIT
from minuet.types import RunStatus

if TYPE_CHECKING:
    from minuet.app.runs import Runs
    from minuet.app.tenant import Tenant
    from minuet.app.workers import Workers

#: Approvals counted, and open runs that are looked at for stalls.
APPROVALS_MAX = 1_000
STALLS_LOOKED_AT = 500

#: The time of which runs are counted that are over, and its parts.
RECENT = "age<1d"
RECENT_PARTS = 24


class Fleet(msgspec.Struct, frozen=True):
    """The workers of a store together."""

    #: How many are healthy, stale, dead or draining.
    counts: dict[str, int]
    busy: int
    capacity: int
    #: How many have which version of Minuet, dead ones left out.
    versions: dict[str, int]


class Overview(msgspec.Struct, frozen=True):
    """The state of a store."""

    version: str
    tenant: str
    #: What the store is, and what it can lose.
    store: str
    now_ms: int
    #: Open runs, by status.
    open: dict[RunStatus, int]
    #: Those created in the last day.
    recent: Histogram
    dead_letters: int
    #: Approvals that wait; at most `APPROVALS_MAX` are counted.
    approvals: int
    #: Runs that stall among the newest open ones, and how many were looked at.
    stalled: int
    stalled_among: int
    queues: tuple[QueueView, ...]
    workers: Fleet


async def make_overview(tenant: Tenant, runs: Runs, workers: Workers) -> Overview:
    """Ask for everything; nothing here takes longer the more runs are over."""
    store, engine = tenant.store, tenant.engine
    now_ms = engine.clock.now_ms()
    counts = await runs.count()
    waiting = await store.list_waiting(tenant.name, APPROVAL_WAIT, limit=APPROVALS_MAX)
    stall_ms = to_ms(engine.options.stall_seconds)
    looked_at = await store.list_runs(tenant.name, statuses=STALLING, limit=STALLS_LOOKED_AT)
    stalls = [await find_stall(store, run, now_ms, stall_ms) for run in looked_at]
    return Overview(
        engine.options.identity().version,
        tenant.name,
        store.durability,
        now_ms,
        counts.open,
        await runs.histogram(RECENT, buckets=RECENT_PARTS),
        counts.dead_letters,
        len(waiting),
        sum(stall is not None for stall in stalls),
        len(looked_at),
        tuple(await workers.queues()),
        await _fleet(workers),
    )


async def _fleet(workers: Workers) -> Fleet:
    found = await workers.list()
    counts: dict[str, int] = {}
    versions: dict[str, int] = {}
    for one in found:
        counts[one.state] = counts.get(one.state, 0) + 1
        if one.status != "dead":
            versions[one.version] = versions.get(one.version, 0) + 1
    takes = [one for one in found if one.takes]
    busy, capacity = sum(one.running for one in takes), sum(one.concurrency for one in takes)
    return Fleet(counts, busy, capacity, versions)
