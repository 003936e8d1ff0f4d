"""When enough people have decided, and how approvals are named."""

from __future__ import annotations

from typing import Any

import pytest

from minuet.approvals import Decision, approval_id, find_verdict, id_of, read_id, wait_key


def decided(*made: str) -> list[Decision]:
    """`ann+` has approved, `bob-` has rejected."""
    return [
        Decision(decision="approve" if one[-1] == "+" else "reject", by=one[:-1], at_ms=number)
        for number, one in enumerate(made)
    ]


@pytest.mark.parametrize(
    ("quorum", "made", "ends"),
    [
        (1, [], None),
        (1, ["ann+"], 0),
        (1, ["ann-"], 0),
        (1, ["ann+", "bob-"], 0),
        (2, ["ann+"], None),
        (2, ["ann+", "ann+"], None),
        (2, ["ann+", "bob+"], 1),
        (2, ["ann+", "ann+", "bob+", "cy-"], 2),
        (2, ["ann+", "bob-", "cy+"], 1),
        (3, ["ann+", "bob+", "ann-"], 2),
    ],
)
def test_the_quorum_or_the_first_rejection_decides(
    quorum: int, made: list[str], ends: int | None
) -> None:
    found = find_verdict(decided(*made), quorum)

    assert (None if found is None else found.at_ms) == ends


@pytest.mark.parametrize("scope", [(), (3,), (0, 12)])
def test_an_id_is_read_back(scope: Any) -> None:
    id = approval_id("018f-a", "gate_1", scope)

    assert read_id(id) == ("018f-a", "gate_1", scope)


@pytest.mark.parametrize("text", ["", "run", "run:", ":gate", "run:gate:", "run:gate:x", "a:b:1:2"])
def test_what_is_not_an_id_is_not_read(text: str) -> None:
    assert read_id(text) is None


def test_each_decision_ends_another_wait() -> None:
    keys = [wait_key("run:gate", count) for count in range(3)]

    assert len(set(keys)) == 3
    assert {id_of(key) for key in keys} == {"run:gate"}
