"""`human`: asks people for a decision, and waits for it. No worker is blocked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from minuet.approvals import (
    APPROVAL_WAIT,
    SYSTEM,
    Answer,
    Decision,
    approval_id,
    find_verdict,
    wait_key,
)
from minuet.errors import ApprovalTimeoutError, OutputError
from minuet.moments import moment
from minuet.nodes.context import Context
from minuet.nodes.io.rounds import Due, Question, Times
from minuet.nodes.spec import Call, NodeType, Wait
from minuet.types import Json

#: A payload larger than this, as JSON, is not shown with the approval; the output has it anyway.
SHOWN_BYTES_MAX = 256 * 1024

#: Begins the names of the steps that keep the decisions before the last one.
_STEP = "decision:"


async def run(call: Call, context: Context) -> Json | Wait:
    """Ask, wait until enough people have decided or the time is over, and return the decision."""
    asked: dict[str, Any] = call.parts.get("human_config") or {}
    shown: dict[str, Any] = call.config.get("human_config") or {}
    times = Times.read(asked)
    if times.has_rounds:
        return await _run_in_rounds(call, context, times)
    if call.timed_out:
        return _escalate(call, shown, times.policy, times.total_s(0))
    quorum: int = asked.get("quorum", 1)
    answer = msgspec.convert(call.resolution, Answer) if call.resumed else None
    decisions = await _keep(context, answer, quorum)
    verdict = find_verdict(decisions, quorum)
    if verdict is not None:
        return _output(_payload(call, shown), verdict, decisions, quorum)
    id = approval_id(context.run_id, context.node_id, context.scope)
    seconds = times.timeout_s
    delay_ms = None if seconds is None or answer is not None else max(1, round(seconds * 1000))
    return Wait(
        APPROVAL_WAIT,
        wait_key(id, len(decisions)),
        due_ms=None if answer is None else answer.due_ms,
        delay_ms=delay_ms,
        data={
            **_question(call, asked, shown, times.policy),
            "asked_ms": call.taken_ms if answer is None else answer.asked_ms,
            "decisions": [msgspec.to_builtins(one) for one in decisions],
        },
    )


async def _run_in_rounds(call: Call, context: Context, times: Times) -> Json | Wait:
    """As `run`, for an approval that reminds people or is reassigned."""
    asked: dict[str, Any] = call.parts.get("human_config") or {}
    shown: dict[str, Any] = call.config.get("human_config") or {}
    quorum: int = asked.get("quorum", 1)
    answer = None
    if call.resumed and not call.timed_out:
        answer = msgspec.convert(call.resolution, Answer)
    decisions = await _keep(context, answer, quorum)
    verdict = find_verdict(decisions, quorum)
    if verdict is not None:
        return _output(_payload(call, shown), verdict, decisions, quorum)
    due = await _ask(call, context, times, is_answered=answer is not None)
    if due is None:
        return _escalate(call, shown, times.policy, times.total_s(1 if times.reassigns else 0))
    question, due_ms = due
    if question.round:
        shown = {**shown, "approvers": shown["reassign"]}
    id = approval_id(context.run_id, context.node_id, context.scope)
    return Wait(
        APPROVAL_WAIT,
        wait_key(id, len(decisions), question.round),
        due_ms=due_ms,
        data={
            **_question(call, asked, shown, times.policy),
            **msgspec.to_builtins(question),
            "decisions": [msgspec.to_builtins(one) for one in decisions],
        },
    )


async def _ask(call: Call, context: Context, times: Times, *, is_answered: bool) -> Due | None:
    """Whom to ask now, and until when; None: the time is over for good."""
    now_ms = call.taken_ms
    waited = await context.find_wait() if call.resumed else None
    if not isinstance(waited, dict) or "since_ms" not in waited:
        # It has not waited, or its plan had no rounds then.
        return times.first(now_ms)
    last = msgspec.convert(waited, Question)
    if is_answered:
        return times.again(last, "counted", now_ms)
    match last.at_due:
        case "remind":
            return times.again(last, "reminded", now_ms)
        case "reassign":
            return times.others(last, now_ms)
    return None


async def _keep(context: Context, answer: Answer | None, quorum: int) -> list[Decision]:
    """All decisions by now. Those of a quorum are kept as steps, so that nobody is asked again
    when the run is retried; a single one is kept with the token."""
    if quorum == 1:
        return [] if answer is None else [answer.decision]
    decisions: list[Decision] = []
    while True:
        known, value = await context.load_step(f"{_STEP}{len(decisions) + 1}")
        if not known:
            break
        decisions.append(msgspec.convert(value, Decision))
    if answer is not None and all(one.by != answer.decision.by for one in decisions):
        value = msgspec.to_builtins(answer.decision)
        kept = await context.keep_step(f"{_STEP}{len(decisions) + 1}", value)
        decisions.append(msgspec.convert(kept, Decision))
    return decisions


def _question(
    call: Call, asked: dict[str, Any], shown: dict[str, Any], policy: str
) -> dict[str, Json]:
    """What those who decide see."""
    payload = _payload(call, shown)
    size = len(msgspec.json.encode(payload))
    found: dict[str, Json] = {
        "title": _text(shown, "title"),
        "description": _text(shown, "description"),
        "approvers": _approvers(shown),
        "quorum": asked.get("quorum", 1),
        "form": asked.get("form"),
        "payload": payload if size <= SHOWN_BYTES_MAX else None,
        "approval_ui_url": _text(shown, "approval_ui_url"),
        "escalation_policy": policy,
        "four_eyes": asked.get("four_eyes", False),
        "metadata": {name: value for name, value in call.config.items() if name != "human_config"},
    }
    if size > SHOWN_BYTES_MAX:
        found["payload_bytes"] = size
    return found


def _text(shown: dict[str, Any], field: str) -> str | None:
    value = shown.get(field)
    if value is not None and not isinstance(value, str):
        raise OutputError(f"human: `{field}` must be text, not {value!r:.100}")
    return value


def _approvers(shown: dict[str, Any]) -> list[str]:
    value = shown.get("approvers", [])
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list) or not all(isinstance(one, str) and one for one in value):
        raise OutputError(f"human: `approvers` must be a list of names, not {value!r:.100}")
    return value


def _payload(call: Call, shown: dict[str, Any]) -> Json:
    """What is to be decided on: `payload`, else what the node got."""
    if "payload" in shown:
        return shown["payload"]
    if len(call.inputs) == 1:
        return next(iter(call.inputs.values()))
    return dict(call.inputs) if call.inputs else call.input


def _escalate(call: Call, shown: dict[str, Any], policy: str, seconds: float) -> Json:
    if policy == "fail":
        raise ApprovalTimeoutError(seconds)
    decided = Decision(
        decision="approve" if policy == "approve" else "timeout",
        by=SYSTEM,
        at_ms=call.taken_ms,
        comments=f"nobody decided within {seconds:g} s",
    )
    return _output(_payload(call, shown), decided, [decided], 1)


def _output(payload: Json, verdict: Decision, decisions: Sequence[Decision], quorum: int) -> Json:
    """The payload with the decision; the decision's fields win."""
    own = payload if isinstance(payload, dict) else {"payload": payload}
    listed = {"decisions": [_fields(one) for one in decisions]} if quorum > 1 else {}
    return {**(own if payload is not None else {}), **_fields(verdict), **listed}


