"""`llm`: asks a language model. The handler `llm_service` is the same, for task nodes."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from minuet.errors import ServiceRefusedError, ServiceUnavailableError
from minuet.nodes.context import Context
from minuet.nodes.handler import task
from minuet.nodes.io.chat import Said, Usage, ask
from minuet.nodes.io.checking import check_config, in_time
from minuet.nodes.spec import Call, NodeType
from minuet.schemas import Schema, SchemaTooComplexError, compile_schema
from minuet.types import Json

#: Time that a node's calls may take in all.
TIMEOUT_S = 600.0

#: Largest answer, when the document does not say.
ANSWER_BYTES_MAX = 4 * 1024 * 1024

#: Where models are asked when nobody says.
BASE_URL = "https://api.openai.com/v1"

_FENCED = re.compile(r"\s*```(?:json)?\s*\n(.*)\n\s*```\s*", re.DOTALL | re.IGNORECASE)

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
    asking = _request(config, _schema_of(config), ctx)
    return await in_time(asking, config.get("timeout_seconds", TIMEOUT_S), "the model")


async def _request(config: dict[str, Any], schema: Schema | None, ctx: Context) -> Json:
    url, api_key = _service(config, ctx)
    bytes_max = ctx.max_output_bytes or ANSWER_BYTES_MAX
    body = _body(config)
    said = await ask(ctx.client, url, api_key, body, bytes_max)
    usage, value = said.usage, None
    if schema is not None:
        value, problems = _read_json(said, schema)
        if problems:
            body["messages"] = [*body["messages"], *_repair(said, problems)]
            said = await ask(ctx.client, url, api_key, body, bytes_max)
            usage = _sum(usage, said.usage)
            value, problems = _read_json(said, schema)
        if problems:
            raise _misfit(said, problems, usage)
    return {
        "text": said.text,
        "json": value,
        "usage": msgspec.to_builtins(usage),
        "cost": ctx.llm.prices.cost(config["model"], usage),
        "finish_reason": said.finish_reason,
    }


def _service(config: dict[str, Any], ctx: Context) -> tuple[str, str | None]:
    """Where to ask, and with which key. The worker's own key goes to the worker's own service: a
    document that names another must not get it."""
    defaults = ctx.llm
    base_url, api_key = config.get("base_url"), config.get("api_key")
    if base_url is None:
        base_url = defaults.base_url or BASE_URL
        api_key = api_key or defaults.api_key
    if api_key:
        ctx.revealed += (api_key,)
    return f"{base_url.rstrip('/')}/chat/completions", api_key


def _body(config: dict[str, Any]) -> dict[str, Any]:
    messages = config.get("messages") or [{"role": "user", "content": config["prompt"]}]
    body: dict[str, Any] = {"model": config["model"], "messages": messages}
    for name in ("temperature", "max_tokens"):
        if name in config:
            body[name] = config[name]
    if "response_schema" in config:
        body["response_format"] = {
            "type": "json_schema",
            "json_schema": {"name": "answer", "schema": config["response_schema"]},
        }
    return body


# ── answers that must fit ───────────────────────────────────────────────────────────────────


def _schema_of(config: dict[str, Any]) -> Schema | None:
    if "response_schema" not in config:
        return None
    import jsonschema_rs

    try:
        return compile_schema(msgspec.json.encode(config["response_schema"]))
    except (SchemaTooComplexError, jsonschema_rs.ValidationError, ValueError) as error:
        raise ServiceRefusedError(
            f"llm: `response_schema` cannot be used: {str(error)[:500]}", code="invalid-config"
        ) from None


def _read_json(said: Said, schema: Schema) -> tuple[Json, list[str]]:
    """The answer as JSON, and what is wrong with it."""
    fenced = _FENCED.fullmatch(said.text)
    try:
        value = msgspec.json.decode(fenced[1] if fenced else said.text)
    except (msgspec.DecodeError, UnicodeError) as error:
        return None, [f"it is not valid JSON: {error}"]
    return value, schema.find_problems(value, "answer")


def _repair(said: Said, problems: list[str]) -> list[Json]:
    """Show the model what it has said, and what is wrong with it."""
    listed = "\n".join(f"- {problem}" for problem in problems)
    return [
        {"role": "assistant", "content": said.text},
        {
            "role": "user",
            "content": f"This answer does not fit the JSON Schema:\n{listed}\n"
            "Answer again with the corrected JSON, and nothing else.",
        },
    ]


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


def _sum(one: Usage | None, other: Usage | None) -> Usage | None:
    return other if one is None else one if other is None else one + other


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
