"""Describe routes for the OpenAPI document.

Bodies are read by msgspec and answers are made by `app.shapes`, so FastAPI knows neither. Each
route says which types they have (`requests`, `replies`), and the schemas are made of these types.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import msgspec

from minuet.api import replies
from minuet.api.permissions import EXEMPT, PREFIX, roles_of

#: Where the document holds a type's schema.
REFERENCE = "#/components/schemas/{name}"

#: What errors a route can answer, in words.
ERRORS: Mapping[int, str] = {
    401: "The API key is missing, wrong, revoked or has expired.",
    403: "The sender needs another role, or is not one of those who may decide.",
    404: "It does not exist.",
    409: "The state of the run forbids it; the answer has the state.",
    410: "The store cannot go on from this position: list the runs, and go on from now.",
    412: "The run has changed since the event that `If-Match` names.",
    413: "The body is too large.",
    422: "The request is not valid; the answer lists all problems.",
    429: "Too many at once: try again later.",
    503: "The store is not available: try again.",
}

#: The types that routes have named.
_types: dict[str, Any] = {"Problem": replies.Problem}


def describes(
    answer: Any = None,
    *,
    status: int = 200,
    body: type[Any] | None = None,
    page: bool = False,
    beside: Mapping[str, Any] | None = None,
    errors: tuple[int, ...] = (),
    example: Any = None,
    media: str = "application/json",
    headers: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Arguments of a route that say what it takes and answers; `beside`: fields of a page beside
    its items, with their types."""
    responses: dict[int | str, dict[str, Any]] = {
        status: _success(answer, status, page, beside or {}, media, headers or {})
    }
    for number in sorted({*errors, 401, 403, 422, 503}):
        responses[number] = {"description": ERRORS[number], "content": _PROBLEM}
    responses["default"] = {"description": "Anything else that went wrong.", "content": _PROBLEM}
    described: dict[str, Any] = {"status_code": status, "responses": responses}
    if body is not None:
        content: dict[str, Any] = {"schema": _schema(body)}
        if example is not None:
            content["example"] = example
        described["openapi_extra"] = {
            "requestBody": {
                "required": _has_required(body),
                "content": {"application/json": content},
            }
        }
    return described


def describes_stream(described: dict[str, Any], media: str, each: str, over: str = "") -> None:
    """The route also streams: `each` entry, and what 204 says when the stream is `over`."""
    schema = {"type": "string", "description": each}
    described["responses"][200]["content"][media] = {"schema": schema}
    if over:
        described["responses"][204] = {"description": over}


def _success(
    answer: Any,
    status: int,
    page: bool,
    beside: Mapping[str, Any],
    media: str,
    headers: Mapping[str, str],
) -> dict[str, Any]:
    described: dict[str, Any] = {"description": HTTPStatus(status).phrase}
    if answer is not None:
        schema = {"type": "string", "format": "binary"} if answer is bytes else _schema(answer)
        if page:
            schema = {
                "type": "object",
                "required": ["items", "next", *beside],
                "properties": {
                    "items": {"type": "array", "items": schema},
                    "next": {
                        "type": ["string", "null"],
                        "description": "The `cursor` of the next page; null: there is none.",
                    },
                    **{name: _schema(kind) for name, kind in beside.items()},
                },
            }
        described["content"] = {media: {"schema": schema}}
    if headers:
        described["headers"] = {
            name: {"description": text, "schema": {"type": "string"}}
            for name, text in headers.items()
        }
    return described


def _schema(kind: Any) -> dict[str, Any]:
    (schema,), named = msgspec.json.schema_components([kind], ref_template=REFERENCE)
    if named:
        _types[repr(kind)] = kind
    return schema


def _has_required(kind: type[Any]) -> bool:
    return any(field.required for field in msgspec.structs.fields(kind))


def components() -> dict[str, Any]:
    """The schemas of all types that routes have named."""
    found: dict[str, Any] = msgspec.json.schema_components(
        list(_types.values()), ref_template=REFERENCE
    )[1]
    return dict(sorted(found.items()))


def describe_access(document: dict[str, Any]) -> None:
    """Say which roles the operations of a document need, and how a caller shows that it has one."""
    document["components"]["securitySchemes"] = {
        "bearer": {
            "type": "http",
            "scheme": "bearer",
            "description": "An API key, the token of a worker over HTTP, or a token of the OpenID "
            "Connect provider of the server.",
        },
        "link": {
            "type": "apiKey",
            "in": "query",
            "name": "link",
            "description": "A link to an approval.",
        },
    }
    document["security"] = [{"bearer": []}]
    for path, operations in document["paths"].items():
        short = path.removeprefix(PREFIX)
        for method, operation in operations.items():
            if short in EXEMPT:
                operation["security"] = []
                continue
            name = f"{method.upper()} {short}"
            # A path with slashes in a parameter is written without that here.
            operation["x-roles"] = list(roles_of(name))
            if short.endswith("/decide"):
                operation["security"] = [{"bearer": []}, {"link": []}]


_PROBLEM = {"application/problem+json": {"schema": {"$ref": REFERENCE.format(name="Problem")}}}
