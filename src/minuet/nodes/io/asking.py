"""What all who ask language models need: the service, answers that fit a JSON Schema, and usage."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from minuet.errors import ServiceRefusedError
from minuet.nodes.context import Context
from minuet.nodes.io.chat import Usage
from minuet.schemas import Schema, SchemaTooComplexError, compile_schema
from minuet.types import Json

#: Where models are asked when nobody says.
BASE_URL = "https://api.openai.com/v1"

_FENCED = re.compile(r"\s*```(?:json)?\s*\n(.*)\n\s*```\s*", re.DOTALL | re.IGNORECASE)


def service_of(config: dict[str, Any], ctx: Context) -> tuple[str, str | None]:
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


def schema_of(node_type: str, config: dict[str, Any]) -> Schema | None:
    """The schema that the answer must fit; None: any answer will do."""
    if "response_schema" not in config:
        return None
    import jsonschema_rs

    try:
        return compile_schema(msgspec.json.encode(config["response_schema"]))
    except (SchemaTooComplexError, jsonschema_rs.ValidationError, ValueError) as error:
        raise ServiceRefusedError(
            f"{node_type}: `response_schema` cannot be used: {str(error)[:500]}",
            code="invalid-config",
        ) from None


def format_of(schema: dict[str, Any]) -> dict[str, Any]:
    """How a service is asked for JSON that fits a schema."""
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}


def read_json(text: str, schema: Schema) -> tuple[Json, list[str]]:
    """An answer as JSON, and what is wrong with it."""
    fenced = _FENCED.fullmatch(text)
    try:
        value = msgspec.json.decode(fenced[1] if fenced else text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        return None, [f"it is not valid JSON: {error}"]
    return value, schema.find_problems(value, "answer")


def repair(text: str, problems: list[str]) -> list[Json]:
    """Show the model what it has said, and what is wrong with it."""
    listed = "\n".join(f"- {problem}" for problem in problems)
    return [
        {"role": "assistant", "content": text},
        {
            "role": "user",
            "content": f"This answer does not fit the JSON Schema:\n{listed}\n"
            "Answer again with the corrected JSON, and nothing else.",
        },
    ]


def add_usage(one: Usage | None, other: Usage | None) -> Usage | None:
    """What two calls have used together, where it is known."""
    return other if one is None else one if other is None else one + other
