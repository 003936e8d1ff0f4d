"""The demo shows what it says, and would notice if that were not so."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from minuet.cli.demo import KILL_AFTER, make_instances
from minuet.events import NodeCompleted
from minuet.kernel.fold import NumberedEvent


@pytest.mark.slow
@pytest.mark.shows("Y-37", "Y-38", "Y-42")
def test_the_demo_kills_a_process_and_everything_it_claims_holds(
    folder: Any, minuet: Any, spawn: Any, finish: Any
) -> None:
    called = finish(spawn("demo", "--keep", "kept", "--json"))

    assert called.code == 0
    report = called.json
    assert report["ok"] is True
    assert report["output"] == {"parcel": "P-7", "total": 415, "boxes": 3}
    before = [one for one in report["instances"] if one["before_kill"]]
    assert len(before) >= KILL_AFTER
    assert any((one["started"] or 0) > 1 for one in report["instances"])
    assert "was killed (SIGKILL)" in called.err
    assert minuet("doctor", "--store", "sqlite:///kept/demo.db").code == 0


def test_a_result_that_was_committed_twice_or_never_would_be_noticed() -> None:
    history: list[NumberedEvent] = [
        (seq, 0, NodeCompleted(node, "")) for seq, node in enumerate("aab", start=1)
    ]

    instances = make_instances(history, 2, Counter({("a", ""): 1, ("c", ""): 1}))

    assert {one.name: (one.committed, one.before_kill, one.started) for one in instances} == {
        "a": (2, True, 1),
        "b": (1, False, None),
        "c": (0, False, 1),
    }
