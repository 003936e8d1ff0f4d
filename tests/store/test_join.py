"""exchange, deliveries to a node that expects several: it fires once, when it should."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from minuet.store.exchange import Released


def join(world: Any, *, need: int, total: int, live: bool = True, **fields: Any) -> Any:
    return world.to("join", need=need, total=total, live=live, **fields)


async def sources(world: Any, count: int) -> list[Any]:
    await world.start(*(f"s{i}" for i in range(count)))
    return list(await world.take())


@pytest.mark.shows("D-06", "D-09", "D-13", "D-44")
async def test_a_join_fires_when_the_last_arrival_is_there(world: Any) -> None:
    first, second, third = await sources(world, 3)

    await world.finish(first, join(world, need=3, total=3))
    await world.finish(second, join(world, need=3, total=3))
    assert await world.take() == []
    await world.finish(third, join(world, need=3, total=3))

    assert (await world.take_one()).node == "join"


@pytest.mark.shows("D-10", "D-11", "D-45")
async def test_a_join_gets_every_output_by_source(world: Any) -> None:
    for grant in reversed(await sources(world, 3)):
        await world.finish(grant, join(world, need=3, total=3), output=f'"{grant.node}"'.encode())

    inputs = (await world.take_one()).inputs

    assert [(i.node, i.data) for i in inputs] == [("s0", b'"s0"'), ("s1", b'"s1"'), ("s2", b'"s2"')]


async def test_a_join_that_has_fired_is_never_handed_what_came_later(world: Any) -> None:
    first, second = await sources(world, 2)
    await world.finish(first, join(world, need=1, total=2), output=b'"first"')
    once = await world.take_one()
    await world.finish(second, join(world, need=1, total=2), output=b'"second"')
    await world.hand_in(Released(once.run, once.node, once.scope, once.lease))

    again = await world.take_one()

    assert [i.data for i in once.inputs] == [b'"first"']
    assert again.inputs == once.inputs


@pytest.mark.shows("D-17")
async def test_arrivals_in_one_call_fire_a_join_once(world: Any) -> None:
    grants = await sources(world, 3)

    results = await world.hand_in(
        *(world.done(grant, join(world, need=3, total=3)) for grant in grants)
    )

    assert results == ("applied",) * 3
    assert [g.node for g in await world.take()] == ["join"]


@pytest.mark.shows("D-46")
async def test_a_second_arrival_from_the_same_source_does_not_count(world: Any) -> None:
    run = await world.start("s", world.to("s", "0001"), "other")
    grants = {(g.node, g.scope): g for g in await world.take()}
    await world.finish(grants["s", ""], join(world, need=2, total=2))

    await world.finish(grants["s", "0001"], join(world, need=2, total=2))
    assert await world.take() == []
    await world.finish(grants["other", ""], join(world, need=2, total=2))

    assert [g.node for g in await world.take()] == ["join"]
    assert (await world.run(run)).counter == 1


@pytest.mark.parametrize(
    ("need", "total", "arrivals", "fires_at", "skip"),
    [
        (2, 2, "LL", 2, False),
        (2, 2, "LS", 2, False),
        (2, 2, "SL", 2, False),
        (2, 2, "SS", 2, True),
        (1, 3, "LLL", 1, False),
        (1, 3, "SLL", 2, False),
        (1, 3, "SSS", 3, True),
        (2, 3, "LSL", 3, False),
        (2, 3, "SSL", 3, False),
        (2, 3, "LLS", 2, False),
    ],
)
async def test_a_join_fires_at_its_need_or_when_all_have_arrived(
    world: Any, need: int, total: int, arrivals: str, fires_at: int, skip: bool
) -> None:
    grants = await sources(world, total)
    fired = []
    for number, (grant, kind) in enumerate(zip(grants, arrivals, strict=True), start=1):
        live = kind == "L"
        await world.finish(grant, join(world, need=need, total=total, live=live))
        fired += [(number, taken.skip) for taken in await world.take()]

    assert fired == [(fires_at, skip)]


async def test_what_arrives_after_a_join_fired_is_absorbed(world: Any) -> None:
    first, second = await sources(world, 2)
    await world.finish(first, join(world, need=1, total=2))
    fired = await world.take_one()
    await world.finish(fired)

    await world.finish(second, join(world, need=1, total=2))

    assert (await world.run(fired.run)).status == "COMPLETED"
    snapshot = await world.snapshot(fired.run)
    assert [(j.live, j.skipped, j.fired) for j in snapshot.joins] == [(2, 0, True)]


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
async def test_the_order_of_arrivals_does_not_matter(world: Any, order: tuple[int, ...]) -> None:
    grants = await sources(world, 3)
    for index in order:
        await world.finish(grants[index], join(world, need=3, total=3))

    (fired,) = await world.take()
    assert [i.node for i in fired.inputs] == ["s0", "s1", "s2"]


async def test_a_join_that_does_not_wait_withdraws_the_branches_still_running(world: Any) -> None:
    first, second, third = await sources(world, 3)
    hasty = join(world, need=1, total=2, withdraws=("s1",))

    await world.finish(first, hasty)

    assert (await world.token(first.run, "s1")).outcome == "superseded"
    assert await world.hand_in(world.done(second, hasty)) == ("closed",)
    event = await world.last_event(first.run, "node.completed")
    assert [tuple(place) for place in event.withdrawn] == [("s1", "")]
    await world.finish(third)
    await world.finish(await world.take_one())
    assert (await world.run(first.run)).status == "COMPLETED"


async def test_a_join_withdraws_nothing_outside_its_scope(world: Any) -> None:
    run = await world.start(world.to("s", "0001"), world.to("t", "0001"), world.to("t", "0002"))
    first, *_ = await world.take()

    await world.finish(
        first, world.to("join", "0001", need=1, total=2, withdraws=("t",), live=True)
    )

    assert (await world.token(run, "t", "0001")).state == "dead"
    assert (await world.token(run, "t", "0002")).state == "leased"


async def test_a_join_stands_as_far_as_its_longest_way(world: Any) -> None:
    await world.start("a", "b")
    first, second = await world.take()
    await world.finish(first, "c")
    await world.finish(second, join(world, need=2, total=2))
    await world.finish(await world.take_one(), join(world, need=2, total=2))

    assert (await world.take_one()).hop == 2
