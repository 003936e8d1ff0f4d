"""A run's state as people see it: node by node, its output, and its path.

Tokens are instances; people look at nodes. A node that a loop repeats shows its latest
iteration. A node below an `each` join has several instances at once and shows the one that most
needs attention. Nothing here is stored: it is derived from plan and state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any

import msgspec

from minuet import events as happened
from minuet.events import Place
from minuet.kernel.fold import Detail, NumberedEvent, State, TokenView
from minuet.kernel.lifecycle import NodeStatus
from minuet.kernel.program import Program
from minuet.kernel.scope import decode, encode
from minuet.plan.plan import FLOW, HIDDEN, Node, author_of, is_list, item_id, items_id
from minuet.types import TERMINAL, UNDO, Json, Scope

#: Which of several instances a node shows: the one whose status comes first here.
_ATTENTION: tuple[NodeStatus, ...] = (
    *("RUNNING", "WAITING", "QUEUED", "FAILED", "CANCELLED", "COMPLETED", "SKIPPED"),
)

_DEAD: dict[str, NodeStatus] = {
    "failed": "FAILED",
    "cancelled": "CANCELLED",
    "superseded": "CANCELLED",
}
_DONE: dict[str, NodeStatus] = {
    "completed": "COMPLETED",
    "skipped": "SKIPPED",
    "failed": "FAILED",
}
#: The reason of a node that only skips have reached, or can reach.
ALL_SKIPPED = "all_arrivals_skipped"

_REASONS = {
    "cancelled": "run_ended",
    "superseded": "withdrawn_by_join",
}

#: The reason of a node that somebody has skipped.
BY_HAND = "skipped_by_hand"


class WaitView(msgspec.Struct, frozen=True):
    """What an instance waits for."""

    #: `timer`, `signal`, …
    kind: str
    #: Of a signal: its name.
    key: str
    since_ms: int
    #: When the wait ends even if nothing comes; None: never.
    until_ms: int | None = None
    #: More about it. Of a durable function: `waits`, a list of what its code waits for.
    data: Any = None


class InstanceView(msgspec.Struct, frozen=True):
    """One node in one scope."""

    scope: Scope
    status: NodeStatus
    #: Attempts started, as far as the history tells.
    attempt: int = 0
    output: bytes | None = None
    error: dict[str, Any] | None = None
    #: Why it is in this state, if the state alone does not tell.
    reason: str = ""
    started_ms: int | None = None
    ended_ms: int | None = None
    #: Number of the event that holds its output. 0: no event does.
    event: int = 0
    waiting_for: WaitView | None = None


class NodeView(msgspec.Struct, frozen=True):
    """A node: the status of the instance it shows, and all instances in the order of scopes."""

    node: str
    status: NodeStatus
    #: Of the instance shown.
    scope: Scope = ()
    attempts: int = 0
    #: Of the latest instance that has one.
    output: bytes | None = None
    error: dict[str, Any] | None = None
    reason: str = ""
    started_ms: int | None = None
    ended_ms: int | None = None
    instances: tuple[InstanceView, ...] = ()
    #: Number of the event that holds `output`. 0: there is none.
    event: int = 0
    #: Of the instance shown.
    waiting_for: WaitView | None = None
    #: Of a foreach: how many items its lists have, begun or not. None: no list is known yet.
    items: int | None = None


class Step(msgspec.Struct, frozen=True):
    """A node that ran: when its result was committed and where it went."""

    seq: int
    at_ms: int
    node: str
    scope: Scope
    outcome: str
    #: The instances that got a live delivery.
    to: tuple[tuple[str, Scope], ...] = ()


def node_views(
    program: Program,
    state: State,
    details: Mapping[Place, Detail] | None = None,
    leased: Set[Place] = frozenset(),
) -> dict[str, NodeView]:
    """Show every node of the plan, in the plan's order."""
    instances: dict[str, list[InstanceView]] = {}
    for place, token in sorted(state.tokens.items(), key=lambda item: decode(item[0][1])):
        detail = (details or {}).get(place) or Detail()
        instances.setdefault(token.node, []).append(_show(token, detail, place in leased))
    has_failed = (state.ends_as or state.status) == "FAILED"
    below = below_failure(program, state) if has_failed else frozenset()
    skipped = _decided_skips(program, state, instances)
    views: dict[str, NodeView] = {}
    for node in plan_nodes(program):
        if node.id in skipped:
            views[node.id] = NodeView(node.id, "SKIPPED", reason=ALL_SKIPPED)
            continue
        own = instances.get(node.id, [])
        if node.foreach is not None:
            own = _as_one(node, instances)
        view = _summarize(program, node, own, state, node.id in below)
        if node.foreach is not None:
            view = _with_items(node, view, instances)
        views[node.id] = view
    return views


