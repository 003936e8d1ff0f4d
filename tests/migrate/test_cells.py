"""What is not part of a run moves as well: webhooks that are still to be sent, keys, logs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.services import open_service
from tests.store.conftest import FACTORIES, ONE_OF_EACH
from tests.waiting import until_waiting
from tests.webhooks.sent import Inbox, make_notifier, send
from tests.webhooks.test_sending import ASK

from minuet.app.app import App
from minuet.app.move.mover import Mover
from minuet.clock import ManualClock
from minuet.store.base import Store
from minuet.store.memory import MemoryStore
from minuet.store.records import CellChange
from minuet.webhooks.addresses import Addresses
from minuet.webhooks.notifier import LEASE_MS
from minuet.webhooks.outbox import pass_on
from minuet.webhooks.receivers import read_receivers

from .work import Kept


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=ONE_OF_EACH)
async def target(
    request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock
) -> AsyncIterator[Store]:
    store = FACTORIES[request.param](tmp_path, clock)
    await store.open()
    yield store
    await store.close()


async def move(source: Store, target: Store, clock: ManualClock, **options: Any) -> int:
    mover = Mover(source, target, clock, come_from="here", to="there", **options)
    async for outcome in mover.move():
        assert not outcome.is_problem
    return mover.webhooks


async def names(store: Store, prefix: str = "") -> list[str]:
    return [cell.name for cell in await store.list_cells(prefix)]


async def test_webhooks_that_are_to_be_sent_are_sent_by_the_other_store(
    target: Store, clock: ManualClock
) -> None:
    source = MemoryStore(clock)
    async with open_service() as service:
        inbox = Inbox(service, clock)
        async with App(Kept(source), clock=clock) as app:
            run = await app.start(ASK, {"n": 1})
            await until_waiting(source, "approval")
            # The question is in the outbox, and the end of the run not even there.
            await pass_on(source, read_receivers([inbox.url]), Addresses(), 0)
            await app.cancel(run)
        (waiting,) = await names(source, "webhooks/out/")

        assert await move(source, target, clock, dry_run=True) == 1
        assert (await names(source, "webhooks/out/"), await names(target, "webhooks/out/")) == (
            [waiting],
            [],
        )
        assert await move(source, target, clock) == 1
        assert (await names(source, "webhooks/out/"), await names(target, "webhooks/out/")) == (
            [],
            [waiting],
        )
        # A move that is begun again finds nothing left to do.
        assert await move(source, target, clock) == 0
        notifier = make_notifier(target, clock, inbox.url)
        await send(notifier)
        clock.advance(LEASE_MS)
        await send(notifier)

        assert inbox.kinds == ["approval.created", "run.cancelled"]
        assert set(inbox.counts.values()) == {1}


async def test_other_cells_are_copied_and_those_that_are_there_stay(
    target: Store, clock: ManualClock
) -> None:
    source = MemoryStore(clock)
    here = {f"audit/{number:03d}": b"here" for number in range(450)}
    here |= {"keys/k1": b"here"}
    stay = ("webhooks/lease", "webhooks/receiver/r", "redrives/a/r", "redrive-ids/a/r/0")
    here |= dict.fromkeys(stay, b"here")
    await source.write_cells([CellChange(name, data) for name, data in here.items()])
    await target.write_cells([CellChange("keys/k1", b"there"), CellChange("audit/449", b"there")])

    assert await move(source, target, clock, only="finished") == 0
    assert await names(target) == ["audit/449", "keys/k1"]
    assert await move(source, target, clock) == 0

    found = {cell.name: cell.data for cell in await target.list_cells("")}
    copied = {name: data for name, data in here.items() if name not in stay}
    assert found == {**copied, "keys/k1": b"there", "audit/449": b"there"}
    # They are copied: a process that still uses this store finds them.
    assert len(await names(source)) == len(here)
