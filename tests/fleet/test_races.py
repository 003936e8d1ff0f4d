"""What may happen to a run at the same time has one outcome: on every store, again and again.

A race is a coroutine with a `Track`, listed in `RACES`. It returns who was first.
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.fleet.track import Track, open_track
from tests.requirements.hand import LEASE_MS
from tests.scenario.conftest import STORES
from tests.scenario.harness import PATIENCE, task, workflow

from minuet.errors import AlreadyDecidedError, RunConflictError
from minuet.store.exchange import Failed

_log = logging.getLogger("tests.races")

#: How often each race is run; `make faults` has each run a thousand times.
ROUNDS = 20 * int(os.environ.get("MINUET_TEST_RACES", "0")) or 8

#: A thousand rounds take longer than any other test may.
LIMIT_S = 1800 if "MINUET_TEST_RACES" in os.environ else 300

ONE = workflow(task("work"))
#: What follows runs after a pause.
TWO = workflow(task("work"), task("last", "work"))
#: One fails while the other one runs.
BESIDE = workflow(task("work"), task("other"))

WORK, LAST, OTHER = "task:work", "task:last", "task:other"

Race = Callable[[Track], Awaitable[tuple[str, str]]]


# ── cancelling ──────────────────────────────────────────────────────────────────────────────


async def cancel_and_last_completion(track: Track) -> tuple[str, str]:
    run = await track.start(ONE)
    (grant,) = await track.first.take_of(run, WORK)
    item = await track.first.item(grant, 1)

    result, answer = await track.at_once(
        track.first.hand_in(item), track.second.app.runs.cancel(run)
    )

    status = (await track.row(run)).status
    if result == "applied":
        assert isinstance(answer, RunConflictError)
        assert status == "COMPLETED"
        return run, "completion"
    assert (result, answer.status, status) == ("closed", "CANCELLED", "CANCELLED")
    return run, "cancel"


async def cancel_and_take(track: Track) -> tuple[str, str]:
    run = await track.start(TWO)

    granted, answer = await track.at_once(
        track.first.take_of(run, WORK), track.second.app.runs.cancel(run)
    )

    assert answer.status == (await track.row(run)).status == "CANCELLED"
    for grant in granted:
        assert await track.first.finish(grant) == "closed"
    assert await track.second.take_of(run, WORK, LAST) == []
    assert await track.events(run, "node.completed") == []
    return run, "take" if granted else "cancel"


# ── deciding ────────────────────────────────────────────────────────────────────────────────


def _gate(**asked: Any) -> dict[str, Any]:
    return workflow({"id": "gate", "type": "human", "human_config": asked})


async def _asked(track: Track, run: str) -> str:
    """The approval that a run waits for."""
    await track.first.scene.until(run, lambda row: row.seq >= 3)
    (approval,) = await track.second.app.approvals.list(run)
    return str(approval.id)


async def decide_and_decide(track: Track) -> tuple[str, str]:
    run = await track.start(_gate(title="Shall we?"))
    id = await _asked(track, run)

    answers = await track.at_once(
        track.first.app.approvals.decide(id, "approve", by="ann"),
        track.second.app.approvals.decide(id, "reject", by="bob"),
    )

    await track.first.app.wait(run, timeout=PATIENCE)
    won = [one for one in answers if not isinstance(one, AlreadyDecidedError)]
    (made,) = won
    (resumed,) = await track.events(run, "node.resumed")
    decided = await track.first.app.approvals.show(id)
    (decision,) = decided.decisions
    assert list(made.decisions) == [decision]
    assert resumed["by"] == decision.by
    expected = ("approve", "ann") if answers[0] is made else ("reject", "bob")
    assert (decided.decision, decision.by) == expected
    return run, decision.by


async def decide_and_timeout_and_cancel(track: Track) -> tuple[str, str]:
    run = await track.start(_gate(title="Shall we?", timeout_seconds=60))
    id = await _asked(track, run)
    track.clock.advance(60_000)

    made, _, cancelled = await track.at_once(
        track.first.app.approvals.decide(id, "approve", by="ann"),
        track.first.store.sweep(),
        track.second.app.runs.cancel(run),
    )

    result = await track.first.app.wait(run, timeout=PATIENCE)
    is_cancelled = not isinstance(cancelled, RunConflictError)
    is_decided = not isinstance(made, AlreadyDecidedError)
    # Nothing follows a rejection here, so what is not approved fails.
    end = "COMPLETED" if is_decided else "FAILED"
    assert result.status == ("CANCELLED" if is_cancelled else end)
    # A run may be cancelled after the decision, and before a worker goes on.
    resumed = await track.events(run, "node.resumed")
    assert len(resumed) <= 1
    if is_decided:
        assert [event["by"] for event in resumed] == ["ann"]
        return run, "decision"
    assert [event.get("by", "") for event in resumed] == [""] * len(resumed)
    assert resumed or is_cancelled
    return run, "timeout" if resumed else "cancel"


# ── retrying and pausing ────────────────────────────────────────────────────────────────────


async def retry_and_late_completion(track: Track) -> tuple[str, str]:
    run = await track.start(BESIDE)
    granted = {one.node: one for one in await track.first.take_of(run, WORK, OTHER)}
    late = await track.first.item(granted["work"], "late")
    await track.fail(granted["other"])

    result, answer = await track.at_once(
        track.first.hand_in(late), track.second.app.runs.retry(run)
    )

    assert answer.generation == 2
    assert result in ("closed", "stale")
    done = await track.complete(run, WORK, OTHER)
    assert sorted((one.node, one.attempt) for one in done) == [("other", 1), ("work", 1)]
    return run, "late" if result == "closed" else "retry"


async def pause_and_take(track: Track) -> tuple[str, str]:
    run = await track.start(TWO)

    granted, answer = await track.at_once(
        track.first.take_of(run, WORK), track.second.app.runs.pause(run)
    )

    assert answer.status == "PAUSED"
    for grant in granted:
        assert await track.first.finish(grant) == "applied"
    assert await track.second.take_of(run, WORK, LAST) == []
    await track.first.app.runs.resume(run)
    done = await track.complete(run, WORK, LAST)
    assert [one.node for one in [*granted, *done]] == ["work", "last"]
    return run, "take" if granted else "pause"


# ── dead letters ────────────────────────────────────────────────────────────────────────────


async def _redrive(party: Any, id: str) -> bool:
    (one,) = [one async for one in party.app.dead_letters.retry([id])]
    return bool(one.is_retried)


async def _dead(track: Track) -> tuple[str, str]:
    """A run with a dead letter, and the letter's id."""
    run = await track.start(ONE)
    (grant,) = await track.first.take_of(run, WORK)
    await track.fail(grant)
    return run, f"{run}.1"


