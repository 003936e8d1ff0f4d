"""What is derived from an ordered graph: loops, nests, joins and reads."""

from __future__ import annotations

import msgspec

from minuet.model.diagnostics import quote
from minuet.plan.enclosing import Enclosing, find_enclosing
from minuet.plan.graph import BIT, Graph
from minuet.plan.join import count_expected, find_cancels, find_need
from minuet.plan.loop import Loops, find_loops
from minuet.plan.plan import Read
from minuet.plan.problems import Problems
from minuet.plan.reference import References, find_reads


class Structure(msgspec.Struct, frozen=True):
    """What is derived from an ordered graph."""

    graph: Graph
    loops: Loops
    nests: Enclosing
    needs: list[int]
    expects: list[tuple[int, ...]]
    cancels: dict[int, tuple[str, ...]]
    reads: list[tuple[Read, ...]]


def find_structure(graph: Graph, references: References, problems: Problems) -> Structure:
    """Derive loops, nests, joins and reads from an ordered graph."""
    loops = find_loops(graph, problems)
    nests = find_enclosing(graph, loops, problems)
    check_unchosen(graph, problems)
    expects, needs = [], []
    for number in range(len(graph.nodes)):
        expected = count_expected(graph, loops, number)
        needs.append(find_need(graph, number, expected, problems))
        # An `each` join runs separately for every arrival.
        expects.append((1,) if number in nests.arrivals else expected)
    return Structure(
        graph=graph,
        loops=loops,
        nests=nests,
        needs=needs,
        expects=expects,
        cancels=find_cancels(graph, nests, problems),
        reads=find_reads(graph, loops, nests, references, problems),
    )


def check_unchosen(graph: Graph, problems: Problems) -> None:
    """Warn about nodes that wait for a branch that never chooses them."""
    chosen = BIT["branch"] | BIT["timeout"] | BIT["error"] | BIT["reject"]
    for number, node in enumerate(graph.nodes):
        if node.branch is None:
            continue
        for target in graph.targets[number]:
            if not graph.mask(number, target) & chosen:
                name = graph.nodes[target].id
                problems.warn(
                    "branch-never-chooses",
                    f"the branch of node {quote(node.id)} never chooses {quote(name)}, "
                    "which depends on it",
                    graph.path_of(number, target),
                    hint=f"name {quote(name)} in a rule or in 'default'",
                )
