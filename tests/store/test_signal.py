"""Signals: a queue for each name, received in order, each by one instance, in every store."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from minuet.errors import InputError, RunConflictError, RunNotFoundError
from minuet.events import SignalReceived, encode_event
from minuet.store.changes import Cancel, Pause, Resume, RetryRun, SendSignal, Start
from minuet.store.exchange import Done, Failed, Grant, Waiting
from minuet.store.records import (
    KEPT_SIGNALS_MAX,
    PAYLOAD_BYTES_MAX,
    EventRecord,
    Signal,
    Snapshot,
)


def name(grant: Grant) -> tuple[str, str, str, str]:
    return (grant.run, grant.node, grant.scope, grant.lease)


def wait_for(grant: Grant, signal: str = "paid", **fields: Any) -> Waiting:
    """The grant's node waits for a signal."""
    return Waiting(*name(grant), kind="signal", key=signal, **fields)


async def waiting(world: Any, *nodes: str) -> str:
    """A run whose nodes wait for the signal 'paid', in this order."""
    run = await world.start(*nodes)
    grants = {grant.node: grant for grant in await world.take()}
    for node in nodes:
        assert await world.hand_in(wait_for(grants[node])) == ("applied",)
    return str(run)


async def signals(world: Any, run: str) -> dict[str, str]:
    """By id of each signal: the node that has received it."""
    snapshot = await world.snapshot(run)
    return {signal.id: signal.node for signal in snapshot.signals}


async def test_a_signal_ends_the_wait_for_it(world: Any) -> None:
    run = await waiting(world, "a")

    await world.change(run, SendSignal("paid", "1", b'{"amount": 5}', by="ann"))

    grant = await world.take_one()
    assert (grant.resolution, grant.timed_out) == (b'{"amount": 5}', False)
    assert await signals(world, run) == {"1": "a"}
    assert (await world.events(run))[-2:] == ["signal.received", "node.resumed"]
    sent = await world.last_event(run, "signal.received")
    assert (sent.name, sent.id, bytes(sent.data), sent.by) == ("paid", "1", b'{"amount": 5}', "ann")
    resumed = await world.last_event(run, "node.resumed")
    assert (resumed.signal, bytes(resumed.resolution)) == ((await world.run(run)).seq - 1, b"null")


async def test_an_early_signal_is_kept_and_ends_the_wait_in_the_step_that_begins_it(
    world: Any,
) -> None:
    run = await world.start("a")
    await world.change(run, SendSignal("paid", "1", b'"early"'))
    grant = await world.take_one()

    assert await world.hand_in(wait_for(grant, due_ms=1)) == ("applied",)

    assert (await world.events(run))[-2:] == ["node.waiting", "node.resumed"]
    assert (await world.take_one()).resolution == b'"early"'
    assert await signals(world, run) == {"1": "a"}
    assert (await world.sweep()).resumed == 0


async def test_the_oldest_signal_goes_to_the_instance_that_has_waited_longest(world: Any) -> None:
    run = await waiting(world, "c", "a", "b")

    for number in ("1", "2"):
        await world.change(run, SendSignal("paid", number, number.encode()))

    assert await signals(world, run) == {"1": "c", "2": "a"}
    granted = {grant.node: grant.resolution for grant in await world.take()}
    assert granted == {"c": b"1", "a": b"2"}


async def test_kept_signals_are_received_in_the_order_in_which_they_came(world: Any) -> None:
    run = await world.start("a", "b", "c")
    for number in ("9", "5", "7"):
        await world.change(run, SendSignal("paid", number, number.encode()))
    grants = {grant.node: grant for grant in await world.take()}

    # Two in one call, and one in a call of its own.
    await world.hand_in(wait_for(grants["b"]), wait_for(grants["a"]))
    await world.hand_in(wait_for(grants["c"]))

    assert await signals(world, run) == {"9": "b", "5": "a", "7": "c"}


