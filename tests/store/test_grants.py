"""exchange, what comes with a token: fixed when it becomes ready, the same for every attempt."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from minuet.store.changes import Cancel, NewPlan, RetryRun
from minuet.store.exchange import Failed, Grant, Released, Retried, Take
from minuet.store.records import PAYLOAD_BYTES_MAX, Read

#: One way in which a token that was taken becomes ready to be taken once more.
Again = Callable[[Any, Grant], Awaitable[None]]


def token(grant: Grant) -> tuple[str, str, str, str]:
    return (grant.run, grant.node, grant.scope, grant.lease)


async def retried(world: Any, grant: Grant) -> None:
    await world.hand_in(Retried(*token(grant), error={"code": "x"}))


async def released(world: Any, grant: Grant) -> None:
    await world.hand_in(Released(*token(grant)))


async def expired(world: Any, grant: Grant) -> None:
    world.clock.advance(31_000)
    await world.sweep()


async def failed_with_its_run(world: Any, grant: Grant) -> None:
    await world.hand_in(Failed(*token(grant), error={"code": "x"}))
    await world.change(grant.run, RetryRun())


async def cancelled_with_its_run(world: Any, grant: Grant) -> None:
    await world.change(grant.run, Cancel())
    await world.change(grant.run, RetryRun())


WAYS = (retried, released, expired, failed_with_its_run, cancelled_with_its_run)


def read_by(grant: Grant) -> list[tuple[str, str, bytes]]:
    return [(output.node, output.scope, output.data) for output in grant.reads]


@pytest.mark.parametrize("again", WAYS)
async def test_every_attempt_reads_what_the_first_could_read(world: Any, again: Again) -> None:
    await world.start("a", "b")
    first, second = await world.take()
    reads = (Read("a", ""), Read("b", ""))
    await world.finish(first, world.to("j", reads=reads), output=b'"early"')
    taken = await world.take_one()
    before = read_by(taken)
    await world.finish(second, output=b'"late"')

    await again(world, taken)

    assert before == [("a", "", b'"early"')]
    assert read_by(await world.take_one()) == before


@pytest.mark.parametrize("again", WAYS)
async def test_an_attempt_reads_no_round_that_came_after_it_was_ready(
    world: Any, again: Again
) -> None:
    rounds = [f"{number:04d}" for number in range(1, 6)]
    await world.start("z", *(world.to("a", scope) for scope in rounds))
    *earlier, last = sorted(await world.take(), key=lambda grant: grant.node)
    await world.finish(earlier[1], output=b'"two"')
    await world.finish(last, world.to("b", reads=(Read("a", ""), Read("a", "0004"))))
    taken = await world.take_one()
    before = read_by(taken)
    for number in (0, 2, 3, 4):
        await world.finish(earlier[number], output=b'"another"')

    await again(world, taken)

    assert before == [("a", "0002", b'"two"')]
    assert read_by(await world.take_one()) == before


async def test_an_output_of_the_same_call_is_read_if_it_was_handed_in_before(world: Any) -> None:
    await world.start("a", "b", "c")
    first, second, third = await world.take()
    reads = (Read("a", ""), Read("b", ""), Read("c", ""))

    await world.hand_in(
        world.done(first, output=b"1"),
        world.done(second, world.to("d", reads=reads), output=b"2"),
        world.done(third, output=b"3"),
    )

    assert read_by(await world.take_one()) == [("a", "", b"1"), ("b", "", b"2")]


async def test_a_node_that_a_patch_adds_reads_what_was_there_at_the_patch(world: Any) -> None:
    run = await world.start("a", "b")
    first, second = await world.take()
    await world.finish(first, output=b"1")
    added = world.to("c", reads=(Read("a", ""), Read("b", "")))
    await world.change(run, NewPlan("p2", (("a", "", added),)))
    taken = await world.take_one()
    await world.finish(second, plan="p2", output=b"2")
    await retried(world, taken)

    assert read_by(taken) == read_by(await world.take_one()) == [("a", "", b"1")]


async def test_a_run_that_is_put_reads_what_it_read_before(world: Any) -> None:
    run = await world.start("a", "b")
    first, second = await world.take()
    await world.finish(first, world.to("c", reads=(Read("a", ""), Read("b", ""))), output=b"1")
    await world.finish(second, output=b"2")
    rows = await world.snapshot(run)

    assert await world.store.put_run("a", rows, rows.run.seq)

    assert read_by(await world.take_one()) == [("a", "", b"1")]


async def test_a_token_of_an_earlier_version_reads_the_latest_there_is(world: Any) -> None:
    run = await world.start("a", "b")
    first, second = await world.take()
    await world.finish(first, world.to("c", reads=(Read("b", ""),)), output=b"1")
    await world.finish(second, output=b"2")
    rows = await world.snapshot(run)
    for row in rows.tokens:
        row.reads = tuple(Read(read.node, read.prefix) for read in row.reads)
    assert await world.store.put_run("a", rows, rows.run.seq)

    assert read_by(await world.take_one()) == [("b", "", b"2")]


# ── how much comes with tokens ──────────────────────────────────────────────────────────────

#: Just small enough to stand in an event.
LARGE = b'"' + b"x" * (PAYLOAD_BYTES_MAX - 2) + b'"'


async def arrive(world: Any, joins: Sequence[str], count: int, output: bytes = LARGE) -> None:
    """Let so many nodes send an output to each of these joins."""
    queue = f"to {joins[0]}"
    await world.start(*(world.to(f"{number:03d}", queue=queue) for number in range(count)))
    targets = [world.to(join, need=count, total=count) for join in joins]
    sources = await world.take(queues=(queue,))
    for first in range(0, count, 20):
        some = sources[first : first + 20]
        items = (world.done(grant, *targets, output=output) for grant in some)
        # To look at the run each time would be to read all of it each time.
        await world.store.exchange(world.request(*items))
    await world.check()


async def test_an_answer_has_no_more_outputs_than_fit(world: Any) -> None:
    await arrive(world, ["first"], 10)
    world.clock.advance(1)
    await arrive(world, ["second"], 10)

    one, other = await world.take_one(), await world.take_one()

    assert [(grant.node, len(grant.inputs)) for grant in (one, other)] == [
        ("first", 10),
        ("second", 10),
    ]


async def test_many_tokens_with_one_output_each_are_bounded_too(world: Any) -> None:
    names = [f"n{number:03d}" for number in range(300)]
    await world.start(*names)
    output = b'"' + b"x" * 65_000 + b'"'
    items = [world.done(g, f"{g.node}-next", output=output) for g in await world.take(300)]
    await world.hand_in(*items)

    granted = await world.take(300)

    assert 0 < sum(len(output.data) for grant in granted for output in grant.inputs) <= 16 << 20
    rest = await world.take(300)
    assert len(granted) + len(rest) == 300


async def test_what_several_tokens_need_is_in_an_answer_once(world: Any) -> None:
    joins = ["one", "two", "three"]
    await arrive(world, joins, 10)
    request = world.request(take=(Take(("", "q"), 100),))

    reply = await world.exchange(request)

    outputs = [output for grant in reply.granted for output in grant.inputs]
    assert [grant.node for grant in reply.granted] == ["one", "three", "two"]
    assert (len(outputs), len({id(output) for output in outputs})) == (30, 10)
    assert await world.exchange(request) == reply


async def test_a_token_whose_outputs_are_too_large_comes_without_them(world: Any) -> None:
    await arrive(world, ["join"], 65)
    world.looks = False  # It has been looked at, and takes a second.
    await world.start("other")
    request = world.request(take=(Take(("", "q"), 100),))

    reply = await world.exchange(request)

    grant, other = reply.granted
    assert (grant.inputs, grant.reads) == ((), ())
    assert 65 * len(LARGE) < grant.oversize < 66 * len(LARGE)
    assert (other.node, other.oversize) == ("other", 0)
    assert await world.exchange(request) == reply
    assert await world.hand_in(Failed(*token(grant), error={"code": "x"})) == ("applied",)
