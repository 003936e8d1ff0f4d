"""exchange, handing in `Done`: a result is committed once, with everything that follows."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from minuet.store.changes import Cancel, NewPlan
from minuet.store.records import Read


@pytest.mark.shows("D-04")
async def test_a_result_makes_the_next_token_ready_and_the_last_one_ends_the_run(
    world: Any,
) -> None:
    run = await world.start("a")

    await world.finish(await world.take_one(), "b")
    grant = await world.take_one()
    await world.finish(grant)

    row = await world.run(run)
    assert (row.status, row.counter, row.ended_ms) == ("COMPLETED", 0, world.clock.now_ms())
    assert await world.events(run) == [
        *("run.created", "run.started", "node.completed", "node.completed", "run.completed"),
    ]


async def test_the_next_token_comes_with_the_output_before_it(world: Any) -> None:
    await world.start("a")

    await world.finish(await world.take_one(), "b", output=b'{"x": [1.50, "\xc3\xa9"]}')

    (given,) = (await world.take_one()).inputs
    assert (given.node, given.scope, given.data) == ("a", "", b'{"x": [1.50, "\xc3\xa9"]}')


async def test_an_output_read_later_is_the_latest_instance_under_its_prefix(world: Any) -> None:
    run = await world.start(world.to("z"), world.to("a", "0001"), world.to("a", "0002"))
    first, second, last = await world.take()
    await world.finish(first, output=b'"one"')
    await world.finish(second, output=b'"two"')
    reads = (Read("a", "000"), Read("missing", ""))
    await world.finish(last, world.to("b", reads=reads))

    (read,) = (await world.take_one()).reads
    assert (read.node, read.scope, read.data) == ("a", "0002", b'"two"')
    assert (await world.run(run)).status == "RUNNING"


@pytest.mark.shows("D-15", "D-33", "Q-19")
async def test_a_result_handed_in_twice_counts_once(world: Any) -> None:
    run = await world.start("a", "z")
    grant, _ = await world.take()
    await world.finish(grant, "b")
    before = await world.snapshot(run)

    assert await world.hand_in(world.done(grant, "b", "c")) == ("duplicate",)

    assert await world.snapshot(run) == before


async def test_a_result_twice_in_one_call_counts_once(world: Any) -> None:
    await world.start("a")
    done = world.done(await world.take_one(), "b")

    assert await world.hand_in(done, done) == ("applied", "duplicate")


async def test_a_result_for_a_token_that_does_not_exist_is_stale(world: Any) -> None:
    run = await world.start("a")
    grant = await world.take_one()
    done = world.done(grant)

    other = msgspec.structs.replace(done, node="nowhere")
    elsewhere = msgspec.structs.replace(done, run="no-such-run")

    assert await world.hand_in(other, elsewhere, done) == ("stale", "stale", "applied")
    assert (await world.run(run)).status == "COMPLETED"


@pytest.mark.shows("K-03")
async def test_a_result_after_the_end_of_its_run_is_refused(world: Any) -> None:
    run = await world.start("a")
    grant = await world.take_one()
    await world.change(run, Cancel())

    assert await world.hand_in(world.done(grant, "b")) == ("closed",)

    assert (await world.run(run)).status == "CANCELLED"


async def test_a_result_routed_by_an_older_plan_is_to_be_routed_again(world: Any) -> None:
    run = await world.start("a")
    grant = await world.take_one()
    await world.change(run, NewPlan("p2"))

    reply = await world.exchange(world.request(world.done(grant, "b")))
    assert reply.results == ("replan",)
    assert reply.runs[run].plan == "p2"

    await world.finish(grant, "c", plan="p2")
    assert (await world.take_one()).node == "c"


async def test_an_output_that_is_too_large_is_refused_and_the_lease_stays(world: Any) -> None:
    await world.start("a")
    grant = await world.take_one()

    large = world.done(grant, output=b'"' + b"x" * (1 << 20) + b'"')

    assert await world.hand_in(large) == ("limit",)
    await world.finish(grant)


async def test_items_of_one_call_are_judged_alone(world: Any) -> None:
    first = await world.start("a")
    second = await world.start("a")
    one, two = await world.take()
    await world.finish(one)

    results = await world.hand_in(world.done(one), world.done(two))

    assert results == ("duplicate", "applied")
    assert (await world.run(first)).status == (await world.run(second)).status == "COMPLETED"


@pytest.mark.shows("D-01", "D-30", "D-29")
async def test_the_counter_is_the_number_of_tokens_alive(world: Any) -> None:
    run = await world.start("a", "b")
    assert (await world.run(run)).counter == 2

    first, second = await world.take()
    await world.finish(first, "c", "d", "e")
    assert (await world.run(run)).counter == 4
    await world.finish(second)
    assert (await world.run(run)).counter == 3
    assert (await world.last_event(run, "node.completed")).counter == 3


@pytest.mark.shows("D-50")
async def test_a_token_knows_how_many_hops_led_to_it(world: Any) -> None:
    await world.start("a")
    await world.finish(await world.take_one(), "b")
    await world.finish(await world.take_one(), "c")

    assert (await world.take_one()).hop == 2


@pytest.mark.shows("D-14")
async def test_an_instance_that_has_a_token_gets_no_second_one(world: Any) -> None:
    run = await world.start("a", "b")
    first, second = await world.take()
    await world.finish(first, "c")

    await world.finish(second, "c", "d")

    assert [t.node for t in await world.take()] == ["c", "d"]
    assert [to[0] for to in (await world.last_event(run, "node.completed")).to] == ["d"]


async def test_a_skip_is_passed_on_by_any_worker(world: Any) -> None:
    run = await world.start("a")
    await world.finish(await world.take_one(), world.to("b", live=False), "c")

    skipped, other = sorted(await world.take(queues=("", "q")), key=lambda g: g.node)
    assert (skipped.node, skipped.skip, skipped.inputs) == ("b", True, ())
    await world.finish(skipped, outcome="skipped")
    await world.finish(other)

    assert (await world.token(run, "b")).outcome == "skipped"
    assert (await world.run(run)).status == "COMPLETED"


async def test_a_failure_that_is_handled_counts_as_a_result(world: Any) -> None:
    run = await world.start("a")
    await world.finish(await world.take_one(), "b", outcome="failed", error={"code": "x"})

    assert (await world.token(run, "a")).outcome == "failed"
    assert (await world.take_one()).node == "b"


async def test_a_large_fan_out_goes_on_where_it_stopped(world: Any) -> None:
    run = await world.start("a")
    await world.finish(await world.take_one(), "b1", "b2", output=b'"list"', cursor=2)
    again, *_ = sorted(await world.take(), key=lambda g: g.node)

    assert (again.node, again.cursor, again.delivery) == ("a", 2, 2)
    assert [r.data for r in again.reads] == [b'"list"']
    await world.finish(again, "b3", output=b'"other"')

    assert (await world.events(run))[2:] == ["node.completed", "node.sent"]
    (last,) = await world.take()
    assert [i.data for i in last.inputs] == [b'"list"']
    assert (await world.run(run)).counter == 3


async def test_the_event_of_a_result_names_lease_and_session(world: Any) -> None:
    run = await world.start("a")
    grant = await world.take_one(session="worker")
    world.clock.advance(5)
    await world.finish(grant, session="worker")

    event = await world.last_event(run, "node.completed")
    assert (event.lease, event.session, event.taken_ms) == (grant.lease, "worker", grant.taken_ms)
