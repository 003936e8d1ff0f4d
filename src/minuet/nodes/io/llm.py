"""`llm`: asks a language model. The handler `llm_service` is the same, for task nodes."""

from __future__ import annotations

from typing import Any

import msgspec

from minuet.errors import ServiceRefusedError, ServiceUnavailableError
from minuet.nodes.context import Context
from minuet.nodes.handler import task
from minuet.nodes.io.asking import add_usage, format_of, read_json, repair, schema_of, service_of
from minuet.nodes.io.chat import Said, Usage, ask
from minuet.nodes.io.checking import check_config, in_time
from minuet.nodes.spec import Call, NodeType
from minuet.schemas import Schema
from minuet.types import Json

#: Time that a node's calls may take in all.
TIMEOUT_S = 600.0

#: Largest answer, when the document does not say.
ANSWER_BYTES_MAX = 4 * 1024 * 1024

CONFIG_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "model": {"type": "string", "minLength": 1},
        "prompt": {"type": "string", "description": "short for one message of the user"},
        "messages": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "properties": {
                    "role": {"enum": ["system", "developer", "user", "assistant"]},
                    "content": {"type": ["string", "array"]},
                },
                "required": ["role", "content"],
            },
        },
        "temperature": {"type": "number", "minimum": 0, "maximum": 2},
        "max_tokens": {"type": "integer", "minimum": 1},
        "response_schema": {
            "type": "object",
            "description": "JSON Schema of the answer; `json` is then a value that fits",
        },
        "base_url": {
            "type": "string",
            "description": "of another service; default OPENAI_BASE_URL of the worker",
        },
        "api_key": {
            "type": "string",
            "description": "for that service; OPENAI_API_KEY of the worker goes to "
            "OPENAI_BASE_URL only",
        },
        "timeout_seconds": {"type": "number", "exclusiveMinimum": 0, "maximum": 3600},
    },
    "required": ["model"],
    "oneOf": [{"required": ["prompt"]}, {"required": ["messages"]}],
    "additionalProperties": False,
}


async def run(call: Call, ctx: Context) -> Json:
    """Ask the model that the config names."""
    return await request(call.config, ctx)


async def request(config: dict[str, Any], ctx: Context) -> Json:
    """Ask a model; with a schema, once more if the answer does not fit."""
    check_config("llm", CONFIG_SCHEMA, config)
    asking = _request(config, schema_of("llm", config), ctx)
    return await in_time(asking, config.get("timeout_seconds", TIMEOUT_S), "the model")


async def _request(config: dict[str, Any], schema: Schema | None, ctx: Context) -> Json:
    url, api_key = service_of(config, ctx)
    bytes_max = ctx.max_output_bytes or ANSWER_BYTES_MAX
    body = _body(config)
    said = await ask(ctx.client, url, api_key, body, bytes_max)
    usage, value = said.usage, None
    if schema is not None:
        value, problems = read_json(said.text, schema)
        if problems:
            body["messages"] = [*body["messages"], *repair(said.text, problems)]
            said = await ask(ctx.client, url, api_key, body, bytes_max)
            usage = add_usage(usage, said.usage)
            value, problems = read_json(said.text, schema)
        if problems:
            raise _misfit(said, problems, usage)
    return {
        "text": said.text,
        "json": value,
        "usage": msgspec.to_builtins(usage),
        "cost": ctx.llm.prices.cost(config["model"], usage),
        "finish_reason": said.finish_reason,
    }


def _body(config: dict[str, Any]) -> dict[str, Any]:
    messages = config.get("messages") or [{"role": "user", "content": config["prompt"]}]
    body: dict[str, Any] = {"model": config["model"], "messages": messages}
    for name in ("temperature", "max_tokens"):
        if name in config:
            body[name] = config[name]
    if "response_schema" in config:
        body["response_format"] = format_of(config["response_schema"])
    return body


# ── answers that must fit ───────────────────────────────────────────────────────────────────


def _misfit(said: Said, problems: list[str], usage: Usage | None) -> Exception:
    details = {"answer": said.text[:1000], "usage": msgspec.to_builtins(usage)}
    if said.finish_reason == "length":
        return ServiceRefusedError(
            "the answer was cut at `max_tokens`, so it is not the JSON that `response_schema` "
            "asks for: raise `max_tokens`",
            code="llm-too-long",
            details=details,
        )
    return ServiceUnavailableError(
        f"the answer does not fit `response_schema`, also when asked again: {'; '.join(problems)}",
        code="llm-misfit",
        details=details,
    )


LLM = NodeType(
    name="llm",
    display_name="Language model",
    summary="Asks a language model.",
    description="Any service that speaks the chat protocol of OpenAI. With `response_schema`, the "
    "answer is checked; if it does not fit, the model is asked once more, with what is wrong. "
    "`cost` is in US dollars by the operator's prices (`MINUET_LLM_PRICES`), else null. See "
    "[Asking language models](../guides/llm.md).",
    config_schema=CONFIG_SCHEMA,
    output="`{text, json, usage, cost, finish_reason}`",
    output_schema={
        "type": "object",
        "properties": {
            "text": {"type": "string"},
            "json": {},
            "usage": {"type": ["object", "null"]},
            "cost": {"type": ["number", "null"]},
            "finish_reason": {"type": "string"},
        },
        "required": ["text", "json", "usage", "cost", "finish_reason"],
    },
    example={
        "id": "classify",
        "type": "llm",
        "config": {
            "model": "gpt-4o-mini",
            "prompt": "Is this a complaint? {{ input.text }}",
            "response_schema": {
                "type": "object",
                "properties": {"complaint": {"type": "boolean"}},
                "required": ["complaint"],
            },
        },
    },
    kind="io",
    secrets_in_config=True,
    queue="llm",
    effects="idempotent",
    run_async=run,
)


@task(name="llm_service", effects="idempotent")
async def llm_service(
    ctx: Context,
    model: str,
    prompt: str | None = None,
    messages: list[Any] | None = None,
    temperature: float | None = None,
    max_tokens: int | None = None,
    response_schema: dict[str, Any] | None = None,
    base_url: str | None = None,
    api_key: str | None = None,
    timeout_seconds: float | None = None,
) -> Any:
    """Do what an `llm` node does."""
    given = {
        "model": model,
        "prompt": prompt,
        "messages": messages,
        "temperature": temperature,
        "max_tokens": max_tokens,
        "response_schema": response_schema,
        "base_url": base_url,
        "api_key": api_key,
        "timeout_seconds": timeout_seconds,
    }
    return await request({n: value for n, value in given.items() if value is not None}, ctx)
