"""`app.runs.preview`: what a change of a run would do, without doing it.

The change is made in a copy of the run, in a store in memory, by the same rules; the difference is
the answer. What follows in the graph is read from the plan: which way a branch takes is known only
when its node has run.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import msgspec

from minuet.app.repairing import change_run
from minuet.app.tenant import Engine, Tenant
from minuet.bridge.history import HistoryReader
from minuet.bridge.snapshot import events_of
from minuet.bridge.undo import rollback
from minuet.clock import Clock
from minuet.errors import InputError, RunConflictError, RunNotFoundError
from minuet.kernel.explain.answer import find_node
from minuet.kernel.program import Program, targets
from minuet.kernel.scope import decode, show
from minuet.kernel.undo import left_to_undo
from minuet.plan.plan import author_of, item_id, items_id
from minuet.store.base import Store
from minuet.store.changes import Cancel
from minuet.store.memory.store import MemoryStore
from minuet.store.records import APPROVAL_WAIT, DEFAULT_TENANT, LIVE_STATES, Run, Token
from minuet.types import OPEN

if TYPE_CHECKING:
    from minuet.app.runs import Runs

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
ACTIONS: tuple[PreviewAction, ...] = get_args(PreviewAction)

#: Those that are about a node, and those after which the run goes on behind it.
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


async def preview(
    runs: Runs,
    tenant: Tenant,
    run_id: str,
    action: PreviewAction,
    *,
    node: str | None,
    data: Any,
    name: str | None,
    to: str | None,
) -> Consequences:
    """What a change would do to a run."""
    _check_given(action, node, name)
    run = await runs.get(run_id)
    program = await runs.program(run_id, run.plan)
    before = await tenant.store.read_snapshot(tenant.name, run_id)
    if before is None:
        raise RunNotFoundError(run_id)
    history = events_of(before)
    if node is not None:
        find_node(program, node)
    undone: tuple[str, ...] = ()
    try:
        if action in ("approve", "reject"):
            assert node is not None
            where = _waiting_for_people(run_id, program, before.tokens, node)
            return _decided(program, action, where, run.status)
        async with _Copied(tenant) as copy:
            await copy.store.put_run(tenant.name, before, None)
            if action == "rollback":
                rollback(program, history, run, to)
                undone = _names(left_to_undo(program, history, to or ""))
            after_run = await _change(copy, run_id, action, node, data, name, to)
            tokens = await copy.store.read_tokens(tenant.name, run_id)
    except RunConflictError as error:
        return Consequences(action, False, str(error), run.status)
    known = {token.key: token for token in before.tokens}
    ready: list[Token] = []
    cut_off: list[Token] = []
    #: Those whose output somebody has decided: no handler runs for them.
    touched: list[Token] = []
    for token in tokens:
        old = known.get(token.key)
        was_live = old is not None and old.state in LIVE_STATES
        if token.state == "ready" and not token.lane:
            if old is None or old.state != "ready" or old.lane:
                (touched if token.given or token.skip else ready).append(token)
            elif token.given or token.skip:
                touched.append(token)
        elif was_live and token.state == "dead":
            cut_off.append(token)
    if after_run.status == "COMPENSATING" and action == "cancel":
        undone = _names(left_to_undo(program, history))
    skipped, following = _following(program, action, ready, touched)
    children: list[Run] = []
    if action == "cancel" and run.children:
        reader = HistoryReader(tenant.store, tenant.name)
        children = [one for one in await reader.children(run, program) if one.status in OPEN]
    return Consequences(
        action,
        True,
        "",
        after_run.status,
        _names((token.node, token.scope) for token in ready),
        _names((token.node, token.scope) for token in cut_off),
        undone,
        skipped,
        following,
        _ahead(program, following),
        tuple(child.run for child in children),
    )


class _Copied:
    """The tenant of a store in memory."""

    def __init__(self, tenant: Tenant) -> None:
        engine = tenant.engine
        options = msgspec.structs.replace(
            engine.options, worker=False, handlers=(), webhooks=(), tune_process=False
        )
        store = CopyStore(tenant.store, engine.clock)
        self._engine = Engine(store, options, engine.clock, engine.ids)
        self._name = tenant.name

    async def __aenter__(self) -> Tenant:
        await self._engine.open()
        return self._engine.tenant(self._name)

    async def __aexit__(self, *error: object) -> None:
        await self._engine.close()


async def _change(
    copy: Tenant,
    run_id: str,
    action: PreviewAction,
    node: str | None,
    data: Any,
    name: str | None,
    to: str | None,
) -> Any:
    """Do it, in the copy."""
    from minuet.app.runs import Runs
    from minuet.app.workers import Workers
    from minuet.app.workflows import Workflows

    runs = Runs(copy, Workflows(copy), Workers(copy))
    match action:
        case "cancel":
            # Not by the verb, which logs that a run has ended.
            return await change_run(copy, run_id, Cancel())
        case "signal":
            return await runs.signal(run_id, name or "", data)
        case "rollback":
            return await runs.rollback(run_id, to=to)
        case "skip" | "take_back":
            return await getattr(runs, action)(run_id, node)
        case "set_output":
            return await runs.set_output(run_id, node or "", data)
        case _:
            return await getattr(runs, action)(run_id)


def _check_given(action: PreviewAction, node: str | None, name: str | None) -> None:
    if action in ABOUT_NODES and node is None:
        raise InputError([f"node: {action} is about a node: name it"], argument="node")
    if action == "signal" and name is None:
        raise InputError(["name: name the signal"], argument="name")


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
    program: Program, action: PreviewAction, ready: list[Token], touched: list[Token]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Nodes that are skipped, and nodes that can come next."""
    if action in ("pause", "resume", "cancel", "rollback"):
        return (), ()
    if action == "skip":
        return _skipped(program, {author_of(token.node) for token in touched})
    sources = touched if action == "set_output" else ready
    found: dict[str, None] = {}
    for token in sources:
        node = program.nodes[author_of(token.node)]
        for edge in node.edges:
            if "error" not in edge.roles or len(edge.roles) > 1:
                found[edge.target] = None
    return (), _authored(program, found)


def _skipped(program: Program, begun: set[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What is skipped with some nodes: nodes to which nothing else leads; and what comes then."""
    gone = set(begun)
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
    named = tuple(one for one in dict.fromkeys(order) if one in gone - begun)
    return _authored(program, named), _authored(program, sorted(reached, key=order.index))


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
