"""Edges follow from what nodes read, and make the graph that was meant."""

from __future__ import annotations

import random
from typing import Any

import minuet
from minuet.app.compiling import compile_source


def graph_of(workflow: minuet.Workflow) -> dict[str, list[str]]:
    """The dependencies of each node. The workflow compiles without a warning."""
    assert compile_source(workflow).warnings == ()
    return {node["id"]: node.get("dependencies", []) for node in workflow.to_dict()["nodes"]}


def branch_of(workflow: minuet.Workflow, node: str) -> list[list[str]]:
    """Where a branch leads to: its rules, then its default."""
    (branch,) = [n["branch"] for n in workflow.to_dict()["nodes"] if n["id"] == node]
    return [*(rule["next_nodes"] for rule in branch["rules"]), branch["default"]]


def reads(name: str, *nodes: Any) -> minuet.Node:
    return minuet.transform(name, [node.output for node in nodes])


def test_a_node_comes_after_what_it_reads() -> None:
    with minuet.Workflow("w") as w:
        a, b = reads("a"), reads("b")
        minuet.transform("c", {"x": [a.output.x], "y": "{{ b.y }} {{ input.z }}"})
        reads("d")
        minuet.node("e", type="noop", concurrency={"key": b.output.key})

    assert graph_of(w) == {"a": [], "b": [], "c": ["a", "b"], "d": [], "e": ["b"]}


def test_expressions_and_items_are_read_too() -> None:
    with minuet.Workflow("w") as w:
        a, b = reads("a"), reads("b")
        minuet.transform("c", expression="size(ctx.a.output)")
        minuet.transform("d", expression=b.output.len_() + 1)
        minuet.transform("e", ["{{ n }}", "{{ n.x }}", a.output]).foreach(b.output, as_="n")
        minuet.transform("f", [b.output, w.item]).foreach([1, 2])

    assert graph_of(w) == {
        "a": [],
        "b": [],
        "c": ["a"],
        "d": ["b"],
        "e": ["a", "b"],
        "f": ["b"],
    }
    expression = w.to_dict()["nodes"][3]["config"]["expression"]
    assert expression == "double(size(ctx.b.output)) + 1.0"


def test_a_broken_template_does_not_hide_the_others() -> None:
    with minuet.Workflow("w") as w:
        a = reads("a")
        minuet.transform("b", {"x": ["{{ }", "{{ broken", a.output]})

    assert w.to_dict()["nodes"][1]["dependencies"] == ["a"]


def test_then_is_an_edge_without_data() -> None:
    with minuet.Workflow("w") as w:
        a, b, c = reads("a"), reads("b"), reads("c")
        assert a.then(b).then(c) is c
        assert a.then(c) is c
        assert a.then(b, c) is c

    assert graph_of(w) == {"a": [], "b": ["a"], "c": ["a", "b"]}


def test_what_comes_before_anyway_needs_no_edge() -> None:
    with minuet.Workflow("w") as w:
        a = reads("a")
        b = reads("b", a)
        reads("c", a, b)

    assert graph_of(w) == {"a": [], "b": ["a"], "c": ["b"]}


def test_a_node_that_was_not_chosen_does_not_run_because_it_reads_something_else() -> None:
    with minuet.Workflow("w") as w:
        price = reads("price")
        check = reads("check", price)
        approve = reads("approve", price)
        decline = reads("decline", price, check)
        check.branch((check.output[0] > 5, approve), default=decline)
        reads("after_approval", approve, price)

    assert graph_of(w) == {
        "price": [],
        "check": ["price"],
        "approve": [],
        "decline": [],
        "after_approval": ["approve"],
    }
    assert branch_of(w, "check") == [["approve"], ["decline"]]


def test_a_node_that_follows_another_is_skipped_with_it() -> None:
    with minuet.Workflow("w") as w:
        flight = reads("flight")
        charge = reads("charge", flight)
        undo = reads("undo")
        charge.on_error(undo)
        undo.then(reads("undo_flight", flight))
        charge.then(reads("confirm", flight))

    assert graph_of(w) == {
        "flight": [],
        "charge": ["flight"],
        "undo": [],
        "undo_flight": ["undo"],
        "confirm": ["charge"],
    }


def test_an_edge_that_is_said_is_kept() -> None:
    with minuet.Workflow("w") as w:
        price = reads("price")
        approve = reads("approve")
        price.branch((price.output[0] > 5, approve), default=[])
        audit = reads("audit", price)
        approve.then(audit)
        price.then(audit)

    # It runs whatever the branch chooses; after the approval, if there is one.
    assert graph_of(w) == {"price": [], "approve": [], "audit": ["approve"]}
    assert branch_of(w, "price") == [["approve", "audit"], ["audit"]]


def test_a_child_that_is_written_in_python_has_its_own_nodes() -> None:
    with minuet.Workflow("inner") as inner:
        reads("b", reads("a"))
    with minuet.Workflow("w") as w:
        reads("a")
        reads("b")
        minuet.child("c", workflow=inner, input=w["a"].output)

    assert graph_of(w) == {"a": [], "b": [], "c": ["a"]}