async def requeue_and_requeue(track: Track) -> tuple[str, str]:
    run, id = await _dead(track)

    answers = await track.at_once(_redrive(track.first, id), _redrive(track.second, id))

    assert sorted(answers) == [False, True]
    (done,) = await track.complete(run, WORK)
    assert (done.attempt, (await track.row(run)).generation) == (1, 2)
    assert (await track.second.app.dead_letters.get(id)).status == "reprocessed"
    return run, "first" if answers[0] else "second"


async def requeue_and_discard(track: Track) -> tuple[str, str]:
    run, id = await _dead(track)

    retried, discarded = await track.at_once(
        _redrive(track.first, id), track.second.app.dead_letters.discard(id)
    )

    letter = await track.second.app.dead_letters.get(id)
    row = await track.row(run)
    if isinstance(discarded, RunConflictError):
        assert retried
        assert letter.status == "reprocessed"
    else:
        assert letter.status == "discarded"
    assert (row.status, row.generation) == (("RUNNING", 2) if retried else ("FAILED", 1))
    if retried:
        await track.complete(run, WORK)
    return run, "retry" if letter.status == "reprocessed" else "discard"


async def requeue_and_lease_expiry(track: Track) -> tuple[str, str]:
    """The lease of what was cut off expires while the run is retried; its worker is still there."""
    run = await track.start(BESIDE)
    granted = {one.node: one for one in await track.first.take_of(run, WORK, OTHER)}
    late = await track.first.item(granted["work"], "late")
    await track.fail(granted["other"])
    track.clock.advance(LEASE_MS)

    retried, _, result = await track.at_once(
        _redrive(track.second, f"{run}.1"), track.second.store.sweep(), track.first.hand_in(late)
    )

    assert retried
    assert result in ("closed", "stale")
    assert await track.events(run, "lease.expired") == []
    done = await track.complete(run, WORK, OTHER)
    assert sorted((one.node, one.attempt, one.expiry) for one in done) == [
        ("other", 1, 0),
        ("work", 1, 0),
    ]
    return run, "late" if result == "closed" else "retry"


