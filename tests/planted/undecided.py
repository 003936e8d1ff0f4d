"""Mistakes in how decisions of people are kept and counted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from minuet.approvals import Answer, Decision, News, find_verdict
from minuet.nodes.context import Context
from minuet.nodes.io import human
from minuet.nodes.io.rounds import Due, Question, Times


@contextmanager
def _replaced(name: str, wrong: Any) -> Iterator[None]:
    right = getattr(human, name)
    setattr(human, name, wrong)
    try:
        yield
    finally:
        setattr(human, name, right)


def decisions_are_forgotten() -> Any:
    """Of a quorum, only the last decision is known."""

    async def keep(context: Context, answer: Answer | None, quorum: int) -> list[Decision]:
        return [] if answer is None else [answer.decision]

    return _replaced("_keep", keep)


def quorums_are_one_short() -> Any:
    """One approval too few is enough."""

    def count(decisions: Iterable[Decision], quorum: int) -> Decision | None:
        return find_verdict(decisions, max(1, quorum - 1))

    return _replaced("find_verdict", count)


def rejections_are_overruled() -> Any:
    """Approvals after a rejection complete a quorum."""

    def count(decisions: Iterable[Decision], quorum: int) -> Decision | None:
        approvals = [one for one in decisions if one.decision == "approve" or quorum == 1]
        return find_verdict(approvals, quorum)

    return _replaced("find_verdict", count)


def reminders_give_more_time() -> Any:
    """The time begins again whenever somebody is reminded."""
    right = Times.again

    def again(times: Times, last: Question, news: News, now_ms: int) -> Due:
        more, _ = times.first(now_ms)
        later = msgspec.structs.replace(last, timeout_ms=more.timeout_ms)
        return right(times, later, news, now_ms)

    @contextmanager
    def replaced() -> Iterator[None]:
        setattr(Times, "again", again)  # noqa: B010 — a type checker would not have it
        try:
            yield
        finally:
            setattr(Times, "again", right)  # noqa: B010

    return replaced()
