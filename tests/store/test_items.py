"""exchange, the items of a foreach: counted at one join, which issues the next ones."""

from __future__ import annotations

from typing import Any

from minuet.events import COUNTED
from minuet.scopes import encode
from minuet.store.changes import RetryRun
from minuet.store.exchange import Failed
from minuet.store.records import Read

FAILED: dict[str, Any] = {"outcome": "failed", "output": b'{"error":1}', "error": {"code": "x"}}


def gather(
    world: Any, count: int, *, need: int | None = None, window: int = 0, **fields: Any
) -> Any:
    """A delivery to the join that gathers this many items."""
    wanted = count + 1 if need is None else need
    every = (Read("item", "", 0, True),)
    return world.to("all", need=wanted, total=count + 1, window=window, reads=every, **fields)


async def begin(world: Any, count: int, window: int, *, need: int | None = None) -> str:
    """A run whose list has started its first items."""
    run = await world.start("list")
    first = [world.to("item", encode((n,)), queue="items") for n in range(window)]
    await world.finish(await world.take_one(), gather(world, count, need=need), *first)
    return str(run)


async def take(world: Any) -> dict[int, Any]:
    """The items that are ready, by their numbers."""
    granted = await world.take(queues=("items",))
    return {int(grant.scope[1:]): grant for grant in granted}


async def test_every_item_that_settles_issues_the_next_one_until_none_is_left(world: Any) -> None:
    run = await begin(world, 5, 2)
    held = await take(world)
    assert sorted(held) == [0, 1]

    for settled, issued in ((1, [2]), (2, [3]), (0, [4]), (3, [])):
        await world.finish(held.pop(settled), gather(world, 5, window=2), output=b"%d" % settled)
        new = await take(world)
        assert sorted(new) == issued
        held |= new
    assert (await world.run(run)).counter == 1
    await world.finish(held.pop(4), gather(world, 5, window=2), output=b"4")

    found = await world.take_one()
    assert found.node == "all"
    assert [(o.scope, o.data) for o in found.reads] == [(encode((n,)), b"%d" % n) for n in range(5)]
    assert [o.node for o in found.inputs] == ["list"]


async def test_an_issued_item_is_like_the_one_that_settled(world: Any) -> None:
    run = await begin(world, 3, 1)
    (first,) = (await take(world)).values()
    await world.finish(first, gather(world, 3, window=1))

    (second,) = (await take(world)).values()

    assert (second.node, second.hop, second.skip) == ("item", first.hop, False)
    assert second.inputs == first.inputs
    sent = (await world.last_event(run, "node.completed")).to
    assert [tuple(one) for one in sent] == [
        ("all", "", COUNTED + 1, 4, 4),
        ("item", "a1", COUNTED + 1, 1, 1),
    ]


async def test_items_in_one_call_are_counted_one_by_one(world: Any) -> None:
    await begin(world, 4, 2)
    held = await take(world)

    results = await world.hand_in(
        *(world.done(grant, gather(world, 4, window=2)) for grant in held.values())
    )

    assert results == ("applied", "applied")
    assert sorted(await take(world)) == [2, 3]


async def test_an_item_that_is_handed_in_twice_counts_once(world: Any) -> None:
    await begin(world, 3, 1)
    (first,) = (await take(world)).values()
    await world.finish(first, gather(world, 3, window=1))

    assert await world.hand_in(world.done(first, gather(world, 3, window=1))) == ("duplicate",)
    assert sorted(await take(world)) == [1]


async def test_a_quorum_fires_once_withdraws_the_rest_and_issues_nothing(world: Any) -> None:
    run = await begin(world, 6, 3, need=3)
    held = await take(world)
    quorum: dict[str, Any] = {"need": 3, "window": 3, "withdraws": ("item",)}
    await world.finish(held[0], gather(world, 6, **quorum), output=b"0")
    held |= await take(world)
    await world.finish(held[2], gather(world, 6, **quorum), output=b"2")

    assert await take(world) == {}
    assert await world.hand_in(world.done(held[1], gather(world, 6, **quorum))) == ("closed",)
    found = await world.take_one()
    assert [o.data for o in found.reads] == [b"0", b"2"]
    assert (await world.run(run)).counter == 1


async def test_an_item_that_failed_counts_as_skipped_and_is_said_to_have_failed(
    world: Any,
) -> None:
    await begin(world, 2, 2)
    held = await take(world)
    skipped = gather(world, 2, window=2, live=False)
    await world.finish(held[0], skipped, **FAILED)
    await world.finish(held[1], gather(world, 2, window=2), output=b"1")

    found = await world.take_one()

    assert not found.skip
    assert [(o.data, o.failed) for o in found.reads] == [(b'{"error":1}', True), (b"1", False)]


async def test_an_item_may_fire_the_join_at_once(world: Any) -> None:
    await begin(world, 9, 2)
    held = await take(world)
    at_once = gather(world, 9, need=1, window=2, live=False, withdraws=("item",))

    await world.finish(held[0], at_once, **FAILED)

    found = await world.take_one()
    assert [(o.scope, o.failed) for o in found.reads] == [("a0", True)]
    assert await take(world) == {}


async def test_items_go_on_after_a_retry_of_the_run(world: Any) -> None:
    run = await begin(world, 3, 1)
    (first,) = (await take(world)).values()
    await world.finish(first, gather(world, 3, window=1))
    (second,) = (await take(world)).values()
    failed = Failed(second.run, second.node, second.scope, second.lease, error={"code": "x"})
    assert await world.hand_in(failed) == ("applied",)
    await world.change(run, RetryRun())

    (again,) = (await take(world)).values()
    assert again.scope == second.scope
    await world.finish(again, gather(world, 3, window=1))

    assert sorted(await take(world)) == [2]
