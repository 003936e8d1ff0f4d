"""`minuet runs tree`, `show` and `why` on runs that have child runs; and `resume`."""

from __future__ import annotations

from typing import Any

import pytest

FAMILY = """
name: order
nodes:
  - id: ship
    type: workflow
    config:
      workflow:
        name: shipping
        nodes:
          - id: pack
            type: workflow
            config:
              workflow: {name: packing, nodes: [{id: hold, type: wait, config: {seconds: SECONDS}}]}
"""


@pytest.fixture
def waiting(folder: Any, minuet: Any) -> str:
    """The id of a run whose grandchild waits for long."""
    folder.write("order.yaml", FAMILY.replace("SECONDS", "3600"))
    return str(minuet("run", "order.yaml", "--timeout", "2", "--json").json["run_id"])


def test_tree_shows_a_run_with_all_below_it(minuet: Any, waiting: str) -> None:
    tree = minuet("runs", "tree", waiting, "--json").json

    assert (tree["run_id"], tree["workflow"], tree["node_id"]) == (waiting, "order", None)
    (ship,) = tree["children"]
    assert (ship["workflow"], ship["node_id"], ship["status"]) == ("shipping", "ship", "RUNNING")
    (pack,) = ship["children"]
    assert (pack["workflow"], pack["children"]) == ("packing", [])

    first, second, third = minuet("runs", "tree", waiting).out.splitlines()
    assert first == f"{waiting} order RUNNING"
    assert second == f"└─ ship: {ship['run_id']} shipping RUNNING"
    assert third == f"   └─ pack: {pack['run_id']} packing RUNNING"


def test_show_names_parent_and_children(minuet: Any, waiting: str) -> None:
    shown = minuet("runs", "show", waiting, "--json").json
    (child,) = shown["children"]

    below = minuet("runs", "show", child["run_id"], "--json").json
    assert (shown["parent"], below["parent"], below["parent_node"]) == (None, waiting, "ship")
    assert f"Started by node ship of run {waiting}." in minuet("runs", "show", child["run_id"]).out
    assert f"minuet runs tree {waiting}" in minuet("runs", "show", waiting).out


def test_why_names_the_child_run_that_a_node_waits_for(minuet: Any, waiting: str) -> None:
    (child,) = minuet("runs", "show", waiting, "--json").json["children"]

    assert (
        f"waits for its child run {child['run_id']}" in minuet("runs", "why", waiting, "ship").out
    )


def test_a_cancelled_run_takes_its_children_along(minuet: Any, waiting: str) -> None:
    minuet("runs", "cancel", waiting)
    minuet("resume")

    tree = minuet("runs", "tree", waiting, "--json").json
    statuses = [tree["status"], tree["children"][0]["status"]]
    assert [*statuses, tree["children"][0]["children"][0]["status"]] == ["CANCELLED"] * 3
    assert minuet("doctor").code == 0


def test_a_run_is_resumed_with_all_below_it(folder: Any, minuet: Any) -> None:
    folder.write("order.yaml", FAMILY.replace("SECONDS", "1.5"))
    stopped = minuet("run", "order.yaml", "--timeout", "0.8", "--json")
    assert stopped.code == 3

    resumed = minuet("resume", stopped.json["run_id"], "--json")

    assert resumed.json["status"] == "COMPLETED"
    assert resumed.json["output"] == {"ship": {"pack": {"hold": {}}}}
