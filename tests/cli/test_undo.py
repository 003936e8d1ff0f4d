"""`minuet runs rollback`, and what is shown of runs that were undone."""

from __future__ import annotations

import json
from typing import Any

import pytest

DOCUMENT = """\
name: order
nodes:
  - {id: a, handler: do, config: {what: a}, compensator: {handler: undo}}
  - {id: b, handler: do, config: {what: b}, compensator: {handler: undo}, dependencies: [a]}
"""

HANDLERS = """\
import minuet

@minuet.task
def do(what: str) -> str:
    return f"did {what}"

@minuet.task
def undo(what: str, output: str) -> None:
    if what == "b" and output == "did b":
        return
    raise minuet.NonRetryable(f"cannot undo {what}")
"""


@pytest.fixture
def run_id(minuet: Any, folder: Any) -> str:
    folder.write("order.yaml", DOCUMENT)
    folder.write("order.py", HANDLERS)
    found: str = json.loads(minuet("run", "order.yaml", "--json").out)["run_id"]
    return found


@pytest.mark.shows("L-06", "Q-11")
def test_a_run_is_undone_by_hand_and_shows_what_was_undone(
    minuet: Any, run_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    begun = minuet("runs", "rollback", run_id)
    assert begun.code == 0
    assert begun.out.startswith(f"run {run_id} is COMPENSATING\n")
    assert minuet("resume", run_id).code == 0

    shown = minuet("runs", "show", run_id).out
    assert "undone: partly\n" in shown
    assert "not undone: NonRetryable: cannot undo a" in shown
    data = json.loads(minuet("runs", "show", run_id, "--json").out)
    assert (data["status"], data["compensated"]) == ("COMPLETED", "partly")
    assert data["nodes"]["b"]["compensation"]["status"] == "COMPLETED"
    assert data["nodes"]["a"]["compensation"]["error"]["message"] == "cannot undo a"
    why = minuet("runs", "why", run_id, "a").out
    assert "it was not undone: it failed after 1 attempt: cannot undo a" in why
    events = minuet("runs", "events", run_id).out
    assert "2 to undo" in events
    assert "undo of b" in events
    letters = json.loads(minuet("dlq", "list", "--json").out)
    assert [one["id"] for one in letters] == [f"{run_id}.1.undo1:a"]


def test_an_undo_can_stop_at_a_node(minuet: Any, run_id: str) -> None:
    assert minuet("runs", "rollback", run_id, "--to", "nothing").code == 2
    assert minuet("runs", "rollback", run_id, "--to", "a").code == 0
    assert minuet("resume", run_id).code == 0

    data = json.loads(minuet("runs", "show", run_id, "--json").out)
    assert data["nodes"]["a"]["compensation"] is None
    refused = minuet("runs", "rollback", run_id, "--to", "b")
    assert (refused.code, "nothing to undo" in refused.err) == (1, True)
    assert minuet("runs", "retry", run_id).code == 1
