"""exchange, handing in `Done` of runs whose outputs may have only so many bytes."""

from __future__ import annotations

from typing import Any

import pytest

from minuet.store.changes import RetryRun
from minuet.store.exchange import Failed, Retried, Take


@pytest.mark.shows("U-06")
async def test_bytes_are_counted_up_to_the_limit_and_not_beyond(world: Any) -> None:
    run = await world.start("a", "b", "c")
    first, second, third = await world.take()

    items = [world.done(one, output_bytes=40, max_bytes=100) for one in (first, second, third)]
    reply = await world.exchange(world.request(*items))

    assert reply.results == ("applied", "applied", "full")
    assert reply.runs[run].output_bytes == 80
    row = await world.run(run)
    assert (row.output_bytes, row.counter, row.status) == (80, 1, "RUNNING")
    assert (await world.last_event(run, "node.completed")).output_bytes == 40
    assert (await world.token(run, "c")).state == "leased"


async def test_what_reaches_the_limit_exactly_is_applied(world: Any) -> None:
    run = await world.start("a")
    await world.finish(await world.take_one(), "b", output_bytes=60, max_bytes=100)
    await world.finish(await world.take_one(), output_bytes=40, max_bytes=100)

    assert (await world.run(run)).output_bytes == 100


async def test_a_result_without_a_limit_counts_nothing(world: Any) -> None:
    run = await world.start("a")
    await world.finish(await world.take_one(), "b", output_bytes=60, max_bytes=100)
    await world.finish(await world.take_one())

    row = await world.run(run)
    assert (row.output_bytes, row.status) == (60, "COMPLETED")


async def test_a_refused_result_can_be_handed_in_again_as_a_failure(world: Any) -> None:
    run = await world.start("a", "b")
    first, _ = await world.take()
    full = world.done(first, output_bytes=9, max_bytes=8)
    held = (first.run, first.node, first.scope, first.lease)
    assert await world.hand_in(full) == ("full",)

    failed = Failed(*held, error={"code": "exceeded_max_bytes"}, dead_letter="limit")
    assert await world.hand_in(failed) == ("applied",)
    assert (await world.run(run)).status == "FAILED"


async def test_a_call_that_is_repeated_gets_the_same_answer_and_counts_once(world: Any) -> None:
    run = await world.start("a", "b")
    first, second = await world.take()
    items = [world.done(one, output_bytes=5, max_bytes=8) for one in (first, second)]
    request = world.request(*items)

    replies = [await world.exchange(request) for _ in range(2)]

    assert replies[0] == replies[1]
    assert replies[0].results == ("applied", "full")
    assert replies[0].runs[run].output_bytes == 5
    assert (await world.run(run)).output_bytes == 5


async def test_a_result_handed_in_twice_counts_once(world: Any) -> None:
    run = await world.start("a", "b")
    first, _ = await world.take()
    done = world.done(first, output_bytes=5, max_bytes=8)

    assert await world.hand_in(done, done) == ("applied", "duplicate")
    assert (await world.run(run)).output_bytes == 5


async def test_parts_of_a_fan_out_count_once(world: Any) -> None:
    run = await world.start("a")
    part = await world.take_one()
    await world.finish(part, "b", output_bytes=5, max_bytes=8, cursor=1)
    again = await world.take_one(queues=("q",), limit=1)
    assert again.cursor == 1
    await world.finish(again, "c")

    assert (await world.run(run)).output_bytes == 5


async def test_bytes_stay_counted_through_attempts_and_retries_of_the_run(world: Any) -> None:
    run = await world.start("a")
    await world.finish(await world.take_one(), "b", output_bytes=5, max_bytes=8)
    grant = await world.take_one()
    held = (grant.run, grant.node, grant.scope, grant.lease)
    assert await world.hand_in(Retried(*held, error={})) == ("applied",)
    grant = await world.take_one()
    assert (await world.exchange(world.request())).results == ()
    held = (grant.run, grant.node, grant.scope, grant.lease)
    await world.hand_in(Failed(*held, error={"code": "x"}))
    await world.change(run, RetryRun())
    grant = await world.take_one()

    assert await world.hand_in(world.done(grant, output_bytes=4, max_bytes=8)) == ("full",)
    await world.finish(grant, output_bytes=3, max_bytes=8)
    row = await world.run(run)
    assert (row.output_bytes, row.status, row.generation) == (8, "COMPLETED", 2)


async def test_a_take_says_how_many_bytes_there_are(world: Any) -> None:
    run = await world.start("a")
    done = world.done(await world.take_one(), "b", output_bytes=5, max_bytes=8)
    reply = await world.exchange(world.request(done, take=(Take(("q",), 1),)))

    assert reply.runs[run].output_bytes == 5
