"""The rules of signals, counted from events: what is wrong with a history is found."""

from __future__ import annotations

import pytest

from minuet.events import (
    Event,
    NodeCompleted,
    NodeResumed,
    NodeWaiting,
    RunCancelled,
    SignalReceived,
    StepRecorded,
)
from minuet.kernel.mailbox import Mailbox


def waits(node: str, name: str = "paid") -> Event:
    return NodeWaiting(node, "", "signal", name)


def function_waits(node: str, key: str = '["paid"]') -> Event:
    return NodeWaiting(node, "", "flow", key)


def fetched(node: str, signal: int, step: str = "s") -> Event:
    return StepRecorded(node, "", step, signal=signal)


def sent(id: str, name: str = "paid") -> Event:
    return SignalReceived(name, id)


def received(node: str, signal: int) -> Event:
    return NodeResumed(node, "", signal=signal)


def problems(*events: Event) -> list[str]:
    mailbox = Mailbox()
    for seq, event in enumerate(events, 1):
        mailbox.count(seq, event)
    return [*mailbox.broken, *mailbox.unmatched()]


@pytest.mark.parametrize(
    "events",
    [
        [waits("a"), sent("1"), received("a", 2)],
        [sent("1"), waits("a"), received("a", 1)],
        [sent("1", "other"), waits("a")],
        [waits("a"), NodeResumed("a", "", timed_out=True), sent("1")],
        [waits("a"), RunCancelled(), sent("1")],
        [waits("a"), NodeCompleted("b", "", withdrawn=[("a", "")]), sent("1")],
        [waits("a"), waits("b"), sent("1"), received("a", 3), sent("2"), received("b", 5)],
        [sent("1"), sent("2"), waits("a"), received("a", 1), waits("a"), received("a", 2)],
        [function_waits("a"), sent("1"), NodeResumed("a", ""), fetched("a", 2)],
        [sent("1"), function_waits("a"), NodeResumed("a", "")],
        [sent("1"), sent("2"), fetched("a", 2), fetched("b", 1)],
        [function_waits("a"), sent("1", "other")],
        [function_waits("a"), RunCancelled(), sent("1")],
    ],
)
def test_a_history_that_follows_the_rules_has_no_problem(events: list[Event]) -> None:
    assert problems(*events) == []


@pytest.mark.parametrize(
    ("events", "problem"),
    [
        ([sent("1"), sent("1")], "event 2: signal '1' is there already"),
        ([waits("a"), sent("1")], "('a', '') waits for signal 'paid', which is kept"),
        (
            [waits("a"), received("a", 1)],
            "event 2: ('a', '') received event 1, which is not a signal",
        ),
        (
            [waits("a"), sent("1"), received("a", 2), waits("a"), received("a", 2)],
            "event 5: ('a', '') received signal 'paid' of event 2 once more",
        ),
        (
            [waits("a", "other"), sent("1"), received("a", 2)],
            "event 3: ('a', '') received signal 'paid', for which it did not wait",
        ),
        (
            [waits("a"), waits("b"), sent("1"), received("b", 3), RunCancelled()],
            "event 4: ('b', '') received signal 'paid'; ('a', '') has waited longer",
        ),
        (
            [sent("1"), sent("2"), waits("a"), received("a", 2)],
            "event 4: ('a', '') received event 2; event 1 is older",
        ),
        (
            [sent("1"), fetched("a", 1), fetched("b", 1)],
            "event 3: ('b', '') received signal 'paid' of event 1 once more",
        ),
        (
            [sent("1"), waits("a"), received("a", 1), fetched("b", 1)],
            "event 4: ('b', '') received signal 'paid' of event 1 once more",
        ),
        (
            [waits("a"), fetched("b", 1)],
            "event 2: ('b', '') received event 1, which is not a signal",
        ),
        (
            [sent("1"), function_waits("a", '["other","paid"]')],
            "('a', '') waits for signal 'paid', which is kept",
        ),
        (
            [function_waits("a", '["$child:"]'), sent("1", "$child:7")],
            "('a', '') waits for signal '$child:7', which is kept",
        ),
    ],
)
def test_what_breaks_a_rule_is_found(events: list[Event], problem: str) -> None:
    assert problems(*events) == [problem]
