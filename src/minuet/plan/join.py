"""What a node waits for: how many arrivals, in which iteration, and what an early join cancels."""

from __future__ import annotations

from minuet.model.diagnostics import quote
from minuet.plan.enclosing import Enclosing
from minuet.plan.graph import Graph
from minuet.plan.loop import Loops
from minuet.plan.problems import Problems

#: How many names all `cancels` of a plan may have together. Nested cancelling joins add up.
CANCELS_MAX = 1_000_000


def count_expected(graph: Graph, loops: Loops, number: int) -> tuple[int, ...]:
    """Count the arrivals that a node expects: first, and in later rounds of each loop."""
    sources = graph.sources[number]
    expected = [len(sources)]
    for index in loops.around(number):
        body = loops.bodies[index]
        inside = sum(source in body.members for source in sources)
        expected.append(inside + (body.entry == number))
    return tuple(expected)


def find_need(graph: Graph, number: int, expected: tuple[int, ...], problems: Problems) -> int:
    """How many live arrivals make a node ready. 0: all that are expected."""
    node = graph.nodes[number]
    if node.join == "any":
        # A node that starts with the run waits for nothing.
        return 1 if graph.sources[number] else 0
    if isinstance(node.join, str):
        return 0
    path = ("nodes", graph.places[number], "join")
    possible = min(expected)
    if node.join < 1:
        message = f"node {quote(node.id)} joins {node.join} arrivals; it must be at least 1"
        problems.error("bad-join", message, path)
    elif node.join > possible and graph.complete:
        later = " in later rounds of its loop" if possible < expected[0] else ""
        message = f"node {quote(node.id)} needs {node.join} arrivals and can get {possible}{later}"
        problems.error("join-need-too-large", message, path)
    return node.join


def find_cancels(graph: Graph, nests: Enclosing, problems: Problems) -> dict[int, tuple[str, ...]]:
    """For each join that cancels the rest, find the nodes from which every path leads to it."""
    cancels: dict[int, tuple[str, ...]] = {}
    total = 0
    for number, node in enumerate(graph.nodes):
        if node.join_rest != "cancel" or node.join in ("all", "each"):
            continue
        region = _find_region(graph, nests, number)
        total += len(region)
        if total > CANCELS_MAX:
            message = "the joins with 'join_rest: cancel' have too many nodes above them"
            problems.error("too-large", message, ("nodes", graph.places[number], "join_rest"))
            break
        cancels[number] = tuple(graph.nodes[member].id for member in sorted(region))
    return cancels


def _find_region(graph: Graph, nests: Enclosing, join: int) -> set[int]:
    """Walk up from the join. A node belongs to the region when all its edges lead here."""
    nest = nests.names[join]
    ways_left: dict[int, int] = {}
    region: set[int] = set()
    waiting = [join]
    while waiting:
        for source in graph.sources[waiting.pop()]:
            ways = ways_left.get(source, len(graph.targets[source])) - 1
            ways_left[source] = ways
            if not ways and nests.names[source][: len(nest)] == nest:
                region.add(source)
                waiting.append(source)
    return region
