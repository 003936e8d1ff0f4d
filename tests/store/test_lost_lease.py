"""A lease that expired, and whose worker comes back: what still counts, and what is a crash."""

from __future__ import annotations

from typing import Any

import pytest

from minuet.store.changes import Cancel, Pause, Resume, RetryRun
from minuet.store.exchange import Failed, Released, Retried, Slot, Take, Waiting
from minuet.store.records import PAYLOAD_BYTES_MAX, RETURNS_MAX


def name(grant: Any) -> tuple[str, str, str, str]:
    return (grant.run, grant.node, grant.scope, grant.lease)


async def lose(world: Any, **fields: Any) -> Any:
    """Take the only token and let the lease expire."""
    grant = await world.take_one(**fields)
    await expire(world)
    return grant


async def expire(world: Any) -> None:
    world.clock.advance(30_000)
    assert (await world.sweep()).expired >= 1


async def lose_and_take_again(world: Any) -> Any:
    """Take a token under the lease that it has lost, as a call does that is repeated after the
    store has forgotten its session."""
    lost = await lose(world, session="first", lease="the-same")
    grant = await world.take_one(session="second", lease="the-same")
    assert (grant.lease, grant.expiry) == (lost.lease, 1)
    return grant


# ── nobody has taken the token since ────────────────────────────────────────────────────


async def test_a_late_result_counts_while_nobody_else_has_taken_the_token(world: Any) -> None:
    run = await world.start("a")
    grant = await lose(world)

    assert await world.hand_in(world.done(grant)) == ("applied",)

    assert (await world.run(run)).status == "COMPLETED"
    assert (await world.events(run))[2:] == [
        *("lease.expired", "lease.returned", "node.completed", "run.completed"),
    ]
    assert (await world.token(run, "a")).expiry == 0


async def test_a_late_result_counts_once(world: Any) -> None:
    await world.start("a")
    done = world.done(await lose(world), "b")

    assert await world.hand_in(done, done) == ("applied", "duplicate")


@pytest.mark.parametrize(
    "item",
    [
        lambda g: Retried(*name(g), error={"code": "x"}),
        lambda g: Failed(*name(g), error={"code": "x"}),
        lambda g: Waiting(*name(g), kind="signal"),
        lambda g: Released(*name(g)),
    ],
    ids=["retry", "failed", "waiting", "released"],
)
async def test_everything_that_is_handed_in_late_counts(world: Any, item: Any) -> None:
    run = await world.start("a")
    late = item(await lose(world))

    assert await world.hand_in(late, late) == ("applied", "duplicate")

    assert (await world.token(run, "a")).expiry == 0


@pytest.mark.parametrize(
    ("result", "fields"),
    [
        ("replan", {"plan": "other"}),
        ("limit", {"output": b"1" * (PAYLOAD_BYTES_MAX + 1)}),
        ("full", {"output_bytes": 2, "max_bytes": 1}),
    ],
)
async def test_a_late_result_that_is_handed_in_again_takes_the_lease_up_again(
    world: Any, result: str, fields: Any
) -> None:
    run = await world.start("a")
    grant = await lose(world)

    reply = await world.exchange(
        world.request(hand_in=(world.done(grant, **fields),), take=(Take(("q",), 1),))
    )

    assert (reply.results, reply.granted) == ((result,), ())
    token = await world.token(run, "a")
    assert (token.state, token.expiry, token.lost) == ("leased", 0, ())
    assert await world.hand_in(world.done(grant)) == ("applied",)


async def test_a_late_renewal_takes_the_lease_up_again(world: Any, held: Any) -> None:
    run = await world.start("a")
    grant = await lose(world)

    reply = await world.exchange(world.request(renew=(held(grant),), take=(Take(("q",), 1),)))

    assert (reply.revoked, reply.granted) == ((), ())
    token = await world.token(run, "a")
    assert (token.state, token.expiry, token.lost) == ("leased", 0, ())
    assert token.due_ms == world.clock.now_ms() + 30_000
    assert (await world.last_event(run, "lease.returned")).late is False
    await world.finish(grant)


