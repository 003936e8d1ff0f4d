"""Nodes that wait for people: decided once, by those who may, and never asked again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import minuet
from minuet.clock import ManualClock
from minuet.errors import (
    AlreadyDecidedError,
    ApprovalNotFoundError,
    DocumentError,
    InputError,
    MinuetError,
    NotAnApproverError,
    RunConflictError,
)

from .harness import node, task, workflow


def human(name: str = "gate", *dependencies: str, **fields: Any) -> dict[str, Any]:
    """A node that asks people; what is not a field of nodes is its `human_config`."""
    own = ("rejection_path", "foreach", "on_error", "loop", "branch", "config", "retry")
    asked = {key: fields.pop(key) for key in list(fields) if key not in own}
    return node(name, *dependencies, type="human", human_config=asked, **fields)


def review(**asked: Any) -> dict[str, Any]:
    """What comes before, the approval, and what follows each decision."""
    return workflow(
        node("offer", type="transform", config={"value": {"price": 100}}),
        human("gate", "offer", rejection_path=["sorry"], **asked),
        node("ship", "gate", type="transform", config={"value": "{{ gate.output }}"}),
        node("sorry", type="transform", config={"value": "{{ gate.output.comments }}"}),
    )


async def asked(s: Any, run: str, count: int = 1) -> list[Any]:
    """Wait until so many approvals of a run are pending."""
    async with asyncio.timeout(30):
        while True:
            row = await s.app.runs.get(run)
            found = await s.app.approvals.list(run)
            if len(found) == count:
                return list(found)
            await s.store.wait_for_change(run, row.seq, 20)


@pytest.mark.shows("A-19", "M-01", "M-05", "M-07", "M-12", "M-24", "G-18")
async def test_an_approval_lets_the_run_go_on_with_the_payload_and_the_decision(scene: Any) -> None:
    document = review(
        title="Sell for {{ offer.output.price }}?",
        description="to {{ input.name }}",
        approvers=["ada", "{{ input.boss }}"],
        approval_ui_url="https://example.com/{{ run.id }}",
    )
    async with scene() as s:
        run = await s.app.start(document, {"name": "Cy", "boss": "eve"})
        (pending,) = await asked(s, run)

        assert pending.id == f"{run}:gate"
        assert (pending.title, pending.description) == ("Sell for 100?", "to Cy")
        assert (pending.approvers, pending.payload) == (("ada", "eve"), {"price": 100})
        assert (pending.status, pending.decision) == ("pending", None)
        assert pending.leads_to == {"approve": ["ship"], "reject": ["sorry"]}
        assert pending.approval_ui_url == f"https://example.com/{run}"
        assert (await s.app.runs.get(run)).status == "RUNNING"

        decided = await s.app.approvals.approve(pending.id, by="eve", comments="ok", data=[1])
        assert (decided.status, decided.decision) == ("decided", "approve")
        result = await s.end(run)

        assert result.status == "COMPLETED"
        output = result.nodes["ship"].output
        assert output.pop("decided_at").endswith("Z")
        assert output == {
            "price": 100,
            "decision": "approve",
            "comments": "ok",
            "data": [1],
            "decided_by": "eve",
        }
        assert result.nodes["sorry"].status == "SKIPPED"
        assert await s.app.approvals.list() == []
        (shown,) = await s.app.approvals.list(run, status=None)
        assert (shown.status, shown.decisions[0].by) == ("decided", "eve")


@pytest.mark.shows("M-13", "A-20")
async def test_a_rejection_takes_the_rejection_path(scene: Any) -> None:
    async with scene() as s:
        run = await s.app.start(review())
        (pending,) = await asked(s, run)
        await s.app.approvals.reject(pending.id, by="ada", comments="too cheap")
        result = await s.end(run)

        assert result.status == "COMPLETED"
        assert result.nodes["sorry"].output == "too cheap"
        assert result.nodes["ship"].status == "SKIPPED"


async def test_a_rejection_without_a_path_fails_the_run(scene: Any) -> None:
    async with scene() as s:
        run = await s.app.start(workflow(human(), node("ship", "gate")))
        (pending,) = await asked(s, run)
        await s.app.approvals.reject(pending.id, by="ada", comments="no")
        result = await s.end(run)

        assert (result.status, result.error["code"]) == ("FAILED", "rejected")
        assert result.error["message"] == "ada rejected: no"
        assert result.error["details"]["decided_by"] == "ada"
        assert await s.app.dead_letters.list(run_id=run) == []


async def test_a_rejection_may_just_end_its_path(scene: Any) -> None:
    async with scene() as s:
        document = workflow(human(on_reject="complete"), node("ship", "gate"), node("other"))
        run = await s.app.start(document)
        (pending,) = await asked(s, run)
        await s.app.approvals.reject(pending.id, by="ada")
        result = await s.end(run)

        assert result.status == "COMPLETED"
        assert result.nodes["gate"].output["decision"] == "reject"
        assert result.nodes["ship"].status == "SKIPPED"


@pytest.mark.shows("M-16")
async def test_the_first_decision_wins(scene: Any) -> None:
    async with scene() as s:
        run = await s.app.start(review())
        (pending,) = await asked(s, run)
        first = await s.app.approvals.approve(pending.id, by="ada", comments="yes")
        again = await s.app.approvals.approve(pending.id, by="ada", comments="yes")
        assert again.decisions == first.decisions
        with pytest.raises(AlreadyDecidedError, match="ada has decided: approve") as refused:
            await s.app.approvals.reject(pending.id, by="bob")
        assert refused.value.approval.decisions[0].by == "ada"
        with pytest.raises(AlreadyDecidedError):
            await s.app.approvals.reject(pending.id, by="ada")

        assert (await s.end(run)).nodes["gate"].output["decision"] == "approve"
        assert await s.count(run, "node.resumed") == 1
        with pytest.raises(RunConflictError):
            await s.app.approvals.reject(pending.id, by="bob")


async def test_of_many_who_decide_at_once_one_wins_and_all_others_learn_who(scene: Any) -> None:
    people = [f"p{number}" for number in range(8)]
    async with scene() as s:
        run = await s.app.start(review())
        (pending,) = await asked(s, run)

        async def decide(place: int, person: str) -> Any:
            verb = s.app.approvals.approve if place % 2 else s.app.approvals.reject
            try:
                return await verb(pending.id, by=person)
            except AlreadyDecidedError as error:
                return error

        answers = await asyncio.gather(*(decide(*one) for one in enumerate(people)))
        winners = [one for one in answers if not isinstance(one, AlreadyDecidedError)]
        refused = [one for one in answers if isinstance(one, AlreadyDecidedError)]
        output = (await s.end(run)).nodes["gate"].output

        assert len(winners) == 1
        assert winners[0].decisions[0].by == output["decided_by"]
        assert winners[0].decision == output["decision"]
        assert {one.approval.decisions[0].by for one in refused} == {output["decided_by"]}


@pytest.mark.shows("M-06", "M-18", "M-20", "M-22", "S-32", "Y-14")
@pytest.mark.parametrize("policy", ["reject", None])
async def test_when_the_time_is_over_the_system_decides_timeout(scene: Any, policy: Any) -> None:
    clock = ManualClock()
    asking = {} if policy is None else {"escalation_policy": policy}
    async with scene(clock=clock) as s:
        run = await s.app.start(review(timeout_hours=48, **asking))
        (pending,) = await asked(s, run)
        assert pending.timeout_ms == clock.now_ms() + 48 * 3_600_000
        clock.advance(48 * 3_600_000)
        await s.store.sweep()
        with pytest.raises(AlreadyDecidedError, match="the time was over"):
            await s.app.approvals.approve(pending.id, by="ada")
        result = await s.end(run)

        assert result.nodes["sorry"].status == "COMPLETED"
        output = result.nodes["gate"].output
        assert (output["decision"], output["decided_by"]) == ("timeout", "system")
        (shown,) = await s.app.approvals.list(run, status="timeout")
        assert shown.decision == "timeout"


@pytest.mark.shows("M-19")
async def test_when_the_time_is_over_the_policy_may_approve(scene: Any) -> None:
    clock = ManualClock()
    document = review(timeout_seconds=60, escalation_policy="auto_approve_after_timeout")
    async with scene(clock=clock) as s:
        run = await s.app.start(document)
        await asked(s, run)
        clock.advance(60_000)
        await s.store.sweep()
        result = await s.end(run)

        assert result.nodes["ship"].output["decided_by"] == "system"
        assert result.nodes["ship"].output["decision"] == "approve"


async def test_when_the_time_is_over_the_policy_may_fail_the_run_and_a_retry_asks_again(
    scene: Any,
) -> None:
    clock = ManualClock()
    async with scene(clock=clock) as s:
        run = await s.app.start(review(timeout_seconds=60, escalation_policy="fail"))
        await asked(s, run)
        clock.advance(60_000)
        await s.store.sweep()
        result = await s.end(run)
        assert (result.status, result.error["code"]) == ("FAILED", "approval_timeout")

        await s.app.runs.retry(run)
        (again,) = await asked(s, run)
        assert again.timeout_ms == clock.now_ms() + 60_000
        await s.app.approvals.approve(again.id, by="ada")
        assert (await s.end(run)).status == "COMPLETED"


@pytest.mark.shows("K-27")
async def test_a_run_that_is_cancelled_asks_nobody_any_more(scene: Any) -> None:
    async with scene() as s:
        run = await s.app.start(review())
        (pending,) = await asked(s, run)
        await s.app.cancel(run)

        assert await s.app.approvals.list() == []
        assert (await s.app.approvals.show(pending.id)).status == "cancelled"
        with pytest.raises(AlreadyDecidedError, match="CANCELLED"):
            await s.app.approvals.approve(pending.id, by="ada")


async def test_what_was_decided_is_not_asked_again_when_the_run_is_retried(scene: Any) -> None:
    calls = []

    def flaky() -> str:
        calls.append(1)
        if len(calls) == 1:
            raise ValueError("down")
        return "ok"

    document = workflow(human(), task("after", "gate", handler="flaky"))
    async with scene({"flaky": flaky}) as s:
        run = await s.app.start(document)
        (pending,) = await asked(s, run)
        await s.app.approvals.approve(pending.id, by="ada")
        assert (await s.end(run)).status == "FAILED"
        await s.app.runs.retry(run)
        result = await s.end(run)

        assert result.status == "COMPLETED"
        assert result.nodes["gate"].output["decided_by"] == "ada"
        assert await s.count(run, "node.waiting") == 1


async def test_a_decision_that_no_worker_has_seen_survives_the_end_of_its_run(scene: Any) -> None:
    async with scene() as s:
        run = await s.app.start(review())
        (pending,) = await asked(s, run)
        await s.app.runs.pause(run)
        await s.app.approvals.approve(pending.id, by="ada")
        await s.app.cancel(run)
        assert (await s.app.approvals.show(pending.id)).status == "decided"
        await s.app.runs.retry(run)
        result = await s.end(run)

        assert result.nodes["gate"].output["decided_by"] == "ada"
        assert await s.count(run, "node.waiting") == 1


# ── who may decide, and what ────────────────────────────────────────────────────────────────


@pytest.mark.shows("M-23")
async def test_only_approvers_and_members_of_their_groups_decide(scene: Any) -> None:
    async with scene() as s:
        run = await s.app.start(review(approvers=["ada", "finance"]))
        (pending,) = await asked(s, run)
        with pytest.raises(NotAnApproverError, match="bob is not one of them"):
            await s.app.approvals.approve(pending.id, by="bob", groups=["sales"])
        await s.app.approvals.approve(pending.id, by="bob", groups=["sales", "finance"])

        assert (await s.end(run)).nodes["gate"].output["decided_by"] == "bob"


async def test_the_person_who_started_the_run_does_not_decide_if_four_eyes_are_asked_for(
    scene: Any,
) -> None:
    async with scene() as s:
        run = await s.app.start(review(four_eyes=True), tags={"submitted_by": "ada"})
        (pending,) = await asked(s, run)
        with pytest.raises(NotAnApproverError, match="somebody else: ada started the run"):
            await s.app.approvals.approve(pending.id, by="ada")
        await s.app.approvals.approve(pending.id, by="bob")
        assert (await s.end(run)).status == "COMPLETED"

        unknown = await s.app.start(review(four_eyes=True))
        (pending,) = await asked(s, unknown)
        with pytest.raises(NotAnApproverError, match="does not say who"):
            await s.app.approvals.approve(pending.id, by="bob")


async def test_the_data_of_a_decision_fits_the_form(scene: Any) -> None:
    form = {
        "type": "object",
        "properties": {"limit": {"type": "number", "description": "{{ not a template }}"}},
        "required": ["limit"],
    }
    async with scene() as s:
        run = await s.app.start(review(form=form))
        (pending,) = await asked(s, run)
        assert pending.form == form
        for data in (None, {}, {"limit": "much"}):
            with pytest.raises(InputError, match=r"data|limit"):
                await s.app.approvals.approve(pending.id, by="ada", data=data)
        await s.app.approvals.approve(pending.id, by="ada", data={"limit": 5})

        assert (await s.end(run)).nodes["gate"].output["data"] == {"limit": 5}


async def test_approvers_may_be_a_template_that_gives_a_list(scene: Any) -> None:
    async with scene() as s:
        document = review(approvers="{{ input.who }}")
        run = await s.app.start(document, {"who": ["ada", "bob"]})
        (pending,) = await asked(s, run)
        assert pending.approvers == ("ada", "bob")
        wrong = await s.run(document, {"who": 7})
        assert "`approvers` must be a list of names" in wrong.error["message"]
        await s.app.cancel(run)


# ── quorum ──────────────────────────────────────────────────────────────────────────────────


async def test_a_quorum_waits_for_so_many_different_people(scene: Any) -> None:
    async with scene() as s:
        run = await s.app.start(review(quorum=2))
        (pending,) = await asked(s, run)
        first = await s.app.approvals.approve(pending.id, by="ada")
        assert (first.status, len(first.decisions)) == ("pending", 1)
        again = await s.app.approvals.approve(pending.id, by="ada")
        assert len(again.decisions) == 1
        with pytest.raises(AlreadyDecidedError, match="each person counts once"):
            await s.app.approvals.reject(pending.id, by="ada")
        last = await s.app.approvals.approve(pending.id, by="bob")
        assert (last.status, last.created_ms) == ("decided", pending.created_ms)
        output = (await s.end(run)).nodes["gate"].output

        assert (output["decision"], output["decided_by"]) == ("approve", "bob")
        assert [one["decided_by"] for one in output["decisions"]] == ["ada", "bob"]


async def test_one_rejection_ends_a_quorum(scene: Any) -> None:
    async with scene() as s:
        run = await s.app.start(review(quorum=3))
        (pending,) = await asked(s, run)
        await s.app.approvals.approve(pending.id, by="ada")
        await s.app.approvals.reject(pending.id, by="bob", comments="no")

        assert (await s.end(run)).nodes["sorry"].output == "no"


async def test_the_time_of_a_quorum_does_not_begin_again_with_each_decision(scene: Any) -> None:
    clock = ManualClock()
    async with scene(clock=clock) as s:
        run = await s.app.start(review(quorum=2, timeout_seconds=60))
        (pending,) = await asked(s, run)
        clock.advance(30_000)
        await s.app.approvals.approve(pending.id, by="ada")
        await s.until(run, lambda row: row.seq >= pending.quorum and row.counter == 1)
        (again,) = await asked(s, run)
        assert again.timeout_ms == pending.timeout_ms
        await s.idle()
        clock.advance(30_000)
        await s.store.sweep()

        assert (await s.end(run)).nodes["gate"].output["decision"] == "timeout"


async def test_of_many_who_decide_at_once_a_quorum_counts_each_once(scene: Any) -> None:
    people = [f"p{number}" for number in range(6)]
    async with scene() as s:
        run = await s.app.start(review(quorum=3))
        (pending,) = await asked(s, run)

        async def decide(person: str) -> Any:
            try:
                return await s.app.approvals.approve(pending.id, by=person)
            except AlreadyDecidedError as error:
                return error

        answers = await asyncio.gather(*map(decide, people))
        accepted = [
            person
            for person, answer in zip(people, answers, strict=True)
            if not isinstance(answer, AlreadyDecidedError)
        ]
        output = (await s.end(run)).nodes["gate"].output

        counted = [one["decided_by"] for one in output["decisions"]]
        assert sorted(counted) == accepted
        assert len(counted) == 3


async def test_decisions_before_the_last_survive_a_retry(scene: Any) -> None:
    async with scene() as s:
        run = await s.app.start(review(quorum=2))
        (pending,) = await asked(s, run)
        await s.app.approvals.approve(pending.id, by="ada")
        await s.idle()
        await s.app.cancel(run)
        assert (await s.app.approvals.show(pending.id)).status == "cancelled"
        await s.app.runs.retry(run)
        (again,) = await asked(s, run)
        assert [one.by for one in again.decisions] == ["ada"]
        await s.app.approvals.approve(again.id, by="bob")

        assert (await s.end(run)).status == "COMPLETED"


# ── races ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("what", ["timeout", "cancel"])
async def test_a_decision_and_another_end_of_the_wait_exclude_each_other(
    scene: Any, what: str
) -> None:
    clock = ManualClock()
    async with scene(clock=clock) as s:
        for _ in range(5):
            run = await s.app.start(review(timeout_seconds=60))
            (pending,) = await asked(s, run)
            if what == "timeout":
                clock.advance(60_000)
                other: Any = s.store.sweep()
            else:
                other = s.app.cancel(run)
            answers: Any = await asyncio.gather(
                s.app.approvals.approve(pending.id, by="ada"), other, return_exceptions=True
            )
            answer = answers[0]
            result = await s.end(run)
            shown = await s.app.approvals.show(pending.id)

            if isinstance(answer, MinuetError):
                assert isinstance(answer, AlreadyDecidedError)
                assert shown.status == ("timeout" if what == "timeout" else "cancelled")
            else:
                assert (shown.status, shown.decisions[0].by) == ("decided", "ada")
            if result.status == "COMPLETED":
                assert result.nodes["gate"].output["decision"] == shown.decision
            else:
                assert result.status == "CANCELLED"


# ── where it stands in the graph ────────────────────────────────────────────────────────────


async def test_each_item_of_a_foreach_is_asked_for_and_all_must_be_approved(scene: Any) -> None:
    gate = human(
        "gate",
        title="{{ item }}",
        foreach={"items": ["a", "b"]},
        rejection_path=["sorry"],
        payload={"item": "{{ item }}"},
    )
    document = workflow(gate, node("ship", "gate"), node("sorry"))
    async with scene() as s:
        for verdicts, follows in (
            (["approve", "approve"], "ship"),
            (["approve", "reject"], "sorry"),
        ):
            run = await s.app.start(document)
            pending = await asked(s, run, 2)
            assert [one.id for one in pending] == [f"{run}:gate:0", f"{run}:gate:1"]
            assert [one.title for one in pending] == ["a", "b"]
            for one, verdict in zip(pending, verdicts, strict=True):
                await s.app.approvals.decide(one.id, verdict, by="ada")
            result = await s.end(run)

            assert [one["decision"] for one in result.nodes["gate"].output] == verdicts
            assert result.nodes[follows].status == "COMPLETED"


async def test_each_round_of_a_loop_asks_again(scene: Any) -> None:
    loop = {"while": "output.data != 'enough'", "max_iterations": 3}
    async with scene() as s:
        run = await s.app.start(workflow(human(loop=loop)))
        (first,) = await asked(s, run)
        await s.app.approvals.approve(first.id, by="ada", data="more")
        await s.until(run, lambda row: row.seq >= 6)
        (second,) = await asked(s, run)
        assert (first.id, second.id) == (f"{run}:gate:0", f"{run}:gate:1")
        await s.app.approvals.approve(second.id, by="ada", data="enough")

        assert (await s.end(run)).status == "COMPLETED"


async def test_an_approval_is_found_by_its_run_if_only_one_is_meant(scene: Any) -> None:
    async with scene() as s:
        run = await s.app.start(workflow(human("one"), human("two")))
        await asked(s, run, 2)
        with pytest.raises(ApprovalNotFoundError, match=f"the run has {run}:one, {run}:two"):
            await s.app.approvals.approve(run, by="ada")
        with pytest.raises(ApprovalNotFoundError):
            await s.app.approvals.approve(f"{run}:three", by="ada")
        await s.app.approvals.approve(f"{run}:one", by="ada")
        await s.app.approvals.approve(run, by="ada")

        assert (await s.end(run)).status == "COMPLETED"


@pytest.mark.shows("M-26")
@pytest.mark.parametrize("store_url", ["sqlite", "postgres", "redis", "logged"], indirect=True)
async def test_an_approval_survives_a_restart(scene: Any) -> None:
    async with scene() as s:
        run = (await s.app.start(review(quorum=2))).id
        await asked(s, run)
        await s.app.approvals.approve(run, by="ada")
        await s.idle()
    async with scene() as s:
        (pending,) = await s.app.approvals.list()
        assert (pending.run_id, [one.by for one in pending.decisions]) == (run, ["ada"])
        await s.app.approvals.approve(pending.id, by="bob")
        assert (await s.end(run)).status == "COMPLETED"


async def test_another_tenant_neither_sees_nor_decides(scene: Any) -> None:
    async with scene() as s:
        run = await s.app.start(review())
        (pending,) = await asked(s, run)
        other = s.app.for_tenant("other")
        assert await other.approvals.list() == []
        with pytest.raises(MinuetError, match="there is no run"):
            await other.approvals.approve(pending.id, by="ada")
        await s.app.cancel(run)


async def test_what_people_see_keeps_no_secrets(scene: Any) -> None:
    document = workflow(human(title="{{ secrets.TOKEN }}"))
    async with scene() as s:
        with pytest.raises(DocumentError) as wrong:
            await s.app.start(document)
        assert [one.code for one in wrong.value.diagnostics] == ["secret-not-available"]


@pytest.mark.shows("Y-13")
async def test_a_run_waits_five_minutes_for_a_person_and_then_completes(scene: Any) -> None:
    clock = ManualClock()
    document = workflow(
        task("a", handler="work"), human("approval", "a"), task("b", "approval", handler="work")
    )
    ran: list[str] = []

    async def work(ctx: minuet.Context) -> str:
        ran.append(ctx.node_id)
        return ctx.node_id

    async with scene({"work": work}, clock=clock) as s:
        run = await s.app.start(document)
        (pending,) = await asked(s, run)
        clock.advance(300_000)
        await s.store.sweep()

        # It waits for a person: no worker holds it, and it is not a stalled run.
        assert (await s.app.runs.get(run)).status == "RUNNING"
        assert (await s.app.runs.held(run), await s.app.runs.stalled()) == ({}, [])
        assert ran == ["a"]
        await s.app.approvals.approve(pending.id, by="ada")
        result = await s.end(run)

        assert (result.status, ran) == ("COMPLETED", ["a", "b"])
        waited_ms = result.nodes["approval"].ended_ms - pending.created_ms
        assert waited_ms == 300_000
