"""The bodies of loops: which nodes repeat. Checks that bodies nest and have one exit.

A body is everything between its entry (`loop_back_to`) and its loop node. Edges from outside may
lead to any node of the body. Only edges of the loop node may lead out.
"""

from __future__ import annotations

import msgspec

from minuet.model.diagnostics import quote
from minuet.plan.graph import Graph
from minuet.plan.problems import Problems

#: How many nodes may be visited to find all bodies. Sensible nesting stays far below.
VISITS_MAX = 2_000_000


class Body(msgspec.Struct, frozen=True):
    """What a loop repeats."""

    #: The loop node: the last node of the body.
    loop: int
    #: The first node of the body. In the simplest loop it is the loop node itself.
    entry: int
    members: frozenset[int]


class Loops(msgspec.Struct, frozen=True):
    """All loops, larger bodies first."""

    bodies: list[Body]
    #: For each node, the smallest body that contains it, or -1.
    innermost: list[int]
    #: For each body, all enclosing bodies and itself, outermost first.
    chains: list[tuple[int, ...]]

    def around(self, number: int) -> tuple[int, ...]:
        """The bodies that contain a node, outermost first."""
        body = self.innermost[number]
        return self.chains[body] if body >= 0 else ()


def find_loops(graph: Graph, problems: Problems) -> Loops:
    """Find and check all loops. Refused ones are left out."""
    bodies = sorted(_find_bodies(graph, problems), key=lambda body: -len(body.members))
    loops = Loops(bodies=[], innermost=[-1] * len(graph.nodes), chains=[])
    for body in bodies:
        _check_exits(graph, body, problems)
        outer = {loops.innermost[member] for member in body.members}
        if len(outer) > 1:
            # The smallest body so far cannot contain all of this one, unless it is the only one.
            _report_overlap(graph, body, loops.bodies[max(outer)], problems)
            continue
        enclosing = outer.pop()
        around = loops.chains[enclosing] if enclosing >= 0 else ()
        number = len(loops.bodies)
        loops.bodies.append(body)
        loops.chains.append((*around, number))
        for member in body.members:
            loops.innermost[member] = number
    return loops


def _find_bodies(graph: Graph, problems: Problems) -> list[Body]:
    bodies: list[Body] = []
    visits = 0
    for number, node in enumerate(graph.nodes):
        if node.loop is None:
            continue
        back = node.loop.loop_back_to or node.id
        entry = graph.numbers.get(back)
        if entry is None:
            continue  # reported as an unknown node
        above = _find_above(graph, number, entry)
        visits += len(above)
        if visits > VISITS_MAX:
            message = "the loops' bodies are too large together to be verified"
            problems.error("too-large", message, ("nodes", graph.places[number], "loop"))
            return []
        if entry in above:
            bodies.append(Body(number, entry, _find_below(graph, entry, above)))
        elif graph.complete:
            problems.error(
                "loop-back-not-ancestor",
                f"loop node {quote(node.id)} cannot go back to {quote(back)}, "
                "which does not come before it",
                ("nodes", graph.places[number], "loop", "loop_back_to"),
                hint="a loop goes back to its own node or to one that it depends on",
            )
    return bodies


def _find_above(graph: Graph, number: int, entry: int) -> set[int]:
    """Collect the node and its ancestors, except those that come before the entry."""
    found = {number}
    waiting = [number]
    while waiting:
        for source in graph.sources[waiting.pop()]:
            if source >= entry and source not in found:
                found.add(source)
                waiting.append(source)
    return found


def _find_below(graph: Graph, entry: int, within: set[int]) -> frozenset[int]:
    found = {entry}
    waiting = [entry]
    while waiting:
        for target in graph.targets[waiting.pop()]:
            if target in within and target not in found:
                found.add(target)
                waiting.append(target)
    return frozenset(found)


def _check_exits(graph: Graph, body: Body, problems: Problems) -> None:
    loop = graph.nodes[body.loop].id
    for member in sorted(body.members - {body.loop}):
        for target in graph.targets[member]:
            if target not in body.members:
                problems.error(
                    "loop-body-exit",
                    f"node {quote(graph.nodes[member].id)} in the body of loop {quote(loop)} "
                    f"has an edge to {quote(graph.nodes[target].id)} outside it",
                    graph.path_of(member, target),
                    hint="only the loop node may lead out of the body",
                )


def _report_overlap(graph: Graph, body: Body, other: Body, problems: Problems) -> None:
    shared = graph.nodes[min(body.members & other.members)].id
    one, another = graph.nodes[body.loop].id, graph.nodes[other.loop].id
    problems.error(
        "loops-overlap",
        f"the loops of {quote(one)} and {quote(another)} overlap (at {quote(shared)}), "
        "and neither lies inside the other",
        ("nodes", graph.places[body.loop], "loop"),
        hint="make one loop go back to a node inside the other, or to one before it",
    )
