"""The handlers: stubs with random outputs and troubles, or the user's own. All are observed.

An output is drawn per instance, so every attempt returns the same one. A trouble is drawn per
start, so the next attempt may succeed.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable, Mapping
from typing import Any, get_type_hints

import msgspec

from minuet.bridge.programs import is_hidden
from minuet.errors import HandlerError, NonRetryable
from minuet.events import Place
from minuet.kernel.program import Program
from minuet.kernel.route import Routing, route
from minuet.kernel.scope import show
from minuet.nodes.catalog import NODE_TYPES
from minuet.nodes.context import Context
from minuet.nodes.handler import REGISTERED, AnyTask, Handlers, Task
from minuet.nodes.io.http import HTTP, call_external_service
from minuet.nodes.io.human import HUMAN
from minuet.nodes.io.llm import LLM, llm_service
from minuet.nodes.spec import Call, Effects, NodeType
from minuet.nodes.stand_in import StandIn
from minuet.plan.plan import Node, Plan, author_of
from minuet.rehearsal.fields import Shape
from minuet.rehearsal.lockstep import run_stepped
from minuet.rehearsal.scenario import Scenario
from minuet.rehearsal.values import draw_output, draw_schema
from minuet.simulation.loop import current_process, die
from minuet.simulation.streams import Streams
from minuet.types import TYPE_QUEUE, UNDO, Json

#: Mean duration of a stub in seconds: long enough for faults to hit it.
SECONDS = 0.25

#: How many outputs are drawn to find one that leads in the chosen direction.
TRIES = 40

#: Loops of more rounds are left before they are exhausted, which would take too long.
ROUNDS_MAX = 25


class Role(msgspec.Struct, frozen=True):
    """Who plays a node's handler, or its registered node type."""

    node: Node
    #: The user's task, if the handler is known.
    task: AnyTask | None
    #: Whether the task itself runs, or a stub.
    is_real: bool
    #: The JSON Schema of the handler's annotated result.
    schema: dict[str, Any] | None = None
    #: The node type, if it is Minuet's, or if the user registered it and it is known.
    node_type: NodeType | None = None
    #: The JSON Schema of what a stub of Minuet's own returns, beside what other nodes read of it.
    outline: dict[str, Any] | None = None

    @property
    def effects(self) -> Effects | None:
        known = self.task or self.node_type
        return known.effects if known is not None else None

    @property
    def name(self) -> str:
        """What is played, in words."""
        if self.node.handler is None:
            return f"node type {self.node.type!r}"
        return f"handler {self.node.handler!r}"

    @property
    def timeout_s(self) -> float | None:
        """Seconds per attempt. None: no limit."""
        if self.node.timeout_ms is not None:
            return self.node.timeout_ms / 1000
        return self.task.timeout if self.task is not None else None


def find_roles(plan: Plan, handlers: Handlers | None, *, stubs: bool) -> dict[str, Role]:
    """Who plays the handler of each node. Built-in handlers play themselves, except for those that
    reach outside: these are stubs in any case, as are built-in node types that do."""
    roles = {}
    for node in (*plan.nodes, *plan.undos):
        if is_hidden(node):
            continue
        name = node.id if node.undoes else author_of(node.id)
        known = NODE_TYPES.get(node.type)
        if known is None:
            roles[name] = _type_role(node, handlers, stubs=stubs)
            continue
        if known is HUMAN:
            continue  # It asks, as in any run, and the stage decides.
        if known.kind == "io":
            roles[name] = Role(node, None, False, None, known, known.output_schema or None)
            continue
        if node.handler is None or known.kind != "handler":
            continue
        task = _find(handlers or REGISTERED, node.handler)
        if task is not None and task.function in _SERVICES:
            outline = _SERVICES[task.function].output_schema
            roles[name] = Role(node, task, False, None, None, outline)
            continue
        is_ours = task is not None and task.function.__module__ == "minuet.nodes.handler"
        if task is not None and handlers is None and not is_ours:
            # Registered by the importing program, not for this workflow.
            task = None
        is_real = is_ours or (handlers is not None and not stubs)
        schema = result_schema(task) if task is not None and not is_real else None
        roles[name] = Role(node, task, is_real, schema)
    return roles


