"""The document's `output`: a hidden last node."""

from __future__ import annotations

from typing import Any

from minuet.plan.plan import Edge, Node, Read


def test_output_is_rendered_by_a_hidden_last_node(compiled: Any) -> None:
    plan = compiled(
        {"id": "a"},
        {"id": "b", "dependencies": ["a"]},
        {"id": "c", "dependencies": ["a"], "loop": {"condition": "false"}},
        output={"x": "{{ a.x }}", "y": ["{{ c.y }}"]},
    ).plan

    assert plan.output_node == "$output"
    assert plan.terminals == ("b", "c")
    assert plan.nodes[-1] == Node(
        id="$output",
        type="transform",
        config={"value": {"x": "{{ a.x }}", "y": ["{{ c.y }}"]}},
        queue="transform",
        expects=(3,),
        reads=(Read(node="a"), Read(node="c")),
    )
    nodes = {node.id: node for node in plan.nodes}
    assert nodes["a"].edges[0] == Edge(target="$output")
    assert nodes["b"].edges == (Edge(target="$output"),)
    assert nodes["c"].edges == (
        Edge(target="$output"),
        Edge(target="c", roles=("back",), keep=1),
    )


def test_without_output_there_is_no_hidden_node(compiled: Any) -> None:
    plan = compiled({"id": "a"}).plan

    assert plan.output_node is None
    assert len(plan.nodes) == 1


def test_output_reads_existing_nodes_only(refused: Any) -> None:
    found = refused({"id": "a"}, output={"x": ["{{ b.x }}"]})

    assert found == [("unknown-reference", "output.x[0]")]


def test_output_is_not_rendered_once_per_arrival(refused: Any) -> None:
    found = refused(
        {"id": "a"},
        {"id": "b"},
        {"id": "j", "dependencies": ["a", "b"], "join": "each"},
        output="{{ a.x }}",
    )

    assert found == [("join-nest-mismatch", "output")]


def sources(plan: Any) -> set[str]:
    return {
        node.id for node in plan.nodes for edge in node.edges if edge.target == plan.output_node
    }


def test_output_waits_for_what_it_names_and_for_what_nothing_follows(compiled: Any) -> None:
    plan = compiled(
        {"id": "a"},
        {"id": "slow"},
        {"id": "first", "dependencies": ["a", "slow"], "join": "any"},
        {"id": "last", "dependencies": ["first"]},
        output="{{ slow.x }}",
    ).plan

    assert sources(plan) == {"slow", "last"}


def test_output_waits_for_the_end_of_the_outermost_loop_around_what_it_names(
    compiled: Any,
) -> None:
    plan = compiled(
        {"id": "entry"},
        {"id": "inner", "dependencies": ["entry"], "loop": {"condition": "false"}},
        {"id": "risky", "dependencies": ["inner"], "on_error": ["judge"]},
        {
            "id": "judge",
            "dependencies": ["inner"],
            "loop": {"condition": "false", "loop_back_to": "entry"},
        },
        {"id": "last", "dependencies": ["judge"]},
        output=["{{ risky.x }}", "{{ inner.x }}"],
    ).plan

    assert sources(plan) == {"judge", "last"}


def test_output_waits_for_the_join_that_may_withdraw_what_it_names(compiled: Any) -> None:
    plan = compiled(
        {"id": "a"},
        {"id": "b"},
        {"id": "c"},
        {"id": "one", "dependencies": ["a", "b"], "join": "any", "join_rest": "cancel"},
        {"id": "two", "dependencies": ["one", "c"], "join": "any", "join_rest": "cancel"},
        {"id": "last", "dependencies": ["two"]},
        output="{{ a.x }}",
    ).plan

    assert sources(plan) == {"two", "last"}
