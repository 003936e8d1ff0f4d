"""sweep: leases run out, timers fire, deadlines pass."""

from __future__ import annotations

from typing import Any

import pytest

from minuet.store.changes import Pause
from minuet.store.exchange import Retried, Swept, Waiting
from minuet.store.records import LEASE_MS_MAX


def name(grant: Any) -> tuple[str, str, str, str]:
    return (grant.run, grant.node, grant.scope, grant.lease)


@pytest.mark.shows("I-24", "I-29")
async def test_an_expired_lease_makes_the_token_ready_for_the_next_worker(world: Any) -> None:
    run = await world.start("a")
    first = await world.take_one()
    world.clock.advance(29_999)
    assert (await world.sweep()).expired == 0
    world.clock.advance(1)

    assert (await world.sweep()).expired == 1

    second = await world.take_one(session="other")
    assert (second.expiry, second.attempt, second.delivery) == (1, 1, 2)
    assert second.lease != first.lease
    await world.finish(second, session="other")
    assert (await world.run(run)).status == "COMPLETED"
    assert "lease.expired" in await world.events(run)


async def test_a_second_sweep_finds_nothing(world: Any) -> None:
    await world.start("a")
    await world.take_one()
    world.clock.advance(30_000)
    await world.sweep()

    assert await world.sweep() == Swept()


async def test_a_lease_from_before_the_clock_was_set_back_counts_as_expired(world: Any) -> None:
    await world.start("a")
    await world.take_one()

    world.clock.advance(-LEASE_MS_MAX)

    assert (await world.sweep()).expired == 1


async def test_a_clock_set_back_a_little_lets_leases_live(world: Any) -> None:
    await world.start("a")
    await world.take_one()
    world.clock.advance(-1000)

    assert (await world.sweep()).expired == 0


async def test_a_sweep_does_at_most_so_much_and_says_when_there_may_be_more(world: Any) -> None:
    await world.start("a", "b", "c")
    await world.take()
    world.clock.advance(30_000)

    assert [((s := await world.sweep(2)).expired, s.more) for _ in range(3)] == [
        (2, True),
        (1, False),
        (0, False),
    ]


@pytest.mark.shows("K-21")
async def test_a_run_past_its_deadline_is_cancelled(world: Any) -> None:
    run = await world.start("a", deadline_ms=1000)
    grant = await world.take_one()
    assert (await world.run(run)).deadline_ms == world.clock.now_ms() + 1000
    world.clock.advance(1000)

    assert (await world.sweep()).cancelled == 1

    row = await world.run(run)
    assert (row.status, row.error["code"]) == ("CANCELLED", "deadline_exceeded")
    assert await world.hand_in(world.done(grant)) == ("closed",)


async def test_a_paused_run_has_its_deadline_too(world: Any) -> None:
    run = await world.start("a", deadline_ms=1000)
    await world.change(run, Pause())
    world.clock.advance(1000)

    assert (await world.sweep()).cancelled == 1


async def test_a_run_that_is_over_has_no_deadline(world: Any) -> None:
    run = await world.start("a", deadline_ms=1000)
    await world.finish(await world.take_one())
    world.clock.advance(1000)

    assert await world.sweep() == Swept()
    assert (await world.run(run)).status == "COMPLETED"


async def test_the_next_thing_due_is_a_lease_a_timer_a_delay_or_a_deadline(world: Any) -> None:
    now = world.clock.now_ms()
    assert (await world.sweep()).next_due_ms is None

    await world.start("a", "b", "c", deadline_ms=99_000)
    assert (await world.sweep()).next_due_ms == now + 99_000
    first, second, third = await world.take()
    assert (await world.sweep()).next_due_ms == now + 30_000
    await world.hand_in(Waiting(*name(first), delay_ms=20_000))
    assert (await world.sweep()).next_due_ms == now + 20_000
    await world.hand_in(Retried(*name(second), delay_ms=10_000))
    assert (await world.sweep()).next_due_ms == now + 10_000
    assert third


async def test_delays_in_other_queues_and_tenants_count_for_the_next_thing_due(
    world: Any,
) -> None:
    now = world.clock.now_ms()
    for tenant, queue, delay in [("a", "x", 300), ("a", "y", 100), ("b", "x", 200)]:
        await world.start(world.to("n", queue=queue), tenant=tenant)
        (grant,) = await world.take(queues=(queue,), tenant=tenant)
        await world.hand_in(Retried(*name(grant), delay_ms=delay), tenant=tenant)

    assert (await world.sweep()).next_due_ms == now + 100
    world.clock.advance(150)
    assert (await world.sweep()).next_due_ms == now + 200


async def test_leases_expire_in_the_order_they_are_due(world: Any) -> None:
    first = await world.start("a")
    await world.take_one()
    world.clock.advance(10)
    second = await world.start("a")
    await world.take_one()
    world.clock.advance(30_000)

    await world.sweep(1)

    assert (await world.token(first, "a")).state == "ready"
    assert (await world.token(second, "a")).state == "leased"
