"""Stubs and failures of a play: they become stand-ins for nodes, by workflow and node.

A key of `handlers` is a node's id, the name of a handler or a node type. It stands for all nodes
that it names. If several keys name one node, its id wins over its handler, and its handler over
its type.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from minuet.errors import HandlerError, InputError
from minuet.functions.approval import APPROVAL_NODE
from minuet.kernel.scope import read_reference, show
from minuet.model import Document
from minuet.model.workflow import Node
from minuet.nodes.catalog import NODE_TYPES
from minuet.nodes.context import Context
from minuet.nodes.handler import Handlers, Task
from minuet.nodes.registered import binding_of
from minuet.nodes.spec import Call, Kind, NodeType
from minuet.nodes.stand_in import StandIn, StepStandIn, of_task, real_one
from minuet.plan.child import find_inner
from minuet.plan.plan import AGENT, FLOW, Plan, authored, undo_id
from minuet.plan.plan import Node as PlannedNode
from minuet.plan.policy import agent_fields
from minuet.types import TYPE_QUEUE, UNDO

#: What a node raises: an exception, its class, or a message.
Failure: TypeAlias = BaseException | type[BaseException] | str

#: Why a node of a kind has no stub.
_NO_HANDLER = (
    "it is a {type} node, which has no handler: Minuet computes it in a play as in any other run"
)


class Spot(NamedTuple):
    """A node of one of the workflows that are played."""

    workflow: str
    node: Node | PlannedNode

    @property
    def place(self) -> tuple[str, str]:
        return (self.workflow, self.node.id)

    @property
    def names(self) -> tuple[str, ...]:
        """What a stub may name it by; the first wins."""
        handler = (self.node.handler,) if self.node.handler is not None else ()
        return (self.node.id, *handler, self.node.type)

    def kind(self, handlers: Handlers) -> Kind:
        found = NODE_TYPES.get(self.node.type) or handlers.find_type(self.node.type)
        return found.kind if found is not None else "registered"


def spots_of(documents: Iterable[Document]) -> list[Spot]:
    """All nodes of these documents and their compensators, and of those that are written inside
    them."""
    return [
        Spot(one.workflow.name, spot)
        for document in documents
        for one in _with_inner(document)
        for node in one.workflow.nodes
        for spot in (node, *_undo_of(node))
    ]


def _undo_of(node: Node) -> Iterator[Node]:
    """The compensator of a node as a node of its own."""
    if node.compensator is not None:
        own = node.compensator.config
        yield Node(
            id=undo_id(node.id),
            handler=node.compensator.handler,
            config=node.config if own is None else own,
            config_ref=node.config_ref if own is None else None,
        )


def spots_of_plan(plan: Plan) -> list[Spot]:
    """All nodes of a plan that an author wrote, and their compensators."""
    return [Spot(plan.name, node) for node in (*authored(plan), *plan.undos)]


def _with_inner(document: Document) -> Iterator[Document]:
    yield document
    for _, inner in find_inner(document):
        # What cannot be read is reported when the document is compiled.
        if isinstance(inner, Document):
            yield from _with_inner(inner)


class Stubs:
    """Puts the stand-ins of a play into the handlers of its App."""

    def __init__(self, spots: Sequence[Spot], handlers: Handlers) -> None:
        self._spots = spots
        self._handlers = handlers

    def put(
        self,
        stubs: Mapping[str, Any],
        failures: Mapping[str, Failure | Sequence[Failure]],
        decisions: Mapping[str, Any],
    ) -> None:
        """Check the keys, then have the stand-ins called; InputError with what is wrong."""
        self._check_stubs(stubs)
        self._check_failures(failures)
        self._check_decisions(decisions)
        for spot in self._spots:
            key = next((name for name in spot.names if name in stubs), None)
            made = None if key is None else self._make(spot, key, stubs[key])
            failing = {
                key: failure
                for key, failure in failures.items()
                if read_reference(key)[0] == spot.node.id
            }
            if failing:
                made = _failing(made or self._real(spot), failing)
            if made is not None:
                self._handlers.stand_ins[spot.place] = made
        self._put_steps(stubs, failures)
        self._add_names()

    def _put_steps(
        self, stubs: Mapping[str, Any], failures: Mapping[str, Failure | Sequence[Failure]]
    ) -> None:
        """Keys that name no node are steps of durable functions."""
        known = {name for spot in self._spots for name in spot.names}
        steps = dict(self._handlers.step_stand_ins)
        for name in (stubs.keys() | failures.keys()) - known:
            if name in stubs or self._has_functions:
                steps[name] = _step_stand_in(
                    name, stubs.get(name, _REAL), _listed_steps(failures.get(name, []))
                )
        self._handlers.step_stand_ins = steps

    @property
    def _has_functions(self) -> bool:
        """Whether a durable function or an agent is played: their steps are known only when they
        run."""
        return any(spot.node.type in (FLOW, AGENT) for spot in self._spots)

    # ── checking ────────────────────────────────────────────────────────────────────────

    def _check_stubs(self, stubs: Mapping[str, Any]) -> None:
        known = {name for spot in self._spots for name in spot.names}
        for key in stubs:
            if key not in known:
                if self._has_functions:
                    continue
                raise InputError(
                    [
                        f"handlers: no node, handler or node type of the workflow is named "
                        f"{key!r}{_hint(key, known)}"
                    ],
                    argument="handlers",
                )
            self._check_callable("handlers", key, [s for s in self._spots if key in s.names])

    def _check_failures(self, failures: Mapping[str, Failure | Sequence[Failure]]) -> None:
        known = {spot.node.id for spot in self._spots}
        for key, failure in failures.items():
            name, _ = read_reference(key)
            if name not in known and self._has_functions:
                for one in _listed(failure):
                    _check_failure(key, one)
                continue
            if name not in known:
                problem = f"fail: the workflow has no node {name!r}{_hint(name, known)}"
                raise InputError([problem], argument="fail")
            self._check_callable("fail", key, [s for s in self._spots if s.node.id == name])
            for one in _listed(failure):
                _check_failure(key, one)

    def _check_callable(self, argument: str, key: str, spots: Sequence[Spot]) -> None:
        """Refuse a key that names only nodes that call nothing."""
        if all(spot.kind(self._handlers) == "inline" for spot in spots):
            node = spots[0].node
            why = _NO_HANDLER.format(type=node.type)
            if node.type == "wait":
                why = "it is a wait node: time is skipped in a play, and `signals` has its signals"
            raise InputError([f"{argument}: {key!r} cannot be replaced: {why}"], argument=argument)

    def _check_decisions(self, decisions: Mapping[str, Any]) -> None:
        nodes = {spot.node.id: spot.node for spot in self._spots}
        people = [name for name, node in nodes.items() if node.type == "human"]
        if any(node.type == FLOW for node in nodes.values()):
            # Whether a function asks people is known when it does.
            nodes.setdefault(APPROVAL_NODE, Node(id=APPROVAL_NODE, type="human"))
        for key in decisions:
            if key not in nodes:
                problem = f"decisions: the workflow has no node {key!r}{_hint(key, people)}"
                raise InputError([problem], argument="decisions")
            if nodes[key].type != "human":
                problem = (
                    f"decisions: node {key!r} is a {nodes[key].type} node: only human nodes "
                    "wait for a decision; use `handlers` to replace what it does"
                )
                raise InputError([problem], argument="decisions")

    # ── making stand-ins ────────────────────────────────────────────────────────────────

    def _real(self, spot: Spot) -> StandIn | None:
        """What the node calls without a stub; None if that is not here."""
        try:
            return real_one(self._handlers, spot.node.type, spot.node.handler)
        except HandlerError:
            return None

    def _make(self, spot: Spot, key: str, stub: Any) -> StandIn | None:
        kind = spot.kind(self._handlers)
        if kind not in ("handler", "io", "registered"):
            return None
        real = self._real(spot) or StandIn(_returning(None))
        if not callable(stub):
            return real._replace(bind=_returning(stub), is_async=True)
        function = stub.function if isinstance(stub, Task) else stub
        if kind == "registered":
            bind, is_async = binding_of(spot.node.type, function)
            return real._replace(bind=bind, is_async=is_async)
        task = Task(function, name=spot.node.handler or key)
        # A compensator also gets the output of its node.
        complete = spot.node.config_ref is None and not spot.node.id.endswith(UNDO)
        problems = [
            f"handlers[{key!r}], for node {spot.node.id!r}: {misfit.message}"
            for misfit in task.misfits(_config_of(spot.node), complete=complete)
        ]
        if problems:
            raise InputError(problems, argument="handlers")
        made = of_task(task)
        return real._replace(bind=made.bind, is_async=made.is_async, takes=made.takes)

    def _add_names(self) -> None:
        """Let the compiler know handlers and types that are here only as stubs, if every node
        that names them has a stand-in."""
        replaced = self._handlers.stand_ins
        for spot in self._spots:
            node, kind = spot.node, spot.kind(self._handlers)
            if kind == "handler" and node.handler is not None and self._real(spot) is None:
                others = [s for s in self._spots if s.node.handler == node.handler]
                if all(other.place in replaced for other in others):
                    self._handlers.add(Task(_anything, name=node.handler))
            elif kind == "registered" and self._handlers.find_type(node.type) is None:
                others = [s for s in self._spots if s.node.type == node.type]
                if all(other.place in replaced for other in others):
                    self._handlers.add_type(_any_type(node.type))


def _config_of(node: Node | PlannedNode) -> dict[str, Any]:
    """The config that a node is called with. A plan has all of it in one place."""
    told = agent_fields(node) if isinstance(node, Node) else {}
    return {**(node.config or {}), **told}


def _hint(name: str, known: Iterable[str]) -> str:
    close = get_close_matches(name[:64], sorted(known), n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def _any_type(name: str) -> NodeType:
    return NodeType(
        name=name,
        summary="Is here only as a stub.",
        kind="registered",
        queue=f"{TYPE_QUEUE}{name}",
        bind=_returning(None),
    )


async def _anything(**config: Any) -> None:
    """Take any config. It is never called: every node that names it has a stand-in."""


def _returning(value: Any) -> Callable[[Call, Context], tuple[Any, dict[str, Any]]]:
    """Return a value, whatever the config is."""

    async def give() -> Any:
        return copy.deepcopy(value)

    return lambda call, context: (give, {})


# ── steps of durable functions ──────────────────────────────────────────────────────────

#: The step itself.
_REAL = object()


def _listed_steps(failure: Failure | Sequence[Failure]) -> Failure | list[Failure]:
    return list(failure) if isinstance(failure, list | tuple) else failure  # type: ignore[return-value]


def _step_stand_in(name: str, stub: Any, failure: Failure | list[Failure]) -> StepStandIn:
    """What is called instead of a step: first what it raises, then the stub or the step itself."""
    task = None
    if callable(stub):
        task = Task(stub.function if isinstance(stub, Task) else stub, name=name)

    def make(arguments: Mapping[str, Any], context: Context) -> Callable[[], Any] | None:
        if not isinstance(failure, list):
            return partial(_fail, failure)
        if context.attempt <= len(failure):
            return partial(_fail, failure[context.attempt - 1])
        if stub is _REAL:
            return None
        if task is None:
            return partial(copy.deepcopy, stub)
        if arguments.keys() == {"args", "kwargs"}:
            # Of `ctx.step`.
            return partial(task.function, *arguments["args"], **arguments["kwargs"])
        return partial(task.call_with, arguments, context)

    return make


# ── failures ────────────────────────────────────────────────────────────────────────────


def _listed(failure: Failure | Sequence[Failure]) -> list[Failure]:
    if isinstance(failure, list | tuple):
        return list(failure)
    return [failure]  # type: ignore[list-item]


def _check_failure(key: str, failure: Any) -> None:
    is_class = isinstance(failure, type) and issubclass(failure, BaseException)
    if not (isinstance(failure, BaseException | str) or is_class):
        problem = (
            f"fail[{key!r}]: expected an exception, a class of exceptions, a message, or a list "
            f"of these, not {failure!r:.100}"
        )
        raise InputError([problem], argument="fail")
    if is_class:
        try:
            failure()
        except Exception as error:
            problem = f"fail[{key!r}]: {failure.__name__} needs arguments: pass an exception"
            raise InputError([problem], argument="fail") from error


def _failing(
    base: StandIn | None, failures: Mapping[str, Failure | Sequence[Failure]]
) -> StandIn | None:
    """Raise what was asked for; after the attempts that a list is for, go on with `base`. None
    if there would be nothing to go on with."""
    is_final = any(
        read_reference(key)[1] is None and not isinstance(failure, list | tuple)
        for key, failure in failures.items()
    )
    if base is None and not is_final:
        return None
    otherwise = base or StandIn(_returning(None))

    def bind(call: Call, context: Context) -> tuple[Any, dict[str, Any]]:
        failure = _due(failures, context)
        if failure is None:
            return otherwise.bind(call, context)
        return (_fail_async if otherwise.is_async else _fail), {"failure": failure}

    return otherwise._replace(bind=bind)


def _due(failures: Mapping[str, Failure | Sequence[Failure]], context: Context) -> Failure | None:
    """What this attempt raises; None: nothing. An instance wins over its node."""
    # A compensator has a name of its own here, which is that of its token.
    name = context.token_node if context.token_node.endswith(UNDO) else context.node_id
    for key in (name + show(context.scope), name):
        if key in failures:
            failure = failures[key]
            if not isinstance(failure, list | tuple):
                return failure  # type: ignore[return-value]
            return failure[context.attempt - 1] if context.attempt <= len(failure) else None
    return None


def _fail(failure: Failure) -> None:
    if isinstance(failure, str):
        raise RuntimeError(failure)
    if isinstance(failure, BaseException):
        # Without what an earlier attempt has added to it.
        raise failure.with_traceback(None)
    raise failure()


async def _fail_async(failure: Failure) -> None:
    _fail(failure)
