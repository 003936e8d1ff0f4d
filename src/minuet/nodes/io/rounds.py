"""Whom a `human` node asks when: its approvers, reminders to them, and others when their time is
over.

What has to be done when a wait is over is part of what the node waits with, and is read from there:
so nobody is taken for asked who was not.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from minuet.approvals import AtDue, News


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """One wait for a decision."""

    #: When the first people were asked.
    asked_ms: int
    #: When those who are asked now were.
    since_ms: int
    #: When their time is over; None: never.
    timeout_ms: int | None
    #: 0: the approvers are asked; 1: those to whom it was reassigned.
    round: int = 0
    #: What is to be done when this wait is over.
    at_due: AtDue = "decide"
    news: News = "created"


#: What is asked, and when the wait for it is over at the latest.
Due: TypeAlias = tuple[Question, int | None]


class Times(msgspec.Struct, frozen=True):
    """What a document says about the times of an approval."""

    timeout_s: float | None
    remind_after_s: float | None
    remind_every_s: float | None
    reassigns: bool
    #: How long the others have.
    second_timeout_s: float | None
    #: The decision when all time is over.
    policy: str

    @classmethod
    def read(cls, asked: dict[str, Any]) -> Times:
        """Read them from `human_config`."""
        policy = asked.get("escalation_policy", "reject")
        second: dict[str, Any] = policy if isinstance(policy, dict) else {"then": policy}
        every = asked.get("remind_every_seconds")
        return cls(
            asked.get("timeout_seconds"),
            asked.get("remind_after_seconds", every),
            every,
            "reassign" in second,
            second.get("timeout_seconds"),
            second.get("then", "reject"),
        )

    @property
    def has_rounds(self) -> bool:
        """Whether something happens before the time is over for good."""
        return self.reassigns or self.remind_after_s is not None

    def total_s(self, round: int) -> float:
        """How long nobody has decided when the time of a round is over."""
        return (self.timeout_s or 0) + ((self.second_timeout_s or 0) if round else 0)

    def first(self, now_ms: int) -> Due:
        """Ask the approvers."""
        timeout_ms = _after(now_ms, self.timeout_s)
        return self._due(Question(asked_ms=now_ms, since_ms=now_ms, timeout_ms=timeout_ms), now_ms)

    def again(self, last: Question, news: News, now_ms: int) -> Due:
        """Go on asking the same people."""
        return self._due(msgspec.structs.replace(last, news=news), now_ms)

    def others(self, last: Question, now_ms: int) -> Due:
        """Ask those to whom it is reassigned."""
        asked = Question(
            asked_ms=last.asked_ms,
            since_ms=now_ms,
            timeout_ms=_after(now_ms, self.second_timeout_s),
            round=last.round + 1,
            news="reassigned",
        )
        return self._due(asked, now_ms)

    def _due(self, asked: Question, now_ms: int) -> Due:
        due_ms = asked.timeout_ms
        at_due: AtDue = "decide"
        reminder = self._next_reminder(asked.since_ms, now_ms)
        if reminder is not None and (due_ms is None or reminder < due_ms):
            due_ms, at_due = reminder, "remind"
        elif self.reassigns and not asked.round:
            at_due = "reassign"
        return msgspec.structs.replace(asked, at_due=at_due), due_ms

    def _next_reminder(self, since_ms: int, now_ms: int) -> int | None:
        first = _after(since_ms, self.remind_after_s)
        if first is None or first > now_ms:
            return first
        if self.remind_every_s is None:
            return None
        every_ms = _milliseconds(self.remind_every_s)
        return first + ((now_ms - first) // every_ms + 1) * every_ms


def _after(start_ms: int, seconds: float | None) -> int | None:
    return None if seconds is None else start_ms + _milliseconds(seconds)


def _milliseconds(seconds: float) -> int:
    return max(1, round(seconds * 1000))
