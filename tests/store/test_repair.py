"""Replacing the rows of a run: for `minuet doctor`, when they do not agree with its events."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest

from minuet.store.records import LIVE_STATES, Held, Slot, Snapshot, Take


async def damaged(world: Any, run: str, **fields: Any) -> Snapshot:
    """The rows of a run, with something changed in each token and in the run."""
    snapshot = copy.deepcopy(await world.snapshot(run))
    for name, value in fields.items():
        setattr(snapshot.run, name, value)
    return snapshot


@pytest.fixture
async def joined(world: Any) -> str:
    """A run with a live token, a settled one, a join with an arrival and a recorded step."""
    run = await world.start("a", "b")
    first, second = sorted(await world.take(), key=lambda grant: grant.node)
    await world.finish(first, world.to("c", need=2, total=2))
    held = (second.run, second.node, second.scope, second.lease)
    await world.store.record_step("a", Held(*held), "one", b"1")
    return run


async def test_rows_that_are_put_back_are_the_rows_that_were_there(world: Any, joined: str) -> None:
    before = await world.snapshot(joined)

    assert await world.store.repair_run("a", before, before.run.seq)

    assert await world.snapshot(joined) == before


async def test_rows_that_are_missing_are_removed_and_the_history_stays(
    world: Any, joined: str
) -> None:
    before = await world.snapshot(joined)
    live = tuple(t for t in before.tokens if t.state in LIVE_STATES)
    rows = msgspec.structs.replace(
        before, tokens=live, joins=(), arrivals=(), steps=(), events=(), dead_letters=()
    )

    assert await world.store.repair_run("a", rows, before.run.seq)

    after = await world.snapshot(joined)
    assert after == msgspec.structs.replace(rows, events=before.events)


async def test_the_number_of_events_itself_can_be_put_right(world: Any, joined: str) -> None:
    before = await world.snapshot(joined)
    wrong = await damaged(world, joined, seq=before.run.seq - 1)
    assert await world.store.repair_run("a", wrong, before.run.seq)

    assert not await world.store.repair_run("a", before, before.run.seq)
    assert await world.store.repair_run("a", before, before.run.seq - 1)

    assert await world.snapshot(joined) == before


async def test_a_run_that_has_moved_on_is_left_alone(world: Any, joined: str) -> None:
    rows = await world.snapshot(joined)
    (grant,) = [t for t in rows.tokens if t.state == "leased"]
    await world.finish(grant, world.to("c", need=2, total=2))
    after = await world.snapshot(joined)

    assert not await world.store.repair_run("a", rows, rows.run.seq)

    assert await world.snapshot(joined) == after


async def test_the_rows_of_another_tenant_cannot_be_replaced(world: Any, joined: str) -> None:
    rows = await world.snapshot(joined)

    assert not await world.store.repair_run("b", rows, rows.run.seq)
    rows.run.run = "unknown"
    assert not await world.store.repair_run("a", rows, rows.run.seq)


async def test_a_run_goes_on_with_the_rows_it_was_given(world: Any, joined: str) -> None:
    rows = await world.snapshot(joined)
    for token in rows.tokens:
        if token.state == "leased":
            token.state, token.lease, token.due_ms = "ready", "", 0
    assert await world.store.repair_run("a", rows, rows.run.seq)

    await world.finish(await world.take_one(), world.to("c", need=2, total=2))
    await world.finish(await world.take_one())

    assert (await world.run(joined)).status == "COMPLETED"


async def test_a_slot_that_a_repair_takes_away_goes_to_who_waits_for_it(world: Any) -> None:
    holder, waiter = await world.start("a"), await world.start("a")
    grants = {grant.run: grant for grant in await world.take()}

    def slot(run: str) -> Slot:
        grant = grants[run]
        return Slot(grant.run, grant.node, grant.scope, grant.lease, key="k", limit=1)

    assert await world.hand_in(slot(holder)) == ("held",)
    assert await world.hand_in(slot(waiter)) == ("applied",)
    rows = await world.snapshot(holder)
    rows.tokens[0].slot, rows.tokens[0].slot_limit = "", 0

    assert await world.store.repair_run("a", rows, rows.run.seq)

    reply = await world.exchange(world.request(take=(Take(("q",), 10),)))
    assert [grant.run for grant in reply.granted] == [waiter]
