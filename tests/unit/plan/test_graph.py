"""Edges from everywhere, their order, and what makes a graph none."""

from __future__ import annotations

from typing import Any

import pytest

from minuet.errors import DocumentError
from minuet.plan.plan import Plan
from minuet.plan.render import order, to_graph


def edges_of(plan: Plan) -> dict[tuple[str, str], tuple[str, ...]]:
    return {(node.id, edge.target): edge.roles for node in plan.nodes for edge in node.edges}


@pytest.mark.shows("A-08", "A-10")
@pytest.mark.parametrize(
    ("nodes", "fields"),
    [
        ([{"id": "a"}, {"id": "b", "dependencies": ["a"]}], {}),
        ([{"id": "a", "dependents": ["b"]}, {"id": "b"}], {}),
        ([{"id": "a"}, {"id": "b"}], {"edges": [{"from": "a", "to": "b"}]}),
        (
            [{"id": "a", "dependents": ["b"]}, {"id": "b", "dependencies": ["a"]}],
            {"edges": [{"from": "a", "to": "b"}]},
        ),
    ],
    ids=["dependencies", "dependents", "edges", "all three"],
)
def test_an_edge_is_the_same_wherever_it_is_written(
    compiled: Any, nodes: list[dict[str, Any]], fields: dict[str, Any]
) -> None:
    result = compiled(*nodes, **fields)

    assert edges_of(result.plan) == {("a", "b"): ("static",)}
    assert result.plan == compiled({"id": "a"}, {"id": "b", "dependencies": ["a"]}).plan
    assert result.diagnostics == ()


@pytest.mark.shows("B-02")
def test_nodes_come_in_topological_order(compiled: Any) -> None:
    plan = compiled(
        {"id": "z", "dependencies": ["x", "y"]},
        {"id": "y", "dependencies": ["x"]},
        {"id": "x"},
    ).plan

    assert order(plan) == ("x", "y", "z")


@pytest.mark.shows("A-09", "B-14")
def test_dependents_are_the_inverse_of_dependencies(compiled: Any) -> None:
    graph = to_graph(
        compiled(
            {"id": "a", "dependents": ["c"]},
            {"id": "b", "dependencies": ["a"]},
            {"id": "c", "dependencies": ["b"]},
        ).plan
    )

    down = {(node["id"], other) for node in graph["nodes"] for other in node["dependents"]}
    up = {(other, node["id"]) for node in graph["nodes"] for other in node["dependencies"]}
    assert down == up == {("a", "b"), ("a", "c"), ("b", "c")}


@pytest.mark.shows("A-08")
def test_all_nodes_without_dependencies_are_entries(compiled: Any) -> None:
    plan = compiled({"id": "a"}, {"id": "b"}, {"id": "c", "dependencies": ["a", "b"]}).plan

    assert plan.entries == ("a", "b")
    assert [node.expects for node in plan.nodes] == [(0,), (0,), (2,)]


@pytest.mark.shows("B-26")
def test_a_node_with_only_routed_edges_is_neither_entry_nor_unreachable(compiled: Any) -> None:
    plan = compiled(
        {
            "id": "a",
            "branch": {"rules": [{"condition": "true", "next_nodes": ["b"]}], "default": ["c"]},
        },
        {"id": "b", "on_error": ["d"]},
        {"id": "c", "rejection_path": ["e"]},
        {"id": "d", "loop": {"condition": "false", "break_path": ["f"], "timeout_path": ["g"]}},
        {"id": "h", "branch": {"type": "agent_driven", "available_next_nodes": ["i"]}},
        *({"id": name} for name in "efgi"),
    ).plan

    assert plan.entries == ("a", "h")
    assert edges_of(plan) == {
        ("a", "b"): ("branch",),
        ("a", "c"): ("branch",),
        ("b", "d"): ("error",),
        ("c", "e"): ("reject",),
        ("d", "d"): ("back",),
        ("d", "f"): ("break",),
        ("d", "g"): ("timeout",),
        ("h", "i"): ("branch",),
    }


def test_one_edge_has_all_its_roles(compiled: Any) -> None:
    plan = compiled(
        {
            "id": "a",
            "dependents": ["b"],
            "branch": {"rules": [], "default": ["b"]},
            "loop": {"condition": "false", "break_path": ["b"], "timeout_path": ["b"]},
            "on_error": ["b"],
            "rejection_path": ["b"],
        },
        {"id": "b"},
    ).plan

    roles = ("static", "branch", "break", "timeout", "error", "reject")
    assert edges_of(plan) == {("a", "b"): roles, ("a", "a"): ("back",)}


@pytest.mark.shows("B-17", "B-18", "B-19", "B-20")
def test_terminals_are_the_nodes_without_a_way_on(compiled: Any) -> None:
    plan = compiled(
        {"id": "start", "dependents": ["plain", "nowhere", "agent", "loop", "timed"]},
        {"id": "plain"},
        {"id": "nowhere", "branch": {"rules": [{"condition": "true", "next_nodes": []}]}},
        {"id": "agent", "branch": {"type": "agent_driven", "available_next_nodes": ["end"]}},
        {"id": "loop", "loop": {"condition": "false"}},
        {"id": "timed", "loop": {"condition": "false", "timeout_path": ["end"]}},
        {"id": "end"},
    ).plan

    assert set(plan.terminals) == {"plain", "nowhere", "loop", "end"}


