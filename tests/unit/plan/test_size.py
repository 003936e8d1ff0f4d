"""Large graphs: compiled without recursion and without quadratic steps, or refused."""

from __future__ import annotations

from typing import Any

import pytest

from minuet.errors import DocumentError
from minuet.model.document import Document
from minuet.model.workflow import Loop, Node, Workflow
from minuet.plan.compile import Compiled, compile_workflow

pytestmark = pytest.mark.slow


def compile_all(catalog: Any, *nodes: Node) -> Compiled:
    # Built directly: reading a text of this size is not what is tested.
    return compile_workflow(Document(Workflow(name="large", nodes=nodes), {}, "large", ""), catalog)


def noop(name: str, *dependencies: str, **fields: Any) -> Node:
    return Node(id=name, type="noop", dependencies=dependencies, **fields)


@pytest.mark.shows("B-03")
def test_a_chain_of_100_000_nodes_compiles(catalog: Any) -> None:
    nodes = [noop(f"n{n}", f"n{n - 1}") for n in range(1, 100_000)]

    plan = compile_all(catalog, noop("n0"), *nodes).plan

    assert plan.terminals == ("n99999",)
    assert plan.nodes[50_000].id == "n50000"


@pytest.mark.shows("B-03")
def test_a_graph_100_000_nodes_wide_compiles(catalog: Any) -> None:
    names = [f"n{n}" for n in range(100_000)]

    plan = compile_all(
        catalog, noop("a"), *(noop(name, "a") for name in names), noop("z", *names)
    ).plan

    assert plan.nodes[0].id == "a"
    assert len(plan.nodes[0].edges) == 100_000
    assert plan.nodes[-1].expects == (100_000,)


def test_an_each_join_of_20_000_nodes_compiles(catalog: Any) -> None:
    names = [f"n{n}" for n in range(20_000)]

    plan = compile_all(catalog, *map(noop, names), noop("z", *names, join="each")).plan

    assert [node.edges[0].enter for node in plan.nodes[:-1]] == [(n,) for n in range(20_000)]


def test_a_chain_of_20_000_loops_compiles(catalog: Any) -> None:
    loop = Loop(condition="false")
    nodes = [noop(f"n{n}", f"n{n - 1}", loop=loop) for n in range(1, 20_000)]

    plan = compile_all(catalog, noop("n0", loop=loop), *nodes).plan

    assert len(plan.constructs) == 20_000


def test_too_many_nodes_are_refused(catalog: Any) -> None:
    with pytest.raises(DocumentError) as caught:
        compile_all(catalog, *(noop(f"n{n}") for n in range(200_001)))

    assert [found.code for found in caught.value.diagnostics] == ["too-large"]


def test_too_many_edges_are_refused(catalog: Any) -> None:
    names = [f"n{n}" for n in range(1001)]

    with pytest.raises(DocumentError) as caught:
        compile_all(catalog, *map(noop, names), *(noop(f"m{n}", *names) for n in range(1000)))

    assert [(found.code, found.path) for found in caught.value.diagnostics] == [
        ("too-large", "nodes[2000].dependencies")
    ]


def test_loops_within_loops_without_end_are_refused(catalog: Any) -> None:
    loop = Loop(condition="false", loop_back_to="n0")
    nodes = [noop(f"n{n}", f"n{n - 1}", loop=loop) for n in range(1, 2_100)]

    with pytest.raises(DocumentError) as caught:
        compile_all(catalog, noop("n0"), *nodes)

    assert [(found.code, found.path) for found in caught.value.diagnostics] == [
        ("too-large", "nodes[1999].loop")
    ]


def test_joins_that_cancel_without_end_are_refused(catalog: Any) -> None:
    nodes = [noop(f"n{n}", f"n{n - 1}", join="any", join_rest="cancel") for n in range(1, 1_500)]

    with pytest.raises(DocumentError) as caught:
        compile_all(catalog, noop("n0"), *nodes)

    assert [(found.code, found.path) for found in caught.value.diagnostics] == [
        ("too-large", "nodes[1414].join_rest")
    ]


def test_a_wrong_name_among_very_many_gets_no_suggestion(catalog: Any) -> None:
    nodes = [noop(f"n{n}") for n in range(6_000)]

    with pytest.raises(DocumentError) as caught:
        compile_all(catalog, *nodes, noop("z", "n6000"))

    assert [found.hint for found in caught.value.diagnostics] == [None]