def _fields(one: Decision) -> dict[str, Json]:
    return {
        "decision": one.decision,
        "comments": one.comments,
        "data": one.data,
        "decided_by": one.by,
        "decided_at": moment(one.at_ms),
    }


HUMAN = NodeType(
    name="human",
    display_name="Approval",
    summary="Waits for a person's decision.",
    description="The node asks those whom `human_config` names, and its token waits in the store: "
    "no worker is held meanwhile. `minuet approvals` lists what waits, and decides it. The first "
    "decision wins; with a `quorum`, so many people must approve, and one rejection ends it.\n\n"
    "After an approval the run goes on to the node's dependents. After a rejection it takes the "
    "`rejection_path`; without one the run fails with `rejected`, or that path of it just ends "
    "(`on_reject: complete`). When the time is over, `escalation_policy` decides, "
    "or others are asked (`reassign`).\n\n"
    "Templates in `title`, `description`, `payload`, `approvers`, `reassign` and "
    "`approval_ui_url` are rendered. `config` is shown with the approval as its metadata.",
    capabilities={"creates_approval": True, "supports_timeout": True},
    output="the payload with `decision` (`approve`, `reject` or `timeout`), `comments`, `data`, "
    "`decided_by` and `decided_at`; with a quorum also `decisions`",
    output_schema={
        "type": "object",
        "properties": {
            "decision": {"enum": ["approve", "reject", "timeout"]},
            "comments": {"type": "string"},
            "data": {},
            "decided_by": {"type": "string"},
            "decided_at": {"type": "string"},
        },
        "required": ["decision", "comments", "data", "decided_by", "decided_at"],
    },
    example={
        "id": "approve",
        "type": "human",
        "human_config": {
            "title": "Refund {{ input.amount }} EUR?",
            "approvers": ["finance"],
            "timeout_hours": 48,
            "escalation_policy": "reject",
        },
        "rejection_path": ["tell_customer"],
    },
    kind="io",
    queue="human",
    effects="none",
    run_async=run,
)