def test_a_node_that_goes_on_only_after_an_error_is_a_terminal(compiled: Any) -> None:
    plan = compiled({"id": "pay", "on_error": ["refund"]}, {"id": "refund"}).plan

    assert set(plan.terminals) == {"pay", "refund"}


def test_an_empty_timeout_path_is_an_exit_and_a_missing_one_is_not(compiled: Any) -> None:
    plan = compiled(
        {"id": "empty", "loop": {"condition": "true", "timeout_path": []}},
        {"id": "missing", "loop": {"condition": "true"}},
    ).plan

    exits = {node.id: node.loop.has_timeout_path for node in plan.nodes if node.loop}
    assert exits == {"empty": True, "missing": False}


LOOP = {"condition": "false"}


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        pytest.param(
            [{"id": "a"}, {"id": "b", "dependencies": ["a", "zz"]}],
            [("unknown-node", "nodes[1].dependencies[1]")],
            id="dependencies",
        ),
        pytest.param(
            [{"id": "a", "dependents": ["zz"]}],
            [("unknown-node", "nodes[0].dependents[0]")],
            id="dependents",
        ),
        pytest.param(
            [
                {
                    "id": "a",
                    "branch": {
                        "rules": [{"condition": "true", "next_nodes": ["x1"]}],
                        "default": ["x2"],
                        "available_next_nodes": ["x3"],
                    },
                }
            ],
            [
                ("unknown-node", "nodes[0].branch.rules[0].next_nodes[0]"),
                ("unknown-node", "nodes[0].branch.default[0]"),
                ("unknown-node", "nodes[0].branch.available_next_nodes[0]"),
            ],
            id="branch",
        ),
        pytest.param(
            [
                {
                    "id": "a",
                    "loop": {
                        **LOOP,
                        "loop_back_to": "x1",
                        "break_path": ["x2"],
                        "timeout_path": ["x3"],
                    },
                }
            ],
            [
                ("unknown-node", "nodes[0].loop.break_path[0]"),
                ("unknown-node", "nodes[0].loop.timeout_path[0]"),
                ("unknown-node", "nodes[0].loop.loop_back_to"),
            ],
            id="loop",
        ),
        pytest.param(
            [{"id": "a", "on_error": ["x1"], "rejection_path": ["x2"]}],
            [
                ("unknown-node", "nodes[0].on_error[0]"),
                ("unknown-node", "nodes[0].rejection_path[0]"),
            ],
            id="error and rejection",
        ),
    ],
)
@pytest.mark.shows("B-04", "B-25")
def test_a_name_that_is_no_node_is_refused(
    refused: Any, nodes: list[dict[str, Any]], expected: list[tuple[str, str]]
) -> None:
    assert refused(*nodes) == expected


@pytest.mark.shows("B-04", "A-10")
def test_both_ends_of_a_written_edge_must_exist(refused: Any) -> None:
    found = refused({"id": "a"}, edges=[{"from": "x", "to": "y"}, {"from": "a", "to": "a"}])

    assert found == [
        ("unknown-node", "edges[0].from"),
        ("unknown-node", "edges[0].to"),
        ("self-dependency", "edges[1].to"),
    ]


def test_an_unknown_name_gets_a_suggestion(compiled: Any) -> None:
    with pytest.raises(DocumentError, match='did you mean "fetch"'):
        compiled({"id": "fetch"}, {"id": "b", "dependencies": ["fetsh"]})


@pytest.mark.shows("B-05")
def test_a_node_that_depends_on_itself_is_refused(refused: Any) -> None:
    found = refused({"id": "a"}, {"id": "b", "dependencies": ["a", "b"]})

    assert found == [("self-dependency", "nodes[1].dependencies[1]")]


@pytest.mark.shows("B-06")
def test_two_nodes_with_one_id_are_refused(refused: Any) -> None:
    found = refused({"id": "a"}, {"id": "b", "dependencies": ["a"]}, {"id": "a"})

    assert found == [("duplicate-node", "nodes[2].id")]


@pytest.mark.shows("B-01")
def test_a_cycle_is_refused_and_named_whole(compiled: Any) -> None:
    with pytest.raises(DocumentError) as caught:
        compiled(
            {"id": "start"},
            {"id": "c", "dependencies": ["b"]},
            {"id": "a", "dependencies": ["c", "start"]},
            {"id": "b", "dependencies": ["a"]},
            {"id": "end", "dependencies": ["b"]},
        )

    (found,) = caught.value.diagnostics
    assert (found.code, found.path) == ("cycle", "nodes[1]")
    assert "c → a → b → c" in found.message