async def requeue_and_expiry_of_what_was_requeued(track: Track) -> tuple[str, str]:
    """A letter is retried again while the lease of its first retry expires."""
    run, id = await _dead(track)
    assert await _redrive(track.first, id)
    (grant,) = await track.first.take_of(run, WORK)
    track.clock.advance(LEASE_MS)

    retried, _, granted = await track.at_once(
        _redrive(track.second, id), track.first.store.sweep(), track.second.take_of(run, WORK)
    )

    assert not retried
    if not granted:
        granted = await track.second.take_of(run, WORK)
    (again,) = granted
    assert (again.attempt, again.expiry) == (1, 1)
    assert await track.first.finish(grant) == "stale"
    assert await track.second.finish(again) == "applied"
    assert len(await track.events(run, "lease.expired")) == 1
    assert (await track.row(run)).generation == 2
    return run, "expiry"


# ── undoing ─────────────────────────────────────────────────────────────────────────────────

UNDOABLE = {"id": "pay", "handler": "do", "compensator": {"handler": "undo"}}


async def _paid(track: Track, **fields: Any) -> tuple[str, Any]:
    """A run whose first node can be undone, and the grant of its second one."""
    run = await track.start(workflow(UNDOABLE, task("work", "pay"), **fields))
    await track.first.scene.until(run, lambda row: row.seq >= 3)
    (grant,) = await track.second.take_of(run, WORK)
    return run, grant


async def undo_and_late_completion(track: Track) -> tuple[str, str]:
    """A run is cancelled and undone while its last node completes."""
    run, grant = await _paid(track, on_cancel={"compensate": True})
    item = await track.second.item(grant, 1)

    result, answer = await track.at_once(
        track.second.hand_in(item), track.first.app.runs.cancel(run)
    )

    ended = await track.first.app.wait(run, timeout=PATIENCE)
    if result == "applied":
        assert isinstance(answer, RunConflictError)
        assert (ended.status, track.undone.count(run)) == ("COMPLETED", 0)
        return run, "completion"
    assert (result, ended.status, track.undone.count(run)) == ("closed", "CANCELLED", 1)
    return run, "undo"


async def undo_and_undo(track: Track) -> tuple[str, str]:
    run, grant = await _paid(track)
    assert await track.second.finish(grant) == "applied"

    answers = await track.at_once(
        track.first.app.runs.rollback(run), track.second.app.runs.rollback(run)
    )

    await track.first.app.wait(run, timeout=PATIENCE)
    refused = [isinstance(one, RunConflictError) for one in answers]
    assert sorted(refused) == [False, True]
    assert track.undone.count(run) == 1
    return run, "second" if refused[0] else "first"


async def undo_and_retry_and_cancel(track: Track) -> tuple[str, str]:
    """A run that has failed is undone, retried and cancelled."""
    run, grant = await _paid(track)
    held = (grant.run, grant.node, grant.scope, grant.lease)
    assert await track.second.hand_in(Failed(*held, dead_letter="all")) == "applied"

    undone, retried, cancelled = await track.at_once(
        track.first.app.runs.rollback(run),
        track.second.app.runs.retry(run),
        track.second.app.runs.cancel(run),
    )

    is_undone = not isinstance(undone, RunConflictError)
    is_retried = not isinstance(retried, RunConflictError)
    is_cancelled = not isinstance(cancelled, RunConflictError)
    # What was retried can be undone once it is cancelled; what was undone is not retried like that.
    assert is_cancelled <= is_retried
    assert is_undone or is_retried
    assert is_cancelled or is_undone != is_retried
    if is_retried and not is_cancelled:
        (again,) = await track.second.take_of(run, WORK)
        assert (again.attempt, await track.second.finish(again)) == (1, "applied")
    await track.first.app.wait(run, timeout=PATIENCE)
    assert track.undone.count(run) == is_undone
    return run, "undo" if not is_retried else "retry"


# ── repairing ───────────────────────────────────────────────────────────────────────────────


async def _repair_and_complete(track: Track, act: Callable[[str], Any]) -> tuple[str, str, bool]:
    """A node is repaired while its worker hands in its result: the run, that result, and whether
    the repair was accepted."""
    run = await track.start(TWO)
    (grant,) = await track.second.take_of(run, WORK)
    item = await track.second.item(grant, "worker")

    result, answer = await track.at_once(track.second.hand_in(item), act(run))

    is_repaired = not isinstance(answer, RunConflictError)
    # The run may be over by then.
    assert (result, is_repaired) in (("applied", False), ("stale", True), ("closed", True))
    return run, result, is_repaired


async def _output_of_work(track: Track, run: str) -> Any:
    """Do the last node, if it is to be done; what the first one has given."""
    for grant in await track.second.take_of(run, LAST):
        assert await track.second.finish(grant) == "applied"
    ended = await track.first.app.wait(run, timeout=PATIENCE)
    assert ended.status == "COMPLETED"
    return ended.nodes["work"].output