def _type_role(node: Node, handlers: Handlers | None, *, stubs: bool) -> Role:
    found = handlers.find_type(node.type) if handlers is not None else None
    is_real = found is not None and not stubs
    schema = found.output_schema if found is not None and not is_real else None
    return Role(node, None, is_real, schema or None, found)


#: Handlers that do what a node type does.
_SERVICES: dict[Any, NodeType] = {
    call_external_service.function: HTTP,
    llm_service.function: LLM,
}


def _with_outline(chance: random.Random, outline: dict[str, Any] | None, value: Json) -> Json:
    """A value that was drawn by what others read of it, with what else there would be."""
    if outline is None:
        return value
    return {**draw_schema(chance, outline), **(value if isinstance(value, dict) else {})}


def _find(handlers: Handlers, name: str) -> AnyTask | None:
    try:
        return handlers.find(name)
    except HandlerError:
        return None


def annotated_result(task: AnyTask) -> dict[str, Any] | None:
    """The JSON Schema of what a task returns, if it is annotated."""
    return _schemas(task).get("return") or None


def result_schema(task: AnyTask) -> dict[str, Any] | None:
    """The same, if it says more than what others read of the result."""
    schema = annotated_result(task) or {}
    known = schema.get("$ref") or schema.get("properties") or schema.get("enum")
    return schema if known or schema.get("type") not in (None, "object", "null") else None


def wanted_arguments(roles: Mapping[str, Role]) -> dict[str, dict[str, list[Json]]]:
    """Values that a handler or a node type would accept, by node and argument, where its hints or
    its schema tell."""
    return {
        name: {
            argument: [draw_schema(random.Random(number), schema) for number in range(4)]
            for argument, schema in _argument_schemas(role).items()
            if argument != "return" and schema.keys() & {"type", "$ref", "enum"}
        }
        for name, role in roles.items()
    }


def _argument_schemas(role: Role) -> dict[str, dict[str, Any]]:
    if role.task is not None:
        return _schemas(role.task)
    schema = role.node_type.config_schema if role.node_type is not None else {}
    return {
        name: {"$defs": schema.get("$defs", {}), **found}
        for name, found in schema.get("properties", {}).items()
        if isinstance(found, dict)
    }


def _schemas(task: AnyTask) -> dict[str, dict[str, Any]]:
    """The JSON Schemas of the arguments, and of the result under `return`."""
    try:
        hints = get_type_hints(task.function)
    except Exception:
        # As when it is called: a hint that cannot be resolved is ignored.
        return {}
    found = {}
    for name, hint in hints.items():
        try:
            found[name] = msgspec.json.schema(hint)
        except Exception:
            # A type without a schema.
            continue
    return found


class SimulatedSecrets:
    """The environment's secrets for handlers that are real; for the others any value will do."""

    def get(self, name: str) -> str:
        """The value of the environment variable, or one that says that it is simulated."""
        return os.environ.get(name, f"simulated secret {name}")


class Start(msgspec.Struct):
    """A handler was started."""

    attempt: int
    #: `running` (its worker may have died since), `returned`, `raised` or `stopped`.
    ended: str = "running"


