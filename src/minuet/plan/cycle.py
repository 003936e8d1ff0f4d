"""Explaining why a graph has no order: its cycles, and what cannot be reached because of them."""

from __future__ import annotations

from minuet.model.diagnostics import quote
from minuet.model.workflow import Node
from minuet.plan.problems import Problems

#: One cycle often explains the rest; each further one costs a walk.
CYCLES_MAX = 10
#: A longer cycle is named by its first and last nodes.
NAMES_MAX = 50


def report_cycles(
    nodes: list[Node], places: list[int], targets: list[list[int]], problems: Problems
) -> None:
    """Report cycles, missing entries and exits, and unreachable nodes.

    Nodes are numbered as they stand in the document; the graph must have a cycle.
    """
    sources: list[list[int]] = [[] for _ in targets]
    for number, members in enumerate(targets):
        for target in members:
            sources[target].append(number)
    for cycle in find_cycles(sources, targets):
        _report_cycle([nodes[number] for number in cycle], places[cycle[0]], problems)
    entries = [number for number, members in enumerate(sources) if not members]
    if not entries:
        problems.error(
            "no-entry",
            "workflow has no entry node: every node waits for another",
            ("nodes",),
            hint="a node without dependencies starts with the run",
        )
    if all(targets):
        problems.error("no-exit", "workflow has no terminal nodes (would run forever)", ("nodes",))
    reached = set(entries)
    for number in entries:  # grows while it is walked
        fresh = [target for target in targets[number] if target not in reached]
        reached.update(fresh)
        entries.extend(fresh)
    for number, node in enumerate(nodes):
        # Without an entry all nodes are, and one message says so.
        if entries and number not in reached:
            problems.error(
                "unreachable",
                f"node {quote(node.id)} cannot be reached from any entry node",
                ("nodes", places[number]),
            )


def find_cycles(sources: list[list[int]], targets: list[list[int]]) -> list[list[int]]:
    """Find cycles that share no node, each beginning with its smallest number."""
    awaited = [len(members) for members in sources]
    left = set(range(len(sources)))
    ready = [number for number, count in enumerate(awaited) if not count]
    cycles: list[list[int]] = []
    while True:
        while ready:
            number = ready.pop()
            if number not in left:
                continue
            left.discard(number)
            for target in targets[number]:
                awaited[target] -= 1
                if not awaited[target]:
                    ready.append(target)
        if not left or len(cycles) == CYCLES_MAX:
            return cycles
        cycle = _walk_back(min(left), sources, left)
        cycles.append(cycle)
        # What hangs only on this cycle is not another one.
        ready.extend(cycle)


def _walk_back(start: int, sources: list[list[int]], left: set[int]) -> list[int]:
    """Walk against the edges until a node comes again: each node that is left has a source."""
    steps: dict[int, int] = {}
    walked: list[int] = []
    number = start
    while number not in steps:
        steps[number] = len(walked)
        walked.append(number)
        number = next(source for source in sources[number] if source in left)
    cycle = walked[steps[number] :][::-1]
    first = cycle.index(min(cycle))
    return cycle[first:] + cycle[:first]


def _report_cycle(cycle: list[Node], place: int, problems: Problems) -> None:
    names = [node.id for node in [*cycle, cycle[0]]]
    if len(names) > NAMES_MAX:
        half = NAMES_MAX // 2
        names = [*names[:half], f"… {len(names) - 2 * half} more …", *names[-half:]]
    walk = " → ".join(names)
    exits = _find_exit(cycle)
    if exits is not None:
        problems.error(
            "loop-exit-back",
            f"an exit of loop node {quote(exits)} leads back above it: {walk}",
            ("nodes", place),
            hint="'break_path' and 'timeout_path' must lead out of the loop's body",
        )
    else:
        problems.error(
            "cycle",
            f"these nodes wait for each other: {walk}",
            ("nodes", place),
            hint="to go back on purpose, give a node a 'loop' with 'loop_back_to'",
        )


def _find_exit(cycle: list[Node]) -> str | None:
    """Name the loop node whose own exit closes the cycle, if one does."""
    for node, after in zip(cycle, [*cycle[1:], cycle[0]], strict=True):
        if node.loop is not None and after.id in (
            *(node.loop.break_path or ()),
            *(node.loop.timeout_path or ()),
        ):
            return node.id
    return None
