"""Waits of durable functions: a signal that they name ends them and stays kept, in every store."""

from __future__ import annotations

from typing import Any

from minuet.events import is_awaited
from minuet.store.changes import Cancel, Pause, Resume, SendSignal
from minuet.store.exchange import Grant, Waiting
from minuet.store.records import FLOW_WAIT, TIMED_OUT

PAID = '["paid","refused"]'


def wait(grant: Grant, key: str = PAID, **fields: Any) -> Waiting:
    held = (grant.run, grant.node, grant.scope, grant.lease)
    return Waiting(*held, kind=FLOW_WAIT, key=key, **fields)


async def waiting(world: Any, **nodes: str) -> str:
    """A run whose nodes wait for signals of these names."""
    run = await world.start(*nodes)
    for grant in await world.take():
        assert await world.hand_in(wait(grant, nodes[grant.node])) == ("applied",)
    return str(run)


async def test_a_signal_wakes_the_function_that_names_it_and_stays_kept(world: Any) -> None:
    run = await waiting(world, a=PAID)

    await world.change(run, SendSignal("refused", "1", b'"no"', by="ann"))

    (kept,) = await world.store.read_signals("a", run)
    assert (await world.events(run))[-2:] == ["signal.received", "node.resumed"]
    resumed = await world.last_event(run, "node.resumed")
    assert (resumed.signal, resumed.by, resumed.timed_out) == (0, "", False)
    grant = await world.take_one()
    assert (grant.resolution, grant.timed_out, grant.is_resumed) == (b"null", False, True)
    assert await world.record(grant, "answer", b'"no"', signal=kept.seq) == b'"no"'


async def test_a_signal_that_no_function_names_wakes_none(world: Any) -> None:
    run = await waiting(world, a=PAID, b="")

    await world.change(run, SendSignal("pai", "1"))
    await world.change(run, SendSignal("", "2"))
    await world.change(run, SendSignal('"', "3"))

    assert await world.take() == []
    tokens = await world.store.list_waiting("a", FLOW_WAIT)
    assert [(token.node, token.wait_key) for token in tokens] == [("a", PAID), ("b", "")]
    assert [t.node for t in await world.store.list_waiting("a", FLOW_WAIT, key=PAID)] == ["a"]


async def test_a_wait_for_a_signal_that_is_kept_is_over_at_once(world: Any) -> None:
    run = await world.start("a", "b", "c")
    await world.change(run, SendSignal("paid", "1", b"1"))
    a, b, c = sorted(await world.take(), key=lambda grant: grant.node)

    items = (wait(a), wait(b, '["other"]'), wait(c, ""))
    assert await world.hand_in(*items) == ("applied", "applied", "applied")

    assert [one.id for one in await world.store.read_signals("a", run)] == ["1"]
    grant = await world.take_one()
    assert (grant.node, grant.resolution) == ("a", b"null")


async def test_every_function_that_names_a_signal_is_woken_and_one_receives_it(world: Any) -> None:
    run = await waiting(world, a=PAID, b='["paid"]', c='["other"]')

    await world.change(run, SendSignal("paid", "1", b"1"))

    (kept,) = await world.store.read_signals("a", run)
    a, b = sorted(await world.take(), key=lambda grant: grant.node)
    assert (a.node, b.node) == ("a", "b")
    assert await world.record(b, "got", signal=kept.seq) == b"1"
    assert await world.record(a, "got", signal=kept.seq) == "gone"
    # It waits on: nothing is kept.
    assert await world.hand_in(wait(a)) == ("applied",)
    assert (await world.token(run, "a")).state == "waiting"


async def test_a_wait_node_receives_a_signal_before_functions_hear_of_it(world: Any) -> None:
    run = await world.start("a", "b")
    first, second = sorted(await world.take(), key=lambda grant: grant.node)
    await world.hand_in(wait(first))
    held = (second.run, second.node, second.scope, second.lease)
    await world.hand_in(Waiting(*held, kind="signal", key="paid"))

    await world.change(run, SendSignal("paid", "1", b"1"))

    assert (await world.take_one()).node == "b"
    assert await world.store.read_signals("a", run) == []
    assert (await world.token(run, "a")).state == "waiting"
    await world.change(run, SendSignal("paid", "2", b"2"))
    assert (await world.take_one()).node == "a"


async def test_a_function_can_wait_for_all_names_of_a_reserved_family(world: Any) -> None:
    run = await waiting(world, a='["$child:"]', b='["x:"]')

    await world.change(run, SendSignal("x:1", "1"))
    assert await world.take() == []
    await world.change(run, SendSignal("$child:7", "2"))

    assert (await world.take_one()).node == "a"


def test_a_wait_names_signals_exactly_unless_they_are_reserved() -> None:
    assert is_awaited("é\0", '["é\\u0000"]')
    assert is_awaited("$child:1", '["a","$child:"]')
    assert not is_awaited("$child:1", '["$child"]')
    assert not is_awaited("a:1", '["a:"]')
    assert not is_awaited("a", "")


async def test_the_time_of_a_function_passes_as_that_of_others(world: Any) -> None:
    run = await world.start("a")
    await world.hand_in(wait(await world.take_one(), delay_ms=5_000))

    world.clock.advance(4_999)
    assert (await world.sweep()).resumed == 0
    world.clock.advance(1)
    assert (await world.sweep()).resumed == 1

    resumed = await world.last_event(run, "node.resumed")
    assert (resumed.timed_out, bytes(resumed.resolution)) == (True, TIMED_OUT)
    grant = await world.take_one()
    assert (grant.timed_out, grant.resolution) == (True, None)
    await world.change(run, SendSignal("paid", "1"))
    assert (await world.token(run, "a")).state == "leased"


async def test_a_function_that_is_woken_in_a_paused_run_goes_on_later(world: Any) -> None:
    run = await waiting(world, a=PAID)
    await world.change(run, Pause())

    await world.change(run, SendSignal("paid", "1"))

    assert await world.take() == []
    await world.change(run, Resume())
    assert (await world.take_one()).node == "a"


async def test_a_function_of_a_run_that_is_over_waits_no_more(world: Any) -> None:
    run = await waiting(world, a=PAID)
    await world.change(run, SendSignal("other", "1"))
    await world.change(run, Cancel())

    assert await world.store.list_waiting("a", FLOW_WAIT) == []
    assert [one.id for one in await world.store.read_signals("a", run)] == ["1"]
