"""What a run's events tell people outside."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from minuet import events as happened
from minuet.approvals import approval_id
from minuet.bridge.reporting import MOVED
from minuet.events import Place
from minuet.kernel.approvals import Asked, find_approvals, name_events
from minuet.kernel.fold import NumberedEvent
from minuet.kernel.scope import decode
from minuet.moments import moment
from minuet.plan.plan import author_of
from minuet.store.records import Run
from minuet.types import Json
from minuet.webhooks.addresses import Addresses


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is sent to receivers."""

    tenant: str
    run: str
    #: Number of the event that it is about.
    seq: int
    kind: str
    at_ms: int
    data: dict[str, Json]

    @property
    def id(self) -> str:
        """The same whenever it is sent, so that a receiver knows what it has had."""
        return f"{self.run}.{self.seq}.{self.kind}"

    @property
    def body(self) -> bytes:
        """What is sent."""
        return msgspec.json.encode(
            {"type": self.kind, "timestamp": moment(self.at_ms), "data": self.data}
        )


def needs_history(window: Sequence[NumberedEvent]) -> bool:
    """Whether events before these have to be read to understand them: a wait began there."""
    began: set[Place] = set()
    for _, _, event in window:
        if isinstance(event, happened.NodeWaiting):
            began.add((event.node, event.scope))
        elif isinstance(event, happened.NodeResumed) and (event.node, event.scope) not in began:
            return True
    return False


def find_notices(
    run: Run, history: Sequence[NumberedEvent], after: int, addresses: Addresses
) -> Iterator[Notice]:
    """The notices of a run's events after one of them; those before only explain them."""
    named = name_events(history)
    for place, (seq, at_ms, event) in enumerate(history):
        if seq <= after:
            continue
        about = {"run_id": run.run, "workflow": run.workflow, "parent": run.parent}
        for kind, data in _of_event(run, named.get(seq), event, history[: place + 1], addresses):
            yield Notice(
                tenant=run.tenant,
                run=run.run,
                seq=seq,
                kind=kind,
                at_ms=at_ms,
                data={**data, **about},
            )


def _of_event(
    run: Run,
    name: str | None,
    event: happened.Event,
    history: Sequence[NumberedEvent],
    addresses: Addresses,
) -> Iterator[tuple[str, dict[str, Json]]]:
    if name is not None and isinstance(event, happened.NodeWaiting | happened.NodeResumed):
        asked = _approval(history, (event.node, event.scope))
        yield name, _about_approval(run, asked, history[-1][1], addresses)
    match event:
        case happened.NodeFailed() | happened.NodeHeld() if event.dead_letter:
            error: Any = event.error
            yield (
                "dead_letter.created",
                {
                    **_place(event.node, event.scope),
                    "reason": event.dead_letter,
                    "error": error,
                    "attempts": event.attempt,
                },
            )
        case happened.RunFailed():
            failure: Any = event.error
            yield "run.failed", {**_place(event.node, event.scope), "error": failure}
        case happened.RunStalled():
            yield "run.stalled", {"why": event.why, "since": moment(event.since_ms)}
        case happened.RunCancelled() if not event.reason.startswith(MOVED):
            yield "run.cancelled", {"reason": event.reason, "by": event.by}


def _place(node: str, scope: str) -> dict[str, Json]:
    return {"node_id": author_of(node), "scope": list(decode(scope))}


def _approval(history: Iterable[NumberedEvent], place: Place) -> Asked:
    """An approval as it stood after these events."""
    own = (one for one in history if getattr(one[2], "node", None) == place[0])
    return find_approvals(own)[place]


def _about_approval(run: Run, asked: Asked, at_ms: int, addresses: Addresses) -> dict[str, Json]:
    """An approval for those who decide: first what services for approvals ask for."""
    node, scope = asked.place
    id = approval_id(run.run, author_of(node), decode(scope))
    question, verdict = asked.question, asked.verdict
    decisions: Any = msgspec.to_builtins(asked.decisions)
    return {
        "ApprovalID": id,
        "RunID": run.run,
        "Title": question.get("title") or id,
        "Approver": ", ".join(question.get("approvers") or ()),
        "Deadline": None if asked.due_ms is None else moment(asked.due_ms),
        "CallbackURL": addresses.of_decision(run, id, asked, at_ms),
        **_place(node, scope),
        "description": question.get("description"),
        "approvers": question.get("approvers") or [],
        "quorum": asked.quorum,
        "payload": question.get("payload"),
        "form": question.get("form"),
        "approval_ui_url": question.get("approval_ui_url"),
        "status": asked.status,
        "decision": None if verdict is None else verdict.decision,
        "decisions": decisions,
        "created_at": moment(asked.asked_ms),
    }
