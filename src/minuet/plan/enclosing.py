"""Scopes: which constructs enclose each node, and how scopes change along edges.

An `each` join encloses everything below it and cannot end inside a loop, so it may not be in
one: the loop node would be reached once per arrival. Therefore a nest is always the `each` joins
above the node, in order, followed by the loops around it.
"""

from __future__ import annotations

import msgspec

from minuet.model.diagnostics import quote
from minuet.plan.graph import Graph
from minuet.plan.loop import Loops
from minuet.plan.plan import ConstructKind
from minuet.plan.problems import Problems

#: Every instance stores one number per construct. Real graphs need three or four.
DEPTH_MAX = 32


class Enclosing(msgspec.Struct, frozen=True):
    """The nest of every node."""

    #: The constructs around each node by name, outermost first.
    names: list[tuple[str, ...]]
    #: How many of them are `each` joins, for each node.
    eaches: list[int]
    #: The nodes that open an `each` construct, with the number of each source's arrival.
    arrivals: dict[int, dict[int, int]]
    constructs: dict[str, ConstructKind]


def find_enclosing(graph: Graph, loops: Loops, problems: Problems) -> Enclosing:
    """Find every node's nest. Refuse joins of inputs from different nests."""
    opening = _find_openings(graph, loops, problems)
    above = _find_each_above(graph, opening, problems)
    names: list[tuple[str, ...]] = []
    known: dict[tuple[tuple[int, ...], int], tuple[str, ...]] = {}
    for number in range(len(graph.nodes)):
        key = (above[number], loops.innermost[number])
        nest = known.get(key)
        if nest is None:
            around = [loops.bodies[body].loop for body in loops.around(number)]
            nest = tuple(graph.nodes[member].id for member in (*above[number], *around))
            known[key] = nest
            if len(nest) > DEPTH_MAX:
                problems.error(
                    "nest-too-deep",
                    f"node {quote(graph.nodes[number].id)} stands in {len(nest)} loops and 'each' "
                    f"joins; at most {DEPTH_MAX} are possible",
                    ("nodes", graph.places[number]),
                )
        names.append(nest)
    constructs: dict[str, ConstructKind] = {
        graph.nodes[body.loop].id: "loop" for body in loops.bodies
    }
    constructs |= {graph.nodes[number].id: "each" for number in opening}
    arrivals = {
        number: {source: arrival for arrival, source in enumerate(graph.sources[number])}
        for number in opening
    }
    return Enclosing(names, [len(each) for each in above], arrivals, constructs)


def _find_openings(graph: Graph, loops: Loops, problems: Problems) -> list[int]:
    opening = []
    for number, node in enumerate(graph.nodes):
        if node.join != "each" or not graph.sources[number]:
            continue
        body = loops.innermost[number]
        if body < 0:
            opening.append(number)
            continue
        problems.error(
            "loop-through-each",
            f"node {quote(node.id)} joins 'each' inside the loop of "
            f"{quote(graph.nodes[loops.bodies[body].loop].id)}, which would then go round once "
            "per arrival",
            ("nodes", graph.places[number], "join"),
            hint="put the 'each' join above or below the loop",
        )
    return opening


def _find_each_above(graph: Graph, opening: list[int], problems: Problems) -> list[tuple[int, ...]]:
    """List the `each` joins that enclose each node, including itself, in order."""
    above: list[tuple[int, ...]] = []
    opens = frozenset(opening)
    for number, sources in enumerate(graph.sources):
        enclosing = above[sources[0]] if sources else ()
        for source in sources:
            if above[source] != enclosing:
                _report_mismatch(graph, number, sources[0], source, above, problems)
                break
        # Beyond the depth limit a nest does not grow, so that reporting takes linear time.
        if number in opens and len(enclosing) <= DEPTH_MAX:
            enclosing = (*enclosing, number)
        above.append(enclosing)
    return above


def _report_mismatch(
    graph: Graph,
    number: int,
    first: int,
    second: int,
    above: list[tuple[int, ...]],
    problems: Problems,
) -> None:
    problems.error(
        "join-nest-mismatch",
        f"node {quote(graph.nodes[number].id)} joins inputs that run a different number of times: "
        f"{_describe(graph, first, above)}, {_describe(graph, second, above)}",
        ("nodes", graph.places[number]),
        hint="let all inputs of a node come from below the same 'each' joins",
    )


def _describe(graph: Graph, number: int, above: list[tuple[int, ...]]) -> str:
    name = graph.nodes[number].id
    if not above[number]:
        return f"{quote(name)} runs once"
    joins = ", ".join(quote(graph.nodes[member].id) for member in above[number])
    return f"{quote(name)} runs once per arrival at {joins}"


def count_common(first: tuple[str, ...], second: tuple[str, ...]) -> int:
    """Count the constructs that enclose both."""
    if first is second:
        return len(first)
    common = 0
    for one, other in zip(first, second, strict=False):
        if one != other:
            break
        common += 1
    return common