async def test_a_signal_of_another_name_is_kept(world: Any) -> None:
    run = await waiting(world, "a")

    await world.change(run, SendSignal("shipped", "1", b"1"))
    await world.change(run, SendSignal("pay", "2", b"2"))
    await world.change(run, SendSignal("", "3", b"3"))

    assert await world.take() == []
    assert await signals(world, run) == {"1": "", "2": "", "3": ""}
    await world.change(run, SendSignal("paid", "4", b"4"))
    assert (await world.take_one()).resolution == b"4"


async def test_a_signal_goes_to_its_own_run_only(world: Any) -> None:
    runs = [await waiting(world, "a"), await waiting(world, "a")]

    await world.change(runs[1], SendSignal("paid", "1"))

    assert (await world.take_one()).run == runs[1]
    assert await signals(world, runs[0]) == {}


async def test_a_signal_that_is_sent_again_changes_nothing(world: Any) -> None:
    run = await waiting(world, "a", "b")
    first = await world.change(run, SendSignal("paid", "1", b"1"))

    again = await world.change(run, SendSignal("paid", "1", b"1"))

    assert (again.seq, again.status) == (first.seq, "RUNNING")
    assert await signals(world, run) == {"1": "a"}
    await world.change(run, Cancel())
    assert (await world.change(run, SendSignal("paid", "1", b"1"))).status == "CANCELLED"


async def test_an_early_signal_that_is_sent_again_is_kept_once(world: Any) -> None:
    run = await world.start("a", "b")
    for _ in range(2):
        await world.change(run, SendSignal("paid", "1"))
    a, b = await world.take()

    await world.hand_in(wait_for(a), wait_for(b))

    assert await signals(world, run) == {"1": "a"}
    assert (await world.token(run, "b")).state == "waiting"


async def test_an_id_that_names_another_signal_is_refused(world: Any) -> None:
    run = await world.start("a")
    await world.change(run, SendSignal("paid", "1"))

    with pytest.raises(RunConflictError, match="has a signal of this id with the name paid"):
        await world.change(run, SendSignal("shipped", "1"))


async def test_a_signal_to_a_run_that_is_over_is_refused_with_its_state(world: Any) -> None:
    run = await waiting(world, "a")
    await world.change(run, Cancel())

    with pytest.raises(RunConflictError, match="is CANCELLED and cannot receive signals") as raised:
        await world.change(run, SendSignal("paid", "1"))

    assert raised.value.status == "CANCELLED"
    assert await signals(world, run) == {}


async def test_a_signal_to_a_run_that_is_not_there_is_refused(world: Any) -> None:
    run = await world.start("a", tenant="b")

    for unknown in ("no-such-run", run):
        with pytest.raises(RunNotFoundError):
            await world.store.change_run("a", unknown, SendSignal("paid", "1"))


async def test_a_pending_run_keeps_its_signals_for_its_start(world: Any) -> None:
    (created,) = await world.create(world.new(entries=None))
    await world.change(created.run, SendSignal("paid", "1", b"1"))
    await world.change(created.run, Start((world.to("a"),)))

    await world.hand_in(wait_for(await world.take_one()))

    assert (await world.take_one()).resolution == b"1"


async def test_a_paused_run_receives_a_signal_and_goes_on_when_it_is_resumed(world: Any) -> None:
    run = await waiting(world, "a")
    await world.change(run, Pause())

    await world.change(run, SendSignal("paid", "1", b"1"))

    assert await signals(world, run) == {"1": "a"}
    assert await world.take() == []
    await world.change(run, Resume())
    assert (await world.take_one()).resolution == b"1"


def with_signals(rows: Snapshot, number: int) -> Snapshot:
    """The run with so many signals more, named `paid`, that no node has received."""
    ids = {rows.run.seq + place + 1: f"{place:04d}" for place in range(number)}
    run = msgspec.structs.replace(rows.run, seq=rows.run.seq + number)
    events = [
        EventRecord(run.run, seq, 1, encode_event(SignalReceived("paid", id)))
        for seq, id in ids.items()
    ]
    kept = [Signal(run.run, id, "paid", seq) for seq, id in ids.items()]
    return msgspec.structs.replace(
        rows, run=run, events=(*rows.events, *events), signals=(*rows.signals, *kept)
    )


