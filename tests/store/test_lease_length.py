"""How long a lease is: what the call says for the token's queue, or for all others."""

from __future__ import annotations

from typing import Any

import pytest

from minuet.store.exchange import Released, Take
from minuet.store.records import LEASE_MS_MAX

from .conftest import LEASE_MS

LONG_MS = 4 * LEASE_MS
BY_QUEUE = {"slow": LONG_MS, "elsewhere": 5}


async def start_two(world: Any) -> str:
    """A run with a token in the queue `slow`, and one in `q`."""
    run: str = await world.start(world.to("slow", queue="slow"), world.to("quick"))
    return run


async def dues(world: Any, run: str) -> tuple[int, int]:
    """How long the leases of the two tokens last from now."""
    slow, quick = await world.token(run, "slow"), await world.token(run, "quick")
    now_ms = world.clock.now_ms()
    return slow.due_ms - now_ms, quick.due_ms - now_ms


async def test_a_taken_token_has_the_lease_of_its_queue(world: Any) -> None:
    run = await start_two(world)

    await world.take(queues=("slow", "q"), lease_ms_by_queue=BY_QUEUE)

    assert await dues(world, run) == (LONG_MS, LEASE_MS)


async def test_a_token_made_and_taken_by_one_call_has_the_lease_of_its_queue(world: Any) -> None:
    run = await world.start("a")
    done = world.done(await world.take_one(), world.to("slow", queue="slow"), "quick")

    take = (Take(("slow", "q"), 10),)
    reply = await world.exchange(world.request(done, take=take, lease_ms_by_queue=BY_QUEUE))

    assert len(reply.granted) == 2
    assert await dues(world, run) == (LONG_MS, LEASE_MS)


async def test_a_renewed_lease_has_the_length_of_its_queue(world: Any, held: Any) -> None:
    run = await start_two(world)
    grants = await world.take(queues=("slow", "q"))
    world.clock.advance(1000)

    renew = tuple(map(held, grants))
    reply = await world.exchange(world.request(renew=renew, lease_ms_by_queue=BY_QUEUE))

    assert reply.revoked == ()
    assert await dues(world, run) == (LONG_MS, LEASE_MS)


async def test_a_lease_that_is_taken_up_again_has_the_length_of_its_queue(
    world: Any, held: Any
) -> None:
    run = await start_two(world)
    grants = await world.take(queues=("slow", "q"))
    world.clock.advance(LEASE_MS)
    await world.sweep()

    renew = tuple(map(held, grants))
    reply = await world.exchange(world.request(renew=renew, lease_ms_by_queue=BY_QUEUE))

    assert reply.revoked == ()
    assert await dues(world, run) == (LONG_MS, LEASE_MS)


async def test_only_tokens_of_that_queue_are_left_to_a_silent_worker_for_longer(world: Any) -> None:
    run = await start_two(world)
    await world.take(queues=("slow", "q"), lease_ms_by_queue=BY_QUEUE)

    world.clock.advance(LEASE_MS)
    first = await world.sweep()
    states = [(await world.token(run, node)).state for node in ("slow", "quick")]
    world.clock.advance(LONG_MS - LEASE_MS)
    second = await world.sweep()

    assert (first.expired, states, second.expired) == (1, ["leased", "ready"], 1)


async def test_a_repeated_call_says_the_same(world: Any) -> None:
    run = await start_two(world)
    request = world.request(take=(Take(("slow", "q"), 10),), lease_ms_by_queue=BY_QUEUE)

    first = await world.exchange(request)
    again = await world.exchange(request)

    assert sorted(g.node for g in again.granted) == sorted(g.node for g in first.granted)
    assert await dues(world, run) == (LONG_MS, LEASE_MS)


@pytest.mark.parametrize(("wanted", "length"), [(-5, 0), (LEASE_MS_MAX * 3, LEASE_MS_MAX)])
async def test_no_lease_is_longer_than_the_longest(world: Any, wanted: int, length: int) -> None:
    run = await start_two(world)

    await world.take(queues=("slow", "q"), lease_ms_by_queue={"slow": wanted})

    assert await dues(world, run) == (length, LEASE_MS)


async def test_a_token_that_was_given_back_has_the_lease_of_its_next_call(world: Any) -> None:
    run = await start_two(world)
    grants = await world.take(queues=("slow", "q"), lease_ms_by_queue=BY_QUEUE)
    await world.hand_in(*(Released(g.run, g.node, g.scope, g.lease) for g in grants))

    await world.take(queues=("slow", "q"))

    assert await dues(world, run) == (LEASE_MS, LEASE_MS)
