"""Explain why a graph has no order: its cycles, and what cannot be reached because of them."""

from __future__ import annotations

from minuet.model.diagnostics import quote
from minuet.model.workflow import Node
from minuet.plan.problems import Problems

#: One cycle often explains the rest. Each further one costs a walk.
CYCLES_MAX = 10
#: A longer cycle is named by its first and last nodes.
NAMES_MAX = 50
#: How many nodes that cannot be reached because of a cycle are named.
UNREACHED_MAX = 5


def report_cycles(
    nodes: list[Node], places: list[int], targets: list[list[int]], problems: Problems
) -> None:
    """Report cycles, and their consequences with the first one.

    Nodes are numbered in the order of the document. The graph must have a cycle. Without one
    there would be an entry and an exit, and every node could be reached, so these have no
    separate diagnostics.
    """
    sources: list[list[int]] = [[] for _ in targets]
    for number, members in enumerate(targets):
        for target in members:
            sources[target].append(number)
    cycles = find_cycles(sources, targets)
    shown = {number for cycle in cycles for number in cycle}
    follows = _find_consequences(nodes, sources, targets, shown)
    for cycle in cycles:
        _report_cycle([nodes[number] for number in cycle], places[cycle[0]], follows, problems)
        follows = ""


def _find_consequences(
    nodes: list[Node], sources: list[list[int]], targets: list[list[int]], shown: set[int]
) -> str:
    """Say what the cycles make impossible, beyond the nodes in them."""
    found = []
    entries = [number for number, members in enumerate(sources) if not members]
    if not entries:
        found.append("the workflow has no entry node")
    if all(targets):
        found.append("workflow has no terminal nodes (would run forever)")
    reached = set(entries)
    for number in entries:  # grows while it is walked
        fresh = [target for target in targets[number] if target not in reached]
        reached.update(fresh)
        entries.extend(fresh)
    lost = [quote(nodes[n].id) for n in range(len(nodes)) if n not in reached | shown]
    # Without an entry no node is reached. That was reported already.
    if entries and lost:
        more = f" and {len(lost) - UNREACHED_MAX} more" if len(lost) > UNREACHED_MAX else ""
        found.append(f"no entry node leads to {', '.join(lost[:UNREACHED_MAX])}{more}")
    return "".join(f"; {text}" for text in found)


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
        # What depends only on this cycle is not another one.
        ready.extend(cycle)


def _walk_back(start: int, sources: list[list[int]], left: set[int]) -> list[int]:
    """Walk against the edges until a node repeats. Each remaining node has a source."""
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


def _report_cycle(cycle: list[Node], place: int, follows: str, problems: Problems) -> None:
    names = [node.id for node in [*cycle, cycle[0]]]
    if len(names) > NAMES_MAX:
        half = NAMES_MAX // 2
        names = [*names[:half], f"… {len(names) - 2 * half} more …", *names[-half:]]
    walk = " → ".join(names)
    exits = _find_exit(cycle)
    if exits is not None:
        problems.error(
            "loop-exit-back",
            f"an exit of loop node {quote(exits)} leads back above it: {walk}{follows}",
            ("nodes", place),
            hint="'break_path' and 'timeout_path' must lead out of the loop's body",
        )
    else:
        problems.error(
            "cycle",
            f"these nodes wait for each other: {walk}{follows}",
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