async def test_a_run_keeps_a_bounded_number_of_signals_and_all_reserved_or_awaited_ones(
    world: Any,
) -> None:
    run = await world.start("a", "b")
    first, second = await world.take()
    await world.hand_in(wait_for(second, "awaited"))
    await world.change(run, SendSignal("$child:1", "first"))
    rows = await world.snapshot(run)
    assert await world.store.put_run("a", with_signals(rows, KEPT_SIGNALS_MAX - 1), rows.run.seq)
    await world.change(run, SendSignal("paid", "the last"))

    with pytest.raises(RunConflictError, match=f"keeps {KEPT_SIGNALS_MAX} signals"):
        await world.change(run, SendSignal("shipped", "one more"))

    await world.change(run, SendSignal("$child:2", "second"))
    await world.change(run, SendSignal("paid", "0000"))
    await world.change(run, SendSignal("awaited", "third"))
    assert (await signals(world, run))["third"] == "b"
    await world.hand_in(wait_for(first))
    await world.change(run, SendSignal("shipped", "one more"))
    assert (await signals(world, run))["0000"] == "a"


async def test_a_timeout_and_a_signal_never_end_the_same_wait(world: Any, clock: Any) -> None:
    run = await world.start("a")
    await world.hand_in(wait_for(await world.take_one(), delay_ms=1000))
    clock.advance(1000)

    assert (await world.sweep()).resumed == 1
    await world.change(run, SendSignal("paid", "late", b"1"))

    grant = await world.take_one()
    assert (grant.timed_out, grant.resolution) == (True, None)
    assert await signals(world, run) == {"late": ""}


async def test_a_signal_that_comes_at_the_moment_of_the_timeout_wins_if_it_is_first(
    world: Any, clock: Any
) -> None:
    run = await world.start("a")
    await world.hand_in(wait_for(await world.take_one(), delay_ms=1000))
    clock.advance(1000)

    await world.change(run, SendSignal("paid", "1", b"1"))

    assert (await world.sweep()).resumed == 0
    grant = await world.take_one()
    assert (grant.timed_out, grant.resolution) == (False, b"1")


async def test_a_wait_that_was_withdrawn_receives_nothing(world: Any) -> None:
    run = await world.start("a", "b")
    a, b = await world.take()
    await world.hand_in(wait_for(a))
    to = world.to("j", need=1, total=2, withdraws=("a",))

    await world.finish(b, to)
    await world.change(run, SendSignal("paid", "1"))

    assert (await world.token(run, "a")).outcome == "superseded"
    assert await signals(world, run) == {"1": ""}


async def test_a_retried_run_has_its_signals_still(world: Any) -> None:
    run = await world.start("a", "b", "c")
    await world.change(run, SendSignal("paid", "1", b"1"))
    a, b, _ = await world.take()
    await world.hand_in(wait_for(a))
    await world.hand_in(Failed(*name(b), error={"code": "x"}))
    assert (await world.run(run)).status == "FAILED"

    await world.change(run, RetryRun())

    granted = {grant.node: grant for grant in await world.take()}
    assert granted["a"].resolution == b"1"
    assert (granted["b"].resolution, granted["c"].resolution) == (None, None)
    assert await world.hand_in(wait_for(granted["c"])) == ("applied",)
    await world.change(run, SendSignal("paid", "2", b"2"))
    assert await signals(world, run) == {"1": "a", "2": "c"}


async def test_a_node_that_failed_because_nothing_came_waits_again_when_its_run_is_retried(
    world: Any, clock: Any
) -> None:
    run = await world.start("a")
    await world.hand_in(wait_for(await world.take_one(), delay_ms=1000))
    clock.advance(1000)
    await world.sweep()
    grant = await world.take_one()
    assert grant.timed_out
    await world.hand_in(Failed(*name(grant), error={"code": "signal_timeout"}))

    await world.change(run, RetryRun())

    again = await world.take_one()
    assert (again.timed_out, again.resolution, again.is_resumed) == (False, None, False)


