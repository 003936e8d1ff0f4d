"""What holds for every graph: random ones, against the obvious and slow way to say it."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from minuet.errors import DocumentError
from minuet.model.document import Document
from minuet.model.workflow import Loop, Node, Workflow
from minuet.plan.ancestor import find_ancestors
from minuet.plan.catalog import NodeKind
from minuet.plan.compile import compile_workflow
from minuet.plan.digest import decode_plan, encode_plan
from minuet.plan.graph import Graph, build_graph
from minuet.plan.plan import Plan
from minuet.plan.problems import Problems
from minuet.plan.render import to_graph, to_mermaid

CATALOG = {"noop": NodeKind(name="noop", queue="noop")}


def as_document(nodes: tuple[Node, ...]) -> Document:
    return Document(Workflow(name="random", nodes=nodes), {}, "random", "")


@st.composite
def graphs(draw: Any, *, loops: bool = False, joins: bool = False) -> tuple[Node, ...]:
    """Nodes in a random order, each with dependencies among those before it."""
    size = draw(st.integers(1, 12))
    nodes = []
    for number in range(size):
        above = [f"n{other}" for other in range(number)]
        dependencies = draw(st.lists(st.sampled_from(above), unique=True)) if above else []
        fields: dict[str, Any] = {}
        if joins:
            fields["join"] = draw(st.sampled_from(["all", "any", "any", "each"]))
            fields["join_rest"] = draw(st.sampled_from(["absorb", "cancel"]))
        if loops and draw(st.integers(0, 3)) == 0:
            back = draw(st.sampled_from([None, *above]))
            fields["loop"] = Loop(condition="false", loop_back_to=back)
        nodes.append(Node(id=f"n{number}", type="noop", dependencies=tuple(dependencies), **fields))
    return tuple(draw(st.permutations(nodes)))


#: Nested sequences, forks and loops.
SHAPES = st.recursive(
    st.just("node"),
    lambda inner: st.tuples(
        st.sampled_from(["sequence", "fork", "loop"]), st.lists(inner, min_size=1, max_size=3)
    ),
    max_leaves=10,
)


@st.composite
def nested(draw: Any) -> tuple[Node, ...]:
    """Nodes whose loops all nest, with edges from the first node to anywhere."""
    nodes = [Node(id="start", type="noop")]

    def add(above: list[str], loop: Loop | None = None) -> list[str]:
        also = ["start"] if draw(st.booleans()) and "start" not in above else []
        name = f"n{len(nodes)}"
        nodes.append(Node(id=name, type="noop", dependencies=(*above, *also), loop=loop))
        return [name]

    def build(shape: Any, above: list[str]) -> list[str]:
        if shape == "node":
            return add(above)
        kind, parts = shape
        if kind == "fork":
            return [end for part in parts for end in build(part, above)]
        ends = entry = add(above) if kind == "loop" else above
        for part in parts:
            ends = build(part, ends)
        return add(ends, Loop(condition="false", loop_back_to=entry[0])) if kind == "loop" else ends

    build(draw(SHAPES), ["start"])
    return tuple(draw(st.permutations(nodes)))


def ancestors_of(plan: Plan) -> dict[str, set[str]]:
    above: dict[str, set[str]] = {node.id: set() for node in plan.nodes}
    for node in plan.nodes:
        for edge in node.edges:
            if edge.roles != ("back",):
                above[edge.target] |= above[node.id] | {node.id}
    return above


@given(graphs())
def test_every_acyclic_graph_compiles_in_topological_order(nodes: tuple[Node, ...]) -> None:
    plan = compile_workflow(as_document(nodes), CATALOG).plan

    place = {node.id: number for number, node in enumerate(plan.nodes)}
    written = {(source, node.id) for node in nodes for source in node.dependencies}
    assert {(node.id, edge.target) for node in plan.nodes for edge in node.edges} == written
    assert all(place[source] < place[target] for source, target in written)
    assert set(plan.entries) == {node.id for node in nodes if not node.dependencies}
    assert set(plan.terminals) == place.keys() - {source for source, _ in written}


@given(graphs() | nested())
def test_dependencies_and_dependents_are_inverses(nodes: tuple[Node, ...]) -> None:
    graph = to_graph(compile_workflow(as_document(nodes), CATALOG).plan)

    down = {(node["id"], other) for node in graph["nodes"] for other in node["dependents"]}
    up = {(other, node["id"]) for node in graph["nodes"] for other in node["dependencies"]}
    assert down == up


@given(graphs(loops=True, joins=True) | nested())
def test_scopes_follow_along_every_edge(nodes: tuple[Node, ...]) -> None:
    try:
        plan = compile_workflow(as_document(nodes), CATALOG).plan
    except DocumentError:
        return
    known = {node.id: node for node in plan.nodes}

    for node in plan.nodes:
        for edge in node.edges:
            target = known[edge.target]
            assert edge.keep + len(edge.enter) == len(target.nest)
            assert node.nest[: edge.keep] == target.nest[: edge.keep]
            if edge.roles == ("back",):
                assert node.nest[edge.keep - 1] == node.id
        loops = [name for name in node.nest if plan.constructs[name] == "loop"]
        assert len(node.expects) == 1 + len(loops)
    assert decode_plan(encode_plan(plan)) == plan
    assert to_mermaid(plan).count("subgraph") == to_mermaid(plan).count("end\n")


@given(nested())
def test_a_body_is_what_lies_between_entry_and_loop_node(nodes: tuple[Node, ...]) -> None:
    plan = compile_workflow(as_document(nodes), CATALOG).plan
    above = ancestors_of(plan)

    for node in plan.nodes:
        if node.loop is None:
            continue
        entry = node.loop.entry
        between = {
            other.id
            for other in plan.nodes
            if (other.id == entry or entry in above[other.id])
            and (other.id == node.id or other.id in above[node.id])
        }
        assert {other.id for other in plan.nodes if node.id in other.nest} == between


@given(nested())
def test_a_later_round_awaits_what_comes_from_inside(nodes: tuple[Node, ...]) -> None:
    plan = compile_workflow(as_document(nodes), CATALOG).plan
    nests = {node.id: node.nest for node in plan.nodes}
    sources: dict[str, list[str]] = {node.id: [] for node in plan.nodes}
    for node in plan.nodes:
        for edge in node.edges:
            sources[edge.target].append(node.id)
    loops: dict[str, Any] = {node.id: node.loop for node in plan.nodes}

    for node in plan.nodes:
        # A source that does not come before is the loop node of a back edge.
        forward = [name for name in sources[node.id] if not is_back(loops, name, node.id)]
        expected = [len(forward)]
        for name in node.nest:
            inside = [source for source in forward if name in nests[source]]
            expected.append(len(inside) + (loops[name].entry == node.id))
        assert node.expects == tuple(expected)


def is_back(loops: dict[str, Any], source: str, target: str) -> bool:
    return loops[source] is not None and loops[source].entry == target


@given(graphs(joins=True))
def test_a_join_cancels_what_cannot_avoid_it(nodes: tuple[Node, ...]) -> None:
    try:
        plan = compile_workflow(as_document(nodes), CATALOG).plan
    except DocumentError:
        return
    below = {node.id: [edge.target for edge in node.edges] for node in plan.nodes}
    nests = {node.id: node.nest for node in plan.nodes}
    cancelling = {node.id for node in nodes if node.join == "any" and node.join_rest == "cancel"}

    for join in plan.nodes:
        caught: set[str] = set()
        if join.id in cancelling:
            for node in reversed(plan.nodes):
                onward = below[node.id]
                all_caught = onward and all(way == join.id or way in caught for way in onward)
                if node.id != join.id and all_caught:
                    caught.add(node.id)
        inside = {name for name in caught if nests[name][: len(join.nest)] == join.nest}
        assert set(join.cancels) == inside


@given(graphs(), st.sets(st.tuples(st.integers(0, 11), st.integers(0, 11))))
def test_ancestors_are_found(nodes: tuple[Node, ...], pairs: set[tuple[int, int]]) -> None:
    document = as_document(nodes)
    graph = build_graph(document.workflow, Problems(document))
    assert isinstance(graph, Graph)
    above = ancestors_of(compile_workflow(document, CATALOG).plan)
    names = [node.id for node in graph.nodes]
    asked = {(one, two) for one, two in pairs if one < len(names) and two < len(names)}

    found = find_ancestors(graph, asked)

    assert found == {(one, two) for one, two in asked if names[two] in above[names[one]]}