async def skip_and_completion(track: Track) -> tuple[str, str]:
    run, _, is_skipped = await _repair_and_complete(
        track, lambda run: track.first.app.runs.skip(run, "work", why="not needed")
    )
    assert await _output_of_work(track, run) == (None if is_skipped else "worker")
    assert len(await track.events(run, "node.completed")) == (0 if is_skipped else 2)
    return run, "skip" if is_skipped else "completion"


async def set_output_and_completion(track: Track) -> tuple[str, str]:
    run, _, is_set = await _repair_and_complete(
        track, lambda run: track.first.app.runs.set_output(run, "work", "hand", why="known")
    )
    if is_set:
        await track.first.scene.until(run, lambda row: row.seq >= 4)
    assert await _output_of_work(track, run) == ("hand" if is_set else "worker")
    return run, "output" if is_set else "completion"


async def take_back_and_completion(track: Track) -> tuple[str, str]:
    run, _, is_taken = await _repair_and_complete(
        track, lambda run: track.first.app.runs.take_back(run, "work", why="stuck")
    )
    if is_taken:
        (again,) = await track.second.take_of(run, WORK)
        assert (again.attempt, again.expiry) == (1, 0)
        assert await track.second.finish(again, "other") == "applied"
    assert await _output_of_work(track, run) == ("other" if is_taken else "worker")
    return run, "take back" if is_taken else "completion"


async def decisions_about_what_is_held(track: Track) -> tuple[str, str]:
    """A node that failed is held, and somebody retries it, skips it and gives it up at once."""
    run = await track.start(workflow(task("work"), task("last", "work"), on_dlq="hold"))
    (grant,) = await track.second.take_of(run, WORK)
    held = (grant.run, grant.node, grant.scope, grant.lease)
    failed = Failed(*held, error={"code": "x"}, dead_letter="non_retryable", hold=True)
    assert await track.second.hand_in(failed) == "applied"
    (letter,) = await track.second.app.dead_letters.list(run_id=run)

    retried, skipped, discarded = await track.at_once(
        _redrive(track.first, letter.id),
        track.second.app.runs.skip(run, "work"),
        track.second.app.dead_letters.discard(letter.id),
    )

    is_skipped = not isinstance(skipped, RunConflictError)
    is_discarded = not isinstance(discarded, RunConflictError)
    status = (await track.second.app.dead_letters.get(letter.id)).status
    assert status == ("discarded" if is_discarded else "reprocessed")
    if is_discarded:
        # A run that was given up has failed at this node, which can be skipped or retried then.
        assert (await track.row(run)).generation == 1 + (is_skipped or retried)
    # What is retried may be skipped before a worker takes it.
    assert retried or is_skipped or is_discarded
    if not is_skipped and retried:
        (again,) = await track.second.take_of(run, WORK)
        assert (again.attempt, await track.second.finish(again)) == (1, "applied")
    for grant in await track.second.take_of(run, LAST):
        assert await track.second.finish(grant) == "applied"
    ended = await track.first.app.wait(run, timeout=PATIENCE)
    assert ended.status == ("COMPLETED" if retried or is_skipped else "FAILED")
    return run, "retry" if retried else "skip" if is_skipped else "discard"


#: The races, and whether a worker does what follows.
RACES: dict[Race, bool] = {
    cancel_and_last_completion: False,
    cancel_and_take: False,
    decide_and_decide: True,
    decide_and_timeout_and_cancel: True,
    retry_and_late_completion: False,
    pause_and_take: False,
    requeue_and_requeue: False,
    requeue_and_discard: False,
    requeue_and_lease_expiry: False,
    requeue_and_expiry_of_what_was_requeued: False,
    skip_and_completion: True,
    set_output_and_completion: True,
    take_back_and_completion: True,
    decisions_about_what_is_held: True,
    undo_and_late_completion: True,
    undo_and_undo: True,
    undo_and_retry_and_cancel: True,
}


@pytest.mark.slow
@pytest.mark.timeout(LIMIT_S)
@pytest.mark.shows("D-19", "K-03", "K-06", "M-16", "Y-09")
@pytest.mark.parametrize("race", RACES, ids=lambda race: race.__name__)
@pytest.mark.parametrize("kind", STORES)
async def test_a_race_has_one_outcome(kind: str, race: Race, tmp_path: Path) -> None:
    first: Counter[str] = Counter()
    async with open_track(STORES[kind](tmp_path), worker=RACES[race], seed=ROUNDS) as track:
        for _ in range(ROUNDS):
            run, winner = await race(track)
            await track.check(run)
            # Every sweep looks at all runs that there are.
            assert await track.first.store.delete_runs("default", [run]) == 1
            first[winner] += 1
    _log.info("%s on %s: %s", race.__name__, kind, dict(first))
