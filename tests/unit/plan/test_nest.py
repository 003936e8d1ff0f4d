"""`each` joins: one number more in the scope of everything below."""

from __future__ import annotations

from typing import Any

import pytest

from minuet.plan.plan import Edge


def edge_of(nodes: dict[str, Any], source: str, target: str) -> Edge:
    found: Edge = next(edge for edge in nodes[source].edges if edge.target == target)
    return found


def test_each_encloses_everything_below_it(compiled: Any) -> None:
    plan = compiled(
        {"id": "a"},
        {"id": "b"},
        {"id": "j", "dependencies": ["b", "a"], "join": "each"},
        {"id": "c", "dependencies": ["j"]},
        {"id": "d", "dependencies": ["j"]},
        {"id": "z", "dependencies": ["c", "d"]},
    ).plan
    nodes = {node.id: node for node in plan.nodes}

    assert plan.constructs == {"j": "each"}
    assert {name for name, node in nodes.items() if node.nest == ("j",)} == {*"jcdz"}
    assert (nodes["j"].need, nodes["j"].expects) == (0, (1,))
    assert edge_of(nodes, "a", "j") == Edge(target="j", enter=(0,))
    assert edge_of(nodes, "b", "j") == Edge(target="j", enter=(1,))
    assert edge_of(nodes, "c", "z") == Edge(target="z", keep=1)
    assert nodes["z"].expects == (2,)


def test_each_below_each_adds_another_number(nodes_of: Any) -> None:
    nodes = nodes_of(
        {"id": "a"},
        {"id": "j", "dependencies": ["a"], "join": "each"},
        {"id": "b", "dependencies": ["j"]},
        {"id": "c", "dependencies": ["j"]},
        {"id": "k", "dependencies": ["b", "c"], "join": "each"},
    )

    assert nodes["k"].nest == ("j", "k")
    assert edge_of(nodes, "c", "k") == Edge(target="k", keep=1, enter=(1,))


def test_a_loop_may_stand_below_each_and_each_below_a_loop(nodes_of: Any) -> None:
    nodes = nodes_of(
        {"id": "a"},
        {"id": "b"},
        {"id": "j", "dependencies": ["a", "b"], "join": "each"},
        {"id": "l", "dependencies": ["j"], "loop": {"condition": "false"}},
        {"id": "k", "dependencies": ["l"], "join": "each"},
    )

    assert nodes["l"].nest == ("j", "l")
    assert nodes["l"].expects == (1, 1)
    assert edge_of(nodes, "j", "l") == Edge(target="l", keep=1, enter=(0,))
    assert edge_of(nodes, "l", "l") == Edge(target="l", roles=("back",), keep=2)
    assert nodes["k"].nest == ("j", "k")
    assert edge_of(nodes, "l", "k") == Edge(target="k", keep=1, enter=(0,))


def test_each_at_a_node_without_dependencies_changes_nothing(compiled: Any) -> None:
    plan = compiled({"id": "a", "join": "each"}).plan

    assert plan.constructs == {}
    assert plan.nodes[0].expects == (0,)


@pytest.mark.parametrize("sources", [["a", "c"], ["c", "a"]])
def test_inputs_below_different_each_joins_cannot_be_joined(
    refused: Any, sources: list[str]
) -> None:
    found = refused(
        {"id": "a"},
        {"id": "b"},
        {"id": "c", "dependencies": ["a", "b"], "join": "each"},
        {"id": "z", "dependencies": sources},
    )

    assert found == [("join-nest-mismatch", "nodes[3]")]


@pytest.mark.parametrize(
    "nodes",
    [
        [
            {"id": "e"},
            {"id": "a", "dependencies": ["e"]},
            {"id": "b", "dependencies": ["e"]},
            {"id": "l", "dependencies": ["j"], "loop": {"condition": "1 > 2", "loop_back_to": "e"}},
            {"id": "j", "dependencies": ["a", "b"], "join": "each"},
        ],
        [
            {"id": "a"},
            {"id": "b"},
            {"id": "c"},
            {"id": "d"},
            {"id": "j", "dependencies": ["a"], "join": "each", "loop": {"condition": "false"}},
        ],
    ],
    ids=["between entry and loop node", "the loop node itself"],
)
def test_each_inside_a_loop_is_refused(refused: Any, nodes: list[dict[str, Any]]) -> None:
    assert refused(*nodes) == [("loop-through-each", "nodes[4].join")]


def test_each_joins_nested_too_deep_are_refused(refused: Any) -> None:
    nodes = [
        {"id": f"n{n}", "join": "each", **({"dependencies": [f"n{n - 1}"]} if n else {})}
        for n in range(40)
    ]

    assert refused(*nodes) == [("nest-too-deep", "nodes[33]")]
