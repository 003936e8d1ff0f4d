"""`http`: calls a service. The handler `call_external_service` is the same, for task nodes."""

from __future__ import annotations

import base64
import binascii
from typing import Any

import msgspec

from minuet.errors import ServiceRefusedError
from minuet.nodes.context import Context
from minuet.nodes.handler import task
from minuet.nodes.io.answers import error_of, is_expected, read_body, read_statuses
from minuet.nodes.io.checking import check_config, in_time
from minuet.nodes.spec import Call, NodeType
from minuet.types import Json

#: Time that one call may take in all, redirects and body included.
TIMEOUT_S = 60.0

#: Largest body, decompressed, when the document does not say: as large as an output may be.
BODY_BYTES_MAX = 16 * 1024 * 1024

#: Methods that change nothing, so that repeating them does no harm.
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})

_SCALAR = {"type": ["string", "number", "boolean"]}

CONFIG_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "method": {
            "enum": ["GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"],
            "description": "default GET; POST if there is `json` or `body`",
        },
        "url": {"type": "string", "minLength": 1},
        "headers": {"type": "object", "additionalProperties": _SCALAR},
        "params": {
            "type": "object",
            "additionalProperties": {
                "anyOf": [_SCALAR, {"type": "null"}, {"type": "array", "items": _SCALAR}]
            },
            "description": "added to the query of the URL; null leaves one out, a list repeats it",
        },
        "json": {"description": "any JSON; the body, as application/json"},
        "body": {
            "anyOf": [
                {"type": "string"},
                {
                    "type": "object",
                    "properties": {
                        "base64": {"type": "string"},
                        "content_type": {"type": "string"},
                        "size": {"type": "integer"},
                    },
                    "required": ["base64"],
                    "additionalProperties": False,
                },
            ],
            "description": "the body as text, or `{base64}` as an http node returns it",
        },
        "expect_status": {
            "anyOf": [
                {"$ref": "#/$defs/status"},
                {"type": "array", "items": {"$ref": "#/$defs/status"}, "minItems": 1},
            ],
            "description": "which statuses mean success: 200, `2xx`, `200-204`, or a list; "
            "default `2xx`",
        },
        "timeout_seconds": {"type": "number", "exclusiveMinimum": 0, "maximum": 3600},
    },
    "required": ["url"],
    "not": {"required": ["json", "body"]},
    "additionalProperties": False,
    "$defs": {
        "status": {
            "anyOf": [
                {"type": "integer", "minimum": 100, "maximum": 599},
                {"type": "string", "pattern": "^([1-5][xX]{2}|[1-5][0-9]{2}(-[1-5][0-9]{2})?)$"},
            ]
        }
    },
}


async def run(call: Call, ctx: Context) -> Json:
    """Call the service that the config names."""
    return await request(call.config, ctx)


async def request(config: dict[str, Any], ctx: Context) -> Json:
    """Make one call; an answer that is not expected is an error."""
    check_config("http", CONFIG_SCHEMA, config)
    calling = _request(config, ctx, _expected(config))
    return await in_time(calling, config.get("timeout_seconds", TIMEOUT_S), "the call")


async def _request(config: dict[str, Any], ctx: Context, expected: tuple[range, ...]) -> Json:
    from minuet.nodes.io.client import Request

    method = config.get("method") or ("POST" if {"json", "body"} & config.keys() else "GET")
    headers = {name: _text(value) for name, value in config.get("headers", {}).items()}
    named = {name.lower() for name in headers}
    content, kind = _content(config)
    if kind and "content-type" not in named:
        headers["content-type"] = kind
    if method not in SAFE and "idempotency-key" not in named:
        headers["idempotency-key"] = ctx.idempotency_key
    kept = frozenset(
        status for status in (301, 302, 303, 307, 308) if is_expected(status, expected)
    )
    params = {n: _param(v) for n, v in config.get("params", {}).items() if v is not None}
    sent = Request(
        method=method,
        url=config["url"],
        headers=headers,
        params=params,
        content=content,
        kept=kept,
    )
    async with ctx.client.send(sent) as answer:
        if not is_expected(answer.status, expected):
            raise await error_of(answer)
        body = await answer.read(ctx.max_output_bytes or BODY_BYTES_MAX)
        return {
            "status": answer.status,
            "headers": answer.headers,
            "body": read_body(answer, body),
        }


def _expected(config: dict[str, Any]) -> tuple[range, ...]:
    try:
        return read_statuses(config.get("expect_status", "2xx"))
    except ValueError as error:
        raise ServiceRefusedError(
            f"http: `expect_status` has {str(error)!r}; write 200, 2xx, 200-204 or a list of these",
            code="invalid-config",
        ) from None


def _content(config: dict[str, Any]) -> tuple[bytes, str]:
    """The body, and its type; "": the document says it, or nobody does."""
    if "json" in config:
        return msgspec.json.encode(config["json"]), "application/json"
    body = config.get("body", "")
    if isinstance(body, str):
        return body.encode(), "text/plain; charset=utf-8" if body else ""
    try:
        content = base64.b64decode(body["base64"], validate=True)
    except (binascii.Error, ValueError) as error:
        raise ServiceRefusedError(
            f"http: `body.base64` is not base64: {error}", code="invalid-config"
        ) from None
    return content, body.get("content_type") or "application/octet-stream"


def _param(value: Any) -> Any:
    return [_text(one) for one in value] if isinstance(value, list) else _text(value)


def _text(value: Any) -> str:
    """A header or parameter as text, written as JSON would."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


HTTP = NodeType(
    name="http",
    display_name="HTTP request",
    summary="Calls a service over HTTP.",
    description="5xx, 408, 425, 429 and network errors are retried, and `Retry-After` is "
    "honoured; other statuses that `expect_status` does not name fail the node. Methods that "
    "change something carry the node's idempotency key as `Idempotency-Key`. A JSON body is "
    "decoded, text is a string, anything else is `{base64, content_type, size}`. Where the call "
    "may go is decided by the worker: see [Calling services](../guides/http.md).",
    config_schema=CONFIG_SCHEMA,
    output="`{status, headers, body}`",
    output_schema={
        "type": "object",
        "properties": {
            "status": {"type": "integer"},
            "headers": {"type": "object", "additionalProperties": {"type": "string"}},
            "body": {},
        },
        "required": ["status", "headers", "body"],
    },
    example={
        "id": "charge",
        "type": "http",
        "config": {
            "method": "POST",
            "url": "https://payments.example.com/charges",
            "json": {"amount": "{{ input.amount }}"},
        },
    },
    kind="io",
    secrets_in_config=True,
    queue="http",
    effects="idempotent",
    run_async=run,
)


@task(name="call_external_service", effects="idempotent")
async def call_external_service(
    ctx: Context,
    url: str,
    method: str | None = None,
    headers: dict[str, Any] | None = None,
    params: dict[str, Any] | None = None,
    json: Any = msgspec.UNSET,
    body: Any = msgspec.UNSET,
    expect_status: Any = msgspec.UNSET,
    timeout_seconds: float | None = None,
) -> Any:
    """Do what an `http` node does."""
    given = {
        "url": url,
        "method": method,
        "headers": headers,
        "params": params,
        "timeout_seconds": timeout_seconds,
    }
    config = {name: value for name, value in given.items() if value is not None}
    for name, value in (("json", json), ("body", body), ("expect_status", expect_status)):
        if value is not msgspec.UNSET:
            config[name] = value
    return await request(config, ctx)
