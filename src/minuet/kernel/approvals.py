"""The approvals of a run, according to its history: who was asked, who decided, what came of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import msgspec

from minuet import events as happened
from minuet.approvals import (
    APPROVAL_WAIT,
    SYSTEM,
    Answer,
    AtDue,
    Decision,
    News,
    Verdict,
    find_verdict,
)
from minuet.events import Place
from minuet.kernel.fold import NumberedEvent

ApprovalStatus = Literal["pending", "decided", "timeout", "cancelled"]


class Asked(msgspec.Struct):
    """An approval, as far as it has come."""

    place: Place
    #: The key of its wait; of the last one, if it no longer waits.
    key: str
    #: What the node asks, as it has written it.
    question: dict[str, Any]
    asked_ms: int
    #: When the time is over. None: never.
    due_ms: int | None
    decisions: list[Decision]
    #: Why the node waits, and what is to be done when that wait is over without a decision.
    news: News
    at_due: AtDue
    is_waiting: bool = True
    timed_out_ms: int | None = None
    cut_off_ms: int | None = None

    @property
    def quorum(self) -> int:
        """How many people must approve."""
        return int(self.question.get("quorum", 1))

    @property
    def verdict(self) -> Decision | None:
        """What was decided, by people or because the time was over. None: nothing yet."""
        found = find_verdict(self.decisions, self.quorum)
        if found is None and self.timed_out_ms is not None:
            approves = self.question.get("escalation_policy") == "approve"
            decision: Verdict = "approve" if approves else "timeout"
            return Decision(decision=decision, by=SYSTEM, at_ms=self.timed_out_ms)
        return found

    @property
    def status(self) -> ApprovalStatus:
        """How it stands."""
        if find_verdict(self.decisions, self.quorum) is not None:
            return "decided"
        if self.timed_out_ms is not None:
            return "timeout"
        return "pending" if self.cut_off_ms is None else "cancelled"


def find_approvals(history: Iterable[NumberedEvent]) -> dict[Place, Asked]:
    """All approvals of a run, in the order in which they were asked for.

    The event with which one waits now is enough to know it: the node has put into it what was
    decided before.
    """
    found: dict[Place, Asked] = {}
    for _, at_ms, event in history:
        match event:
            case happened.NodeWaiting() if event.kind == APPROVAL_WAIT:
                found[event.node, event.scope] = _asked(event, at_ms)
            case happened.NodeResumed() if (event.node, event.scope) in found:
                _answer(found[event.node, event.scope], event, at_ms)
            case happened.NodeRepaired() if (event.node, event.scope) in found:
                if event.action in ("skip", "output"):
                    _cut_off([found[event.node, event.scope]], at_ms)
            case happened.RunFailed() | happened.RunCancelled():
                _cut_off(found.values(), at_ms)
            case happened.RunRetried():
                for place in event.tokens:
                    if place in found:
                        found[place].cut_off_ms = None
            case _:
                withdrawn = getattr(event, "withdrawn", ())
                _cut_off([found[p] for p in withdrawn if p in found], at_ms)
    return found


#: What an approval's waits are called in the history that people see.
_NAMES: dict[News, str] = {
    "created": "approval.created",
    "reminded": "approval.reminded",
    "reassigned": "approval.reassigned",
}


def base_type(name: str) -> str:
    """The type of an event by the name that people see (`name_events`)."""
    if name in _NAMES.values():
        return "node.waiting"
    return "node.resumed" if name == "approval.decided" else name


def name_events(history: Iterable[NumberedEvent]) -> dict[int, str]:
    """What events of approvals are called in the history that people see, by their numbers."""
    names = EventNames()
    found = ((seq, names.add(at_ms, event)) for seq, at_ms, event in history)
    return {seq: name for seq, name in found if name is not None}


class EventNames:
    """What events of approvals are called in the history that people see, while they arrive.

    There are no such events: an approval is a token that waits, and is decided when its wait is
    over. The events that say so have these names beside their own.
    """

    def __init__(self) -> None:
        self._waits: dict[Place, Asked] = {}

    def add(self, at_ms: int, event: happened.Event) -> str | None:
        """The next event; its other name, if it has one."""
        if isinstance(event, happened.NodeWaiting) and event.kind == APPROVAL_WAIT:
            asked = self._waits[event.node, event.scope] = _asked(event, at_ms)
            return _NAMES.get(asked.news)
        if isinstance(event, happened.NodeResumed):
            ended = self._waits.pop((event.node, event.scope), None)
            if ended is not None and (not event.timed_out or ended.at_due == "decide"):
                return "approval.decided"
        return None


def _asked(event: happened.NodeWaiting, at_ms: int) -> Asked:
    question: dict[str, Any] = msgspec.json.decode(event.data)
    decisions = msgspec.convert(question.pop("decisions", []), list[Decision])
    asked_ms = question.pop("asked_ms", at_ms)
    due_ms = question.pop("timeout_ms", event.due_ms)
    news = question.pop("news", "counted" if decisions else "created")
    at_due = question.pop("at_due", "decide")
    place = (event.node, event.scope)
    return Asked(place, event.key, question, asked_ms, due_ms, decisions, news, at_due)


def _answer(asked: Asked, event: happened.NodeResumed, at_ms: int) -> None:
    asked.is_waiting = False
    if event.timed_out:
        # Otherwise the node goes on asking.
        asked.timed_out_ms = at_ms if asked.at_due == "decide" else None
    else:
        answer = msgspec.json.decode(event.resolution, type=Answer)
        asked.decisions.append(answer.decision)


def _cut_off(approvals: Iterable[Asked], at_ms: int) -> None:
    for asked in approvals:
        if asked.status == "pending":
            asked.cut_off_ms = at_ms