def test_what_reads_a_node_with_a_branch_runs_whatever_it_chooses() -> None:
    with minuet.Workflow("w") as w:
        price = reads("price")
        lines = reads("lines", price)
        gate, ship = reads("gate"), reads("ship", price, lines)
        other = reads("other")
        price.branch((price.output[0] > 5, gate), default=ship)
        price.then(other)
        gate.then(ship)

    assert graph_of(w) == {
        "price": [],
        "lines": [],
        "gate": [],
        "ship": ["lines", "gate"],
        "other": [],
    }
    assert branch_of(w, "price") == [["gate", "lines", "other"], ["ship", "lines", "other"]]


def test_what_handles_an_error_or_a_rejection_does_not_run_otherwise() -> None:
    with minuet.Workflow("w") as w:
        price = reads("price")
        pay = reads("pay", price)
        pay.on_error(reads("tell", pay, price))
        reads("ship", pay)

    assert graph_of(w) == {"price": [], "pay": ["price"], "tell": [], "ship": ["pay"]}


def test_what_reads_the_body_of_a_loop_comes_after_the_loop() -> None:
    with minuet.Workflow("w") as w:
        settings = reads("settings")
        ask = reads("ask")
        answer = reads("answer", ask, settings)
        late = reads("late", ask)
        answer.loop(while_=answer.output[0] == None, back_to=ask, timeout=late)  # noqa: E711
        reads("report", ask, settings)
        reads("summary", answer)

    assert graph_of(w) == {
        "settings": [],
        "ask": [],
        "answer": ["settings", "ask"],
        "late": [],
        "report": ["answer"],
        "summary": ["answer"],
    }


def test_what_reads_the_body_of_nested_loops_comes_after_the_outer_one() -> None:
    with minuet.Workflow("w") as w:
        a = reads("a")
        b = reads("b", a)
        b.loop(while_="false")
        c = reads("c", b)
        c.loop(while_="false", back_to=a)
        reads("d", b)

    assert graph_of(w) == {"a": [], "b": ["a"], "c": ["b"], "d": ["c"]}


def test_a_condition_is_a_read_too() -> None:
    with minuet.Workflow("w") as w:
        a, b, c = reads("a"), reads("b"), reads("c")
        b.branch((a.output.len_() > b.output.len_(), c), default=[])
        d = reads("d")
        d.loop(while_=c.output == [])

    assert graph_of(w) == {"a": [], "b": ["a"], "c": [], "d": ["c"]}


def test_a_round_may_read_the_round_before() -> None:
    with minuet.Workflow("w") as w:
        a = minuet.transform("a", "{{ b.output | default(0) }}")
        b = minuet.transform("b", a.output + 1)
        b.loop(while_=b.output < 3, back_to=a)

    assert graph_of(w) == {"a": [], "b": ["a"]}


def test_dependencies_that_are_set_stay_as_they_are() -> None:
    with minuet.Workflow("w") as w:
        a = reads("a")
        b = reads("b", a)
        reads("c", b).set(dependencies=["a", "b"])
        minuet.noop("d").set(dependents=["e"])
        reads("e", w["d"])

    assert graph_of(w) == {"a": [], "b": ["a"], "c": ["a", "b"], "d": [], "e": []}


def test_a_loaded_document_keeps_its_edges_and_new_nodes_get_theirs() -> None:
    w = minuet.Workflow.load(
        {
            "name": "w",
            "nodes": [
                {"node_id": "a", "type": "noop", "branch": {"default": ["b"]}},
                {"id": "b", "type": "noop", "depends_on": ["a"]},
                {"id": "c", "type": "transform", "config": {"value": "{{ b.x }}"}},
            ],
            "edges": [{"from": "b", "to": "c"}],
        }
    )
    with w:
        reads("d", w["c"], w["b"])
        minuet.noop("e").then(w["b"])
        reads("f", w["a"])

    assert w.to_dict() == {
        "name": "w",
        "nodes": [
            {"node_id": "a", "type": "noop", "branch": {"rules": [], "default": ["b", "f"]}},
            {"id": "b", "type": "noop", "depends_on": ["a", "e"]},
            {"id": "c", "type": "transform", "config": {"value": "{{ b.x }}"}},
            {
                "id": "d",
                "type": "transform",
                "config": {"value": ["{{ c.output }}", "{{ b.output }}"]},
                "dependencies": ["c"],
            },
            {"id": "e", "type": "noop"},
            {"id": "f", "type": "transform", "config": {"value": ["{{ a.output }}"]}},
        ],
        "edges": [{"from": "b", "to": "c"}],
    }


def test_random_graphs_compile_and_every_read_is_satisfied() -> None:
    draw = random.Random(7)
    for _ in range(150):
        with minuet.Workflow("w") as w:
            nodes: list[minuet.Node] = []
            for number in range(draw.randint(2, 12)):
                some = draw.sample(nodes, min(len(nodes), draw.randint(0, 3)))
                nodes.append(reads(f"n{number}", *some))
            for node in draw.sample(nodes[:-1], draw.randint(0, len(nodes) - 1)):
                later = nodes[nodes.index(node) + 1 :]
                match draw.randint(0, 3):
                    case 0:
                        node.branch((node.output == [], draw.choice(later)))
                    case 1:
                        node.then(draw.choice(later))
                    case 2:
                        node.on_error(draw.choice(later))
                    case 3:
                        node.loop(while_="false")

        compiled = compile_source(w)

        never = [d for d in compiled.warnings if d.code == "branch-never-chooses"]
        assert never == []
