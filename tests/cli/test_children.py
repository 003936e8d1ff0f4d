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


LIST = """
name: order
output: "{{ ship.output }}"
nodes:
  - id: ship
    type: workflow
    foreach: {items: [a, b], max_parallel: 1}
    config:
      workflow: {name: parcel, nodes: [{id: hold, type: HOLD}]}
"""


def test_the_child_runs_of_a_list_are_named_by_its_node_and_their_item(
    folder: Any, minuet: Any
) -> None:
    folder.write("order.yaml", LIST.replace("HOLD", "noop"))
    run = minuet("run", "order.yaml", "--json").json["run_id"]

    children = minuet("runs", "tree", run, "--json").json["children"]
    assert [(one["node_id"], one["scope"]) for one in children] == [("ship", [0]), ("ship", [1])]
    shown = minuet("runs", "show", children[1]["run_id"], "--json").json
    assert shown["parent_node"] == "ship"
    texts = [
        minuet("runs", "tree", run).out,
        minuet("runs", "events", run).out,
        minuet("runs", "show", children[1]["run_id"]).out,
    ]
    assert f"├─ ship[0]: {children[0]['run_id']} parcel COMPLETED" in texts[0]
    assert "2 items, 1 at once" in texts[1]
    assert "(output)" in texts[1]
    assert f"Started by node ship[1] of run {run}." in texts[2]
    assert "$" not in "".join(texts)


def test_the_latest_run_is_never_a_child_run(folder: Any, minuet: Any) -> None:
    folder.write("order.yaml", LIST.replace("HOLD", "noop"))
    run = minuet("run", "order.yaml", "--json").json["run_id"]

    assert minuet("runs", "show", "latest", "--json").json["run_id"] == run


@pytest.mark.parametrize("words", [("runs", "cancel", "latest"), ("signal", "last", "paid")])
def test_a_change_of_the_latest_run_asks_for_its_id(
    folder: Any, minuet: Any, words: tuple[str, ...]
) -> None:
    folder.write("order.yaml", LIST.replace("HOLD", "noop"))
    minuet("run", "order.yaml")

    refused = minuet(*words)
    assert refused.code == 2
    assert "may not be the run that you mean: name it by its id" in refused.err
