"""The edges of a workflow, merged from all places where they can be written, and their order.

Nodes are numbered in topological order. Forward edges (all except the back edges of loops)
always go from a smaller number to a larger one. The order, and everything derived from it,
depends on the nodes' order in the document and on which edges exist, not on where an edge is
written. Every step is linear in nodes and edges, and none recurses.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import NamedTuple, get_args

import msgspec

from minuet.model.diagnostics import quote
from minuet.model.workflow import Node, Workflow
from minuet.plan.cycle import report_cycles
from minuet.plan.plan import Role
from minuet.plan.problems import Problems
from minuet.types import Path

#: Enough for any graph that people or programs write. More is a mistake or an attack.
NODES_MAX = 200_000
EDGES_MAX = 1_000_000

#: The roles of an edge are bits of a number.
ROLES: tuple[Role, ...] = get_args(Role)
BIT: dict[Role, int] = {role: 1 << number for number, role in enumerate(ROLES)}
ROLES_OF: tuple[tuple[Role, ...], ...] = tuple(
    tuple(role for role in ROLES if mask & BIT[role]) for mask in range(1 << len(ROLES))
)


class Graph(msgspec.Struct, frozen=True):
    """Forward edges between numbered nodes."""

    #: In topological order, like all fields below.
    nodes: list[Node]
    #: The position of each node in the document.
    places: list[int]
    #: Each node's number.
    numbers: dict[str, int]
    #: The sources and targets of each node's edges, in order.
    sources: list[list[int]]
    targets: list[list[int]]
    #: Why each edge exists, by `source * len(nodes) + target`.
    masks: dict[int, int]
    #: False: edges are missing because they name unknown nodes.
    complete: bool
    written: Written

    def mask(self, source: int, target: int) -> int:
        """The roles of an edge, as bits."""
        return self.masks[source * len(self.nodes) + target]

    def roles(self, source: int, target: int) -> tuple[Role, ...]:
        """The roles of an edge."""
        return ROLES_OF[self.mask(source, target)]

    def path_of(self, source: int, target: int) -> Path:
        """The path where an edge is first written."""
        return self.written.first[self.nodes[source].id, self.nodes[target].id]


class Written:
    """Where each edge is written. Computed on demand, because only messages need it."""

    def __init__(self, workflow: Workflow) -> None:
        self._workflow = workflow

    @functools.cached_property
    def first(self) -> dict[tuple[str, str], Path]:
        """Map each edge to the first place where it is written."""
        found: dict[tuple[str, str], Path] = {}
        for listing in list_edges(self._workflow):
            for number, pair in enumerate(listing.pairs):
                found.setdefault(pair, listing.path_of(number))
        return found


class Listing(NamedTuple):
    """One list of edges in the document."""

    role: Role
    path: Path
    pairs: list[tuple[str, str]]

    def path_of(self, number: int, *, end: str = "target") -> Path:
        """The path of one of its edges."""
        if self.path == ("edges",):
            return ("edges", number, end)
        return (*self.path, number)


def list_edges(workflow: Workflow) -> Iterator[Listing]:
    """List every edge of the document, except back edges, with its reason."""
    for place, node in enumerate(workflow.nodes):
        at: Path = ("nodes", place)
        if node.dependencies:
            pairs = [(source, node.id) for source in node.dependencies]
            yield Listing("static", (*at, "dependencies"), pairs)
        for role, path, targets in _list_targets(node):
            if targets:
                pairs = [(node.id, target) for target in targets]
                yield Listing(role, (*at, *path), pairs)
    if workflow.edges:
        yield Listing("static", ("edges",), [(edge.source, edge.target) for edge in workflow.edges])


def _list_targets(node: Node) -> Iterator[tuple[Role, Path, tuple[str, ...] | None]]:
    yield "static", ("dependents",), node.dependents
    if node.branch is not None:
        for number, rule in enumerate(node.branch.rules):
            yield "branch", ("branch", "rules", number, "next_nodes"), rule.next_nodes
        yield "branch", ("branch", "default"), node.branch.default
        yield "branch", ("branch", "available_next_nodes"), node.branch.available_next_nodes
    if node.loop is not None:
        yield "break", ("loop", "break_path"), node.loop.break_path
        yield "timeout", ("loop", "timeout_path"), node.loop.timeout_path
    if isinstance(node.on_error, tuple):
        yield "error", ("on_error",), node.on_error
    yield "reject", ("rejection_path",), node.rejection_path


def build_graph(workflow: Workflow, problems: Problems) -> Graph | None:
    """Merge the edges and order the nodes. None if they have no order."""
    if len(workflow.nodes) > NODES_MAX:
        message = f"the workflow has {len(workflow.nodes)} nodes; at most {NODES_MAX} are possible"
        problems.error("too-large", message, ("nodes",))
        return None
    index = _index_nodes(workflow, problems)
    if not index:
        problems.error("no-entry", "the workflow has no nodes", ("nodes",))
        return None
    errors_before = problems.errors
    masks = _unite(workflow, {name: number for number, name in enumerate(index)}, problems)
    if masks is None:
        return None
    targets = _sorted_targets(masks, len(index))
    order = _sort(targets)
    places = list(index.values())
    if len(order) < len(index):
        report_cycles([workflow.nodes[place] for place in places], places, targets, problems)
        return None
    complete = problems.errors == errors_before
    return _renumber(workflow, places, order, targets, masks, complete=complete)


def _index_nodes(workflow: Workflow, problems: Problems) -> dict[str, int]:
    """Map each id to the position of its first node."""
    index: dict[str, int] = {}
    for place, node in enumerate(workflow.nodes):
        first = index.setdefault(node.id, place)
        if first != place:
            problems.error(
                "duplicate-node",
                f"there are two nodes {quote(node.id)}",
                ("nodes", place, "id"),
                hint=f"the first is nodes[{first}]",
            )
    return index


def _unite(workflow: Workflow, index: dict[str, int], problems: Problems) -> dict[int, int] | None:
    """Merge edges that connect the same two nodes. None if there are too many."""
    masks: dict[int, int] = {}
    for listing in list_edges(workflow):
        bit = BIT[listing.role]
        seen: set[int] = set()
        for number, (source, target) in enumerate(listing.pairs):
            start, end = index.get(source), index.get(target)
            if start is None or end is None:
                _report_unknown(listing, number, index, problems)
            elif start == end:
                _report_self(listing, number, problems)
            else:
                key = start * len(index) + end
                if key in seen:
                    _report_repeated(listing, number, problems)
                seen.add(key)
                masks[key] = masks.get(key, 0) | bit
        if len(masks) > EDGES_MAX:
            message = f"the workflow has more edges than the {EDGES_MAX} that are possible"
            problems.error("too-large", message, listing.path)
            return None
    _check_back_edges(workflow, index, problems)
    return masks


def _report_unknown(
    listing: Listing, number: int, index: dict[str, int], problems: Problems
) -> None:
    for end, name in zip(("source", "target"), listing.pairs[number], strict=True):
        if name not in index:
            problems.error(
                "unknown-node",
                f"there is no node {quote(name)}",
                listing.path_of(number, end=end),
                hint=problems.suggest(name, index.keys()),
            )


def _report_self(listing: Listing, number: int, problems: Problems) -> None:
    name = listing.pairs[number][0]
    problems.error(
        "self-dependency",
        f"node {quote(name)} depends on itself",
        listing.path_of(number),
        hint="to run a node again, give it a 'loop'",
    )


def _report_repeated(listing: Listing, number: int, problems: Problems) -> None:
    source, target = listing.pairs[number]
    problems.warn(
        "duplicate-edge",
        f"the edge from {quote(source)} to {quote(target)} is listed twice",
        listing.path_of(number),
    )


def _check_back_edges(workflow: Workflow, index: dict[str, int], problems: Problems) -> None:
    for place, node in enumerate(workflow.nodes):
        back = node.loop.loop_back_to if node.loop is not None else None
        if back is not None and back not in index:
            problems.error(
                "unknown-node",
                f"there is no node {quote(back)}",
                ("nodes", place, "loop", "loop_back_to"),
                hint=problems.suggest(back, index.keys()),
            )


def _sorted_targets(masks: dict[int, int], size: int) -> list[list[int]]:
    """List each node's targets in the nodes' order, by collecting them from the other end."""
    sources: list[list[int]] = [[] for _ in range(size)]
    for key in masks:
        source, target = divmod(key, size)
        sources[target].append(source)
    return _turn(sources)


def _turn(lists: list[list[int]]) -> list[list[int]]:
    """Convert lists of sources into sorted lists of targets, or vice versa."""
    turned: list[list[int]] = [[] for _ in lists]
    for number, members in enumerate(lists):
        for member in members:
            turned[member].append(number)
    return turned


def _sort(targets: list[list[int]]) -> list[int]:
    """Sort topologically (Kahn). Nodes in and below cycles are left out."""
    awaited = [0] * len(targets)
    for members in targets:
        for target in members:
            awaited[target] += 1
    order = [number for number, count in enumerate(awaited) if not count]
    for number in order:  # grows while it is walked
        for target in targets[number]:
            awaited[target] -= 1
            if not awaited[target]:
                order.append(target)
    return order


def _renumber(
    workflow: Workflow,
    places: list[int],
    order: list[int],
    targets: list[list[int]],
    masks: dict[int, int],
    *,
    complete: bool,
) -> Graph:
    """Number the nodes in topological order."""
    size = len(order)
    number_of = [0] * size
    for number, old in enumerate(order):
        number_of[old] = number
    sources = _turn([[number_of[target] for target in targets[old]] for old in order])
    nodes = [workflow.nodes[places[old]] for old in order]
    return Graph(
        nodes=nodes,
        places=[places[old] for old in order],
        numbers={node.id: number for number, node in enumerate(nodes)},
        sources=sources,
        targets=_turn(sources),
        masks={
            number_of[key // size] * size + number_of[key % size]: mask
            for key, mask in masks.items()
        },
        complete=complete,
        written=Written(workflow),
    )
