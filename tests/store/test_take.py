"""exchange, taking, renewing and repeating."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from minuet.errors import SessionError
from minuet.store.exchange import Take
from minuet.store.records import LEASE_MS_MAX


@pytest.mark.shows("I-19")
async def test_a_token_is_handed_out_once(world: Any) -> None:
    await world.start("a")
    requests = [world.request(session=f"s{i}", take=(Take(("q",), 10),)) for i in range(20)]

    replies = await asyncio.gather(*(world.store.exchange(request) for request in requests))

    assert sum(len(reply.granted) for reply in replies) == 1


@pytest.mark.shows("I-34")
async def test_a_take_gives_at_most_what_was_asked_for_and_the_oldest_first(world: Any) -> None:
    runs = []
    for _ in range(4):
        runs.append(await world.start("a"))
        world.clock.advance(1)

    assert [g.run for g in await world.take(limit=3)] == runs[:3]
    assert [g.run for g in await world.take(limit=3)] == runs[3:]
    assert await world.take(limit=0) == []


async def test_tokens_of_one_moment_come_in_the_order_of_run_node_and_scope(world: Any) -> None:
    first = await world.start("b", world.to("a", "0002"), world.to("a", "0001"))
    second = await world.start("a")

    taken = [(g.run, g.node, g.scope) for g in await world.take()]

    assert taken == [
        (first, "a", "0001"),
        (first, "a", "0002"),
        (first, "b", ""),
        (second, "a", ""),
    ]


async def test_the_oldest_comes_first_across_queues(world: Any) -> None:
    for queue in ("x", "y", "x", "y"):
        await world.start(world.to("a", queue=queue))
        world.clock.advance(1)

    taken = await world.take(limit=3, queues=("y", "x"))

    assert [g.run for g in taken] == sorted(g.run for g in taken)
    assert len(taken) == 3


async def test_only_the_queues_asked_for_are_served(world: Any) -> None:
    await world.start(world.to("a", queue="gpu"), "b")

    assert [g.node for g in await world.take(queues=("q", "other"))] == ["b"]
    assert await world.take(queues=()) == []
    assert [g.node for g in await world.take(queues=("gpu",))] == ["a"]


@pytest.mark.parametrize("queue", ['"', "\\", '\\"', "{a,b}", "NULL", "", " a ", "a\nb", "'", "é"])
async def test_a_queue_may_have_any_name(world: Any, queue: str) -> None:
    """None of them is mistaken for another one, or for several."""
    await world.start(
        world.to("a", queue=queue), world.to("b", queue="a"), world.to("c", queue="b")
    )

    assert [g.node for g in await world.take(queues=(queue, "other"))] == ["a"]


async def test_a_take_can_be_restricted_to_some_runs(world: Any) -> None:
    first, second, third = [await world.start("b", "a", world.to("c", queue="gpu")) for _ in "123"]

    async def take(runs: tuple[str, ...] | None, limit: int = 10) -> list[tuple[str, str]]:
        takes = (Take(("q", "gpu"), limit),)
        reply = await world.exchange(world.request(take=takes, runs=runs))
        return [(g.run, g.node) for g in reply.granted]

    assert await take(()) == []
    assert await take(("nobody",)) == []
    assert await take((third, first), limit=4) == [
        (first, "a"),
        (first, "b"),
        (first, "c"),
        (third, "a"),
    ]
    assert await take((third,)) == [(third, "b"), (third, "c")]
    assert await take(None) == [(second, "a"), (second, "b"), (second, "c")]


async def test_a_restricted_take_passes_over_what_the_same_call_has_made_ready(world: Any) -> None:
    other, mine = await world.start("a"), await world.start("a")
    grants = {g.run: g for g in await world.take()}
    items = [world.done(grants[run], "b", "c") for run in (other, mine)]

    reply = await world.exchange(world.request(*items, take=(Take(("q",), 10),), runs=(mine,)))

    assert [(g.run, g.node) for g in reply.granted] == [(mine, "b"), (mine, "c")]
    assert {g.run for g in await world.take()} == {other}


async def test_a_restricted_take_finds_its_run_behind_many_others(world: Any) -> None:
    crowd = [world.to("a", f"{number:04d}") for number in range(2500)]
    await world.start(*crowd)
    mine = await world.start("b")

    reply = await world.exchange(world.request(take=(Take(("q",), 3),), runs=(mine,)))

    assert [(g.run, g.node) for g in reply.granted] == [(mine, "b")]


async def test_a_restricted_call_that_is_repeated_gets_the_same_tokens(world: Any) -> None:
    await world.start("a")
    mine = await world.start("a")
    request = world.request(take=(Take(("q",), 3),), runs=(mine,))

    first, again = await world.exchange(request), await world.exchange(request)

    assert [g.run for g in first.granted] == [mine]
    assert again.granted == first.granted


async def test_several_takes_in_one_call_have_their_own_limits(world: Any) -> None:
    await world.start("a", "b", world.to("c", queue="gpu"), world.to("d", queue="gpu"))

    reply = await world.exchange(world.request(take=(Take(("gpu",), 1), Take(("q",), 5))))

    assert [g.node for g in reply.granted] == ["c", "a", "b"]


@pytest.mark.shows("I-20", "I-21")
async def test_a_grant_tells_the_lease_and_what_the_run_is(world: Any) -> None:
    run = await world.start("a", input=b'{"x":1}', tags={"team": "blue"})
    reply = await world.exchange(world.request(take=(Take(("q",), 1),)))

    (grant,) = reply.granted
    token = await world.token(run, "a")
    assert (token.state, token.lease) == ("leased", grant.lease)
    assert token.due_ms == world.clock.now_ms() + 30_000
    assert grant.taken_ms == reply.now_ms == world.clock.now_ms()
    header = reply.runs[run]
    assert (header.workflow, header.plan, header.input) == ("w", "p", b'{"x":1}')
    assert header.tags == {"team": "blue"}


async def test_a_call_can_take_what_it_has_just_made_ready(world: Any) -> None:
    await world.start("a")
    grant = await world.take_one()

    reply = await world.exchange(world.request(world.done(grant, "b"), take=(Take(("q",), 1),)))

    assert [g.node for g in reply.granted] == ["b"]
    assert reply.granted[0].lease != grant.lease


async def test_no_lease_is_longer_than_the_longest(world: Any) -> None:
    run = await world.start("a")
    await world.take_one(lease_ms=10 * LEASE_MS_MAX)

    assert (await world.token(run, "a")).due_ms == world.clock.now_ms() + LEASE_MS_MAX
    assert (await world.sweep()).expired == 0


# ── renew ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.shows("I-22", "I-35")
async def test_renewed_leases_do_not_run_out(world: Any, held: Any) -> None:
    run = await world.start("a", "b")
    grants = await world.take()
    for _ in range(5):
        world.clock.advance(20_000)
        reply = await world.exchange(world.request(renew=tuple(map(held, grants))))
        assert reply.revoked == ()
        assert (await world.sweep()).expired == 0

    for grant in grants:
        await world.finish(grant)
    assert (await world.run(run)).status == "COMPLETED"


async def test_a_lease_that_is_lost_cannot_be_renewed(world: Any, held: Any) -> None:
    await world.start("a", "b")
    first, second = await world.take()
    await world.finish(first)

    reply = await world.exchange(world.request(renew=(held(first), held(second))))

    assert reply.revoked == (held(first),)


async def test_an_expired_lease_is_revoked_once_somebody_else_has_it(world: Any, held: Any) -> None:
    await world.start("a")
    grant = await world.take_one()
    world.clock.advance(30_001)
    await world.sweep()
    await world.take_one(session="other")

    reply = await world.exchange(world.request(renew=(held(grant),)))

    assert reply.revoked == (held(grant),)


async def test_an_item_handed_in_needs_no_renewal(world: Any, held: Any) -> None:
    await world.start("a")
    grant = await world.take_one()

    reply = await world.exchange(world.request(world.done(grant, "b"), renew=(held(grant),)))

    assert reply.revoked == (held(grant),)


# ── sessions ────────────────────────────────────────────────────────────────────────────


async def test_a_repeated_call_gets_its_answer_again_and_changes_nothing(world: Any) -> None:
    run = await world.start("a", "b")
    (first,) = await world.take(limit=1)
    request = world.request(world.done(first, "c"), take=(Take(("q",), 2),))
    reply = await world.exchange(request)
    before = await world.snapshot(run)

    again = await world.exchange(request)

    assert again == msgspec.structs.replace(reply, granted=again.granted)
    assert sorted(again.granted, key=str) == sorted(reply.granted, key=str)
    assert await world.snapshot(run) == before


async def test_a_repeated_call_leaves_out_what_was_lost_since(world: Any) -> None:
    await world.start("a", "b")
    request = world.request(take=(Take(("q",), 2),))
    first, second = (await world.exchange(request)).granted
    await world.finish(first, session="other")

    assert [g.node for g in (await world.exchange(request)).granted] == [second.node]


async def test_a_call_out_of_turn_is_refused_and_changes_nothing(world: Any) -> None:
    await world.start("a")
    request = world.request(take=(Take(("q",), 1),))
    gap = msgspec.structs.replace(request, seq=7)

    with pytest.raises(SessionError, match="call 7 after 0"):
        await world.exchange(gap)

    assert len((await world.exchange(request)).granted) == 1


async def test_a_number_used_with_another_lease_is_refused(world: Any) -> None:
    request = world.request()
    await world.exchange(request)

    with pytest.raises(SessionError):
        await world.exchange(msgspec.structs.replace(request, lease="another"))


async def test_results_of_an_old_session_can_be_handed_in_by_a_new_one(world: Any) -> None:
    run = await world.start("a")
    grant = await world.take_one(session="before")

    await world.finish(grant, session="after")

    assert (await world.run(run)).status == "COMPLETED"
