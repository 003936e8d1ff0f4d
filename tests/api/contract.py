"""Compare what a server answers with what its OpenAPI document says.

A field that is new in `minuet.app.shapes` belongs into its type in `minuet.api.replies` as well.
"""

from __future__ import annotations

import copy
import functools
import re
from typing import Any

import httpx2
import jsonschema_rs

from minuet.api import replies
from minuet.api.application import make_routes


@functools.cache
def document() -> dict[str, Any]:
    """The OpenAPI document."""
    return make_routes().openapi()


@functools.cache
def _components() -> dict[str, Any]:
    """The schemas; answers may have no field that they do not name."""
    found: dict[str, Any] = copy.deepcopy(document()["components"])
    for name, schema in found["schemas"].items():
        if hasattr(replies, name):
            schema["additionalProperties"] = False
    return found


@functools.cache
def _paths() -> list[tuple[re.Pattern[str], dict[str, Any]]]:
    return [
        (re.compile(re.sub(r"\\{[^/]+?\\}", "[^/]+", re.escape(path))), operations)
        for path, operations in sorted(document()["paths"].items())
    ]


def check_answer(answer: httpx2.Response) -> None:
    """Fail unless the document describes this answer."""
    path, method = answer.request.url.path, answer.request.method.lower()
    found = [
        operations[method]
        for pattern, operations in _paths()
        if pattern.fullmatch(path) and method in operations
    ]
    if not found:
        assert answer.status_code in (404, 405), path
        return
    responses = found[0]["responses"]
    described = responses.get(str(answer.status_code), responses["default"])
    kind = answer.headers["content-type"]
    schema = {**described["content"][kind]["schema"], "components": _components()}
    jsonschema_rs.validator_for(schema).validate(answer.json())