class Cast:
    """All handlers of one seed."""

    def __init__(
        self,
        roles: Mapping[str, Role],
        program: Program,
        shapes: Mapping[str, Shape],
        streams: Streams,
        scenario: Scenario,
        lease_s: float,
        note: Callable[[str], None],
        inner: Mapping[str, Cast] | None = None,
    ) -> None:
        #: Those of workflows that are written inside this one, by their names.
        self._inner = inner or {}
        self.starts: dict[Place, list[Start]] = {}
        #: Switched off when the faults stop.
        self.deaths = scenario.deaths
        self._roles = roles
        self._program = program
        self._shapes = shapes
        self._streams = streams
        self._scenario = scenario
        self._lease_s = lease_s
        self._note = note

    def handlers(self) -> Handlers:
        """The handlers as a worker expects them."""

        async def play(ctx: Context, **config: Any) -> Json:
            return await self._inner.get(ctx.workflow, self)._play(ctx, config)

        def bind(call: Call, ctx: Context) -> tuple[Callable[..., Any], dict[str, Any]]:
            cast = self._inner.get(ctx.workflow, self)
            return cast._play, {"ctx": ctx, "config": call.config, "call": call}

        made = Handlers()
        casts = (self, *self._inner.values())
        roles = {_played(role): role for cast in casts for role in cast._roles.values()}
        for role in roles.values():
            own = NODE_TYPES.get(role.node.type)
            if own is not None and own.kind == "io":
                continue
            if own is None:
                made.add_type(
                    NodeType(
                        name=role.node.type,
                        summary="",
                        kind="registered",
                        queue=f"{TYPE_QUEUE}{role.node.type}",
                        bind=bind,
                        effects=role.effects,
                        config_schema=role.node_type.config_schema if role.node_type else {},
                        output_schema=role.node_type.output_schema if role.node_type else {},
                    )
                )
                continue
            task = role.task
            made.add(
                Task(
                    play,
                    name=role.node.handler,
                    retries=task.retries if task is not None else None,
                    timeout=task.timeout if task is not None else None,
                    effects=role.effects,
                )
            )
        # Types of Minuet's own names cannot be registered.
        for cast in casts:
            for name, role in cast._roles.items():
                if role.node_type is not None and role.node_type.kind == "io":
                    place = (cast._program.plan.name, name)
                    made.stand_ins[place] = StandIn(bind, effects=role.effects)
        return made

    async def _play(self, ctx: Context, config: dict[str, Any], call: Call | None = None) -> Json:
        name = _role_name(ctx)
        role = self._roles[name]
        starts = self.starts.setdefault((name, ctx.scope_text), [])
        start = Start(ctx.attempt)
        starts.append(start)
        where = ("" if name == ctx.node_id else "undo of ") + ctx.node_id + show(ctx.scope)
        self._note(f"{current_process().name} starts the handler of {where}")
        chance = self._streams.make(f"start/{name}/{ctx.scope_text}/{len(starts)}")
        try:
            if role.is_real:
                value = await self._real(role, ctx, config, call)
            else:
                value = await self._stub(role, ctx, chance)
        except BaseException as error:
            start.ended = "raised" if isinstance(error, Exception) else "stopped"
            raise
        start.ended = "returned"
        if len(starts) < 3 and chance.random() < self.deaths:
            self._note(f"{current_process().name} dies after the handler of {where} has returned")
            await die()
        return value

    async def _real(
        self, role: Role, ctx: Context, config: dict[str, Any], call: Call | None
    ) -> Json:
        if call is not None:
            return await self._real_type(role, ctx, call)
        task = role.task
        assert task is not None
        if task.is_async:
            return await task.function(**task.bind(config, ctx))
        return await run_stepped(task.name, ctx, lambda c: (task.function, task.bind(config, c)))

    async def _real_type(self, role: Role, ctx: Context, call: Call) -> Json:
        found = role.node_type
        assert found is not None
        assert found.bind is not None
        if found.is_async:
            function, arguments = found.bind(call, ctx)
            return await function(**arguments)
        bind = found.bind
        return await run_stepped(found.name, ctx, lambda c: bind(call, c))

    # ── stubs ───────────────────────────────────────────────────────────────────────────

    async def _stub(self, role: Role, ctx: Context, chance: random.Random) -> Json:
        await asyncio.sleep(chance.expovariate(1 / SECONDS))
        name = _role_name(ctx)
        if self._scenario.victim == name:
            await self._fail(role, self._scenario.way)
        elif self._scenario.passing and ctx.attempt == 1 and chance.random() < 0.5:
            first = len(self.starts[name, ctx.scope_text]) == 1
            await self._stumble(role, chance.choice(self._scenario.passing), first=first)
        # Nothing reads what a compensator returns.
        return None if role.node.undoes else self._draw(role, ctx)

    async def _fail(self, role: Role, way: str) -> None:
        """Fail, as at every start."""
        if way == "crash":
            self._note(f"the handler of {role.node.id} kills {current_process().name}")
            await die()
        if way == "timeout" and role.timeout_s is not None:
            await asyncio.sleep(role.timeout_s * 1.5 + 0.1)
        if way == "again":
            raise ConnectionError("simulated: it fails at each attempt")
        raise NonRetryable("simulated: it fails permanently")

    async def _stumble(self, role: Role, trouble: str, *, first: bool) -> None:
        """Have a temporary trouble."""
        if trouble == "retry":
            raise ConnectionError("simulated: it fails at the first attempt")
        if trouble == "slow":
            await asyncio.sleep((role.timeout_s or self._lease_s) * 1.5 + 0.1)
        elif trouble == "crash" and first:
            self._note(f"the handler of {role.node.id} kills {current_process().name}")
            await die()

    # ── outputs ─────────────────────────────────────────────────────────────────────────

    def _draw(self, role: Role, ctx: Context) -> Json:
        """Draw an output. If the node decides by it, choose a direction and look for a match."""
        node = role.node
        chance = self._streams.make(f"value/{ctx.node_id}/{ctx.scope_text}")
        shape = self._shapes[node.id]
        wanted = self._direction(node, chance)
        value: Json = None
        for _ in range(TRIES):
            if role.schema is not None:
                value = draw_schema(chance, role.schema)
            else:
                value = _with_outline(chance, role.outline, draw_output(chance, shape))
            if node.branch is not None and node.branch.type == "agent_driven":
                # An agent may also choose nothing: then the default is taken.
                chosen = chance.choice([[], *([name] for name in node.branch.available)])
                value = {**(value if isinstance(value, dict) else {}), "next_nodes": chosen}
            if not wanted or self._leads(node, ctx, value) == wanted:
                break
        return value

    def _direction(self, node: Node, chance: random.Random) -> str:
        """Draw a direction: around the loop again, or one of the rules. "" if nothing decides."""
        if node.loop is not None:
            again = self._scenario.again
            if node.loop.max_iterations > ROUNDS_MAX:
                again = min(again, 0.5)
            if chance.random() < again:
                return "again"
        if node.branch is not None and node.branch.rules:
            number = chance.randrange(len(node.branch.rules) + 1)
            return "default" if number == len(node.branch.rules) else f"rule {number}"
        return "break" if node.loop is not None else ""

    def _leads(self, node: Node, ctx: Context, value: Json) -> str:
        variables = {
            "ctx": {name: {"output": output} for name, output in ctx.inputs.items()},
            "input": ctx.input,
            "run": {"id": ctx.run_id},
        }
        return _direction_of(route(self._program, node, ctx.scope, value, variables))


def _played(role: Role) -> str:
    """What a role is found by: its handler, or its node type."""
    return role.node.handler or role.node.type


def _direction_of(routing: Routing) -> str:
    if routing.back or routing.error is not None or {"loop": "timeout"} in (routing.notes or ()):
        return "again"
    last = routing.notes[-1] if routing.notes else {}
    if "to" in last:
        return f"rule {last['rule']}"
    return "default" if "default" in last else "break"


def _role_name(ctx: Context) -> str:
    """Whose role is played: that of the author's node, or of its compensator."""
    return ctx.token_node if ctx.token_node.endswith(UNDO) else ctx.node_id
