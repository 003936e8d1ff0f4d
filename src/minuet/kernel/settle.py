"""What follows from the outcome of a node instance.

    outcome (of a handler)      ──►  settle  ──►  settlement (for the store)
    Succeeded, AttemptFailed, Skipped, Waiting    Sent, Retried, NodeFailed, Waiting

`settle` chooses the live targets (`route`), makes deliveries of them, and applies the limits.
A failure is retried, handled by the node's `on_error`, or breaks the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from minuet.events import Place
from minuet.kernel.program import Program, Send, Way
from minuet.kernel.retry import retry_delay_ms
from minuet.kernel.route import HUMAN, REJECTED, Routing, route, route_failure
from minuet.kernel.scope import decode, encode
from minuet.plan.plan import UNDO_TYPE, Node, Plan
from minuet.types import UNDO, Json, Scope

#: Deliveries in one exchange. A larger fan-out is sent in parts under the same token.
SENDS_PER_EXCHANGE_MAX = 2_000

#: Default limit of node instances one after another: far above any real workflow, and a stop
#: for one that feeds itself. A token's hop is the number of instances before it.
HOPS_MAX = 100_000

#: Fields of an error that name its place in the code.
TRACE_FIELDS = frozenset({"traceback", "cause", "errors"})

#: Default limit of live deliveries of one node.
FANOUT_MAX = 100_000


class Succeeded(msgspec.Struct, frozen=True, gc=False):
    """The handler returned."""

    output: Json


class AttemptFailed(msgspec.Struct, frozen=True, gc=False):
    """The handler raised, timed out, could not be found or kept killing its workers."""

    error: dict[str, Any]
    retryable: bool = False
    #: The minimum delay before the next attempt, if the failure asked for one.
    after_ms: int | None = None
    #: Why it becomes a dead letter, if the reason is not that it is final.
    reason: str | None = None


class Skipped(msgspec.Struct, frozen=True, gc=False):
    """No live delivery reached the node."""


class Waiting(msgspec.Struct, frozen=True, gc=False):
    """The node waits for something outside."""

    kind: str
    key: str = ""
    due_ms: int | None = None
    delay_ms: int | None = None
    data: Json = None


Outcome: TypeAlias = Succeeded | AttemptFailed | Skipped | Waiting


class Sent(msgspec.Struct, frozen=True, gc=False):
    """The token is settled, with these deliveries."""

    outcome: Literal["completed", "skipped", "failed"]
    sends: tuple[Send, ...]
    #: The output, or `{"error": …}` when a failure was handled.
    output: Json = None
    error: dict[str, Any] | None = None
    notes: list[Any] | None = None
    #: How many deliveries have been sent after these. None: all.
    cursor: int | None = None
    #: Why the token is kept as a dead letter although the run goes on.
    dead_letter: str | None = None


class Retried(msgspec.Struct, frozen=True, gc=False):
    """The attempt failed and is repeated later."""

    error: dict[str, Any]
    delay_ms: int


class NodeFailed(msgspec.Struct, frozen=True, gc=False):
    """The node failed, and so does the run; or it is held until somebody decides."""

    error: dict[str, Any]
    dead_letter: str | None = None
    hold: bool = False


class Items(msgspec.Struct, frozen=True, gc=False):
    """The items of a foreach. Both numbers are kept with the list: every worker that settles an
    item, on any plan of the run, must issue the same one next."""

    count: int
    #: How many of them are alive at once.
    window: int


class UndoList(msgspec.Struct, frozen=True, array_like=True):
    """What is to be undone: the output of the hidden node that lists it (`kernel.undo`)."""

    #: Which list of this undo of the run it is, from 0.
    part: int
    #: Hidden nodes and the scopes of their instances, in the order in which they run.
    instances: tuple[Place, ...] = ()
    #: Whether another list follows.
    more: bool = False

    def after(self, place: Place) -> Place | None:
        """What runs after an instance; None: it is the last one."""
        at = self.instances.index(place) + 1
        return self.instances[at] if at < len(self.instances) else None


Settlement: TypeAlias = Sent | Retried | NodeFailed | Waiting


def settle(
    program: Program,
    node: Node,
    scope: Scope,
    outcome: Outcome,
    *,
    variables: Mapping[str, Json],
    attempt: int = 1,
    hop: int = 0,
    cursor: int = 0,
    fraction: float = 0.0,
    items: Items | None = None,
    undos: UndoList | None = None,
) -> Settlement:
    """Decide what an outcome means for the run.

    `variables` are those of the node's conditions: `ctx`, `input`, `run` (`output` and
    `iteration` are added here). `fraction` in [0, 1) is the jitter of a retry. `items` are those
    of a foreach, if the node is its list or one of them and that can be known; `undos` likewise
    what is being undone.
    """
    if node.undoes or node.type == UNDO_TYPE:
        return _settle_undo(program, node, scope, outcome, attempt, fraction, undos)
    if node.foreach is not None and node.foreach.role != "gather":
        return _settle_part(program, node, scope, outcome, attempt, hop, fraction, items)
    match outcome:
        case Waiting():
            return outcome
        case Skipped():
            return Sent("skipped", program.sends(node, scope, ()))
        case AttemptFailed():
            return _settle_failure(program, node, scope, outcome, attempt, hop, fraction)
    routing = route(program, node, scope, outcome.output, variables)
    if routing.error is not None:
        failed = AttemptFailed(routing.error)
        return _settle_failure(program, node, scope, failed, attempt, hop, fraction)
    limit = _broken_limit(program.plan, node, routing, hop)
    if limit is not None:
        return NodeFailed(limit, "limit")
    if routing.back:
        sends = program.send_back(node, scope)
    else:
        sends = program.sends(node, scope, routing.live)
    rest: int | None = None
    if len(sends) > SENDS_PER_EXCHANGE_MAX:
        end = cursor + SENDS_PER_EXCHANGE_MAX
        rest = end if end < len(sends) else None
        sends = sends[cursor:end]
    return Sent("completed", sends, outcome.output, None, routing.notes, rest)


def pass_on(program: Program, node: Node, hop: int) -> tuple[Send, ...] | None:
    """What `settle` sends when a node outside all loops has succeeded and always leads to the same
    nodes, as almost every one does: found once per plan. None: `settle` must decide."""
    try:
        way = program.ways[node.id]
    except KeyError:
        way = program.ways[node.id] = _find_way(program, node)
    return None if way is None or hop >= way.hops else way.sends


def _find_way(program: Program, node: Node) -> Way | None:
    decides = node.branch is not None or node.loop is not None or node.foreach is not None
    if decides or node.undoes or node.type in (UNDO_TYPE, HUMAN):
        return None
    plan, live = program.plan, program.static_targets(node)
    sends = program.sends(node, (), live)
    if len(sends) > min(SENDS_PER_EXCHANGE_MAX, fanout_limit(plan, node)):
        return None
    return Way(sends, hops_limit(plan, node) - 1)


def _settle_part(
    program: Program,
    node: Node,
    scope: Scope,
    outcome: Outcome,
    attempt: int,
    hop: int,
    fraction: float,
    items: Items | None,
) -> Settlement:
    """Decide what an outcome of the list of a foreach, or of an item, means. Both lead only to the
    node that gathers."""
    if isinstance(outcome, Waiting):
        return outcome
    each = node.foreach
    assert each is not None
    if isinstance(outcome, AttemptFailed):
        return _settle_failed_part(program, node, scope, outcome, attempt, hop, fraction, items)
    sends: tuple[Send, ...]
    if each.role == "items":
        if isinstance(outcome, Skipped):
            skip = program.reach_gather(node, scope, 0, live=False, is_list=True)
            return Sent("skipped", (skip,))
        items = items or list_items(node, len(outcome.output))
        limit = _broken_fanout(program.plan, node, items.count)
        sends = () if limit else program.start_items(node, scope, items.count, items.window)
    else:
        if items is None:
            return NodeFailed(_UNKNOWN_ITEMS, "non_retryable")
        limit = None
        live = not isinstance(outcome, Skipped)
        count, window = items.count, items.window
        sends = (program.reach_gather(node, scope, count, live=live, window=window),)
        if not live:
            return Sent("skipped", sends)
    assert isinstance(outcome, Succeeded)
    limit = limit or _broken_hops(program.plan, node, hop)
    if limit is not None:
        return NodeFailed(limit, "limit")
    return Sent("completed", sends, outcome.output)


def _settle_undo(
    program: Program,
    node: Node,
    scope: Scope,
    outcome: Outcome,
    attempt: int,
    fraction: float,
    undos: UndoList | None,
) -> Settlement:
    """Decide what an outcome means for the undo of a run: whatever it is, the next one follows."""
    if isinstance(outcome, Waiting):
        return outcome
    if isinstance(outcome, AttemptFailed):
        delay_ms = retry_delay_ms(node.retry, attempt, outcome, fraction)
        if delay_ms is not None:
            return Retried(outcome.error, delay_ms)
        if undos is None:
            return NodeFailed(outcome.error, "non_retryable")
    elif undos is None:
        return NodeFailed(_UNKNOWN_UNDOS, "non_retryable")
    place: Place | None
    if node.undoes:
        number = scope[-1]
        place = undos.after((node.id, encode(scope)))
    else:
        number = scope[0]
        place = undos.instances[0] if undos.instances else None
    if place is not None:
        sends: tuple[Send, ...] = (program.start_undo(place[0], decode(place[1])),)
    elif undos.more:
        sends = (program.start_undo(UNDO, (number, undos.part + 1)),)
    else:
        sends = ()
    if isinstance(outcome, AttemptFailed):
        reason = outcome.reason
        if reason is None:
            reason = "max_retries_exceeded" if outcome.retryable else "non_retryable"
        output = {"error": _shown(outcome.error)}
        return Sent("failed", sends, output, outcome.error, dead_letter=reason)
    if isinstance(outcome, Skipped):
        return Sent("skipped", sends)
    return Sent("completed", sends, outcome.output)


_UNKNOWN_UNDOS = {
    "code": "undo_list_lost",
    "message": "the list of what to undo cannot be read, so what follows is not known",
}


def is_undo(node: str) -> bool:
    """Whether a node is one of those that undo, or lists what to undo."""
    return node.endswith(UNDO)


def list_items(node: Node, count: int) -> Items:
    """How many items of a list are alive at once: they are started in one exchange."""
    assert node.foreach is not None
    most = max(SENDS_PER_EXCHANGE_MAX - 1, 1)
    return Items(count, min(node.foreach.max_parallel or count, count, most))


_UNKNOWN_ITEMS = {
    "code": "foreach_list_lost",
    "message": "the list of the foreach cannot be read, so what follows this item is not known",
}


def _settle_failed_part(
    program: Program,
    node: Node,
    scope: Scope,
    failed: AttemptFailed,
    attempt: int,
    hop: int,
    fraction: float,
    items: Items | None,
) -> Settlement:
    delay_ms = retry_delay_ms(node.retry, attempt, failed, fraction)
    if delay_ms is not None:
        return Retried(failed.error, delay_ms)
    each = node.foreach
    assert each is not None
    handled = program.nodes[each.node].on_error != "fail"
    if each.role == "items":
        if not handled:
            return _fail(program.plan, node, failed)
        # The node that gathers fails with this error, and its `on_error` says what follows.
        send = program.reach_gather(node, scope, 0, is_list=True)
    elif items is None or (each.on_item_error == "fail" and not handled):
        return _fail(program.plan, node, failed)
    else:
        fails = each.on_item_error == "fail"
        # Only successes are live: `need` counts them.
        send = program.reach_gather(
            node, scope, items.count, live=False, at_once=fails, window=items.window
        )
    limit = _broken_hops(program.plan, node, hop)
    if limit is not None:
        return NodeFailed({**limit, "cause": failed.error}, "limit")
    return Sent("failed", (send,), {"error": _shown(failed.error)}, failed.error)


def _shown(error: dict[str, Any]) -> dict[str, Any]:
    """An error as the data that flows on. Where it came from stays in the event."""
    return {name: value for name, value in error.items() if name not in TRACE_FIELDS}


def _broken_limit(plan: Plan, node: Node, routing: Routing, hop: int) -> dict[str, Any] | None:
    """The limit that this routing exceeds, as an error. The smallest limit that applies counts."""
    # The hidden node that renders the output is not a step of the author: no limit counts it.
    live = len(routing.live) - (plan.output_node in routing.live)
    broken = _broken_hops(plan, node, hop) if routing.back or live else None
    return broken or _broken_fanout(plan, node, live)


def _broken_hops(plan: Plan, node: Node, hop: int) -> dict[str, Any] | None:
    hops = hops_limit(plan, node)
    if hop + 1 < hops:
        return None
    name = node.id if node.foreach is None else node.foreach.node
    return {
        "code": "exceeded_max_hops",
        "message": f"max_hops is {hops}: {hops} node instances have run one after the other, "
        f"the last of them {name!r}, and another would follow",
    }


def _broken_fanout(plan: Plan, node: Node, count: int) -> dict[str, Any] | None:
    fanout = fanout_limit(plan, node)
    if count <= fanout:
        return None
    name, what = node.id, "nodes at once"
    if node.foreach is not None and node.foreach.role == "items":
        name, what = node.foreach.node, "items"
    remedy = "it can be raised in the limits of the node or the workflow"
    if fanout == FANOUT_MAX:
        remedy = "it cannot be higher; child runs can each take a part"
    return {
        "code": "exceeded_max_fanout",
        "message": f"node {name!r} would start {count:,} {what}, and max_fanout is {fanout:,}: "
        f"{remedy}",
    }


def hops_limit(plan: Plan, node: Node) -> int:
    """The hop that no token after this node may reach, except the one that renders the output."""
    return _smallest(node.max_hops, plan.max_hops, HOPS_MAX)


def fanout_limit(plan: Plan, node: Node) -> int:
    """How many nodes this node may start at once."""
    return _smallest(node.max_fanout, plan.max_fanout, FANOUT_MAX)


def _smallest(own: int | None, plans: int | None, limit: int) -> int:
    if own is not None and own < limit:
        limit = own
    return plans if plans is not None and plans < limit else limit


def _settle_failure(
    program: Program,
    node: Node,
    scope: Scope,
    failed: AttemptFailed,
    attempt: int,
    hop: int,
    fraction: float,
) -> Settlement:
    """Retry, or let the node's `on_error` handle it, or break the run."""
    delay_ms = retry_delay_ms(node.retry, attempt, failed, fraction)
    if delay_ms is not None:
        return Retried(failed.error, delay_ms)
    routing = route_failure(node)
    if routing is None:
        return _fail(program.plan, node, failed)
    limit = _broken_limit(program.plan, node, routing, hop)
    if limit is not None:
        return NodeFailed({**limit, "cause": failed.error}, "limit")
    sends = program.sends(node, scope, routing.live)
    return Sent("failed", sends, {"error": _shown(failed.error)}, failed.error, routing.notes)


def _fail(plan: Plan, node: Node, failed: AttemptFailed) -> NodeFailed:
    """The node fails for good, and nothing handles it."""
    reason = _dead_letter(plan, node, failed)
    return NodeFailed(failed.error, reason, node.hold and reason is not None)


def _dead_letter(plan: Plan, node: Node, failed: AttemptFailed) -> str | None:
    """Why the token is kept as a dead letter, by the workflow's policy. What is held always is:
    that is where people find it."""
    if failed.reason is not None:
        return failed.reason
    if failed.error.get("code") == REJECTED:
        # Somebody decided so: there is nothing to examine.
        return None
    if not failed.retryable:
        return "non_retryable"
    return "max_retries_exceeded" if plan.dlq_policy == "all" or node.hold else None
