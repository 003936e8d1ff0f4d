"""`agent`: a language model works with tools until it has a result.

The agent is a durable function of its own: each call of the model and each call of a tool is a
step, which is kept as soon as it has ended. After a crash, or when the node is tried again, the
agent goes on where it was; what was paid for is not asked again. A call of the model that fails is
tried again with the node, by its `retry` policy.

What tools return is data for the model. What the agent can do is limited by its tools, and by
where calls may go, not by what its prompt says.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from minuet.errors import AgentError
from minuet.nodes.context import Context
from minuet.nodes.flowing import FLOWING, Starting
from minuet.nodes.handler import Task
from minuet.nodes.io.asking import format_of, read_json, repair, schema_of, service_of
from minuet.nodes.io.chat import ToolCall, Usage, ask
from minuet.nodes.io.checking import check_config
from minuet.nodes.io.choosing import CHOOSING, Choosing
from minuet.nodes.io.prompting import RESULT_LENGTH_MAX, cut, opening
from minuet.nodes.io.spending import Spending, spent_in
from minuet.nodes.io.tools import Tool, find_tools
from minuet.nodes.spec import Call, NodeType, Wait
from minuet.types import Json

#: Time that an attempt may take, if the document does not say.
TIMEOUT_S = 300.0

#: Calls of the model, if the document does not say.
TURNS_MAX = 20

#: Calls of tools in one turn. More are refused.
CALLS_MAX = 32

#: Largest answer of the model.
ANSWER_BYTES_MAX = 1024 * 1024

#: Characters that the model is shown of a tool's error.
ERROR_LENGTH_MAX = 2_000

#: The step that asks the model.
ASKING = "ask model"

CONFIG_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "model": {"type": "string", "minLength": 1},
        "temperature": {"type": "number", "minimum": 0, "maximum": 2},
        "prompt": {"type": "string"},
        "available_tools": {
            "type": "array",
            "items": {"type": "string", "minLength": 1},
            "description": "names of handlers, `workflow:NAME`, or tools that come with Minuet",
        },
        "max_turns": {"type": "integer", "minimum": 1, "maximum": 1000},
        "budget": {
            "type": "object",
            "properties": {
                "tokens": {"type": "integer", "minimum": 1},
                "usd": {"type": "number", "exclusiveMinimum": 0},
            },
            "additionalProperties": False,
        },
        "response_schema": {"type": "object", "description": "JSON Schema of the result"},
        "max_tokens": {"type": "integer", "minimum": 1},
        "base_url": {
            "type": "string",
            "description": "of another service; default OPENAI_BASE_URL of the worker",
        },
        "api_key": {"type": "string", "description": "for that service"},
    },
    "required": ["model"],
    "additionalProperties": False,
}


class Reply(msgspec.Struct, omit_defaults=True):
    """What is kept of an answer of the model."""

    text: str = ""
    reasoning: str = ""
    tool_calls: list[ToolCall] = []
    finish_reason: str = ""
    usage: Usage | None = None
    cost: float | None = None


async def run(call: Call, context: Context) -> Json | Wait:
    """Let the model work until it has a result."""
    check_config("agent", CONFIG_SCHEMA, call.config)
    tools = await find_tools(call.config.get("available_tools", []), context)
    agent = Agent(call, context, tools)
    return await context.agents.run_in_steps(context, agent.work, resumed=call.resumed)


class Agent:
    """One instance of an agent node."""

    def __init__(self, call: Call, context: Context, tools: dict[str, Tool]) -> None:
        self._call = call
        self._config: dict[str, Any] = call.config
        self._tools = tools
        self._schema = schema_of("agent", self._config)
        self._url, self._api_key = service_of(self._config, context)
        self._prices = context.llm.prices
        self._spent = Spending()
        self._reasoning: list[str] = []
        self._tool_calls: list[dict[str, Json]] = []

    async def work(self, flow: Starting) -> Json:
        """The output of the node. This is a durable function: it does nothing but what follows
        from its steps."""
        # It begins again if another worker was faster.
        self._spent, self._reasoning, self._tool_calls = Spending(), [], []
        next_nodes: dict[str, str] | None = self._call.parts.get("next_nodes")
        only_chooses = next_nodes is not None and not self._tools and "prompt" not in self._config
        result = None if only_chooses else await self._converse(flow)
        output: dict[str, Json] = {"result": result, "reasoning": "\n\n".join(self._reasoning)}
        if next_nodes is not None:
            shown = (dict(self._call.inputs) or self._call.input) if only_chooses else result
            output |= await Choosing(self._ask, next_nodes).choose(shown)
        return {
            **output,
            "tool_calls": self._tool_calls,
            "usage": msgspec.to_builtins(self._spent.usage),
            "cost": self._spent.cost,
        }

    # ── the model ───────────────────────────────────────────────────────────────────────

    async def _converse(self, flow: Starting) -> Json:
        """Ask the model, and do what it asks for, until it has a result."""
        messages = opening(self._call)
        turns_max: int = self._config.get("max_turns", TURNS_MAX)
        is_repaired = False
        for turn in range(1, turns_max + 1):
            reply = await self._ask(ASKING, turn, _always(self._body(messages)))
            if reply.reasoning or (reply.tool_calls and reply.text):
                self._reasoning.append(reply.reasoning or reply.text)
            if reply.tool_calls:
                messages += await self._use_tools(flow, turn, reply)
                continue
            result, problems = self._read(reply)
            if not problems:
                return result
            if is_repaired:
                raise _misfit(reply, problems)
            is_repaired = True
            messages += repair(reply.text, problems)
        raise AgentError(
            f"the agent has no result after {turns_max} calls of the model (`max_turns`)",
            code="agent-max-turns",
            details={"usage": msgspec.to_builtins(self._spent.usage), "cost": self._spent.cost},
        )

    def _body(self, messages: list[Json]) -> dict[str, Json]:
        body: dict[str, Json] = {"messages": list(messages)}
        if self._tools:
            body["tools"] = [tool.describe(name) for name, tool in self._tools.items()]
        if "response_schema" in self._config:
            body["response_format"] = format_of(self._config["response_schema"])
        return body

    async def _ask(
        self, step: str, turn: int, make_body: Callable[[Context], Awaitable[dict[str, Json]]]
    ) -> Reply:
        """Ask the model, as a step. It is tried again with the node."""
        self._check_budget()

        async def ask_model(turn: int, ctx: Context) -> Reply:
            return await self._ask_now(ctx, await make_body(ctx))

        flowing = FLOWING.get()
        assert flowing is not None
        task = Task(ask_model, name=step, retries=0)
        reply: Reply = await flowing.call_task(task, (), {"turn": turn})
        self._spent.add(reply.usage, reply.cost)
        return reply

    async def _ask_now(self, ctx: Context, body: dict[str, Json]) -> Reply:
        run_budget: Any = self._call.parts.get("run_budget")
        if run_budget:
            past = await ctx.agents.look_back(ctx, (ASKING, CHOOSING))
            spent_in(past.results).check(run_budget, "the budget of the run")
        model = self._config["model"]
        options = {name: self._config[name] for name in _OPTIONS if name in self._config}
        body = {"model": model, **options, **body}
        said = await ask(ctx.client, self._url, self._api_key, body, ANSWER_BYTES_MAX)
        return Reply(
            text=said.text,
            reasoning=said.reasoning,
            tool_calls=said.tool_calls,
            finish_reason=said.finish_reason,
            usage=said.usage,
            cost=self._prices.cost(model, said.usage),
        )

    def _check_budget(self) -> None:
        """Stop before the next call if a budget is used up."""
        for budget in (self._config.get("budget"), self._call.parts.get("budget")):
            if budget:
                if "usd" in budget and self._prices.cost(self._config["model"], Usage()) is None:
                    self._spent.cost = None
                self._spent.check(budget, "the budget of the agent")

    def _read(self, reply: Reply) -> tuple[Json, list[str]]:
        """The result that an answer is, and what is wrong with it."""
        if reply.finish_reason == "length":
            raise AgentError("the answer was cut at `max_tokens`: raise it", code="agent-too-long")
        if self._schema is not None:
            return read_json(reply.text, self._schema)
        return reply.text, [] if reply.text.strip() else ["it is empty"]

    # ── tools ───────────────────────────────────────────────────────────────────────────

    async def _use_tools(self, flow: Starting, turn: int, reply: Reply) -> list[Json]:
        """What the model wanted, and what came of it: the messages that go on from there."""
        asked = [_with_id(one, turn, place) for place, one in enumerate(reply.tool_calls)]
        calls = [self._use_tool(flow, place, one) for place, one in enumerate(asked)]
        # Not needed to read documents, and slow to import.
        import asyncio

        answers = await asyncio.gather(*calls)
        wanted = [
            {
                "id": one.id,
                "type": "function",
                "function": {"name": one.name, "arguments": one.arguments},
            }
            for one in asked
        ]
        said = {"role": "assistant", "content": reply.text or None, "tool_calls": wanted}
        return [said, *answers]

    async def _use_tool(self, flow: Starting, place: int, asked: ToolCall) -> Json:
        """Call one tool; the model learns what is wrong."""
        arguments, refusal = self._examine(asked, place)
        tool = self._tools.get(asked.name)
        record: dict[str, Json] = {"tool": asked.name, "args": arguments}
        self._tool_calls.append(record)
        if tool is None or refusal:
            record["error"] = refusal
        else:
            try:
                text = cut(await tool.call(flow, arguments), RESULT_LENGTH_MAX)
            except Exception as error:
                # A tool that fails is a result like any other: the model decides what to do.
                kind = "" if isinstance(error, AgentError) else f"{type(error).__name__}: "
                record["error"] = f"{kind}{error}"[:ERROR_LENGTH_MAX]
        if "error" in record:
            text = f"error: {record['error']}"
        return {"role": "tool", "tool_call_id": asked.id, "content": text}

    def _examine(self, asked: ToolCall, place: int) -> tuple[Json, str]:
        """The arguments of a call, and why it is refused; "": it is not."""
        if place >= CALLS_MAX:
            return None, f"too many calls at once: at most {CALLS_MAX} are made"
        try:
            arguments = msgspec.json.decode(asked.arguments or "{}")
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            # Services may want to read again what the model has said.
            wrong, asked.arguments = asked.arguments[:ERROR_LENGTH_MAX], "{}"
            return wrong, f"the arguments are not valid JSON: {error}"
        if asked.name not in self._tools:
            known = ", ".join(self._tools) or "none"
            return arguments, f"there is no tool {asked.name!r}; the tools are: {known}"
        return arguments, "" if isinstance(arguments, dict) else "the arguments must be an object"


#: Fields of the config that a service gets as they are.
_OPTIONS = ("temperature", "max_tokens")


def _always(body: dict[str, Json]) -> Callable[[Context], Awaitable[dict[str, Json]]]:
    async def give(ctx: Context) -> dict[str, Json]:
        return body

    return give


def _with_id(asked: ToolCall, turn: int, place: int) -> ToolCall:
    """A call as services take it back: with an id, and a name of the usual letters."""
    name = re.sub(r"[^A-Za-z0-9_-]", "_", asked.name)[:64] or "unnamed"
    return ToolCall(asked.id or f"call_{turn}_{place}", name, asked.arguments)


def _misfit(reply: Reply, problems: list[str]) -> AgentError:
    return AgentError(
        f"the answer does not fit, also when asked again: {'; '.join(problems)}",
        code="agent-misfit",
        details={"answer": reply.text[:1000]},
    )


AGENT = NodeType(
    name="agent",
    summary="Lets a language model work with tools.",
    description="The fields of `agent_config` and of `config` are the same; in `config` they may "
    "read secrets. The model gets the prompt and the outputs of the node's dependencies, and may "
    "call the tools that `available_tools` names until it has a result. Each call of the model and "
    "of a tool is a step that is kept: after a crash, the agent goes on where it was. With an "
    "`agent_driven` branch, the model also chooses the next nodes. See "
    "[Agents](../guides/agents.md).",
    display_name="Agent",
    capabilities={
        "requires_context": True,
        "supports_dynamic_routing": True,
        "supports_timeout": True,
    },
    config_schema=CONFIG_SCHEMA,
    output="`{result, reasoning, tool_calls, usage, cost}`; with an `agent_driven` branch also "
    "`next_nodes` and `decision`",
    output_schema={
        "type": "object",
        "properties": {
            "result": {},
            "reasoning": {"type": "string"},
            "tool_calls": {"type": "array", "items": {"type": "object"}},
            "usage": {"type": ["object", "null"]},
            "cost": {"type": ["number", "null"]},
        },
        "required": ["result", "reasoning", "tool_calls", "usage", "cost"],
    },
    example={
        "id": "triage",
        "type": "agent",
        "agent_config": {
            "model": "gpt-4o-mini",
            "temperature": 0.3,
            "prompt": "Find out what this customer needs: {{ input.text }}",
            "available_tools": ["http_request"],
            "max_turns": 10,
            "budget": {"tokens": 50_000},
        },
        "timeout_seconds": 300,
    },
    kind="io",
    secrets_in_config=True,
    timeout_seconds=TIMEOUT_S,
    queue="agent",
    effects="idempotent",
    run_async=run,
)
