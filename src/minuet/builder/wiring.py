"""The edges of a workflow that is written in Python: they follow from what nodes read.

A node that reads another's output comes after it. Three rules make that the graph that was meant:

* A node has no edge from what comes before it anyway, through another node that it reads, that
  it follows (`then`), or that chooses it (a branch, a loop's exit, an error or a rejection). With
  such an edge, it would run even if that other node was skipped or did not choose it.
* What reads a node inside a loop from outside comes after the loop, because only the loop's last
  node leads out.
* A branch replaces the nodes that merely come after. What reads a node with a branch, and is not
  one of its targets, is added to every rule, because it does not depend on the choice.

Only nodes that were added in Python are wired. A loaded document has its edges already.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple


class Step(NamedTuple):
    """What is known of a node."""

    #: The nodes whose outputs it reads; nothing if it was loaded, because it has its edges then.
    reads: frozenset[str]
    #: The nodes that it follows by `then`.
    follows: frozenset[str]
    #: The nodes that it follows by what the document says already.
    written: frozenset[str]
    #: The nodes that it may choose: branch, exit, timeout, error, rejection.
    chooses: frozenset[str]
    #: Those among them that its branch may choose. None: it has no branch.
    branch: frozenset[str] | None
    #: Where its loop begins. None: it has no loop.
    loop_entry: str | None


class Wiring(NamedTuple):
    """What is to be added to the nodes."""

    #: Sources of each node, in the order of the workflow.
    dependencies: dict[str, list[str]]
    #: Nodes that each branch leads to, whatever it chooses.
    always: dict[str, list[str]]


def wire(steps: Mapping[str, Step]) -> Wiring:
    """Derive the edges of nodes that were added in Python."""
    order = {name: number for number, name in enumerate(steps)}
    graph = _Graph(order)
    for name, step in steps.items():
        for source in step.follows | step.written:
            graph.add(source, name)
        for target in step.chooses:
            graph.add(name, target)
    # First those of nodes that were written before: a node that reads a later one reads the round
    # before, in a loop.
    for name, source in sorted(_reads(steps), key=lambda read: order[read[1]] > order[read[0]]):
        # What would close a cycle is left to the compiler, which reports it.
        if not graph.leads(name, source):
            graph.add(source, name)
    above = graph.ancestors()
    needed: dict[str, set[str]] = {name: set() for name in steps}
    if above is None:
        # The compiler reports the cycle; it must see all edges.
        for name, source in _reads(steps):
            needed[name].add(source)
    else:
        needed = _find_needed(steps, order, above)
    return _share(steps, order, needed)


def _reads(steps: Mapping[str, Step]) -> Iterator[tuple[str, str]]:
    for name, step in steps.items():
        for source in sorted(step.reads):
            if source in steps and source != name:
                yield name, source


def _find_needed(
    steps: Mapping[str, Step], order: Mapping[str, int], above: list[int]
) -> dict[str, set[str]]:
    """The sources from which each node needs an edge because it reads them."""
    choosers: dict[str, set[str]] = {name: set() for name in steps}
    for name, step in steps.items():
        for target in step.chooses:
            if target in choosers:
                choosers[target].add(name)
    loops = [
        (name, step.loop_entry)
        for name, step in steps.items()
        if step.loop_entry is not None and step.loop_entry in steps
    ]

    def comes_before(one: str, other: str) -> bool:
        return bool(above[order[other]] >> order[one] & 1)

    def is_inside(name: str, loop: str, entry: str) -> bool:
        begins = name == entry or comes_before(entry, name)
        return begins and (name == loop or comes_before(name, loop))

    needed: dict[str, set[str]] = {name: set() for name in steps}
    for name, source in _reads(steps):
        if comes_before(name, source):
            continue
        for loop, entry in loops:
            if (
                source != loop
                and is_inside(source, loop, entry)
                and not is_inside(name, loop, entry)
            ):
                source = loop
        needed[name].add(source)
    for name, sources in needed.items():
        strong = (
            sources | choosers[name] | (steps[name].follows | steps[name].written) & steps.keys()
        )
        needed[name] = {
            source
            for source in sources - choosers[name]
            if not any(comes_before(source, other) for other in strong if other != source)
        }
    return needed


def _share(
    steps: Mapping[str, Step], order: Mapping[str, int], needed: Mapping[str, set[str]]
) -> Wiring:
    """Write each edge where the document expects it: at its target, or in its source's branch."""
    dependencies: dict[str, list[str]] = {}
    always: dict[str, list[str]] = {}
    for name, step in steps.items():
        sources = (needed[name] | step.follows) - step.written
        static = []
        for source in sorted(sources, key=lambda source: order.get(source, len(order))):
            branch = steps[source].branch if source in steps else None
            if branch is None:
                static.append(source)
            elif name not in branch:
                always.setdefault(source, []).append(name)
        if static:
            dependencies[name] = static
    return Wiring(dependencies, always)


class _Graph:
    """Edges that may lead backwards in the order in which nodes were written."""

    def __init__(self, order: Mapping[str, int]) -> None:
        self._order = order
        self._targets: list[set[int]] = [set() for _ in order]
        self._has_backward = False

    def add(self, source: str, target: str) -> None:
        start, end = self._order.get(source), self._order.get(target)
        if start is not None and end is not None:
            self._targets[start].add(end)
            self._has_backward |= end <= start

    def leads(self, source: str, target: str) -> bool:
        """Whether there is a path."""
        start, end = self._order[source], self._order[target]
        if start > end and not self._has_backward:
            return False
        found, waiting = {start}, [start]
        while waiting:
            for other in self._targets[waiting.pop()] - found:
                if other == end:
                    return True
                found.add(other)
                waiting.append(other)
        return False

    def ancestors(self) -> list[int] | None:
        """For each node, a number whose bits are its ancestors. None: there is a cycle."""
        missing = [0] * len(self._targets)
        for targets in self._targets:
            for target in targets:
                missing[target] += 1
        above = [0] * len(self._targets)
        ready = [number for number, count in enumerate(missing) if not count]
        done = 0
        while ready:
            number = ready.pop()
            done += 1
            for target in self._targets[number]:
                above[target] |= above[number] | 1 << number
                missing[target] -= 1
                if not missing[target]:
                    ready.append(target)
        return above if done == len(above) else None


def ids_in(*values: Any) -> frozenset[str]:
    """The node ids in fields that may be absent or wrong."""
    return frozenset(
        name
        for value in values
        if isinstance(value, list)
        for name in value
        if isinstance(name, str)
    )
