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

from minuet.kernel.program import Program, Send
from minuet.kernel.retry import retry_delay_ms
from minuet.kernel.route import Routing, route, route_failure
from minuet.plan.plan import Node, Plan
from minuet.types import Json, Scope

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


class Retried(msgspec.Struct, frozen=True, gc=False):
    """The attempt failed and is repeated later."""

    error: dict[str, Any]
    delay_ms: int


class NodeFailed(msgspec.Struct, frozen=True, gc=False):
    """The node failed, and so does the run."""

    error: dict[str, Any]
    dead_letter: str | None = None


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
) -> Settlement:
    """Decide what an outcome means for the run.

    `variables` are those of the node's conditions: `ctx`, `input`, `run` (`output` and
    `iteration` are added here). `fraction` in [0, 1) is the jitter of a retry.
    """
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


def _broken_limit(plan: Plan, node: Node, routing: Routing, hop: int) -> dict[str, Any] | None:
    """The limit that this routing exceeds, as an error. The smallest limit that applies counts."""
    # The hidden node that renders the output is not a step of the author: no limit counts it.
    live = len(routing.live) - (plan.output_node in routing.live)
    hops = hops_limit(plan, node)
    if (routing.back or live) and hop + 1 >= hops:
        return {
            "code": "exceeded_max_hops",
            "message": f"max_hops is {hops}: {hops} node instances have run one after the other, "
            f"the last of them {node.id!r}, and another would follow",
        }
    fanout = fanout_limit(plan, node)
    if live > fanout:
        return {
            "code": "exceeded_max_fanout",
            "message": f"max_fanout is {fanout}: node {node.id!r} would start {live} nodes at once",
        }
    return None


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
        return NodeFailed(failed.error, _dead_letter(program.plan, failed))
    limit = _broken_limit(program.plan, node, routing, hop)
    if limit is not None:
        return NodeFailed({**limit, "cause": failed.error}, "limit")
    sends = program.sends(node, scope, routing.live)
    # The event keeps where the error came from. The data that flows on does not.
    error = {name: value for name, value in failed.error.items() if name not in TRACE_FIELDS}
    return Sent("failed", sends, {"error": error}, failed.error, routing.notes)


def _dead_letter(plan: Plan, failed: AttemptFailed) -> str | None:
    """Why the token is kept as a dead letter, by the workflow's policy."""
    if failed.reason is not None:
        return failed.reason
    if not failed.retryable:
        return "non_retryable"
    return "max_retries_exceeded" if plan.dlq_policy == "all" else None
