"""People in a world: documents that ask them, and what must hold of their decisions."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from minuet import events as happened
from minuet.approvals import APPROVAL_WAIT, SYSTEM, Answer, Decision, approval_id
from minuet.events import Place
from minuet.kernel.approvals import find_approvals
from minuet.kernel.fold import NumberedEvent
from minuet.kernel.scope import decode
from minuet.plan.plan import author_of

#: Those who decide. Fewer than the largest quorum would never complete it.
PEOPLE = ("ann", "bob", "cy", "dora")


def add_approvals(document: dict[str, Any]) -> None:
    """Let some nodes ask people instead of what they do."""
    chance = random.Random(f"approvals {document['nodes']}")
    for node in document["nodes"]:
        if node.get("type", "task") not in ("wait", "noop", "task") or chance.random() < 0.6:
            continue
        for field in ("config", "handler", "timeout_seconds"):
            node.pop(field, None)
        node["type"] = "human"
        node["human_config"] = {
            # What others read of any node.
            "payload": {"v": 1, "odd": False},
            "timeout_seconds": chance.choice((0.5, 2, 6, 20)),
            "quorum": chance.choice((1, 1, 2, 3)),
            "escalation_policy": chance.choice(("reject", "approve", "fail")),
            "on_reject": chance.choice(("fail", "complete", "complete")),
        }
        _add_rounds(node)


def _add_rounds(node: dict[str, Any]) -> None:
    """Let some approvals remind people, and ask others when their time is over."""
    chance, asked = random.Random(f"rounds {node}"), node["human_config"]
    if chance.random() < 0.4:
        asked["remind_every_seconds"] = chance.choice((0.3, 1, 5))
    if chance.random() < 0.3:
        others = {"reassign": ["others"], "timeout_seconds": chance.choice((0.5, 3))}
        asked["escalation_policy"] = {**others, "then": asked["escalation_policy"]}


def is_lost(
    run: str, history: Iterable[NumberedEvent], id: str, decision: str, person: str
) -> bool:
    """Whether a decision is not in the history, although the facade has accepted it."""
    for (node, scope), asked in find_approvals(history).items():
        if approval_id(run, author_of(node), decode(scope)) == id:
            made = [(one.by, one.decision) for one in asked.decisions]
            return (person, decision) not in made
    return True


def wrong_decisions(history: Iterable[NumberedEvent]) -> Iterator[str]:
    """I21: what an approval came to is what people decided. Counted here by the events alone."""
    made: dict[Place, list[Decision]] = {}
    quorums: dict[Place, int] = {}
    timed_out: set[Place] = set()
    until: dict[Place, int | None] = {}
    for _, _, event in history:
        place = (getattr(event, "node", ""), getattr(event, "scope", ""))
        match event:
            case happened.NodeWaiting() if event.kind == APPROVAL_WAIT:
                made.setdefault(place, [])
                question = msgspec.json.decode(event.data)
                quorums[place] = question["quorum"]
                if "timeout_ms" in question:
                    timeout_ms = question["timeout_ms"]
                    is_same = question["news"] in ("reminded", "counted")
                    if is_same and until.get(place, timeout_ms) != timeout_ms:
                        yield f"{place}: its time began again when people were reminded"
                    until[place] = timeout_ms
            case happened.NodeResumed() if place in made:
                timed_out.discard(place)
                if event.timed_out:
                    timed_out.add(place)
                else:
                    answer = msgspec.json.decode(event.resolution, type=Answer)
                    made[place].append(answer.decision)
            case happened.NodeRepaired(action="output"):
                made.pop(place, None)  # Nobody's decision counts any more.
            case happened.NodeCompleted() if place in made and event.error is None:
                output = msgspec.json.decode(event.output)
                wrong = _wrong(output, made[place], quorums[place], place in timed_out)
                if wrong:
                    yield f"{place}: {wrong}"


def _wrong(
    output: dict[str, Any], made: list[Decision], quorum: int, timed_out: bool
) -> str | None:
    decision, by = output["decision"], output["decided_by"]
    earlier = made if by == SYSTEM else made[:-1]
    if any(one.decision == "reject" for one in earlier):
        return "somebody had rejected, and the approval went on"
    if by == SYSTEM:
        return None if timed_out else "the time was not over, and the system decided"
    if timed_out:
        return f"the time was over, and {by} decided"
    last = made[-1]
    if (last.decision, last.by) != (decision, by):
        return f"{last.by} decided {last.decision} last, and the decision is {decision} by {by}"
    agreed = {one.by for one in made if one.decision == "approve"}
    if decision == "approve" and len(agreed) < quorum:
        return f"{len(agreed)} of {quorum} approved, and the decision is {decision}"
    return None
