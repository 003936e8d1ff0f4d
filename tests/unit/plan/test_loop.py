"""Loops: bodies, nests, scopes along edges, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from minuet.plan.plan import Edge


def loop(back: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"condition": "false", **({"loop_back_to": back} if back else {}), **fields}


def edge_of(nodes: dict[str, Any], source: str, target: str) -> Edge:
    found: Edge = next(edge for edge in nodes[source].edges if edge.target == target)
    return found


@pytest.mark.shows("B-24", "E-13", "E-15")
def test_a_loop_to_itself(nodes_of: Any) -> None:
    nodes = nodes_of(
        {"id": "a"},
        {"id": "l", "dependencies": ["a"], "loop": loop()},
        {"id": "z", "dependencies": ["l"]},
    )

    assert nodes["l"].nest == ("l",)
    assert nodes["l"].expects == (1, 1)
    assert nodes["l"].loop.entry == "l"
    assert nodes["l"].loop.max_iterations == 100
    assert not nodes["l"].loop.has_timeout_path
    assert nodes["a"].edges == (Edge(target="l", keep=0, enter=(0,)),)
    assert nodes["l"].edges == (
        Edge(target="z", keep=0),
        Edge(target="l", roles=("back",), keep=1),
    )
    assert nodes["z"].nest == ()


@pytest.mark.shows("B-24", "E-13")
def test_a_loop_to_an_earlier_node_repeats_what_lies_between(nodes_of: Any) -> None:
    nodes = nodes_of(
        {"id": "a"},
        {"id": "b", "dependencies": ["a"]},
        {"id": "c", "dependencies": ["b"]},
        {"id": "d", "dependencies": ["b"]},
        {
            "id": "l",
            "dependencies": ["c", "d"],
            "loop": loop("b", break_path=["y"], timeout_path=["z"]),
        },
        {"id": "y"},
        {"id": "z"},
    )

    assert {name for name, node in nodes.items() if node.nest == ("l",)} == {*"bcdl"}
    assert nodes["b"].expects == (1, 1)
    assert nodes["l"].expects == (2, 2)
    assert nodes["l"].loop.has_timeout_path
    assert edge_of(nodes, "a", "b").enter == (0,)
    assert edge_of(nodes, "b", "c") == Edge(target="c", keep=1)
    assert edge_of(nodes, "l", "b") == Edge(target="b", roles=("back",), keep=1)
    assert edge_of(nodes, "l", "y") == Edge(target="y", roles=("break",))
    assert edge_of(nodes, "l", "z") == Edge(target="z", roles=("timeout",))


def test_inputs_from_outside_are_awaited_in_the_first_round_only(nodes_of: Any) -> None:
    nodes = nodes_of(
        {"id": "a"},
        {"id": "side"},
        {"id": "b", "dependencies": ["a"]},
        {"id": "l", "dependencies": ["b", "side"], "loop": loop("b")},
    )

    assert nodes["l"].expects == (2, 1)
    assert edge_of(nodes, "side", "l") == Edge(target="l", enter=(0,))
    assert nodes["side"].nest == ()


def test_nested_loops(nodes_of: Any) -> None:
    nodes = nodes_of(
        {"id": "a"},
        {"id": "o", "dependencies": ["a"]},
        {"id": "i", "dependencies": ["o"]},
        {"id": "inner", "dependencies": ["i", "a"], "loop": loop("i")},
        {"id": "outer", "dependencies": ["inner"], "loop": loop("o")},
        {"id": "z", "dependencies": ["outer"]},
    )

    assert nodes["o"].nest == nodes["outer"].nest == ("outer",)
    assert nodes["i"].nest == nodes["inner"].nest == ("outer", "inner")
    assert nodes["i"].expects == (1, 1, 1)
    assert nodes["inner"].expects == (2, 1, 1)
    assert nodes["o"].expects == (1, 1)
    assert edge_of(nodes, "a", "inner") == Edge(target="inner", enter=(0, 0))
    assert edge_of(nodes, "o", "i") == Edge(target="i", keep=1, enter=(0,))
    assert edge_of(nodes, "inner", "i") == Edge(target="i", roles=("back",), keep=2)
    assert edge_of(nodes, "inner", "outer") == Edge(target="outer", keep=1)
    assert edge_of(nodes, "outer", "o") == Edge(target="o", roles=("back",), keep=1)


def test_loops_that_share_an_entry(nodes_of: Any) -> None:
    nodes = nodes_of(
        {"id": "e"},
        {"id": "inner", "dependencies": ["e"], "loop": loop("e")},
        {"id": "outer", "dependencies": ["inner"], "loop": loop("e")},
    )

    assert nodes["e"].nest == ("outer", "inner")
    assert nodes["e"].expects == (0, 1, 1)
    assert nodes["outer"].nest == ("outer",)
    assert edge_of(nodes, "inner", "e") == Edge(target="e", roles=("back",), keep=2)
    assert edge_of(nodes, "outer", "e") == Edge(target="e", roles=("back",), keep=1, enter=(0,))


def test_a_loop_straight_into_the_next(nodes_of: Any) -> None:
    nodes = nodes_of(
        {"id": "a", "loop": loop()},
        {"id": "b", "dependencies": ["a"], "loop": loop()},
    )

    assert edge_of(nodes, "a", "b") == Edge(target="b", keep=0, enter=(0,))


def test_a_node_may_have_a_loop_and_a_branch(nodes_of: Any) -> None:
    nodes = nodes_of(
        {
            "id": "pay",
            "loop": loop(break_path=["done"], timeout_path=["refund"]),
            "branch": {
                "rules": [{"condition": "true", "next_nodes": ["done"]}],
                "default": ["review"],
            },
        },
        *({"id": name} for name in ("done", "refund", "review")),
    )

    assert edge_of(nodes, "pay", "done").roles == ("branch", "break")
    assert edge_of(nodes, "pay", "refund").roles == ("timeout",)
    assert nodes["pay"].branch.default == ("review",)


@pytest.mark.parametrize(
    ("fields", "limits", "expected"),
    [
        ({}, {}, 100),
        ({"loop": loop(max_iterations=500)}, {}, 500),
        ({}, {"max_iterations": 7}, 7),
        ({"loop": loop(max_iterations=500)}, {"max_iterations": 7}, 7),
        ({"loop": loop(max_iterations=5)}, {"max_iterations": 7}, 5),
    ],
)
def test_the_smallest_limit_of_iterations_wins(
    nodes_of: Any, fields: dict[str, Any], limits: dict[str, Any], expected: int
) -> None:
    nodes = nodes_of({"id": "l", "loop": loop(), **fields}, limits=limits)

    assert nodes["l"].loop.max_iterations == expected


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        pytest.param(
            [
                {"id": "a"},
                {"id": "b"},
                {"id": "l", "dependencies": ["a"], "loop": loop("b")},
            ],
            [("loop-back-not-ancestor", "nodes[2].loop.loop_back_to")],
            id="back to an unrelated node",
        ),
        pytest.param(
            [
                {"id": "l", "loop": loop("z")},
                {"id": "z", "dependencies": ["l"]},
            ],
            [("loop-back-not-ancestor", "nodes[0].loop.loop_back_to")],
            id="back to a later node",
        ),
        pytest.param(
            [
                {"id": "a"},
                {"id": "b", "dependencies": ["a"]},
                {"id": "l", "dependencies": ["b"], "loop": loop("a")},
                {"id": "z", "dependencies": ["l", "b"]},
            ],
            [("loop-body-exit", "nodes[3].dependencies[1]")],
            id="a second way out",
        ),
        pytest.param(
            [
                {"id": "a"},
                {"id": "b", "dependencies": ["a"]},
                {"id": "c", "dependencies": ["b"], "loop": loop("a")},
                {"id": "d", "dependencies": ["c"], "loop": loop("b")},
            ],
            [("loops-overlap", "nodes[3].loop")],
            id="overlap",
        ),
        pytest.param(
            [
                {"id": "a"},
                {"id": "b", "dependencies": ["a"]},
                {"id": "c", "dependencies": ["b"], "loop": loop("a", break_path=["b"])},
                {"id": "z", "dependencies": ["c"]},
            ],
            [("loop-exit-back", "nodes[1]")],
            id="break into the body",
        ),
        pytest.param(
            [
                {"id": "a"},
                {"id": "b", "dependencies": ["a"]},
                {"id": "c", "dependencies": ["b"], "loop": loop("a", timeout_path=["b"])},
                {"id": "z", "dependencies": ["c"]},
            ],
            [("loop-exit-back", "nodes[1]")],
            id="timeout into the body",
        ),
        pytest.param(
            [
                {"id": "a", "loop": loop()},
                {"id": "b", "dependencies": ["a", "c"]},
                {"id": "c", "dependencies": ["b"], "loop": loop(break_path=["d"])},
                {"id": "d"},
            ],
            [("cycle", "nodes[1]")],
            id="a cycle beside a loop",
        ),
    ],
)
def test_a_loop_that_cannot_work_is_refused(
    refused: Any, nodes: list[dict[str, Any]], expected: list[tuple[str, str]]
) -> None:
    assert refused(*nodes) == expected


def test_a_missing_edge_is_not_blamed_on_the_loop(refused: Any) -> None:
    found = refused({"id": "a"}, {"id": "l", "dependencies": ["aa"], "loop": loop("a")})

    assert found == [("unknown-node", "nodes[1].dependencies[0]")]


def test_loops_nested_too_deep_are_refused(refused: Any) -> None:
    nodes: list[dict[str, Any]] = [{"id": "e"}]
    nodes += [
        {"id": f"l{n}", "dependencies": [f"l{n - 1}" if n else "e"], "loop": loop("e")}
        for n in range(33)
    ]

    assert refused(*nodes) == [("nest-too-deep", "nodes[0]")]