async def test_data_that_looks_like_a_timeout_is_data(world: Any) -> None:
    run = await waiting(world, "a")

    await world.change(run, SendSignal("paid", "1", b' {"timed_out":true} '))

    grant = await world.take_one()
    assert (grant.timed_out, grant.resolution) == (False, b'{"timed_out": true}')


@pytest.mark.parametrize("data", [b"", b"{", b"NaN", b'"' + b"x" * PAYLOAD_BYTES_MAX + b'"'])
async def test_data_that_cannot_be_kept_is_refused(world: Any, data: bytes) -> None:
    run = await waiting(world, "a")

    with pytest.raises(InputError):
        await world.change(run, SendSignal("paid", "1", data))

    assert await signals(world, run) == {}


@pytest.mark.parametrize("id", ["", "a\0b"])
async def test_an_id_that_cannot_be_kept_is_refused(world: Any, id: str) -> None:
    run = await waiting(world, "a")

    with pytest.raises(InputError):
        await world.change(run, SendSignal("paid", id))


@pytest.mark.parametrize("text", ["ключ", "a b", "☃", "'", '"', "\\", "\n"])
async def test_names_and_ids_may_be_any_text(world: Any, text: str) -> None:
    run = await world.start("a")
    await world.hand_in(wait_for(await world.take_one(), f"{text}\0"))

    await world.change(run, SendSignal(f"{text}\0", text, b"1"))

    snapshot = await world.snapshot(run)
    seq = snapshot.run.seq - 1
    assert snapshot.signals == (Signal(run, text, f"{text}\0", seq, "a", ""),)
    assert (await world.take_one()).resolution == b"1"


async def test_signals_that_are_sent_at_once_are_each_received_once(world: Any) -> None:
    nodes = [f"n{number}" for number in range(8)]
    run = await waiting(world, *nodes)
    sent = [SendSignal("paid", f"{number}", b"%d" % number) for number in range(8)]

    await asyncio.gather(*(world.store.change_run("a", run, one) for one in (*sent, *sent)))

    received = await signals(world, run)
    assert sorted(received) == sorted(one.id for one in sent)
    assert sorted(received.values()) == nodes


async def test_the_history_of_signals_is_that_of_its_rows_after_the_run_is_put(world: Any) -> None:
    run = await waiting(world, "a", "b")
    await world.change(run, SendSignal("paid", "1", b'"one"'))
    await world.change(run, SendSignal("other", "2", b'"two"'))
    before = await world.snapshot(run)

    assert await world.store.put_run("a", before, before.run.seq)

    assert await world.snapshot(run) == before
    grant = await world.take_one()
    assert (grant.node, grant.resolution) == ("a", b'"one"')
    await world.hand_in(wait_for(grant, "other"))
    assert (await world.take_one()).resolution == b'"two"'
    await world.change(run, SendSignal("paid", "3"))
    assert await signals(world, run) == {"1": "a", "2": "a", "3": "b"}


async def test_signals_are_deleted_with_their_run(world: Any) -> None:
    (new,) = [world.new("a")]
    await world.create(new)
    await world.change(new.run, SendSignal("paid", "1"))
    await world.change(new.run, Cancel())
    assert await world.store.delete_runs("a", [new.run]) == 1

    await world.create(new)
    (grant,) = await world.take()
    await world.hand_in(wait_for(grant))

    assert (await world.token(new.run, "a")).state == "waiting"
    assert await signals(world, new.run) == {}


async def test_a_result_that_is_handed_in_late_does_not_take_a_signal(world: Any) -> None:
    run = await waiting(world, "a")
    await world.change(run, SendSignal("paid", "1", b"1"))
    grant = await world.take_one()

    assert await world.hand_in(Done(*name(grant)[:3], "another", plan="p")) == ("stale",)
    await world.finish(grant)

    assert (await world.run(run)).status == "COMPLETED"
    assert await signals(world, run) == {"1": "a"}