def test_every_separate_cycle_is_reported_once(refused: Any) -> None:
    found = refused(
        {"id": "start", "dependents": ["a", "c"]},
        {"id": "a", "dependencies": ["b"]},
        {"id": "b", "dependencies": ["a"]},
        {"id": "c", "dependencies": ["d", "b"]},
        {"id": "d", "dependencies": ["c"]},
        {"id": "end", "dependencies": ["d"]},
    )

    assert found == [("cycle", "nodes[1]"), ("cycle", "nodes[3]")]


def test_only_so_many_cycles_are_reported(refused: Any) -> None:
    pairs = [
        {"id": f"{one}{number}", "dependencies": [f"{other}{number}", "start"]}
        for number in range(30)
        for one, other in ("ab", "ba")
    ]

    found = refused({"id": "start", "dependents": ["end"]}, *pairs, {"id": "end"})

    assert [code for code, _ in found] == ["cycle"] * 10


def test_a_long_cycle_is_shortened(compiled: Any) -> None:
    nodes = [{"id": f"n{n}", "dependencies": [f"n{(n - 1) % 500}"]} for n in range(500)]

    with pytest.raises(DocumentError) as caught:
        compiled(*nodes)

    assert "n0 → n1 → " in str(caught.value)
    assert "… 451 more …" in str(caught.value)


@pytest.mark.shows("B-07", "B-08", "B-21")
def test_a_workflow_without_entry_and_exit_is_refused(compiled: Any) -> None:
    with pytest.raises(DocumentError) as caught:
        compiled({"id": "a", "dependencies": ["b"]}, {"id": "b", "dependencies": ["a"]})

    (found,) = caught.value.diagnostics
    assert found.code == "cycle"
    assert "the workflow has no entry node" in found.message
    assert "workflow has no terminal nodes (would run forever)" in found.message


@pytest.mark.shows("B-07")
def test_a_workflow_without_nodes_is_refused(refused: Any) -> None:
    assert refused() == [("no-entry", "nodes")]


@pytest.mark.shows("B-09")
def test_nodes_that_no_entry_leads_to_are_named_with_the_cycle_above_them(compiled: Any) -> None:
    with pytest.raises(DocumentError) as caught:
        compiled(
            {"id": "a"},
            {"id": "b", "dependencies": ["a"]},
            {"id": "c", "dependencies": ["d"]},
            {"id": "d", "dependencies": ["c"]},
            {"id": "e", "dependencies": ["d", "b"]},
            {"id": "f", "dependencies": ["d"]},
        )

    (found,) = caught.value.diagnostics
    assert (found.code, found.path) == ("cycle", "nodes[2]")
    assert found.message == (
        'these nodes wait for each other: c → d → c; no entry node leads to "f"'
    )


def test_an_edge_listed_twice_is_a_warning(compiled: Any) -> None:
    result = compiled({"id": "a"}, {"id": "b", "dependencies": ["a", "a"]})

    assert [(found.code, found.severity) for found in result.diagnostics] == [
        ("duplicate-edge", "warning")
    ]
    assert result.plan.nodes[1].expects == (1,)


def test_problems_of_all_kinds_are_reported_at_once(refused: Any) -> None:
    found = refused(
        {"id": "a", "type": "tusk", "dependencies": ["zz"]},
        {"id": "b", "dependencies": ["a"], "join": 3, "type": "http"},
        {"id": "b", "branch": {"rules": []}},
        {"id": "l", "dependencies": ["a"], "loop": {"condition": "1 +", "loop_back_to": "b"}},
    )

    assert {code for code, _ in found} == {
        *("unknown-node-type", "node-type-unavailable", "unknown-node", "duplicate-node"),
        *("empty-branch", "bad-condition"),
    }


def test_more_problems_than_anybody_reads_are_counted(compiled: Any) -> None:
    with pytest.raises(DocumentError) as caught:
        compiled(*({"id": f"n{n}", "dependencies": ["zz"]} for n in range(150)))

    assert len(caught.value.diagnostics) == 101
    assert caught.value.diagnostics[-1].message == "50 more problems not shown"


def test_more_warnings_than_anybody_reads_are_counted(compiled: Any) -> None:
    result = compiled({"id": "a"}, {"id": "b", "dependencies": ["a"] * 102})

    assert len(result.diagnostics) == 101
    assert result.diagnostics[-1].message == "1 more problem not shown"
    assert {found.severity for found in result.diagnostics} == {"warning"}


def test_positions_are_those_of_the_text(catalog: Any) -> None:
    from minuet.model.document import read_document
    from minuet.plan.compile import compile_workflow

    text = (
        "name: x\n"
        "nodes:\n"
        "  - {id: b, type: noop, depends_on: [a, nope]}\n"
        "  - {id: a, type: noop, depends_on: [b]}\n"
    )
    with pytest.raises(DocumentError) as caught:
        compile_workflow(read_document(text, source="x.yaml"), catalog)

    found = {diagnostic.code: diagnostic for diagnostic in caught.value.diagnostics}
    assert (found["unknown-node"].line, found["unknown-node"].column) == (3, 41)
    assert found["unknown-node"].path == "nodes[0].depends_on[1]"
    assert caught.value.source == "x.yaml"
