"""Which of many pairs of nodes are ancestor and descendant."""

from __future__ import annotations

import itertools

from minuet.plan.graph import Graph

#: How many ancestors one sweep looks for: one bit each, in one number per node.
BATCH = 2048


def find_ancestors(graph: Graph, pairs: set[tuple[int, int]]) -> set[tuple[int, int]]:
    """Find the pairs (node, other) in which the other node is an ancestor of the node.

    Others are processed in order and in batches. A batch is swept only from its first other to
    its last node. So a node that every node reads costs one sweep of the graph, and nodes that
    are read nearby together cost about one sweep too.
    """
    readers: dict[int, list[int]] = {}
    found: set[tuple[int, int]] = set()
    for number, members in itertools.groupby(sorted(pairs), key=lambda pair: pair[0]):
        direct = set(graph.sources[number])
        for _, other in members:
            if other in direct:
                found.add((number, other))
            elif other < number:
                readers.setdefault(other, []).append(number)
    others = sorted(readers)
    for start in range(0, len(others), BATCH):
        batch = others[start : start + BATCH]
        last = max(max(readers[other]) for other in batch)
        seen = _sweep(graph, batch, last)
        for bit, other in enumerate(batch):
            found.update(
                (number, other) for number in readers[other] if seen[number - batch[0]] >> bit & 1
            )
    return found


def _sweep(graph: Graph, batch: list[int], last: int) -> list[int]:
    """For each node from the batch's first to its last: which of the batch are above it."""
    first = batch[0]
    bits = {other: 1 << bit for bit, other in enumerate(batch)}
    seen: list[int] = []
    for number in range(first, last + 1):
        above = 0
        for source in graph.sources[number]:
            if source >= first:
                above |= seen[source - first] | bits.get(source, 0)
        seen.append(above)
    return seen