async def test_a_lease_can_expire_and_be_taken_up_again_any_number_of_times(
    world: Any, held: Any
) -> None:
    run = await world.start("a")
    grant = await world.take_one()
    for _ in range(RETURNS_MAX + 2):
        await expire(world)
        assert (await world.token(run, "a")).expiry == 1
        reply = await world.exchange(world.request(renew=(held(grant),)))
        assert reply.revoked == ()

    await world.finish(grant)


async def test_a_token_that_was_taken_again_under_its_lost_lease_is_handed_in_once(
    world: Any,
) -> None:
    run = await world.start("a")
    retried = Retried(*name(await lose_and_take_again(world)), error={"code": "x"})

    assert await world.hand_in(retried, session="second") == ("applied",)
    assert await world.hand_in(retried, session="second") == ("duplicate",)

    token = await world.token(run, "a")
    assert (token.attempt, token.expiry, token.lost) == (2, 0, ())


async def test_a_lost_lease_that_is_held_again_is_forgiven_when_it_is_renewed(
    world: Any, held: Any
) -> None:
    run = await world.start("a")
    grant = await lose_and_take_again(world)
    world.clock.advance(10)

    await world.exchange(world.request(session="second", renew=(held(grant),)))

    token = await world.token(run, "a")
    assert (token.state, token.expiry, token.lost) == ("leased", 0, ())
    assert token.due_ms == world.clock.now_ms() + 30_000
    await world.hand_in(world.done(grant), session="second")
    assert (await world.run(run)).status == "COMPLETED"


async def test_a_step_is_kept_while_nobody_else_has_taken_the_token(world: Any) -> None:
    run = await world.start("a")
    grant = await lose(world)

    assert await world.record(grant, "one") == b"1"

    assert (await world.token(run, "a")).state == "ready"
    assert (await world.take_one()).expiry == 1


# ── somebody has ────────────────────────────────────────────────────────────────────────


@pytest.mark.shows("I-27")
async def test_after_the_token_was_taken_again_a_late_result_is_stale(world: Any) -> None:
    run = await world.start("a")
    lost = await lose(world)
    current = await world.take_one(session="other")

    assert await world.hand_in(world.done(lost, "b")) == ("stale",)

    token = await world.token(run, "a")
    assert (token.state, token.lease) == ("leased", current.lease)
    await world.finish(current, session="other")


async def test_a_worker_that_comes_back_too_late_did_not_crash(world: Any, held: Any) -> None:
    run = await world.start("a")
    first = await lose(world)
    second = await world.take_one(session="other")
    assert second.expiry == 1

    reply = await world.exchange(world.request(renew=(held(first),)))

    assert reply.revoked == (held(first),)
    assert (await world.token(run, "a")).expiry == 0
    returned = await world.last_event(run, "lease.returned")
    assert (returned.lease, returned.late, returned.expiry) == (first.lease, True, 0)


async def test_a_stale_result_says_as_well_that_its_worker_lives(world: Any) -> None:
    run = await world.start("a")
    first = await lose(world)
    await world.take_one(session="other")

    assert await world.hand_in(world.done(first)) == ("stale",)

    assert (await world.token(run, "a")).expiry == 0


async def test_coming_back_counts_once(world: Any, held: Any) -> None:
    run = await world.start("a")
    first = await lose(world)
    await lose(world, session="other")
    await world.take_one(session="third")
    assert (await world.token(run, "a")).expiry == 2

    for _ in range(2):
        await world.exchange(world.request(renew=(held(first),)))

    assert (await world.token(run, "a")).expiry == 1


async def test_a_worker_that_does_not_come_back_stays_counted(world: Any, held: Any) -> None:
    run = await world.start("a")
    for number in range(3):
        await lose(world, session=f"dead-{number}")
    lost = await lose(world, session="alive")
    current = await world.take_one()
    assert current.expiry == 4

    await world.exchange(world.request(renew=(held(lost),), session="alive"))

    assert (await world.token(run, "a")).expiry == 3


async def test_a_token_that_waits_hears_of_workers_that_come_back(world: Any, held: Any) -> None:
    run = await world.start("a")
    first = await lose(world)
    second = await world.take_one(session="other")
    await world.hand_in(Waiting(*name(second), kind="signal"), session="other")

    reply = await world.exchange(world.request(renew=(held(first),)))

    assert reply.revoked == (held(first),)
    token = await world.token(run, "a")
    assert (token.state, token.expiry) == ("waiting", 0)


