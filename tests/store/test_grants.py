"""exchange, what comes with a token: fixed when it becomes ready, the same for every attempt."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from minuet.store.records import Cancel, Failed, Grant, NewPlan, Read, Released, Retry, RetryRun

#: One way in which a token that was taken becomes ready to be taken once more.
Again = Callable[[Any, Grant], Awaitable[None]]


def token(grant: Grant) -> tuple[str, str, str, str]:
    return (grant.run, grant.node, grant.scope, grant.lease)


async def retried(world: Any, grant: Grant) -> None:
    await world.hand_in(Retry(*token(grant), error={"code": "x"}))


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
