"""What a change of a run would do: compare its rows before and after it, made in a copy.

What follows in the graph is read from the plan: which way a branch takes is known only when its
node has run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

import msgspec

from minuet.bridge.snapshot import events_of
from minuet.clock import Clock
from minuet.errors import RunConflictError
from minuet.kernel.explain.answer import find_node
from minuet.kernel.program import Program, targets
from minuet.kernel.scope import decode, show
from minuet.kernel.undo import left_to_undo
from minuet.plan.plan import author_of, item_id, items_id
from minuet.store.base import Store
from minuet.store.memory import MemoryStore
from minuet.store.records import (
    APPROVAL_WAIT,
    DEFAULT_TENANT,
    LIVE_STATES,
    Run,
    Snapshot,
    Token,
)

PreviewAction: TypeAlias = Literal[
    "cancel",
    "pause",
    "resume",
    "retry",
    "rollback",
    "signal",
    "skip",
    "set_output",
    "take_back",
    "approve",
    "reject",
]

#: Those that are about a node.
ABOUT_NODES = ("skip", "set_output", "take_back", "approve", "reject")

#: Instances that are named in each list.
NAMED_MAX = 1_000


class Consequences(msgspec.Struct, frozen=True):
    """What a change of a run would do."""

    action: PreviewAction
    is_allowed: bool
    #: Why it would be refused.
    why: str = ""
    #: What the run would be right afterwards.
    status: str = ""
    #: Instances that would be ready to run, and those that would be cut off.
    ready: tuple[str, ...] = ()
    cut_off: tuple[str, ...] = ()
    #: Instances that would be undone, the first one first.
    undone: tuple[str, ...] = ()
    #: Nodes that would be skipped with the one that is skipped.
    skipped: tuple[str, ...] = ()
    #: Nodes that can come next, and all that can come after them.
    next: tuple[str, ...] = ()
    ahead: tuple[str, ...] = ()
    #: Open child runs that would be cancelled.
    children: tuple[str, ...] = ()


class CopyStore(MemoryStore):
    """A copy of one run, to try something. Large values are read from where they are."""

    def __init__(self, behind: Store, clock: Clock) -> None:
        super().__init__(clock)
        self._behind = behind

    async def get_blob(
        self, ref: str, *, run: str | None = None, tenant: str = DEFAULT_TENANT
    ) -> bytes | None:
        found = await super().get_blob(ref, run=run, tenant=tenant)
        return found or await self._behind.get_blob(ref, run=run, tenant=tenant)


def decide(program: Program, before: Snapshot, action: PreviewAction, node: str) -> Consequences:
    """What a decision of people leads to; RunConflictError if nobody is asked."""
    token = _waiting_for_people(before.run.run, program, before.tokens, node)
    return _decided(program, action, token, before.run.status)


def compare(
    program: Program,
    before: Snapshot,
    run: Run,
    tokens: Sequence[Token],
    action: PreviewAction,
    back_to: str = "",
) -> Consequences:
    """What has become of a run and its tokens."""
    known = {token.key: token for token in before.tokens}
    ready: list[Token] = []
    cut_off: list[Token] = []
    #: Those whose output somebody has decided: no handler runs for them.
    touched: list[Token] = []
    for token in tokens:
        old = known.get(token.key)
        if token.state == "ready" and not token.lane:
            if token.given or token.skip:
                touched.append(token)
            elif old is None or old.state != "ready" or old.lane:
                ready.append(token)
        elif token.state == "dead" and old is not None and old.state in LIVE_STATES:
            cut_off.append(token)
    undone: tuple[str, ...] = ()
    if run.status == "COMPENSATING":
        undone = _names(left_to_undo(program, events_of(before), back_to))
    skipped, following = _following(program, action, ready, touched, tokens)
    return Consequences(
        action,
        True,
        "",
        run.status,
        _names((token.node, token.scope) for token in ready),
        _names((token.node, token.scope) for token in cut_off),
        undone,
        skipped,
        following,
        _ahead(program, following),
    )


def _waiting_for_people(run_id: str, program: Program, tokens: Iterable[Token], name: str) -> Token:
    """The instance of a node that waits for a decision."""
    node, scope = find_node(program, name)
    parts = {node.id, item_id(node.id), items_id(node.id)}
    for token in tokens:
        waits = token.state == "waiting" and token.wait == APPROVAL_WAIT
        if waits and token.node in parts and scope in (None, decode(token.scope)):
            return token
    raise RunConflictError(run_id, f"node {name!r} does not wait for a decision")


def _decided(program: Program, action: PreviewAction, token: Token, status: str) -> Consequences:
    """What a decision leads to."""
    node = program.nodes[author_of(token.node)]
    roles = ("static", "branch", "break") if action == "approve" else ("reject",)
    following = _authored(program, targets(node, *roles))
    human = program.nodes[token.node].extra.get("human_config") or {}
    if action == "reject" and not following and human.get("on_reject") != "complete":
        status = "FAILED"
    return Consequences(action, True, "", status, next=following, ahead=_ahead(program, following))


def _following(
    program: Program,
    action: PreviewAction,
    ready: list[Token],
    touched: list[Token],
    tokens: Sequence[Token],
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Nodes that are skipped, and nodes that can come next."""
    if action in ("pause", "resume", "cancel", "rollback"):
        return (), ()
    if action == "skip":
        begun = {author_of(token.node) for token in touched}
        others = {author_of(token.node) for token in tokens if token.outcome != "skipped"}
        before = {author_of(token.node) for token in tokens} - others - begun
        return _skipped(program, begun, before)
    sources = touched if action == "set_output" else ready
    found: dict[str, None] = {}
    for token in sources:
        node = program.nodes[author_of(token.node)]
        for edge in node.edges:
            if "error" not in edge.roles or len(edge.roles) > 1:
                found[edge.target] = None
    return (), _authored(program, found)


