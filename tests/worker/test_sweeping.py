"""Sweeps beside exchanges: what an exchange has put to sleep meanwhile is not forgotten."""

from __future__ import annotations

import asyncio

from minuet.clock import ManualClock
from minuet.store.exchange import Swept, Waiting
from minuet.store.memory import MemoryStore
from minuet.telemetry.observer import Observer
from minuet.worker.counts import Outage
from minuet.worker.sweeping import SWEEP_MS, Sweeping


class SlowStore(MemoryStore):
    """A store whose sweep is answered late."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.answers = asyncio.Event(), asyncio.Event()

    async def sweep(self, limit: int = 1000) -> Swept:
        swept = await super().sweep(limit)
        self.asked.set()
        await self.answers.wait()
        return swept


async def test_what_begins_to_wait_during_a_sweep_is_swept_in_time() -> None:
    store = SlowStore()
    sweeping = Sweeping(store, ManualClock(), Outage(), Observer())
    sweep = asyncio.create_task(sweeping.sweep())
    await store.asked.wait()

    sweeping.expect(Waiting("run", "node", "", "lease", delay_ms=SWEEP_MS // 2))
    store.answers.set()

    assert not await sweep
    assert sweeping.due_at <= asyncio.get_running_loop().time() + SWEEP_MS / 2000


async def test_after_an_outage_no_sweep_begins_before_others_could_renew() -> None:
    sweeping = Sweeping(MemoryStore(), ManualClock(), Outage(), Observer())
    now = asyncio.get_running_loop().time()

    sweeping.let_others_renew(now, 5_000, 30_000)
    sweeping.expect(Waiting("run", "node", "", "lease", delay_ms=1))

    assert sweeping.due_at == now + 5 + SWEEP_MS / 1000
