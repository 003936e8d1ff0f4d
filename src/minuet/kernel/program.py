"""A plan prepared for execution: nodes by name, conditions compiled, repeated work done once.

Programs are cached by the plan's digest (`bridge.programs`), so this work is done once per plan,
not once per hop.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from minuet.plan.plan import (
    UNDO_CHILD_TYPE,
    UNDO_TYPE,
    WORKFLOW,
    Edge,
    Node,
    Plan,
    Role,
    author_of,
    item_id,
    undo_id,
)
from minuet.types import UNDO, Scope

if TYPE_CHECKING:
    from minuet.conditions import Condition

#: Cached sends per plan. Only a plan that chooses among thousands of paths has more.
CONSTANTS_MAX = 100_000


class Send(msgspec.Struct, frozen=True, gc=False):
    """What a settled node sends to one target instance."""

    node: str
    scope: Scope
    live: bool
    #: Live arrivals that make the target ready.
    need: int
    #: Arrivals expected. When all have come it is ready anyway, or skipped if none is live.
    total: int
    queue: str
    #: (node, scope prefix): outputs to pass along in addition to the arrivals.
    reads: tuple[tuple[str, Scope], ...] = ()
    #: Nodes whose tokens are withdrawn when the target fires without waiting for them.
    withdraws: tuple[str, ...] = ()
    #: From an item of a foreach: how many of them are alive at once. It is counted, and the next
    #: item is issued. 0: an ordinary delivery.
    window: int = 0
    #: (node, scope prefix): all outputs under it are passed along, not just the latest.
    every: tuple[tuple[str, Scope], ...] = ()


class Way(msgspec.Struct, frozen=True, gc=False):
    """Where a node leads that decides nothing, outside all constructs."""

    sends: tuple[Send, ...]
    #: The hop from which on a limit may forbid it.
    hops: int


class Needs(msgspec.Struct, frozen=True, gc=False):
    """What conditions need before they can decide."""

    #: References of schemas and code.
    blobs: frozenset[str]
    #: So much time that an event loop must not wait for it.
    time: bool
    #: When and how the nodes ran that they name.
    metadata: bool


class Program:
    """A plan, and what is derived from it."""

    def __init__(self, plan: Plan, digest: str = "") -> None:
        self.plan = plan
        self.digest = digest
        self.nodes: dict[str, Node] = {node.id: node for node in plan.nodes}
        #: By the node that it undoes: the hidden node that does. No edge leads to these.
        self.undo_of: dict[str, Node] = {node.undoes: node for node in plan.undos}
        for node in plan.nodes:
            if node.type == WORKFLOW and node.id not in self.undo_of:
                self.undo_of[node.id] = _make_child_undo(node)
        self.nodes |= {node.id: node for node in self.undo_of.values()}
        self.nodes[UNDO] = _LIST_UNDOS
        #: By the author's node that has a foreach: the hidden node that takes its edges.
        self._heads: dict[str, str] = {
            node.foreach.node: node.id
            for node in plan.nodes
            if node.foreach is not None and node.foreach.role == "items"
        }
        self._conditions: dict[str, Condition] = {}
        self._needs: dict[str, Needs] = {}
        #: Schemas and code that conditions need, by their references.
        self._blobs: dict[str, bytes] = {}
        self._static_targets: dict[str, tuple[str, ...]] = {}
        #: Sends of nodes outside all constructs, by node and live targets. The first tokens of a
        #: run have no node. The second table has the same values by identity, for `is_constant`.
        self._constant: dict[tuple[str, tuple[str, ...]], tuple[Send, ...]] = {}
        self._constants: dict[int, tuple[Send, ...]] = {}
        #: By node: where it leads; None: it decides that. Filled by `kernel.settle`.
        self.ways: dict[str, Way | None] = {}

    @cached_property
    def parents(self) -> dict[str, tuple[str, ...]]:
        """The sources of each node's edges, back edges included."""
        found: dict[str, list[str]] = {node: [] for node in self.nodes}
        for node in self.plan.nodes:
            for edge in node.edges:
                found[edge.target].append(node.id)
        return {node: tuple(sources) for node, sources in found.items()}

    def static_targets(self, node: Node) -> tuple[str, ...]:
        """The targets of a node that neither branches nor loops."""
        found = self._static_targets.get(node.id)
        if found is None:
            found = self._static_targets[node.id] = targets(node, "static")
        return found

    def loop_position(self, node: Node) -> int:
        """The index of a loop node's own iteration in its scope."""
        return node.nest.index(node.id)

    def condition(self, source: Any) -> Condition:
        """A condition of this plan, compiled."""
        from minuet.conditions import compile_condition

        key = source if isinstance(source, str) else repr(source)
        found = self._conditions.get(key)
        if found is None:
            found = self._conditions[key] = compile_condition(source, blobs=self._blobs)
        return found

    def needs(self, node: Node) -> Needs:
        """What the node's conditions need before they can decide."""
        found = self._needs.get(node.id)
        if found is None:
            conditions = [self.condition(source) for source in _conditions_of(node)]
            found = self._needs[node.id] = Needs(
                frozenset().union(*(one.blobs for one in conditions)),
                any(one.is_slow for one in conditions),
                any(one.reads_metadata for one in conditions),
            )
        return found

    def missing_blobs(self, node: Node) -> frozenset[str]:
        """The references of blobs that the node's conditions need and that are not at hand."""
        return self.needs(node).blobs - self._blobs.keys()

    def all_missing_blobs(self) -> frozenset[str]:
        """Those of all nodes."""
        return frozenset().union(*(self.missing_blobs(node) for node in self.plan.nodes))

    def keep_blob(self, reference: str, data: bytes) -> None:
        """Have a blob at hand that conditions need. Those that were compiled without it go."""
        self._blobs[reference] = data
        self._conditions.clear()

    def entries(self) -> tuple[Send, ...]:
        """The first tokens of a run."""
        found = self._constant.get(("", ()))
        return found if found is not None else self._keep(("", ()), self._make_entries())

    def _make_entries(self) -> tuple[Send, ...]:
        sends = []
        for name in self.plan.entries:
            node = self.nodes[name]
            scope = (0,) * len(node.nest)
            sends.append(Send(name, scope, True, 0, 0, node.queue, self.reads(node, scope)))
        return tuple(sends)

    def sends(self, node: Node, scope: Scope, live: tuple[str, ...]) -> tuple[Send, ...]:
        """All forward deliveries of a node: live to the targets named, skipped to the rest."""
        if scope:
            return self._make_sends(node, scope, live)
        key = (node.id, live)
        found = self._constant.get(key)
        if found is None:
            found = self._keep(key, self._make_sends(node, scope, live))
        return found

    def _keep(self, key: tuple[str, tuple[str, ...]], sends: tuple[Send, ...]) -> tuple[Send, ...]:
        if len(self._constant) < CONSTANTS_MAX:
            self._constant[key] = self._constants[id(sends)] = sends
        return sends

    def is_constant(self, sends: tuple[Send, ...]) -> bool:
        """Whether this very object is cached here and will be returned again."""
        return self._constants.get(id(sends)) is sends

    def _make_sends(self, node: Node, scope: Scope, live: tuple[str, ...]) -> tuple[Send, ...]:
        if node.foreach is not None and node.foreach.role != "gather":
            # How many there are is known only when the list is: `start_items`, `reach_gather`.
            return ()
        # The output is rendered no matter how the nodes that it waits for ended. What it names
        # comes with its reads.
        chosen = {*live, self.plan.output_node}
        if self._heads:
            # A branch names the nodes that its author wrote.
            chosen |= {self._heads[name] for name in live if name in self._heads}
        return tuple(
            self._send(edge, scope[: edge.keep] + edge.enter, edge.target in chosen)
            for edge in node.edges
            if edge.roles != ("back",)
        )

    def send_back(self, node: Node, scope: Scope) -> tuple[Send, ...]:
        """The one delivery of a loop that continues: to its entry, in the next iteration."""
        edge = next(edge for edge in node.edges if "back" in edge.roles)
        at = edge.keep - 1
        return (self._send(edge, (*scope[:at], scope[at] + 1, *edge.enter), True),)

    def _send(self, edge: Edge, scope: Scope, live: bool) -> Send:
        target = self.nodes[edge.target]
        need, total = self.arrivals(target, scope)
        reads = self.reads(target, scope) if target.reads else ()
        return Send(target.id, scope, live, need, total, target.queue, reads, target.cancels)

    @property
    def queues(self) -> tuple[str, ...]:
        """All queues that tokens of its runs wait in."""
        return tuple(sorted({node.queue for node in self.nodes.values()}))

    # ── undo ────────────────────────────────────────────────────────────────────────────

    def start_undo(self, name: str, scope: Scope) -> Send:
        """The delivery to the instance of a hidden node that undoes, or lists what to undo."""
        node = self.nodes[name]
        return Send(name, scope, True, 1, 1, node.queue, self.reads(node, scope))

    # ── foreach ─────────────────────────────────────────────────────────────────────────

    def start_items(self, node: Node, scope: Scope, count: int, window: int) -> tuple[Send, ...]:
        """The deliveries of the list of a foreach: one to the node that gathers, and the first
        items, as many as are alive at once."""
        assert node.foreach is not None
        item = self.nodes[item_id(node.foreach.node)]
        reads = self.reads(item, scope) if item.reads else ()
        first = (
            Send(item.id, (*scope, number), True, 1, 1, item.queue, reads)
            for number in range(window)
        )
        return (self.reach_gather(node, scope, count, is_list=True), *first)

    def reach_gather(
        self,
        node: Node,
        scope: Scope,
        count: int,
        *,
        live: bool = True,
        at_once: bool = False,
        is_list: bool = False,
        window: int = 0,
    ) -> Send:
        """A delivery to the node that gathers `count` items: from the list itself, or from an item.
        `at_once`: it must not wait for the others."""
        each = node.foreach
        assert each is not None
        gather = self.nodes[each.node]
        if not is_list:
            scope = scope[:-1]
        # The list arrives as well, and is always live: so the node runs even if every item failed.
        need = 1 if at_once or not count else (each.need or count) + 1
        withdraws = count > 0 and (each.need is not None or at_once)
        return Send(
            gather.id,
            scope,
            live,
            need,
            count + 1,
            gather.queue,
            self.reads(gather, scope),
            (item_id(each.node),) if withdraws else (),
            window,
            self.every(gather, scope),
        )

    def arrivals(self, node: Node, scope: Scope) -> tuple[int, int]:
        """How many live arrivals an instance needs, and how many it expects in all."""
        total = node.expects[self._loop_level(node, scope)]
        return (min(node.need, total) if node.need else total), total

    def _loop_level(self, node: Node, scope: Scope) -> int:
        """Which of the loops around the node is the innermost past its first iteration. 0: none."""
        if len(node.expects) == 1:
            return 0
        level = loop = 0
        for construct, number in zip(node.nest, scope, strict=True):
            if self.plan.constructs[construct] == "loop":
                loop += 1
                if number:
                    level = loop
        return level

    def sources(self, node: Node, scope: Scope) -> tuple[str, ...]:
        """The nodes that deliver to an instance. Empty if it starts with the run."""
        # The list of a foreach takes the arrivals of the author's node.
        head = node.foreach is not None and node.foreach.role == "items"
        author = node.foreach.node if node.foreach is not None and head else node.id
        level = self._loop_level(node, scope)
        loops = [name for name in node.nest if self.plan.constructs[name] == "loop"]
        again = loops[level - 1] if level else None
        found = []
        for name in self.parents[node.id]:
            source = self.nodes[name]
            edge = next(edge for edge in source.edges if edge.target == node.id)
            if source.foreach is not None and source.foreach.role == "item":
                # It delivers as often as there are items; the list says that there are some.
                delivers = False
            elif edge.roles == ("back",):
                delivers = name == again
            elif self.plan.constructs.get(author) == "each" and (node.foreach is None or head):
                delivers = edge.enter[-1] == scope[-1]
            else:
                delivers = again is None or again in source.nest
            if delivers:
                found.append(name)
        return tuple(found)

    def reads(self, node: Node, scope: Scope) -> tuple[tuple[str, Scope], ...]:
        """The outputs that an instance reads: a node's latest output under a scope prefix."""
        found = []
        for read in node.reads:
            if read.every:
                continue
            prefix = scope[: read.keep]
            if read.previous:
                if not prefix[-1]:
                    continue
                prefix = (*prefix[:-1], prefix[-1] - 1)
            found.append((read.node, prefix))
        if node.undoes:
            # The list that says what follows: the last one of this undo of the run.
            found.append((UNDO, scope[-1:]))
        return tuple(found)

    def every(self, node: Node, scope: Scope) -> tuple[tuple[str, Scope], ...]:
        """The outputs of which an instance reads all under a scope prefix."""
        return tuple((read.node, scope[: read.keep]) for read in node.reads if read.every)


#: The hidden node that lists what to undo. Any worker can do that, so it needs no queue. Its scope
#: says which undo of the run it is, and which of its lists.
_LIST_UNDOS = Node(
    id=UNDO, type=UNDO_TYPE, queue="", nest=(UNDO, UNDO), expects=(1,), retry_by="document"
)


def _make_child_undo(node: Node) -> Node:
    """The hidden node that undoes the child run of a node without a compensator of its own."""
    return Node(
        id=undo_id(author_of(node.id)),
        type=UNDO_CHILD_TYPE,
        queue=node.queue,
        nest=(*node.nest, UNDO),
        expects=(1,),
        retry_by="document",
        undoes=node.id,
    )


def _conditions_of(node: Node) -> list[Any]:
    rules = node.branch.rules if node.branch is not None else ()
    loops = [node.loop.condition] if node.loop is not None else []
    return [*loops, *(rule.condition for rule in rules)]


def targets(node: Node, *roles: Role) -> tuple[str, ...]:
    """The targets of a node's edges that have one of these roles."""
    wanted = set(roles)
    return tuple(
        edge.target
        for edge in node.edges
        if edge.roles != ("back",) and not wanted.isdisjoint(edge.roles)
    )