def _skipped(
    program: Program, begun: set[str], before: set[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What is skipped with some nodes: nodes to which nothing leads but these and those that were
    skipped before; and what comes then."""
    gone = begun | before
    edges = [
        (author_of(node.id), author_of(edge.target))
        for node in program.plan.nodes
        for edge in node.edges
        if edge.roles != ("back",) and author_of(node.id) != author_of(edge.target)
    ]
    while True:
        reached = {target for source, target in edges if source in gone} - gone
        more = {one for one in reached if all(source in gone for source, to in edges if to == one)}
        if not more:
            break
        gone |= more
    order = [author_of(node.id) for node in program.plan.nodes]
    named = tuple(one for one in dict.fromkeys(order) if one in gone - begun - before)
    following = {target for source, target in edges if source in gone - before} - gone
    return _authored(program, named), _authored(program, sorted(following, key=order.index))


def _ahead(program: Program, begun: Iterable[str]) -> tuple[str, ...]:
    """All nodes that can be reached from some."""
    following: dict[str, list[str]] = {}
    for node in program.plan.nodes:
        known = following.setdefault(author_of(node.id), [])
        known += [author_of(edge.target) for edge in node.edges if edge.roles != ("back",)]
    found: dict[str, None] = {}
    waiting = list(begun)
    while waiting:
        one = waiting.pop()
        if one not in found:
            found[one] = None
            waiting += following.get(one, ())
    order = [author_of(node.id) for node in program.plan.nodes]
    return _authored(program, sorted(found, key=order.index))


def _authored(program: Program, names: Iterable[str]) -> tuple[str, ...]:
    """Nodes that an author wrote, each once."""
    hidden = program.plan.output_node
    return tuple(dict.fromkeys(author_of(one) for one in names if one != hidden))


def _names(places: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    found = dict.fromkeys(author_of(node) + show(decode(scope)) for node, scope in places)
    return tuple(found)[:NAMED_MAX]
