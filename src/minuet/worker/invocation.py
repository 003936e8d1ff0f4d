"""What is called to run a node that may wait: a handler, or a node type's I/O.

Both are called in the same way, so both have leases that are renewed, timeouts, cancellation,
retries and the same context.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from minuet.errors import HandlerError, InputError, SecretError, TemplateError
from minuet.functions.function import Function
from minuet.kernel.scope import encode
from minuet.nodes.context import Context
from minuet.nodes.handler import AnyTask, Handlers
from minuet.nodes.services import Services
from minuet.nodes.spec import Asynchronous, NodeType
from minuet.nodes.stand_in import StandIn
from minuet.plan.plan import Node
from minuet.schemas import compile_schema
from minuet.types import Json
from minuet.worker.assignment import Assignment
from minuet.worker.flows import Flows
from minuet.worker.rendering import make_call, render_config

#: Instead of what is wrong with a value.
_UNSHOWN = "what is wrong is not shown"


class Isolated(NamedTuple):
    """What is called in a process of its own, instead of here."""

    task: AnyTask
    config: dict[str, Json]
    memory_mb: int | None


class Invocation(msgspec.Struct, frozen=True):
    """A function, its arguments, and how it wants to be run."""

    function: Callable[..., Any]
    positional: tuple[Any, ...]
    named: dict[str, Any]
    #: The assignment has it as well, for cancellation.
    context: Context
    #: Time that the attempt may take; None: no limit.
    timeout_ms: int | None
    #: Whether it is awaited on the loop; else it runs in a thread.
    is_async: bool = True
    #: Whether an attempt may begin while the thread of the one before still runs.
    overlap: bool = False
    #: Whether what it was given must be durable before it begins.
    has_effects: bool = True
    #: The JSON Schema of its output, to be checked; empty: anything.
    output_schema: dict[str, Any] | None = None
    #: When the attempt should come to an end; None: at any time.
    soft_ms: int | None = None
    #: What runs in a process of its own; None: the function runs here.
    isolated: Isolated | None = None


class Invocations:
    """Makes invocations of the nodes that one worker runs."""

    def __init__(self, handlers: Handlers, services: Services, flows: Flows) -> None:
        self._handlers = handlers
        self._services = services
        self._flows = flows

    def of(self, assignment: Assignment, node: Node) -> Invocation:
        """How to call what the node does; HandlerError when that is not here or cannot be called.

        Other exceptions are the user's too: a template's, or those of an argument's class.
        """
        if self._handlers.stand_ins:
            name = node.id if node.undoes else assignment.facts.author
            place = (assignment.header.workflow, name)
            stand_in = self._handlers.stand_ins.get(place)
            if stand_in is not None:
                return self._of_stand_in(assignment, node, stand_in)
        node_type = assignment.facts.node_type
        if node_type is None:
            return self._of_registered(assignment, node)
        if node_type.kind == "flow":
            return self._of_flow(assignment, node)
        if node_type.run_async is None:
            return self._of_handler(assignment, node)
        return self._of_type(assignment, node, node_type.run_async, node_type.timeout_seconds)

    def _of_type(
        self, assignment: Assignment, node: Node, run: Asynchronous, seconds: float | None
    ) -> Invocation:
        config = self._own_config(assignment, node)
        context = self._enter(assignment, node, is_async=True)
        call = make_call(assignment, node, config)
        timeout_ms = _first_ms(node.timeout_ms, seconds)
        return Invocation(
            run, (call, context), {}, context, timeout_ms, soft_ms=node.soft_timeout_ms
        )

    def _of_registered(self, assignment: Assignment, node: Node) -> Invocation:
        found = self._handlers.find_type(node.type)
        if found is None:
            raise HandlerError(
                f"this worker does not have the node type {node.type!r}: register it with "
                "@minuet.node_type and name its module with --handlers"
            )
        assert found.bind is not None
        config = self._own_config(assignment, node)
        _check_config(found, config, has_secrets=bool(assignment.revealed))
        context = self._enter(assignment, node, is_async=found.is_async)
        function, arguments = found.bind(make_call(assignment, node, config), context)
        return Invocation(
            function,
            (),
            arguments,
            context,
            node.timeout_ms,
            found.is_async,
            has_effects=found.effects != "none",
            output_schema=found.output_schema,
            soft_ms=node.soft_timeout_ms,
        )

    def _of_flow(self, assignment: Assignment, node: Node) -> Invocation:
        if node.handler is None:
            raise HandlerError(f"node {node.id!r} names no durable function")
        function = self._handlers.find_function(node.handler)
        assert isinstance(function, Function)
        config = self._own_config(assignment, node)
        context = self._enter(assignment, node, is_async=True)
        arguments = function.bind(config, context.input)
        grant = assignment.grant
        is_new = grant.delivery <= 1 and not grant.is_resumed
        return Invocation(
            self._flows.run,
            (function, arguments, context),
            {"is_new": is_new, "was_left": grant.is_resumed},
            context,
            node.timeout_ms,
        )

    def _of_handler(self, assignment: Assignment, node: Node) -> Invocation:
        if node.handler is None:
            raise HandlerError(f"node {node.id!r} names no handler")
        task = self._handlers.find(node.handler)
        config = self._own_config(assignment, node)
        if node.undoes:
            self._add_output(assignment, config, task.takes)
        context = self._enter(assignment, node, is_async=task.is_async)
        timeout_ms, soft_ms = node.timeout_ms, node.soft_timeout_ms
        if task.timeout is not None or task.soft_timeout is not None:
            timeout_ms = _first_ms(timeout_ms, task.timeout)
            soft_ms = _first_ms(soft_ms, task.soft_timeout)
        isolated = None
        if (node.isolation or task.isolation) == "process" and self._handlers.isolates:
            isolated = Isolated(task, config, node.max_memory_mb or task.max_memory_mb)
        return Invocation(
            task.function,
            (),
            {} if isolated else task.bind(config, context),
            context,
            timeout_ms,
            task.is_async,
            task.overlap,
            task.effects != "none",
            soft_ms=soft_ms,
            isolated=isolated,
        )

    @staticmethod
    def _add_output(
        assignment: Assignment, config: dict[str, Json], takes: Callable[[str], bool]
    ) -> None:
        """Give a compensator the output of its node, if it has an argument for it."""
        if "output" not in config and takes("output"):
            config["output"] = copy.deepcopy(assignment.undone_output())

    def _of_stand_in(self, assignment: Assignment, node: Node, stand_in: StandIn) -> Invocation:
        config = self._own_config(assignment, node)
        if node.undoes:
            self._add_output(assignment, config, stand_in.takes)
        # It takes the same config and has the same output as the registered type it replaces.
        found = self._handlers.find_type(node.type)
        if found is not None:
            _check_config(found, config, has_secrets=bool(assignment.revealed))
        context = self._enter(assignment, node, is_async=stand_in.is_async)
        function, arguments = stand_in.bind(make_call(assignment, node, config), context)
        timeout_ms = _first_ms(node.timeout_ms, stand_in.timeout)
        return Invocation(
            function,
            (),
            arguments,
            context,
            timeout_ms,
            stand_in.is_async,
            stand_in.overlap,
            stand_in.effects != "none",
            found.output_schema if found is not None else None,
            node.soft_timeout_ms,
        )

    def _own_config(self, assignment: Assignment, node: Node) -> dict[str, Json]:
        """The rendered config, as a copy: the function may change it, and all runs share the
        plan's."""
        found = assignment.config
        if found is None:
            assert assignment.loaded is not None
            found = assignment.loaded.config(node)
        if found.is_constant:
            return found.copy_constant()
        secrets: dict[str, str] = {}
        if found.secrets:
            secrets = {name: self._read_secret(node, name) for name in sorted(found.secrets)}
            assignment.revealed = tuple(secrets.values())
        try:
            config = render_config(assignment, node, secrets)
        except TemplateError as error:
            if not secrets:
                raise
            # It may quote a part of a value, which masking would not find.
            raise TemplateError(
                f"{_UNSHOWN}, because it reads secrets", source=error.source
            ) from None
        return copy.deepcopy(config) if config else {}

    def _read_secret(self, node: Node, name: str) -> str:
        if name not in node.secrets:
            # The compiler refuses this, but it does not see a config that is kept as a blob.
            raise SecretError(f"node {node.id!r} does not declare the secret {name!r}")
        return self._services.read_secret(name)

    def _enter(self, assignment: Assignment, node: Node, *, is_async: bool) -> Context:
        """Make the context, and attribute the log lines of this asyncio task to this node."""
        grant, header, facts = assignment.grant, assignment.header, assignment.facts
        scope, undone_scope = assignment.scope, None
        if facts.undoes:
            scope = assignment.undone_scope
            undone_scope = encode(scope)
        # By position: naming the arguments would take longer than all else here.
        context = assignment.context = Context(
            self._services,
            grant.run,
            header.workflow,
            facts.author,
            scope,
            grant.scope,
            grant.attempt,
            grant.lease,
            assignment.inputs,
            assignment.input,
            node.secrets,
            None if is_async else asyncio.get_running_loop(),
            node.id,
            undone_scope,
            assignment.revealed,
            facts.max_output_bytes,
            header.generation,
            header.deadline_ms,
            header.tags,
        )
        context.enter()
        return context


def _first_ms(written_ms: int | None, own: float | None) -> int | None:
    """What the document says, else what the author of the handler or the type says, in seconds."""
    return int(own * 1000) if written_ms is None and own is not None else written_ms


def _check_config(found: NodeType, config: dict[str, Json], *, has_secrets: bool) -> None:
    """Check a rendered config; the compiler has seen only what is not a template."""
    schema = compile_schema(msgspec.json.encode(found.config_schema))
    problems = schema.find_problems(config, "config")
    if problems:
        shown = f"{_UNSHOWN}, because it contains secrets" if has_secrets else "; ".join(problems)
        whose = f"the config does not fit node type {found.name!r}: "
        raise InputError([whose + shown], argument="config")