def _with_items(
    node: Node, view: NodeView, instances: Mapping[str, list[InstanceView]]
) -> NodeView:
    """A node with a foreach: its instances are its items, and its lists say how many there are."""
    lists = [one.output for one in instances.get(items_id(node.id), []) if one.output is not None]
    count = sum(_read_count(output).count for output in lists) if lists else None
    items = instances.get(item_id(node.id)) or view.instances
    return msgspec.structs.replace(view, instances=tuple(items), items=count)


class _Count(msgspec.Struct):
    """What is of interest here in the output of a list (`Listed`); none if there could be none."""

    count: int = 0


_read_count = msgspec.json.Decoder(_Count).decode


def plan_nodes(program: Program) -> Iterator[Node]:
    """The nodes that the author wrote. One with a foreach is the node that gathers its items."""
    for node in program.plan.nodes:
        if HIDDEN not in node.id:
            yield node


def _as_one(node: Node, instances: Mapping[str, list[InstanceView]]) -> list[InstanceView]:
    """A node with a foreach in each of its scopes: its list, its items and their gathering."""
    # What the list gave is not what the node gives.
    found = {
        one.scope: msgspec.structs.replace(one, output=None, event=0)
        for one in instances.get(items_id(node.id), [])
    }
    items: dict[Scope, list[InstanceView]] = {}
    for one in instances.get(item_id(node.id), []):
        items.setdefault(one.scope[:-1], []).append(one)
    for scope, members in items.items():
        found[scope] = _combine(found[scope], members)
    for one in instances.get(node.id, []):
        before = found.get(one.scope, one)
        started_ms = before.started_ms if before.started_ms is not None else one.started_ms
        found[one.scope] = msgspec.structs.replace(one, started_ms=started_ms)
    return [one for _, one in sorted(found.items())]


def _combine(listed: InstanceView, items: list[InstanceView]) -> InstanceView:
    """The list of a foreach whose items have begun, seen as the author's node."""
    shown = min(items, key=lambda one: _ATTENTION.index(one.status))
    status = shown.status
    if status in ("QUEUED", "COMPLETED") and any(one.started_ms is not None for one in items):
        status = "RUNNING"
    return InstanceView(
        scope=listed.scope,
        status=status,
        attempt=1,
        error=shown.error,
        reason=shown.reason,
        started_ms=listed.started_ms,
        ended_ms=shown.ended_ms if status in ("FAILED", "CANCELLED") else None,
        # Of several items that wait, the first.
        waiting_for=shown.waiting_for,
    )


def _decided_skips(
    program: Program, state: State, instances: Mapping[str, list[InstanceView]]
) -> set[str]:
    """Nodes that no token has reached and that only skips can still reach."""
    decided = {
        name for name, all_of in instances.items() if all(one.status == "SKIPPED" for one in all_of)
    }
    found: set[str] = set()
    waiting = [target for name in decided for target in _below(program, name)]
    while waiting:
        name = waiting.pop()
        node = program.nodes[name]
        if name in found or name in instances or _is_in_each(program, node):
            continue
        scope = (0,) * len(node.nest)
        join = state.joins.get((name, encode(scope)))
        arrived = join.sources if join is not None else {}
        sources = program.sources(node, scope)
        if all(arrived[s] is False if s in arrived else s in decided for s in sources):
            found.add(name)
            decided.add(name)
            waiting += _below(program, name)
    return found


def _below(program: Program, name: str) -> Iterator[str]:
    # A patch may have removed a node whose token is still alive.
    node = program.nodes.get(name)
    for edge in node.edges if node is not None else ():
        if edge.roles != ("back",):
            yield edge.target


def _is_in_each(program: Program, node: Node) -> bool:
    """Whether the number of the node's instances is not known yet."""
    return any(program.plan.constructs[name] in ("each", "map") for name in node.nest)


def below_failure(program: Program, state: State) -> frozenset[str]:
    """The nodes that a failed node leads to."""
    waiting = [t.node for t in state.tokens.values() if (t.state, t.outcome) == ("dead", "failed")]
    found: set[str] = set()
    while waiting:
        for target in _below(program, waiting.pop()):
            if target not in found:
                found.add(target)
                waiting.append(target)
    return frozenset(found)


def token_status(token: TokenView, *, leased: bool = False) -> NodeStatus:
    """What a token's state means to people."""
    if token.skip:
        # It will not run: a worker only passes the skip on.
        return "SKIPPED"
    match token.state:
        case "done":
            return _DONE[token.outcome]
        case "dead":
            return _DEAD[token.outcome]
        case "waiting":
            return "WAITING"
        case _:
            return "RUNNING" if leased else "QUEUED"


