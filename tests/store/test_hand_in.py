"""exchange, handing in `Retried`, `Failed`, `Waiting` and `Released`."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from minuet.errors import InputError, RunConflictError
from minuet.store.changes import Cancel, RetryRun
from minuet.store.exchange import Failed, Released, Retried, Waiting
from minuet.store.records import FIRST_PLACE, TIMED_OUT, EventRecord


def name(grant: Any) -> tuple[str, str, str, str]:
    return (grant.run, grant.node, grant.scope, grant.lease)


# ── retry ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.shows("J-01")
async def test_a_retried_token_comes_back_after_its_delay_as_the_next_attempt(world: Any) -> None:
    run = await world.start("a")
    grant = await world.take_one()

    assert await world.hand_in(Retried(*name(grant), error={"code": "x"}, delay_ms=500)) == (
        "applied",
    )
    assert await world.take() == []
    world.clock.advance(499)
    assert await world.take() == []
    world.clock.advance(1)

    again = await world.take_one()
    assert (again.attempt, again.expiry, again.delivery) == (2, 0, 2)
    assert (await world.last_event(run, "node.retried")).error == {"code": "x"}


async def test_a_retry_handed_in_twice_counts_once(world: Any) -> None:
    run = await world.start("a")
    retry = Retried(*name(await world.take_one()), error={}, delay_ms=0)

    assert await world.hand_in(retry, retry) == ("applied", "duplicate")

    assert (await world.token(run, "a")).attempt == 2


async def test_a_retry_under_a_lost_lease_is_stale(world: Any) -> None:
    await world.start("a")
    lost = await world.take_one()
    world.clock.advance(31_000)
    await world.sweep()
    await world.take_one(session="other")

    assert await world.hand_in(Retried(*name(lost))) == ("stale",)


# ── failed ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.shows("K-01", "K-04", "K-06", "K-15")
async def test_a_failed_node_fails_the_run_and_nothing_more_is_handed_out(world: Any) -> None:
    run = await world.start("a", "b", "c")
    first, second = await world.take(limit=2)

    assert await world.hand_in(Failed(*name(first), error={"code": "x"})) == ("applied",)

    row = await world.run(run)
    assert (row.status, row.counter) == ("FAILED", 0)
    assert row.error == {"code": "x", "node": "a", "scope": ""}
    assert await world.take() == []
    assert await world.hand_in(world.done(second)) == ("closed",)
    assert (await world.token(run, "c")).outcome == "cancelled"
    assert (await world.events(run))[-2:] == ["node.failed", "run.failed"]


@pytest.mark.shows("J-21", "J-24")
async def test_a_dead_letter_keeps_what_failed_and_why(world: Any) -> None:
    run = await world.start("a")
    grant = await world.take_one()
    await world.hand_in(Failed(*name(grant), error={"code": "x"}, dead_letter="non_retryable"))

    (letter,) = await world.store.list_dead_letters("a")

    assert (letter.run, letter.node, letter.generation) == (run, "a", 1)
    assert (letter.reason, letter.error, letter.attempts) == ("non_retryable", {"code": "x"}, 1)
    assert (letter.status, letter.settled_ms, letter.why) == ("pending", None, "")
    assert letter.workflow == (await world.run(run)).workflow
    assert (await world.run(run)).dead_letters == 1


async def test_failures_of_the_same_kind_have_the_same_fingerprint(world: Any) -> None:
    for code, message in [("x", "order 1"), ("x", "order 2"), ("y", "order 1")]:
        await world.start("a")
        grant = await world.take_one()
        error = {"code": code, "message": message}
        await world.hand_in(Failed(*name(grant), error=error, dead_letter="all"))

    first, second, third = await world.store.list_dead_letters("a")

    assert first.fingerprint == second.fingerprint != third.fingerprint


async def test_a_failure_without_a_dead_letter_leaves_none(world: Any) -> None:
    await world.start("a")
    await world.hand_in(Failed(*name(await world.take_one()), error={}))

    assert await world.store.list_dead_letters("a") == []


async def test_retrying_the_run_takes_its_dead_letters_up_again(world: Any) -> None:
    run = await world.start("a")
    await world.hand_in(Failed(*name(await world.take_one()), error={}, dead_letter="all"))
    world.clock.advance(5)
    await world.change(run, RetryRun())

    assert await world.store.list_dead_letters("a") == []
    (letter,) = await world.store.list_dead_letters("a", status="reprocessed")
    assert (letter.run, letter.settled_ms) == (run, world.clock.now_ms())
    await world.hand_in(Failed(*name(await world.take_one()), error={}, dead_letter="all"))
    letters = await world.store.list_dead_letters("a", run=run, status=None)
    assert [(v.generation, v.status) for v in letters] == [(1, "reprocessed"), (2, "pending")]


async def test_a_dead_letter_is_discarded_once(world: Any) -> None:
    run = await world.start("a")
    await world.hand_in(Failed(*name(await world.take_one()), error={}, dead_letter="all"))

    world.clock.advance(5)

    assert not await world.store.discard_dead_letter("a", run, 2, "the wrong generation")
    assert await world.store.discard_dead_letter("a", run, 1, "a\0b ключ")
    world.clock.advance(5)
    assert not await world.store.discard_dead_letter("a", run, 1, "again")

    (letter,) = await world.store.list_dead_letters("a", status=None)
    assert (letter.status, letter.why) == ("discarded", "a\0b ключ")
    assert letter.settled_ms == world.clock.now_ms() - 5


async def test_a_discarded_dead_letter_stays_discarded_when_its_run_is_retried(world: Any) -> None:
    run = await world.start("a")
    await world.hand_in(Failed(*name(await world.take_one()), error={}, dead_letter="all"))
    await world.store.discard_dead_letter("a", run, 1)
    (before,) = await world.store.list_dead_letters("a", status=None)
    world.clock.advance(5)
    await world.change(run, RetryRun())

    assert await world.store.list_dead_letters("a", status=None) == [before]


async def test_dead_letters_are_listed_oldest_first_up_to_the_limit(world: Any) -> None:
    runs = []
    for _ in range(3):
        runs.append(await world.start("a"))
        grant = await world.take_one()
        world.clock.advance(1)
        await world.hand_in(Failed(*name(grant), error={}, dead_letter="all"))

    assert [v.run for v in await world.store.list_dead_letters("a", limit=2)] == runs[:2]
    assert [v.run for v in await world.store.list_dead_letters("a", run=runs[2])] == [runs[2]]


async def test_dead_letters_are_read_page_by_page_while_they_are_dealt_with(world: Any) -> None:
    runs = []
    for number in range(5):
        runs.append(await world.start("a"))
        grant = await world.take_one()
        world.clock.advance(number % 2)
        await world.hand_in(Failed(*name(grant), error={}, dead_letter="all"))
    whole = await world.store.list_dead_letters("a")

    pages, after = [], FIRST_PLACE
    while page := await world.store.list_dead_letters("a", after=after, limit=2):
        pages.append(page)
        after = page[-1].place
        # The last of a page is where the next one begins, also when it has left the list.
        await world.store.discard_dead_letter("a", page[-1].run, 1)

    assert [letter for page in pages for letter in page] == whole
    assert [len(page) for page in pages] == [2, 2, 1]
    assert sorted(letter.run for letter in whole) == sorted(runs)
    of_run = {"run": whole[1].run, "status": None}
    assert len(await world.store.list_dead_letters("a", after=whole[0].place, **of_run)) == 1
    assert await world.store.list_dead_letters("a", after=whole[1].place, **of_run) == []


# ── waiting ─────────────────────────────────────────────────────────────────────────────


async def test_a_waiting_token_counts_and_is_not_handed_out(world: Any) -> None:
    run = await world.start("a")
    grant = await world.take_one()

    await world.hand_in(Waiting(*name(grant), kind="signal", key="k", data=b'{"form":1}'))

    assert (await world.run(run)).counter == 1
    assert await world.take() == []
    (waiting,) = await world.store.list_waiting("a", "signal")
    assert (waiting.run, waiting.wait_key) == (run, "k")
    assert bytes((await world.last_event(run, "node.waiting")).data) == b'{"form":1}'


async def test_the_first_resolution_wins(world: Any) -> None:
    run = await world.start("a")
    await world.hand_in(Waiting(*name(await world.take_one()), kind="signal"))

    assert await world.resolve((run, "a", ""), b'"first"', by="ann")
    assert not await world.resolve((run, "a", ""), b'"second"', by="bob")

    assert (await world.take_one()).resolution == b'"first"'
    assert (await world.last_event(run, "node.resumed")).by == "ann"
    assert await world.store.list_waiting("a", "signal") == []


async def test_a_resolution_may_ask_for_the_key_waited_for(world: Any) -> None:
    run = await world.start("a")
    await world.hand_in(Waiting(*name(await world.take_one()), kind="signal", key="now"))

    assert not await world.resolve((run, "a", ""), wait_key="before")
    assert await world.resolve((run, "a", ""), wait_key="now")


async def test_a_resolution_for_nobody_changes_nothing(world: Any) -> None:
    run = await world.start("a")

    assert not await world.resolve((run, "a", ""))
    assert not await world.resolve((run, "nowhere", ""))
    assert not await world.resolve(("no-such-run", "a", ""))

    assert (await world.run(run)).seq == 2


async def test_a_timer_fires_when_it_is_due(world: Any) -> None:
    run = await world.start("a")
    await world.hand_in(Waiting(*name(await world.take_one()), delay_ms=1000))

    world.clock.advance(999)
    assert (await world.sweep()).resumed == 0
    world.clock.advance(1)
    assert (await world.sweep()).resumed == 1

    grant = await world.take_one()
    assert (grant.resolution, grant.timed_out, grant.is_resumed) == (None, True, True)
    assert (await world.events(run))[-2:] == ["node.waiting", "node.resumed"]
    assert (await world.last_event(run, "node.resumed")).timed_out


@pytest.mark.parametrize("data", [TIMED_OUT, b" " + TIMED_OUT + b"\n", b"null", b'""'])
async def test_data_that_looks_like_a_timeout_is_not_one(world: Any, data: bytes) -> None:
    run = await world.start("a")
    await world.hand_in(Waiting(*name(await world.take_one()), kind="signal"))

    assert await world.resolve((run, "a", ""), data)

    grant = await world.take_one()
    assert (grant.timed_out, grant.is_resumed) == (False, True)
    event = await world.last_event(run, "node.resumed")
    assert not event.timed_out
    for stored in (grant.resolution, bytes(event.resolution)):
        assert msgspec.json.decode(stored) == msgspec.json.decode(data)
        # Rows are made of events again, and this is how rows spell a timeout.
        assert stored != TIMED_OUT


async def test_a_token_that_an_earlier_version_resumed_is_a_timeout(world: Any) -> None:
    run = await world.start("a")
    await world.hand_in(Waiting(*name(await world.take_one()), delay_ms=1))
    world.clock.advance(1)
    await world.sweep()
    rows = await world.store.read_snapshot("a", run)
    (token,) = rows.tokens
    token.resolution = b'{"timed_out":true}'
    *before, last = rows.events
    old = EventRecord(
        run, last.seq, last.at_ms, last.data.removesuffix(b',"timed_out":true}') + b"}"
    )
    rows = msgspec.structs.replace(rows, events=(*before, old), tokens=(token,))
    assert await world.store.put_run("a", rows, rows.run.seq)

    grant = await world.take_one()

    assert (grant.resolution, grant.timed_out) == (None, True)
    assert not (await world.last_event(run, "node.resumed")).timed_out


@pytest.mark.parametrize("data", [b"", b"yes", b"{", b"1 2", b"NaN", b'"\xff"', b"[" * 5000])
async def test_what_is_not_json_resolves_nothing(world: Any, data: bytes) -> None:
    run = await world.start("a")
    await world.hand_in(Waiting(*name(await world.take_one()), kind="signal"))

    with pytest.raises(InputError, match="valid JSON"):
        await world.resolve((run, "a", ""), data)

    assert len(await world.store.list_waiting("a", "signal")) == 1
    assert (await world.events(run))[-1] == "node.waiting"


async def test_who_waits_without_a_time_limit_waits_for_ever(world: Any) -> None:
    await world.start("a")
    await world.hand_in(Waiting(*name(await world.take_one()), kind="signal"))
    world.clock.advance(10**12)

    assert await world.sweep() == await world.sweep()
    assert len(await world.store.list_waiting("a", "signal")) == 1


async def test_waiting_handed_in_twice_counts_once(world: Any) -> None:
    await world.start("a")
    waiting = Waiting(*name(await world.take_one()), kind="signal")

    assert await world.hand_in(waiting, waiting) == ("applied", "duplicate")


async def test_a_cancelled_run_waits_for_nothing(world: Any) -> None:
    run = await world.start("a")
    await world.hand_in(Waiting(*name(await world.take_one()), kind="signal"))
    await world.change(run, Cancel())

    assert await world.store.list_waiting("a", "signal") == []
    assert not await world.resolve((run, "a", ""))


async def test_waiting_tokens_are_listed_by_kind_and_key(world: Any) -> None:
    runs = [await world.start("a") for _ in range(3)]
    for grant, (kind, key) in zip(
        await world.take(), [("signal", "x"), ("signal", "y"), ("timer", "x")], strict=True
    ):
        await world.hand_in(Waiting(*name(grant), kind=kind, key=key))

    listed = world.store.list_waiting
    assert [t.run for t in await listed("a", "signal")] == runs[:2]
    assert [t.run for t in await listed("a", "signal", key="y")] == [runs[1]]
    assert [t.run for t in await listed("a", "signal", limit=1)] == [runs[0]]
    assert await listed("a", "approval") == []


# ── released ────────────────────────────────────────────────────────────────────────────


async def test_a_released_token_is_ready_at_once_and_no_attempt_is_counted(world: Any) -> None:
    run = await world.start("a")
    grant = await world.take_one()

    assert await world.hand_in(Released(*name(grant))) == ("applied",)

    again = await world.take_one()
    assert (again.attempt, again.expiry, again.delivery) == (1, 0, 2)
    assert await world.events(run) == ["run.created", "run.started"]
    assert await world.hand_in(world.done(grant)) == ("stale",)


async def test_a_release_after_the_run_has_ended_is_refused(world: Any) -> None:
    await world.start("a", "b")
    first, second = await world.take()
    await world.hand_in(Failed(*name(first), error={}))

    assert await world.hand_in(Released(*name(second))) == ("closed",)


async def test_only_runs_that_failed_or_were_cancelled_can_be_retried(world: Any) -> None:
    run = await world.start("a")

    with pytest.raises(RunConflictError, match="is RUNNING"):
        await world.change(run, RetryRun())