async def test_a_handler_that_always_outlasts_its_lease_is_given_up_at_last(
    world: Any, held: Any
) -> None:
    """Otherwise two workers would hand it to each other for ever."""
    run = await world.start("a")
    before = await lose(world, session="0")
    for number in range(1, RETURNS_MAX + 3):
        current = await world.take_one(session=str(number))
        renew = (held(before),)
        await world.exchange(world.request(session=str(number - 1), renew=renew))
        await expire(world)
        before = current

    assert (await world.token(run, "a")).expiry == 3


# ── what ends a lease for good ──────────────────────────────────────────────────────────


async def test_a_lease_of_the_generation_before_is_worthless(world: Any, held: Any) -> None:
    run = await world.start("a")
    lost = await lose(world)
    await world.change(run, Cancel())
    await world.change(run, RetryRun())

    reply = await world.exchange(world.request(world.done(lost), renew=(held(lost),)))

    assert (reply.results, reply.revoked) == (("stale",), (held(lost),))
    token = await world.token(run, "a")
    assert (token.state, token.expiry, token.lost) == ("ready", 0, ())


async def test_a_late_result_of_a_cancelled_run_is_closed(world: Any, held: Any) -> None:
    run = await world.start("a")
    lost = await lose(world)
    await world.change(run, Cancel())

    reply = await world.exchange(world.request(world.done(lost), renew=(held(lost),)))

    assert (reply.results, reply.revoked) == (("closed",), (held(lost),))
    assert (await world.events(run))[-1] == "run.cancelled"


async def test_in_a_paused_run_a_late_worker_may_finish(world: Any, held: Any) -> None:
    run = await world.start("a")
    lost = await lose(world)
    await world.change(run, Pause())
    assert await world.take() == []

    reply = await world.exchange(world.request(renew=(held(lost),)))
    assert reply.revoked == ()
    await world.finish(lost)

    assert (await world.run(run)).status == "COMPLETED"


async def test_a_lease_that_expires_in_a_paused_run_can_be_taken_up_again(
    world: Any, held: Any
) -> None:
    run = await world.start("a")
    grant = await world.take_one()
    await world.change(run, Pause())
    await expire(world)

    assert await world.hand_in(world.done(grant)) == ("applied",)
    assert (await world.run(run)).status == "COMPLETED"


# ── concurrency slots ───────────────────────────────────────────────────────────────────


def slot(grant: Any, key: str = "k", limit: int = 1) -> Slot:
    return Slot(*name(grant), key=key, limit=limit)


async def test_an_expired_lease_keeps_its_slot_for_the_worker_that_goes_on(
    world: Any, held: Any
) -> None:
    first, second = await world.start("a"), await world.start("a")
    running, waiting = await world.take()
    assert (running.run, waiting.run) == (first, second)
    assert await world.hand_in(slot(running), slot(waiting)) == ("held", "applied")
    await expire(world)

    await world.exchange(world.request(renew=(held(running),)))

    assert await world.take() == []
    await world.finish(running)
    assert (await world.take_one()).run == second


async def test_the_worker_that_takes_an_expired_token_gets_its_slot_with_it(world: Any) -> None:
    first, second = await world.start("a"), await world.start("a")
    await world.hand_in(*map(slot, await world.take()))
    await expire(world)

    taken = await world.take_one(session="other")

    assert (taken.run, taken.slot) == (first, "k")
    await world.finish(taken, session="other")
    assert (await world.take_one()).run == second


async def test_a_slot_that_was_lost_in_a_pause_ends_the_lease_for_good(
    world: Any, held: Any
) -> None:
    first, second = await world.start("a"), await world.start("a")
    running, waiting = await world.take()
    await world.hand_in(slot(running), slot(waiting))
    await world.change(first, Pause())
    await expire(world)
    assert (await world.take_one(session="other")).run == second

    reply = await world.exchange(world.request(renew=(held(running),)))

    assert reply.revoked == (held(running),)
    token = await world.token(first, "a")
    assert (token.expiry, token.slot) == (0, "")
    await world.change(first, Resume())
    assert (await world.take_one()).slot == ""


async def test_a_late_question_for_a_slot_is_answered(world: Any) -> None:
    await world.start("a")
    grant = await lose(world)

    assert await world.hand_in(slot(grant)) == ("held",)

    await world.finish(grant)
