"""Find the node instance of a run that somebody means, if it can still be changed."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from minuet.errors import RunConflictError
from minuet.kernel.explain.answer import find_node, no_instance
from minuet.kernel.program import Program
from minuet.kernel.scope import decode, show
from minuet.plan.plan import author_of, is_list, item_id, items_id
from minuet.store.records import LIVE_STATES, Run, Token

#: Instances that are named when several could be meant.
NAMED_MAX = 5

#: Why an instance that has settled cannot be changed, by its outcome.
_SETTLED = {
    "completed": "has completed",
    "skipped": "was skipped",
    "failed": "failed, and its on_error went on",
    "superseded": "was withdrawn by a join",
    "cancelled": "was cut off when the run ended",
}


class Instance(msgspec.Struct, frozen=True):
    """A node instance that can be changed, and what its plan says about it."""

    #: As the store names it.
    node: str
    scope: str
    #: As people do: `check[2]`.
    name: str
    #: It is an item of a foreach, or the list of one.
    is_item: bool
    is_list: bool
    output_bytes_max: int | None
    #: How much time the plan gives a generation of its run.
    deadline_ms: int | None


def find_open(program: Program, run: Run, tokens: Iterable[Token], name: str) -> Instance:
    """The only instance of a node that has not settled, or whose failure ended the run.

    RunError when there is no such node, RunConflictError when there is no such instance, or
    several.
    """
    node, scope = find_node(program, name)
    parts = {node.id, item_id(node.id), items_id(node.id)}
    known = [t for t in tokens if t.node in parts and scope in (None, decode(t.scope))]
    found = [token for token in known if _is_open(run, token)]
    if len(found) == 1:
        return _instance(program, found[0])
    if found:
        names = ", ".join(map(_name, found[:NAMED_MAX]))
        more = f" and {len(found) - NAMED_MAX} more" if len(found) > NAMED_MAX else ""
        message = f"has several open instances of node {node.id!r}: name one of {names}{more}"
    elif known:
        message = f"is {run.status}, and node {_name(known[-1])} {_SETTLED[known[-1].outcome]}"
    elif scope is not None:
        raise no_instance(node.id, scope, [])
    else:
        message = f"is {run.status}, and has not reached node {node.id!r}"
    raise RunConflictError(run.run, message, status=run.status, seq=run.seq)


def check_named(program: Program, name: str) -> None:
    """NodeNotFoundError unless a plan has this node."""
    find_node(program, name)


def _is_open(run: Run, token: Token) -> bool:
    has_failed = (token.state, token.outcome) == ("dead", "failed")
    return token.state in LIVE_STATES or (run.status == "FAILED" and has_failed)


def _instance(program: Program, token: Token) -> Instance:
    node, plan = program.nodes[token.node], program.plan
    limits = [most for most in (node.max_output_bytes, plan.max_output_bytes) if most is not None]
    return Instance(
        token.node,
        token.scope,
        _name(token),
        node.foreach is not None and node.foreach.role == "item",
        is_list(token.node),
        min(limits, default=None),
        plan.deadline_ms,
    )


def _name(token: Token) -> str:
    return author_of(token.node) + show(decode(token.scope))
