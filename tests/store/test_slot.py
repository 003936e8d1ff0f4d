"""exchange, handing in `Slot`: at most so many at a time under a key, first come first served."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from minuet.store.changes import Cancel, Pause, Resume
from minuet.store.exchange import Failed, Grant, Released, Retried, Slot, Waiting


def slot(grant: Any, key: str = "k", limit: int = 1) -> Slot:
    return Slot(grant.run, grant.node, grant.scope, grant.lease, key=key, limit=limit)


def name(grant: Any) -> tuple[str, str, str, str]:
    return (grant.run, grant.node, grant.scope, grant.lease)


async def grants(world: Any, count: int) -> list[Any]:
    """Tokens of so many runs, all taken."""
    for _ in range(count):
        await world.start("a")
    return list(await world.take())


async def test_a_free_slot_is_held_at_once(world: Any) -> None:
    first, second = await grants(world, 2)

    assert await world.hand_in(slot(first, limit=2), slot(second, limit=2)) == ("held", "held")

    assert (await world.token(first.run, "a")).slot == "k"


async def test_asking_again_for_a_slot_that_is_held_changes_nothing(world: Any) -> None:
    (only,) = await grants(world, 1)
    await world.hand_in(slot(only))

    assert await world.hand_in(slot(only)) == ("held",)

    await world.finish(only)
    assert (await world.run(only.run)).status == "COMPLETED"


async def test_without_a_free_slot_a_token_waits_and_comes_back_holding_it(world: Any) -> None:
    first, second = await grants(world, 2)
    assert await world.hand_in(slot(first), slot(second)) == ("held", "applied")
    assert await world.take() == []

    await world.finish(first)

    back = await world.take_one()
    assert (back.run, back.slot, back.attempt, back.delivery) == (second.run, "k", 1, 2)
    await world.finish(back)


async def test_slots_are_given_in_the_order_of_asking(world: Any) -> None:
    first, *others = await grants(world, 4)
    await world.hand_in(slot(first))
    for grant in (others[2], others[0], others[1]):
        world.clock.advance(1)
        await world.hand_in(slot(grant))

    order, current = [], first
    for _ in range(3):
        await world.finish(current)
        current = await world.take_one()
        order.append(current.run)

    assert order == [others[2].run, others[0].run, others[1].run]


async def test_who_asks_in_the_call_that_frees_a_slot_comes_after_those_who_wait(
    world: Any,
) -> None:
    first, second, third = await grants(world, 3)
    await world.hand_in(slot(first), slot(second))

    results = await world.hand_in(world.done(first), slot(third))

    assert results == ("applied", "applied")
    assert (await world.take_one()).run == second.run


async def test_a_slot_freed_in_the_same_call_reaches_who_began_to_wait_in_it(world: Any) -> None:
    first, second = await grants(world, 2)
    await world.hand_in(slot(first))

    await world.hand_in(slot(second), world.done(first))

    assert (await world.take_one()).run == second.run


async def test_every_way_of_letting_go_frees_the_slot(world: Any) -> None:
    ways: list[Callable[[Grant], Awaitable[object]]] = [
        lambda g: world.hand_in(Retried(*name(g), delay_ms=10**9)),
        lambda g: world.hand_in(Failed(*name(g))),
        lambda g: world.hand_in(Waiting(*name(g), kind="signal")),
        lambda g: world.change(g.run, Cancel()),
    ]
    current, *others = await grants(world, len(ways) + 1)
    await world.hand_in(slot(current))
    for grant in others:
        world.clock.advance(1)
        await world.hand_in(slot(grant))

    for way, expected in zip(ways, others, strict=True):
        await way(current)
        current = await world.take_one()
        assert (current.run, current.slot) == (expected.run, "k")


async def test_a_released_token_asks_again(world: Any) -> None:
    (only,) = await grants(world, 1)
    await world.hand_in(slot(only))
    await world.hand_in(Released(*name(only)))

    again = await world.take_one()

    assert again.slot == ""
    assert await world.hand_in(slot(again)) == ("held",)


async def test_keys_do_not_know_each_other(world: Any) -> None:
    first, second = await grants(world, 2)

    assert await world.hand_in(slot(first, "x"), slot(second, "y")) == ("held", "held")


async def test_a_token_that_takes_another_slot_gives_the_first_one_back(world: Any) -> None:
    first, second = await grants(world, 2)
    await world.hand_in(slot(first, "x"), slot(second, "x"))

    assert await world.hand_in(slot(first, "y")) == ("held",)

    assert (await world.take_one()).run == second.run


async def test_a_paused_run_leaves_the_line_to_others(world: Any) -> None:
    first, second, third = await grants(world, 3)
    await world.hand_in(slot(first), slot(second), slot(third))
    await world.change(second.run, Pause())

    await world.finish(first)

    back = await world.take_one()
    assert (back.run, back.slot) == (third.run, "k")
    await world.change(second.run, Resume())
    again = await world.take_one()
    assert (again.run, again.slot) == (second.run, "")
    assert await world.hand_in(slot(again)) == ("applied",)
    await world.finish(back)
    assert (await world.take_one()).slot == "k"


async def test_a_pause_takes_a_slot_from_a_token_that_has_not_begun(world: Any) -> None:
    first, second, third = await grants(world, 3)
    await world.hand_in(slot(first), slot(second), slot(third))
    await world.finish(first)

    await world.change(second.run, Pause())

    assert (await world.take_one()).run == third.run


async def test_a_handler_that_runs_keeps_its_slot_in_a_pause(world: Any) -> None:
    first, second = await grants(world, 2)
    await world.hand_in(slot(first), slot(second))

    await world.change(first.run, Pause())

    assert await world.take() == []
    await world.finish(first)
    assert (await world.take_one()).run == second.run


async def test_a_paused_run_is_given_no_slot(world: Any) -> None:
    (first,) = await grants(world, 1)
    await world.change(first.run, Pause())

    assert await world.hand_in(slot(first)) == ("applied",)

    (second,) = await grants(world, 1)
    assert await world.hand_in(slot(second)) == ("held",)
    await world.change(first.run, Resume())
    assert (await world.take_one()).run == first.run


@pytest.mark.parametrize("before", ["", "k"])
async def test_an_empty_key_is_no_limit(world: Any, before: str) -> None:
    first, second = await grants(world, 2)
    await world.hand_in(slot(first, before))

    assert await world.hand_in(slot(first, ""), slot(second, "")) == ("held", "held")

    assert (await world.token(first.run, "a")).slot == before
    assert (await world.token(second.run, "a")).slot == ""


async def test_a_cancelled_waiter_takes_no_slot(world: Any) -> None:
    first, second, third = await grants(world, 3)
    await world.hand_in(slot(first), slot(second), slot(third))
    await world.change(second.run, Cancel())

    await world.finish(first)

    assert (await world.take_one()).run == third.run