def _show(token: TokenView, detail: Detail, leased: bool) -> InstanceView:
    status = token_status(token, leased=leased)
    begun = status not in ("QUEUED", "CANCELLED")
    return InstanceView(
        scope=decode(token.scope),
        status=status,
        attempt=0 if token.skip else token.attempt if begun else token.attempt - 1,
        output=token.output,
        error=detail.error,
        reason=_reason(token, detail, status),
        started_ms=detail.started_ms,
        ended_ms=detail.ended_ms,
        event=token.event if token.output is not None else 0,
        waiting_for=wait_view(token, detail),
    )


def _reason(token: TokenView, detail: Detail, status: NodeStatus) -> str:
    if status == "SKIPPED":
        return BY_HAND if detail.decided == "skip" else ALL_SKIPPED
    return _REASONS.get(token.outcome, "")


def wait_view(token: TokenView, detail: Detail) -> WaitView | None:
    """What a token waits for. None: it does not wait."""
    if token.state != "waiting":
        return None
    data = msgspec.json.decode(detail.wait_data)
    return WaitView(token.wait, token.wait_key, detail.wait_ms, token.due_ms, data)


def _summarize(
    program: Program, node: Node, instances: list[InstanceView], state: State, below: bool
) -> NodeView:
    if not instances:
        status, reason = _without_token(state, below)
        return NodeView(node.id, status, reason=reason)
    chosen = _choose(program, node, instances)
    latest = next((one for one in reversed(instances) if one.output is not None), None)
    return NodeView(
        node=node.id,
        status=chosen.status,
        scope=chosen.scope,
        attempts=chosen.attempt,
        output=latest.output if latest is not None else None,
        error=chosen.error,
        reason=chosen.reason,
        started_ms=chosen.started_ms,
        ended_ms=chosen.ended_ms,
        instances=tuple(instances),
        event=latest.event if latest is not None else 0,
        waiting_for=chosen.waiting_for,
    )


def _choose(program: Program, node: Node, instances: list[InstanceView]) -> InstanceView:
    """The latest iteration; of several arrivals, the one that most needs attention."""
    arrivals = [
        number for number, name in enumerate(node.nest) if program.plan.constructs[name] == "each"
    ]
    latest = {tuple(one.scope[number] for number in arrivals): one for one in instances}
    return min(latest.values(), key=lambda one: _ATTENTION.index(one.status))


def _without_token(state: State, below: bool) -> tuple[NodeStatus, str]:
    """What a node that was never reached shows."""
    status = state.ends_as or state.status
    if status not in TERMINAL:
        return "PENDING", ""
    if status == "COMPLETED":
        return "SKIPPED", "not_reached"
    if below:
        return "FAILED", "upstream_failed"
    return "CANCELLED", "run_ended"


def run_output(program: Program, state: State) -> Json:
    """The output of a run: from the document's `output`, else of each last completed node."""
    plan = program.plan
    latest: dict[str, TokenView] = {}
    for token in state.tokens.values():
        if (token.state, token.outcome) != ("done", "completed"):
            continue
        known = latest.get(token.node)
        if known is None or known.scope < token.scope:
            latest[token.node] = token
    if plan.output_node is not None:
        return _output(latest[plan.output_node]) if plan.output_node in latest else None
    if len(plan.nodes) == 1 and plan.nodes[0].type == FLOW:
        # What a durable function returns is what its run returns.
        return _output(latest[plan.nodes[0].id]) if latest else None
    return {name: _output(latest[name]) for name in plan.terminals if name in latest}


def shown_error(error: dict[str, Any] | None) -> dict[str, Any] | None:
    """Why a run failed, with the node that its author wrote."""
    if error is None or HIDDEN not in (error.get("node") or ""):
        return error
    return {**error, "node": author_of(error["node"])}


def _output(token: TokenView) -> Json:
    return None if token.output is None else msgspec.json.decode(token.output)


def path(events: Iterable[NumberedEvent]) -> list[Step]:
    """The path of a run: which nodes ran, in order, and where each result went.

    Skipped nodes did not run, and compensators are not part of the path. A large fan-out appears in
    parts, the first with the result. A node with a foreach appears once for each item, and then as
    itself.
    """
    steps = []
    for seq, at_ms, event in events:
        node = getattr(event, "node", "")
        if is_list(node) or node.endswith(UNDO):
            continue
        match event:
            case happened.NodeCompleted():
                outcome = "failed" if event.error is not None else "completed"
            case happened.NodeSent():
                outcome = "sent"
            case happened.NodeFailed():
                outcome = "failed"
            case _:
                continue
        sent = () if isinstance(event, happened.NodeFailed) else event.to
        to = tuple(
            (author_of(target), decode(scope)) for target, scope, live, *_ in sent if live % 2
        )
        steps.append(Step(seq, at_ms, author_of(event.node), decode(event.scope), outcome, to))
    return steps
