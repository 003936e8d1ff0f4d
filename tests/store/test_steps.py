"""Steps inside handlers: the first result stays, and a signal is received with one, in every
store."""

from __future__ import annotations

from typing import Any

import pytest

from minuet.store.changes import Cancel, SendSignal
from minuet.store.exchange import Grant, NewStep, Waiting
from minuet.store.records import Signal


def step(grant: Grant, name: str, value: bytes = b"1", signal: int = 0, after: str = "") -> NewStep:
    return NewStep(grant.run, grant.node, grant.scope, grant.lease, name, value, signal, after)


def wait_for_payment(grant: Grant) -> Waiting:
    return Waiting(grant.run, grant.node, grant.scope, grant.lease, kind="signal", key="paid")


async def send(world: Any, run: str, id: str, name: str = "paid") -> int:
    """Send a signal that nothing waits for; the number of its event."""
    await world.change(run, SendSignal(name, id, id.encode()))
    return int((await world.run(run)).seq)


async def test_the_first_result_of_a_step_stays(world: Any) -> None:
    run = await world.start("a")
    grant = await world.take_one()

    assert await world.record(grant, "charge", b"1") == b"1"
    assert await world.record(grant, "charge", b"2") == b"1"
    assert await world.record(grant, "mail", b"3") == b"3"

    assert await world.store.read_steps("a", (run, "a", "")) == {"charge": b"1", "mail": b"3"}
    assert (await world.events(run))[2:] == ["step.recorded", "step.recorded"]


async def test_a_step_under_a_lost_lease_is_not_kept_and_later_attempts_see_the_others(
    world: Any,
) -> None:
    run = await world.start("a")
    lost = await world.take_one()
    await world.record(lost, "one", b"1")
    world.clock.advance(30_000)
    await world.sweep()
    grant = await world.take_one()

    assert await world.record(lost, "two", b"2") == "lost"

    assert await world.record(grant, "one", b"9") == b"1"
    assert await world.store.read_steps("a", (run, "a", "")) == {"one": b"1"}


async def test_steps_of_several_runs_are_recorded_in_one_call_and_judged_alone(world: Any) -> None:
    runs = [await world.start("a", "b") for _ in range(3)]
    held = {(grant.run, grant.node): grant for grant in await world.take()}
    # In another order than that of their names: each store locks them in its own.
    first, second, third = (held[run, "a"] for run in reversed(runs))
    other = held[first.run, "b"]
    await world.change(second.run, Cancel())

    answers = await world.store.record_steps(
        "a",
        [
            step(first, "one", b"1"),
            step(second, "one", b"2"),
            step(third, "one", b"3"),
            step(other, "one", b"4"),
            step(first, "one", b"5"),
            step(first, "two", b"6"),
            NewStep("no-such-run", "a", "", "lease", "one", b"7"),
            NewStep(first.run, "no-such-node", "", first.lease, "one", b"8"),
        ],
    )

    assert answers == [b"1", "lost", b"3", b"4", b"1", b"6", "lost", "lost"]
    await world.check()
    read = world.store.read_steps
    assert await read("a", (first.run, "a", "")) == {"one": b"1", "two": b"6"}
    assert await read("a", (first.run, "b", "")) == {"one": b"4"}
    assert await read("a", (second.run, "a", "")) == {}
    assert (await world.events(first.run))[-3:] == ["step.recorded"] * 3
    assert await world.store.record_steps("a", []) == []


async def test_a_call_that_is_made_again_gets_the_same_answers(world: Any) -> None:
    run = await world.start("a")
    seq = await send(world, run, "1")
    grant = await world.take_one()
    steps = [step(grant, "one"), step(grant, "paid", b'"1"', seq)]

    answers = await world.store.record_steps("a", steps)

    assert await world.store.record_steps("a", steps) == answers == [b"1", b'"1"']
    assert await world.store.record_steps("a", steps[1:]) == answers[1:]
    assert (await world.events(run)).count("step.recorded") == 2


# ── signals ─────────────────────────────────────────────────────────────────────────────


