"""change_run, with `Repair`: somebody decides what becomes of a token; and tokens that are held."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from minuet.bridge.snapshot import events_of, state_of
from minuet.errors import InputError, RunConflictError
from minuet.kernel.fold import fold
from minuet.kernel.ledger import Ledger
from minuet.store.changes import Cancel, Pause, Repair, RepairAction, Resume, RetryRun
from minuet.store.exchange import Failed, Held, Retried, Slot, Waiting

ERROR = {"code": "x", "message": "broken"}


def name(grant: Any) -> tuple[str, str, str, str]:
    return (grant.run, grant.node, grant.scope, grant.lease)


async def check_fold(world: Any, run: str) -> None:
    """The rows are what the events fold into, and dead letters are what they count."""
    snapshot = await world.snapshot(run)
    history = events_of(snapshot)
    assert state_of(snapshot) == fold(history)
    letters = {(d.node, d.scope, d.generation) for d in snapshot.dead_letters}
    assert letters == Ledger(history).dead_letters


async def repair(world: Any, run: str, node: str, action: RepairAction, **fields: Any) -> Any:
    changed = await world.change(run, Repair(node, "", action, **fields))
    await check_fold(world, run)
    return changed


async def fail(world: Any, *, hold: bool = False, node: str = "a", **fields: Any) -> None:
    """Let the only node that is ready fail for good."""
    grants = {grant.node: grant for grant in await world.take()}
    failed = Failed(*name(grants[node]), error=ERROR, dead_letter="final", hold=hold, **fields)
    assert await world.hand_in(failed) == ("applied",)


# ── skip ────────────────────────────────────────────────────────────────────────────────


async def bring_to(world: Any, state: str) -> tuple[str, Any]:
    """A run whose only token is in some state, and the grant of its worker."""
    run = await world.start("a")
    if state == "ready":
        return run, None
    grant = await world.take_one(runs=(run,))
    match state:
        case "delayed":
            await world.hand_in(Retried(*name(grant), error=ERROR, delay_ms=60_000))
        case "waiting":
            await world.hand_in(Waiting(*name(grant), kind="signal", key="k"))
        case "held":
            await world.hand_in(Failed(*name(grant), error=ERROR, dead_letter="final", hold=True))
        case "failed":
            await world.hand_in(Failed(*name(grant), error=ERROR, dead_letter="final"))
        case "expired":
            world.clock.advance(31_000)
            await world.sweep()
    return run, grant


STATES = ("ready", "delayed", "leased", "expired", "waiting", "held", "failed")


async def test_a_token_that_has_not_settled_is_skipped(world: Any) -> None:
    for state in STATES:
        run, late = await bring_to(world, state)

        changed = await repair(world, run, "a", "skip", by="ann", why="not needed")

        assert (changed.status, changed.counter) == ("RUNNING", 1)
        assert changed.generation == (2 if state == "failed" else 1)
        event = await world.last_event(run, "node.repaired")
        assert (event.action, event.by, event.why) == ("skip", "ann", "not needed")
        grant = await world.take_one(queues=("",), session="other")
        assert (grant.run, grant.skip) == (run, True)
        if state in ("leased", "expired"):
            assert event.lease == late.lease
            assert await world.hand_in(world.done(late)) == ("stale",)
        await world.finish(grant, outcome="skipped", output=b"null", session="other")
        assert (await world.run(run)).status == "COMPLETED"
        assert (await world.token(run, "a")).outcome == "skipped"
        await check_fold(world, run)


# ── set output ──────────────────────────────────────────────────────────────────────────


async def test_a_token_gets_an_output_that_a_worker_routes(world: Any) -> None:
    for state in STATES:
        run, late = await bring_to(world, state)

        await repair(world, run, "a", "output", value=b'{"n": 7}', by="ann", why="known")

        event = await world.last_event(run, "node.repaired")
        assert (event.action, bytes(event.value)) == ("output", b'{"n": 7}')
        grant = await world.take_one(queues=("",), session="other")
        assert (grant.run, grant.skip) == (run, False)
        assert grant.given == (await world.run(run)).seq
        if state in ("leased", "expired"):
            assert await world.hand_in(world.done(late)) == ("stale",)
        await world.finish(grant, "b", output=b'{"n": 7}', session="other")
        below = await world.take_one(runs=(run,))
        assert below.inputs[0].data == b'{"n": 7}'
        await world.finish(below)
        await check_fold(world, run)


async def test_an_item_of_a_foreach_keeps_its_queue(world: Any) -> None:
    run = await world.start("a")

    await repair(world, run, "a", "output", value=b"1", anywhere=False)

    assert await world.take(queues=("",)) == []
    assert (await world.take_one(queues=("q",))).given


async def test_an_output_that_is_set_again_is_the_last_one(world: Any) -> None:
    run = await world.start("a")
    await repair(world, run, "a", "output", value=b"1")
    first = await world.take_one()
    await repair(world, run, "a", "output", value=b"2")

    assert await world.hand_in(world.done(first, output=b"1")) == ("stale",)
    assert (await world.take_one()).given == (await world.run(run)).seq


async def test_what_was_decided_outlives_a_cancellation_and_a_retry(world: Any) -> None:
    run = await world.start("a", "b")
    await repair(world, run, "a", "output", value=b"1")
    given = (await world.run(run)).seq
    await repair(world, run, "b", "skip")
    await world.change(run, Cancel())
    await world.change(run, RetryRun())
    await check_fold(world, run)

    grants = {grant.node: grant for grant in await world.take()}

    assert (grants["a"].given, grants["b"].skip) == (given, True)


async def test_a_decision_in_a_paused_run_waits_until_it_goes_on(world: Any) -> None:
    run = await world.start("a")
    await world.change(run, Pause())
    await repair(world, run, "a", "skip")

    assert await world.take() == []
    await world.change(run, Resume())
    assert (await world.take_one()).skip


async def test_a_decision_frees_the_slot(world: Any) -> None:
    first, second = await world.start("a"), await world.start("a")
    grants = {grant.run: grant for grant in await world.take()}
    answers = [
        (await world.hand_in(Slot(*name(grants[run]), key="k", limit=1)))[0]
        for run in (first, second)
    ]
    if "limit" in answers:
        return  # A cluster has no slots.
    assert answers == ["held", "applied"]

    await repair(world, first, "a", "skip")

    taken = {grant.run: grant for grant in await world.take()}
    assert (taken[first].skip, taken[second].slot) == (True, "k")


# ── taking back ─────────────────────────────────────────────────────────────────────────


async def test_a_token_is_taken_back_from_a_worker(world: Any) -> None:
    for state in ("leased", "expired"):
        run, late = await bring_to(world, state)

        await repair(world, run, "a", "take_back", by="ann", why="it hangs")

        event = await world.last_event(run, "node.repaired")
        assert (event.action, event.lease, event.session) == ("take_back", late.lease, "s")
        reply = await world.exchange(world.request(renew=(Held(*name(late)),)))
        assert [held.lease for held in reply.revoked] == [late.lease]
        assert await world.hand_in(world.done(late)) == ("stale",)
        again = await world.take_one(session="other")
        assert (again.attempt, again.delivery) == (1, 2)
        assert await world.hand_in(world.done(late)) == ("stale",)
        await world.finish(again, session="other")
        await check_fold(world, run)


async def test_only_a_token_that_a_worker_has_is_taken_back(world: Any) -> None:
    run = await world.start("a")

    with pytest.raises(RunConflictError, match="no worker holds it"):
        await world.change(run, Repair("a", "", "take_back"))


# ── what is refused ─────────────────────────────────────────────────────────────────────


async def refused(world: Any, run: str, action: RepairAction, node: str = "a") -> str:
    before = await world.snapshot(run)
    with pytest.raises(RunConflictError) as caught:
        await world.change(run, Repair(node, "", action, value=b"{}"))
    assert await world.snapshot(run) == before
    return str(caught.value)


ACTIONS: tuple[RepairAction, ...] = ("skip", "output", "take_back", "retry", "fail", "edit")


async def test_what_has_settled_stays_as_it_is(world: Any) -> None:
    run = await world.start("a", "b", "c")
    grants = {grant.node: grant for grant in await world.take()}
    await world.finish(grants["a"])
    await world.finish(grants["b"], outcome="skipped", output=b"null")
    for action in ACTIONS:
        wanted = "it has not failed" if action == "edit" else "it has completed"
        assert wanted in await refused(world, run, action)
        wanted = "it has not failed" if action == "edit" else "it was skipped"
        assert wanted in await refused(world, run, action, "b")
        assert "no such instance" in await refused(world, run, action, "x")
    await world.change(run, Cancel())
    for action in ACTIONS:
        wanted = "it has not failed" if action == "edit" else "the run is CANCELLED"
        assert wanted in await refused(world, run, action, "c")


async def test_a_node_whose_fan_out_goes_on_has_completed(world: Any) -> None:
    run = await world.start("a")
    await world.finish(await world.take_one(), "b", cursor=1)

    assert "it has completed" in await refused(world, run, "skip")
    assert "it has completed" in await refused(world, run, "output")


async def test_a_node_that_is_being_skipped_is_not_decided_again(world: Any) -> None:
    run = await world.start("a")
    await repair(world, run, "a", "skip")

    assert "it is being skipped" in await refused(world, run, "skip")
    assert "it is being skipped" in await refused(world, run, "output")


async def test_of_a_failed_run_only_what_failed_is_decided(world: Any) -> None:
    run = await world.start("a", "b")
    await fail(world)

    assert "the run is FAILED" in await refused(world, run, "skip", "b")
    assert "the run is FAILED" in await refused(world, run, "retry")
    changed = await repair(world, run, "a", "skip")
    assert (changed.status, changed.generation, changed.counter) == ("RUNNING", 2, 2)
    assert (await world.events(run))[-2:] == ["run.retried", "node.repaired"]
    assert (await world.token(run, "b")).state == "ready"
    (letter,) = await world.store.list_dead_letters("a", status=None)
    assert letter.status == "reprocessed"


async def test_a_generation_that_a_decision_begins_has_its_own_deadline(world: Any) -> None:
    run = await world.start("a")
    await fail(world)

    changed = await repair(world, run, "a", "skip", deadline_ms=500)

    assert changed.deadline_ms == world.clock.now_ms() + 500


async def test_an_output_is_json(world: Any) -> None:
    run = await world.start("a")

    for value in (b"", b"{", b"nonsense"):
        with pytest.raises(InputError):
            await world.change(run, Repair("a", "", "output", value=value))


# ── held ────────────────────────────────────────────────────────────────────────────────


async def test_a_held_token_is_alive_and_the_rest_goes_on(world: Any) -> None:
    run = await world.start("a", "b")
    grants = {grant.node: grant for grant in await world.take()}
    held = Failed(*name(grants["a"]), error=ERROR, dead_letter="final", hold=True)

    assert await world.hand_in(held, held) == ("applied", "duplicate")

    row = await world.run(run)
    assert (row.status, row.counter, row.dead_letters) == ("RUNNING", 2, 1)
    token = await world.token(run, "a")
    assert (token.state, token.wait, token.wait_event) == ("waiting", "hold", row.seq)
    event = await world.last_event(run, "node.held")
    assert (event.error, event.dead_letter, event.lease) == (ERROR, "final", grants["a"].lease)
    (letter,) = await world.store.list_dead_letters("a")
    assert (letter.node, letter.held, letter.status) == ("a", True, "pending")
    await world.finish(grants["b"])
    assert (await world.run(run)).counter == 1
    world.clock.advance(10**9)
    await world.sweep()
    assert await world.take() == []
    await check_fold(world, run)


async def test_a_held_token_that_is_retried_begins_with_its_first_attempt(world: Any) -> None:
    run = await world.start("a")
    await world.hand_in(Retried(*name(await world.take_one()), error=ERROR))
    await fail(world, hold=True)
    world.clock.advance(5)

    await repair(world, run, "a", "retry", by="ann")

    assert (await world.take_one()).attempt == 1
    assert (await world.run(run)).generation == 1
    (letter,) = await world.store.list_dead_letters("a", status=None)
    assert (letter.status, letter.settled_ms) == ("reprocessed", world.clock.now_ms())


async def test_a_token_that_is_held_again_is_the_same_dead_letter(world: Any) -> None:
    run = await world.start("a")
    await fail(world, hold=True)
    await repair(world, run, "a", "retry")
    world.clock.advance(5)
    await fail(world, hold=True)
    await check_fold(world, run)

    (letter,) = await world.store.list_dead_letters("a", run=run, status=None)
    assert (letter.status, letter.at_ms) == ("pending", world.clock.now_ms())
    assert await world.store.list_dead_letters("a") == [letter]
    assert await world.store.list_dead_letters("a", status="reprocessed") == []


async def test_several_tokens_of_a_run_are_held_at_once(world: Any) -> None:
    run = await world.start("a", "b", "c")
    for grant in await world.take():
        failed = Failed(*name(grant), error=ERROR, dead_letter="final", hold=grant.node != "c")
        if grant.node != "c":
            assert await world.hand_in(failed) == ("applied",)
        else:
            last = failed
    assert [d.node for d in await world.store.list_dead_letters("a")] == ["a", "b"]
    await repair(world, run, "a", "retry")
    assert [d.node for d in await world.store.list_dead_letters("a")] == ["b"]
    # Another one is not held: the run fails, and all that is pending is taken up by a retry.
    assert await world.hand_in(last) == ("applied",)
    letters = await world.store.list_dead_letters("a", run=run)
    assert sorted(d.node for d in letters) == ["b", "c"]
    await check_fold(world, run)
    await world.change(run, RetryRun())
    await check_fold(world, run)
    assert await world.store.list_dead_letters("a") == []
    assert len(await world.store.list_dead_letters("a", status="reprocessed")) == 3


async def test_a_held_token_that_fails_takes_the_run_with_it(world: Any) -> None:
    run = await world.start("a", "b")
    await fail(world, hold=True)

    changed = await repair(world, run, "a", "fail", by="ann", why="hopeless", error=ERROR)

    assert (changed.status, changed.counter) == ("FAILED", 0)
    assert changed.error == {**ERROR, "node": "a", "scope": ""}
    assert (await world.events(run))[-3:] == ["node.repaired", "node.failed", "run.failed"]
    assert (await world.token(run, "a")).outcome == "failed"
    assert (await world.token(run, "b")).outcome == "cancelled"
    (letter,) = await world.store.list_dead_letters("a", status=None)
    assert (letter.status, letter.why) == ("discarded", "hopeless")
    await world.change(run, RetryRun())
    await check_fold(world, run)


async def test_only_a_held_token_is_released(world: Any) -> None:
    run = await world.start("a")

    assert "it is not held" in await refused(world, run, "retry")
    assert "it is not held" in await refused(world, run, "fail")


async def test_the_dead_letter_of_a_token_that_was_held_is_discarded_by_its_name(
    world: Any,
) -> None:
    run = await world.start("a", "b")
    await fail(world, hold=True)
    await world.change(run, Cancel())

    assert not await world.store.discard_dead_letter("a", run, 1)
    assert not await world.store.discard_dead_letter("a", run, 1, held=("b", ""))
    assert await world.store.discard_dead_letter("a", run, 1, "old", held=("a", ""))
    (letter,) = await world.store.list_dead_letters("a", status=None)
    assert (letter.status, letter.why) == ("discarded", "old")


async def test_dead_letters_of_held_tokens_go_with_their_run(world: Any) -> None:
    run = await world.start("a", "b")
    await fail(world, hold=True)
    await world.change(run, Cancel())

    assert await world.store.delete_runs("a", [run]) == 1
    assert await world.store.list_dead_letters("a", status=None) == []


# ── edit ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("hold", [True, False])
async def test_a_config_that_was_edited_comes_with_every_later_attempt(
    world: Any, hold: bool
) -> None:
    run = await world.start("a")
    await fail(world, hold=hold)

    changed = await repair(world, run, "a", "edit", value=b'{"to": "b"}', by="ann", why="typo")

    assert changed.status == ("RUNNING" if hold else "FAILED")
    event = await world.last_event(run, "node.edited")
    assert (bytes(event.config), event.by, event.why) == (b'{"to": "b"}', "ann", "typo")
    assert len(await world.store.list_dead_letters("a")) == 1
    if hold:
        await repair(world, run, "a", "retry")
    else:
        await world.change(run, RetryRun())
    grant = await world.take_one()
    assert (grant.edited, grant.given) == (changed.seq, 0)
    await world.hand_in(Retried(*name(grant), error=ERROR))
    assert (await world.take_one()).edited == changed.seq
    await check_fold(world, run)


async def test_a_config_is_an_object(world: Any) -> None:
    run = await world.start("a")
    await fail(world)

    for value in (b"[]", b"null", b"{"):
        with pytest.raises(InputError):
            await world.change(run, Repair("a", "", "edit", value=value))


# ── as a whole ──────────────────────────────────────────────────────────────────────────


async def test_a_repaired_run_is_put_in_another_place_as_it_is(world: Any) -> None:
    run = await world.start("a", "b", "c")
    await fail(world, hold=True)
    await repair(world, run, "a", "edit", value=b"{}")
    await repair(world, run, "b", "output", value=b"1")
    rows = await world.snapshot(run)

    moved = msgspec.structs.replace(rows)
    assert await world.store.put_run("a", moved, rows.run.seq)

    assert await world.snapshot(run) == rows
    assert [d.node for d in await world.store.list_dead_letters("a")] == ["a"]
