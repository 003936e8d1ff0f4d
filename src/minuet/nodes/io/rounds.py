"""Whom a `human` node asks when: its approvers, reminders to them, and others when their time is
over.

An approval that has neither reminders nor others knows its time from its wait alone. One that has
keeps each wait as a step before it begins, so that it knows afterwards what has to be done.
"""

from __future__ import annotations

from itertools import count
from typing import Any

import msgspec

from minuet.approvals import AtDue, News
from minuet.nodes.context import Context

#: Begins the names of the steps that keep the questions.
_STEP = "asked:"


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """One wait for a decision."""

    #: When the first people were asked.
    asked_ms: int
    #: When those who are asked now were.
    since_ms: int
    #: When their time is over; None: never.
    until_ms: int | None
    #: 0: the approvers are asked; 1: those to whom it was reassigned.
    round: int = 0
    #: When this wait is over, and what is to be done then.
    due_ms: int | None = None
    at_due: AtDue = "decide"
    news: News = "created"


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

    def first(self, now_ms: int) -> Question:
        """Ask the approvers."""
        until_ms = _after(now_ms, self.timeout_s)
        return self._due(Question(asked_ms=now_ms, since_ms=now_ms, until_ms=until_ms), now_ms)

    def again(self, last: Question, news: News, now_ms: int) -> Question:
        """Go on asking the same people."""
        return self._due(msgspec.structs.replace(last, news=news), now_ms)

    def others(self, last: Question, now_ms: int) -> Question:
        """Ask those to whom it is reassigned."""
        asked = Question(
            asked_ms=last.asked_ms,
            since_ms=now_ms,
            until_ms=_after(now_ms, self.second_timeout_s),
            round=last.round + 1,
            news="reassigned",
        )
        return self._due(asked, now_ms)

    def _due(self, asked: Question, now_ms: int) -> Question:
        due_ms = asked.until_ms
        at_due: AtDue = "decide"
        reminder = self._next_reminder(asked.since_ms, now_ms)
        if reminder is not None and (due_ms is None or reminder < due_ms):
            due_ms, at_due = reminder, "remind"
        elif self.reassigns and not asked.round:
            at_due = "reassign"
        return msgspec.structs.replace(asked, due_ms=due_ms, at_due=at_due)

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


async def load_last(context: Context) -> tuple[Question | None, int]:
    """The last question of a node instance, and how many there were."""
    found = None
    for number in count(1):
        known, value = await context.load_step(f"{_STEP}{number}")
        if not known:
            return found, number - 1
        found = msgspec.convert(value, Question)
    raise AssertionError("unreachable")


async def keep(context: Context, number: int, asked: Question) -> Question:
    """Keep a question as the one with this number; what was kept before stays."""
    value = await context.keep_step(f"{_STEP}{number}", msgspec.to_builtins(asked))
    return msgspec.convert(value, Question)