async def test_a_run_keeps_signals_until_they_are_received(world: Any) -> None:
    run, other = await world.start("a"), await world.start("a")
    assert await world.store.read_signals("a", run) == []
    seqs = [await send(world, run, id, name) for id, name in (("9", "b"), ("1", "a"), ("5", "b"))]
    await send(world, other, "1")

    kept = await world.store.read_signals("a", run)

    assert kept == [
        Signal(run, "9", "b", seqs[0]),
        Signal(run, "1", "a", seqs[1]),
        Signal(run, "5", "b", seqs[2]),
    ]
    assert await world.store.read_signals("a", "no-such-run") == []
    assert await world.store.read_signals("b", run) == []
    grant = next(grant for grant in await world.take() if grant.run == run)
    await world.record(grant, "got", signal=seqs[1])
    assert [one.id for one in await world.store.read_signals("a", run)] == ["9", "5"]


async def test_a_step_receives_the_signal_that_it_names(world: Any) -> None:
    run = await world.start("a")
    seq = await send(world, run, "1")
    grant = await world.take_one()

    assert await world.record(grant, "paid", b'"1"', signal=seq) == b'"1"'

    assert (await world.snapshot(run)).signals == (Signal(run, "1", "paid", seq, "a", ""),)
    recorded = await world.last_event(run, "step.recorded")
    assert (recorded.name, recorded.signal) == ("paid", seq)
    await world.hand_in(wait_for_payment(grant))
    assert (await world.token(run, "a")).state == "waiting"


async def test_a_signal_is_received_by_one_step_of_one_instance(world: Any) -> None:
    run = await world.start("a", "b")
    seq = await send(world, run, "1")
    first, second = sorted(await world.take(), key=lambda grant: grant.node)

    answers = await world.store.record_steps(
        "a",
        [
            step(first, "one", b"1", seq),
            step(second, "one", b"2", seq),
            step(first, "two", b"3", seq),
            step(first, "one", b"4", seq),
        ],
    )

    assert answers == [b"1", "gone", "gone", b"1"]
    assert await world.record(second, "one", b"5", signal=seq) == "gone"
    assert await world.store.read_steps("a", (run, "b", "")) == {}
    (signal,) = (await world.snapshot(run)).signals
    assert (signal.node, signal.scope) == ("a", "")
    assert (await world.events(run)).count("step.recorded") == 1
    assert await world.record(second, "one", b"6") == b"6"


@pytest.mark.parametrize("number", [1, 2, 99])
async def test_what_is_not_a_kept_signal_cannot_be_received(world: Any, number: int) -> None:
    run = await world.start("a")
    grant = await world.take_one()

    assert await world.record(grant, "one", signal=number) == "gone"
    assert (await world.run(run)).seq == 2


async def test_a_signal_that_a_wait_has_received_is_gone_for_steps(world: Any) -> None:
    run = await world.start("a", "b")
    first, second = sorted(await world.take(), key=lambda grant: grant.node)
    await world.hand_in(wait_for_payment(first))
    await world.change(run, SendSignal("paid", "1", b"1"))
    (signal,) = (await world.snapshot(run)).signals

    assert await world.record(second, "one", signal=signal.seq) == "gone"


async def test_a_step_that_follows_one_that_the_store_has_lost_is_refused(world: Any) -> None:
    run = await world.start("a")
    grant = await world.take_one()
    await world.record(grant, "one", b"1")

    answers = await world.store.record_steps(
        "a",
        [
            step(grant, "two", b"2", after="one"),
            step(grant, "three", b"3", after="two"),
            step(grant, "six", b"6", after="five"),
            step(grant, "seven", b"7", after="six"),
        ],
    )

    assert answers == [b"2", b"3", "lost", "lost"]
    kept = {"one": b"1", "two": b"2", "three": b"3"}
    assert await world.store.read_steps("a", (run, "a", "")) == kept
    alone = step(grant, "four", b"4", after="three")
    assert await world.store.record_steps("a", [alone]) == [b"4"]


async def test_a_signal_is_not_received_by_a_step_that_is_refused(world: Any) -> None:
    run = await world.start("a")
    grant = await world.take_one()
    number = await send(world, run, "1")

    lost = step(grant, "two", signal=number, after="one")
    assert await world.store.record_steps("a", [lost]) == ["lost"]

    assert [kept.seq for kept in await world.store.read_signals("a", run)] == [number]
