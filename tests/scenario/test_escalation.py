"""Approvals that nobody decides: people are reminded, others are asked, and the history says so."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.waiting import until_waiting

from minuet.app.app import App
from minuet.app.move.mover import Mover
from minuet.clock import ManualClock
from minuet.errors import AlreadyDecidedError, DocumentError, NotAnApproverError
from minuet.store.memory import MemoryStore

from .harness import node, workflow
from .test_approvals import asked, human, review

HOUR = 3_600_000

REASSIGNED = {"reassign": ["{{ input.boss }}"], "timeout_hours": 12}


async def names(s: Any, run: str) -> list[str]:
    """The events of a run that concern approvals, as people see them."""
    found = await s.app.runs.events(run)
    return [one["type"] for one in found if one["type"].startswith("approval.")]


async def pass_hours(s: Any, run: str, clock: ManualClock, hours: float) -> Any:
    """Let time pass; the approval that is pending after that."""
    await until_waiting(s.store, "approval")
    before = await s.count(run, "node.waiting")
    clock.advance(round(hours * HOUR))
    await s.store.sweep()
    async with asyncio.timeout(30):
        while await s.count(run, "node.waiting") == before:
            row = await s.app.runs.get(run)
            await s.store.wait_for_change(run, row.seq, 20)
    (pending,) = await asked(s, run)
    return pending


@pytest.mark.shows("M-25", "O-07")
async def test_the_history_names_what_was_asked_and_decided(scene: Any) -> None:
    async with scene() as s:
        run = await s.app.start(review(quorum=2))
        (pending,) = await asked(s, run)
        await s.app.approvals.approve(pending.id, by="ada")
        await s.app.approvals.approve(pending.id, by="bob", comments="fine")
        await s.end(run)

        found = {one["type"]: one for one in await s.app.runs.events(run)}
        assert await names(s, run) == ["approval.created", "approval.decided", "approval.decided"]
        assert found["approval.created"]["data"]["data"]["payload"] == {"price": 100}
        for kind in ("approval.created", "approval.decided"):
            assert found[kind]["data"]["approval_id"] == pending.id
        decision = found["approval.decided"]["data"]["resolution"]["decision"]
        assert (decision["by"], decision["comments"]) == ("bob", "fine")
        # They are the events of the store, under another name.
        assert [one["seq"] for one in await s.app.runs.events(run)] == [
            seq for seq, _, _ in await s.app.runs.history(run)
        ]


async def test_others_are_asked_when_the_time_is_over(scene: Any) -> None:
    clock = ManualClock()
    document = review(approvers=["ada"], timeout_hours=48, escalation_policy=REASSIGNED)
    async with scene(clock=clock) as s:
        run = await s.app.start(document, {"boss": "eve"})
        (first,) = await asked(s, run)
        again = await pass_hours(s, run, clock, 48)

        assert (first.approvers, again.approvers) == (("ada",), ("eve",))
        assert (again.status, again.created_ms) == ("pending", first.created_ms)
        assert again.timeout_ms == clock.now_ms() + 12 * HOUR
        with pytest.raises(NotAnApproverError):
            await s.app.approvals.approve(first.id, by="ada")
        await s.app.approvals.approve(first.id, by="eve")
        result = await s.end(run)

        assert result.nodes["ship"].output["decided_by"] == "eve"
        assert await names(s, run) == [
            "approval.created",
            "approval.reassigned",
            "approval.decided",
        ]


@pytest.mark.parametrize(("then", "decision"), [(None, "timeout"), ("approve", "approve")])
async def test_when_the_time_of_the_others_is_over_too_the_system_decides(
    scene: Any, then: str | None, decision: str
) -> None:
    clock = ManualClock()
    policy = REASSIGNED | ({} if then is None else {"then": then})
    async with scene(clock=clock) as s:
        run = await s.app.start(
            review(approvers=["ada"], timeout_hours=48, escalation_policy=policy), {"boss": "eve"}
        )
        (pending,) = await asked(s, run)
        await pass_hours(s, run, clock, 48)
        clock.advance(12 * HOUR)
        await s.store.sweep()
        with pytest.raises(AlreadyDecidedError, match="the time was over"):
            await s.app.approvals.approve(pending.id, by="eve")
        result = await s.end(run)

        output = result.nodes["gate"].output
        assert (output["decision"], output["decided_by"]) == (decision, "system")
        assert output["comments"] == "nobody decided within 216000 s"
        assert (await names(s, run))[-1] == "approval.decided"


async def test_others_may_be_asked_and_then_the_node_fails_and_a_retry_asks_the_first_again(
    scene: Any,
) -> None:
    clock = ManualClock()
    policy = {**REASSIGNED, "then": "fail"}
    document = review(approvers=["ada"], timeout_hours=48, escalation_policy=policy)
    async with scene(clock=clock) as s:
        run = await s.app.start(document, {"boss": "eve"})
        await asked(s, run)
        await pass_hours(s, run, clock, 48)
        clock.advance(12 * HOUR)
        await s.store.sweep()
        assert (await s.end(run)).error["code"] == "approval_timeout"

        await s.app.runs.retry(run)
        (again,) = await asked(s, run)
        assert again.approvers == ("ada",)
        assert again.timeout_ms == clock.now_ms() + 48 * HOUR


async def test_those_who_do_not_decide_are_reminded_and_the_time_does_not_begin_again(
    scene: Any,
) -> None:
    clock = ManualClock()
    times = {"remind_after_hours": 4, "remind_every_hours": 2, "timeout_hours": 9}
    async with scene(clock=clock) as s:
        run = await s.app.start(review(quorum=2, **times))
        (first,) = await asked(s, run)
        for hours in (4, 2):
            pending = await pass_hours(s, run, clock, hours)
            assert (pending.status, pending.timeout_ms) == ("pending", first.timeout_ms)
        await s.app.approvals.approve(first.id, by="ada")
        (pending,) = await asked(s, run)
        assert len(pending.decisions) == 1
        # Nobody looks for three hours: the reminder comes late, and then the time is over.
        await until_waiting(s.store, "approval")
        clock.advance(3 * HOUR)
        await s.store.sweep()
        result = await s.end(run)

        assert result.nodes["gate"].output["decision"] == "timeout"
        assert await names(s, run) == [
            "approval.created",
            "approval.reminded",
            "approval.reminded",
            "approval.decided",
            "approval.reminded",
            "approval.decided",
        ]


async def test_reminders_without_a_time_limit_go_on_until_somebody_decides(scene: Any) -> None:
    clock = ManualClock()
    async with scene(clock=clock) as s:
        run = await s.app.start(review(remind_every_seconds=60))
        (first,) = await asked(s, run)
        for _ in range(3):
            pending = await pass_hours(s, run, clock, 1 / 60)
            assert pending.timeout_ms is None
        await s.app.approvals.approve(first.id, by="ada")
        await s.end(run)

        assert (await names(s, run)).count("approval.reminded") == 3


async def test_a_decision_during_a_reminder_counts(scene: Any) -> None:
    """A worker has to write the reminder down; the decision waits for it."""
    clock = ManualClock()
    async with scene(clock=clock) as s:
        run = await s.app.start(review(remind_every_seconds=60))
        (first,) = await asked(s, run)
        clock.advance(60_000)
        await s.store.sweep()
        await s.app.approvals.approve(first.id, by="ada")

        assert (await s.end(run)).nodes["ship"].output["decided_by"] == "ada"


async def test_an_approval_that_is_never_reassigned_is_refused(scene: Any) -> None:
    async with scene() as s:
        with pytest.raises(DocumentError, match="never reassigned"):
            await s.app.start(review(escalation_policy={"reassign": ["eve"]}), {})


@pytest.mark.shows("M-02", "M-03", "M-04")
async def test_what_an_approval_keeps_is_found_while_it_is_pending_and_when_it_is_decided(
    scene: Any,
) -> None:
    clock = ManualClock()
    async with scene(clock=clock) as s:
        document = review(approvers=["ada"], timeout_hours=1, payload={"price": 7})
        run = await s.app.start(document, tags={"submitted_by": "bob"})
        (pending,) = await asked(s, run)
        assert [one.id for one in await s.app.approvals.list()] == [pending.id]
        assert (pending.run_id, pending.node_id, pending.status) == (run, "gate", "pending")
        assert (pending.requester, pending.approvers) == ("bob", ("ada",))
        assert (pending.created_ms, pending.timeout_ms) == (
            clock.now_ms(),
            clock.now_ms() + HOUR,
        )
        assert pending.payload == {"price": 7}

        clock.advance(1_000)
        await s.app.approvals.approve(pending.id, by="ada", data={"iban": "x"})
        await s.end(run)
        (decided,) = await s.app.approvals.list(run, status="decided")
        assert await s.app.approvals.list() == []
        assert (decided.decision, decided.decided_ms) == ("approve", pending.created_ms + 1_000)
        assert (decided.decisions[0].by, decided.decisions[0].data) == ("ada", {"iban": "x"})


async def test_a_run_that_is_moved_to_another_store_asks_for_nothing_that_was_decided() -> None:
    here, there, clock = MemoryStore(), MemoryStore(), ManualClock()
    document = workflow(
        human(), human("second", "gate"), node("ship", "second", type="noop"), name="two"
    )
    async with App(here) as app:
        run = str(await app.start(document))
        scene = type("Moved", (), {"app": app, "store": here})
        (pending,) = await asked(scene, run)
        await app.approvals.approve(pending.id, by="ada")
        (second,) = await asked(scene, run)
        assert second.node_id == "second"
    mover = Mover(here, there, clock, come_from="here", to="there")
    assert [outcome.kind async for outcome in mover.move()] == ["moved"]

    async with App(there) as app:
        (pending,) = await app.approvals.list()
        assert pending.id == second.id
        await app.approvals.approve(pending.id, by="bob")
        result = await app.wait(run, timeout=60)
        assert result.status == "COMPLETED"
        assert result.nodes["gate"].output["decided_by"] == "ada"
        kinds = [one["type"] for one in await app.runs.events(run)]
        assert kinds.count("approval.created") == 2


@pytest.mark.shows("M-14", "M-15")
async def test_between_a_decision_and_what_follows_the_run_never_looks_complete(
    scene: Any,
) -> None:
    async with scene() as s:
        run = await s.app.start(review())
        (pending,) = await asked(s, run)
        # No worker goes on with it, so what is between can be looked at.
        await s.app.runs.pause(run)
        before = await s.app.runs.get(run)
        await s.app.approvals.approve(pending.id, by="ada")

        assert await s.app.approvals.list() == []
        row = await s.app.runs.get(run)
        assert (row.counter, row.seq) == (before.counter, before.seq + 1)
        assert row.ended_ms is None
        # The decision again makes nothing ready again.
        await s.app.approvals.approve(pending.id, by="ada")
        assert (await s.app.runs.get(run)).seq == row.seq
        await s.app.runs.resume(run)
        assert (await s.end(run)).nodes["ship"].status == "COMPLETED"
        assert await s.order(run) == ["offer", "gate", "ship"]


@pytest.mark.shows("M-11")
async def test_a_large_decision_is_kept_as_a_blob_and_referenced(scene: Any) -> None:
    async with scene() as s:
        run = await s.app.start(review())
        (pending,) = await asked(s, run)
        data = {"report": "x" * 100_000}
        await s.app.approvals.approve(pending.id, by="ada", data=data)
        result = await s.end(run)

        completed = await s.events(run, "node.completed")
        (output,) = [one["output"] for one in completed if one["node"] == "gate"]
        assert output["$blob"].startswith("cas://sha256:")
        assert result.nodes["gate"].output["data"] == data
        assert result.nodes["gate"].output["decided_by"] == "ada"
