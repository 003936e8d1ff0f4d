"""The tools of an agent: what a model may have called, and nothing else.

A tool is a handler, whose arguments and docstring tell the model how to use it; a deployed
workflow (`workflow:NAME`), which runs as a child run; or one of those that come with Minuet. A
call is a step of the agent: it is kept, and not made again after a crash. What the model gives as
arguments is checked first, against the handler's hints or the input of the workflow.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from typing import Any, Literal, cast

import msgspec

from minuet.errors import AgentError, HandlerError, WorkflowNotFoundError
from minuet.nodes.agents import AgentServices
from minuet.nodes.binding import config_schema
from minuet.nodes.context import Context
from minuet.nodes.flowing import FLOWING, Starting
from minuet.nodes.handler import AnyTask, Handlers, Task
from minuet.nodes.io import http
from minuet.nodes.io.pipelines import execute_pipeline
from minuet.schemas import SchemaTooComplexError, compile_schema
from minuet.types import Json

#: Begins the names of tools that are workflows.
WORKFLOW_TOOL = "workflow:"

#: Characters of a description, and of a name as models may use it.
DESCRIPTION_LENGTH_MAX = 2_000
NAME_LENGTH_MAX = 64

#: Largest body that `http_request` reads.
BODY_BYTES_MAX = 1024 * 1024


class Tool:
    """Something that a model may have called."""

    def __init__(
        self, name: str, description: str, schema: dict[str, Any], task: AnyTask | None = None
    ) -> None:
        #: As the document names it.
        self.name = name
        self._description = description[:DESCRIPTION_LENGTH_MAX]
        self._schema = schema
        #: None: it is a workflow.
        self._task = None if task is None else _ToolTask.of(task, schema)

    def describe(self, name: str) -> dict[str, Any]:
        """What the model gets to know of it, under this name."""
        function = {"name": name, "description": self._description, "parameters": self._schema}
        return {"type": "function", "function": function}

    async def call(self, flow: Starting, arguments: dict[str, Json]) -> Json:
        """Call it, as a step."""
        if self._task is None:
            return await flow.start(self.name.removeprefix(WORKFLOW_TOOL), arguments)
        flowing = FLOWING.get()
        assert flowing is not None
        return await flowing.call_task(self._task, (), arguments)


class _ToolTask(Task[..., Any]):
    """A handler whose arguments come from a model, as JSON. They are checked when it is called,
    and not in a replay: the handler may have changed by then."""

    _schema: dict[str, Any]

    @classmethod
    def of(cls, task: AnyTask, schema: dict[str, Any]) -> _ToolTask:
        made = cls.__new__(cls)
        made.__dict__.update(task.__dict__)
        made._schema = schema
        # What it returns is shown to the model, as JSON.
        made.__dict__["decode_result"] = lambda value, whose: value
        return made

    def call_with(self, arguments: Any, context: Context) -> Any:
        problems = self._find_problems(arguments)
        if problems:
            raise AgentError("; ".join(problems), code="agent-bad-arguments")
        return self.function(**self.bind(arguments, context))

    def _find_problems(self, arguments: Json) -> list[str]:
        import jsonschema_rs

        try:
            schema = compile_schema(msgspec.json.encode(self._schema))
        except (SchemaTooComplexError, jsonschema_rs.ValidationError, ValueError):
            return []  # What does not fit is found when they are bound.
        return schema.find_problems(arguments, "arguments")


async def find_tools(names: Sequence[str], context: Context) -> dict[str, Tool]:
    """The tools of these names, by what models call them; AgentError if one is not here."""
    found: dict[str, Tool] = {}
    for name in dict.fromkeys(names):
        tool = await _find(name, context.agents, context)
        found[_free_name(name, found)] = tool
    return found


async def _find(name: str, agents: AgentServices, context: Context) -> Tool:
    try:
        if name.startswith(WORKFLOW_TOOL):
            workflow = name.removeprefix(WORKFLOW_TOOL)
            schema = await agents.find_input_schema(context, workflow)
            about = f"Run the workflow {workflow}, and wait for its output."
            return Tool(name, about, schema)
        task = find_task(name, agents.handlers)
    except (HandlerError, WorkflowNotFoundError) as error:
        raise AgentError(
            f"the agent's tool {name!r} is not here: {error}", code="agent-no-tool"
        ) from None
    return Tool(name, inspect.getdoc(task.function) or name, config_schema(task.function), task)


def find_task(name: str, handlers: Handlers) -> AnyTask:
    """The handler of this name, or what comes with Minuet under it; HandlerError if there is
    neither."""
    if name in TOOLS and name not in handlers.names():
        return TOOLS[name]
    return handlers.find(name)


def _free_name(name: str, taken: dict[str, Tool]) -> str:
    """A name as models may use it."""
    plain = re.sub(r"[^A-Za-z0-9_-]", "_", name.removeprefix(WORKFLOW_TOOL))
    made, number = plain[:NAME_LENGTH_MAX], 1
    while made in taken:
        number += 1
        made = f"{plain[: NAME_LENGTH_MAX - 4]}_{number}"
    return made


# ── those that come with Minuet ─────────────────────────────────────────────────────────


async def http_request(
    ctx: Context,
    url: str,
    method: Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"] = "GET",
    params: dict[str, str | int | float | bool] | None = None,
    headers: dict[str, str] | None = None,
    json: Any = None,
) -> Any:
    """Call a service over HTTP. Returns {status, headers, body}, whatever the status is."""
    given = {"params": params, "headers": headers, "json": json}
    config = {name: value for name, value in given.items() if value is not None}
    config |= {"url": url, "method": method, "expect_status": "100-599"}
    return await http.request(config, ctx, bytes_max=BODY_BYTES_MAX)


#: Tools that agents have without a handler, by name. They are offered only if they are named.
TOOLS: dict[str, AnyTask] = {
    tool.name: tool
    for tool in (
        cast(AnyTask, Task(http_request, effects="idempotent")),
        cast(AnyTask, Task(execute_pipeline, effects="idempotent")),
    )
}
