"""Plays of workflows that ask people."""

from __future__ import annotations

from typing import Any

import pytest

import minuet
from minuet.errors import InputError, PlayError
from minuet.testing import play


def review(**asked: Any) -> dict[str, Any]:
    return {
        "name": "review",
        "nodes": [
            {
                "id": "gate",
                "type": "human",
                "human_config": {"approvers": ["finance"], **asked},
                "rejection_path": ["sorry"],
            },
            {"id": "ship", "type": "noop", "dependencies": ["gate"]},
            {"id": "sorry", "type": "noop"},
        ],
    }


@pytest.mark.parametrize(("decision", "follows"), [("approve", "ship"), ("reject", "sorry")])
def test_a_decision_leads_where_it_would_in_any_run(decision: str, follows: str) -> None:
    played = play(review(), decisions={"gate": decision})

    assert played.status == "COMPLETED"
    assert list(played.output) == [follows]
    assert played.nodes["gate"].output["decided_by"] == "somebody-1"


def test_a_function_decides_by_what_it_is_asked() -> None:
    def decide(approval: Any) -> dict[str, Any]:
        return {"decision": "approve", "data": approval.payload["price"] * 2, "by": "ada"}

    played = play(review(payload={"price": 4}), decisions={"gate": decide})

    assert played.nodes["gate"].output["data"] == 8
    assert played.nodes["gate"].output["decided_by"] == "ada"


def test_a_list_has_one_decision_for_each_of_a_quorum() -> None:
    played = play(review(quorum=2), decisions={"gate": ["approve", "approve"]})

    decisions = played.nodes["gate"].output["decisions"]
    assert [one["decided_by"] for one in decisions] == ["somebody-1", "somebody-2"]


def test_the_time_of_an_approval_that_nobody_decides_is_skipped() -> None:
    played = play(review(timeout_hours=48))

    assert played.nodes["gate"].output["decision"] == "timeout"


def test_an_approval_that_would_wait_forever_stops_the_play() -> None:
    with pytest.raises(PlayError, match=r"pass decisions=\{'gate': 'approve'\}"):
        play(review())


def test_what_is_not_a_decision_is_refused() -> None:
    with pytest.raises(InputError, match="expected 'approve', 'reject' or a dict"):
        play(review(), decisions={"gate": 7})  # type: ignore[dict-item]
    with pytest.raises(InputError, match="expected 'approve' or 'reject', got 'perhaps'"):
        play(review(), decisions={"gate": "perhaps"})


def test_a_durable_function_gets_a_decision() -> None:
    @minuet.workflow(name="t-asks")
    async def asks(ctx: minuet.Flow) -> str:
        return (await ctx.approve("Pay?")).decision

    assert play(asks, decisions={"approve": "reject"}).output == "reject"


def test_a_workflow_written_in_python_asks_people() -> None:
    with minuet.Workflow("bought") as bought:
        priced = minuet.transform("priced", {"amount": 1200})
        gate = minuet.human(
            "gate", title="Buy for {{ priced.output.amount }}?", payload=priced.output, quorum=1
        )
        minuet.transform("ship", gate.output.decided_by)
        gate.rejected(minuet.noop("sorry"))

    seen: list[Any] = []

    def decide(approval: Any) -> str:
        seen.append((approval.title, approval.payload))
        return "approve"

    played = play(bought, decisions={"gate": decide})

    assert seen == [("Buy for 1200?", {"amount": 1200})]
    assert played.output == {"ship": "somebody-1"}


def test_reminders_and_others_come_as_time_is_skipped() -> None:
    policy = {"reassign": ["boss"], "timeout_hours": 1, "then": "approve"}
    asked = {"timeout_hours": 5, "remind_every_hours": 2, "escalation_policy": policy}

    played = play(review(**asked))

    assert played.nodes["gate"].output["decided_by"] == "system"
    assert list(played.output) == ["ship"]


def test_others_decide_when_the_time_of_the_first_is_over() -> None:
    policy = {"reassign": ["boss"], "timeout_hours": 1}

    def decide(approval: Any) -> Any:
        return "approve" if approval.approvers == ("boss",) else None

    played = play(review(timeout_hours=5, escalation_policy=policy), decisions={"gate": decide})

    assert played.nodes["gate"].output["decided_by"] == "somebody-1"


def test_a_play_does_not_remind_people_forever() -> None:
    with pytest.raises(PlayError, match=r"it would wait forever"):
        play(review(remind_every_hours=1))
