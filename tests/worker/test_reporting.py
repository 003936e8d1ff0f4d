"""Reports to relatives: a large family does not wait for one call after the other."""

from __future__ import annotations

import asyncio
from typing import Any

from minuet.bridge.reporting import report_all
from minuet.store.changes import Cancel, Change, NewRun
from minuet.store.exchange import Delivery, Exchange, Held, Take
from minuet.store.families import child_id
from minuet.store.memory import MemoryStore
from minuet.store.records import DEFAULT_TENANT, Run

NODES = ("a", "b", "c")


class Together(MemoryStore):
    """A store that answers changes when there are several."""

    waiting: asyncio.Barrier | None = None

    async def change_run(
        self, tenant: str, run: str, change: Change, expected_seq: int | None = None
    ) -> Run:
        changed = await super().change_run(tenant, run, change, expected_seq)
        if self.waiting is not None:
            await self.waiting.wait()
        return changed


def new_run(name: str, *nodes: str, **fields: Any) -> NewRun:
    entries = tuple(Delivery(n, "", live=True, need=1, total=1, queue="q") for n in nodes)
    return NewRun(name, "w", "cas://sha256:0", entries=entries, **fields)


async def test_child_runs_of_a_run_that_is_over_are_cancelled_at_once() -> None:
    store = Together()
    await store.create_runs([new_run("parent", *NODES)])
    taken = await store.exchange(Exchange("s", 1, "lease", take=(Take(("q",), 10),)))
    held = [Held(one.run, one.node, one.scope, one.lease) for one in taken.granted]
    names = [child_id((one.run, one.node, one.scope)) for one in held]
    children = zip(names, held, strict=True)
    await store.create_runs([new_run(name, "x", parent=one) for name, one in children])
    await store.change_run(DEFAULT_TENANT, "parent", Cancel())
    store.waiting = asyncio.Barrier(len(NODES))

    async with asyncio.timeout(30):
        await report_all(store)

    rows = [await store.read_run(DEFAULT_TENANT, name) for name in names]
    assert [row.status for row in rows if row] == ["CANCELLED"] * len(NODES)
