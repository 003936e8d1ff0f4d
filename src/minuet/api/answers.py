"""Answers: JSON, pages, and problems (RFC 9457)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from starlette.responses import Response

from minuet.app import shapes
from minuet.errors import MinuetError, StoreUnavailableError
from minuet.outcomes import outcome_of

_encode = msgspec.json.Encoder().encode


class JsonAnswer(Response):
    """A value as JSON."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return _encode(content)


class ProblemAnswer(JsonAnswer):
    """An error as problem+json."""

    media_type = "application/problem+json"


def answer_page(items: Iterable[shapes.Shape], after: str | None, **beside: Any) -> JsonAnswer:
    """A page; `after` is the cursor of the next one. `beside`: other fields."""
    return JsonAnswer({"items": list(items), "next": after, **beside})


def answer_run(run: shapes.Shape, status: int = 200, **headers: str) -> JsonAnswer:
    """A run. Its tag is the number of its last event: see `If-Match`."""
    return JsonAnswer(run, status, headers={"ETag": f'"{run["seq"]}"', **headers})


def answer_problem(error: MinuetError, path: str) -> ProblemAnswer:
    """An error."""
    headers: dict[str, str] = dict(getattr(error, "headers", {}))
    if isinstance(error, StoreUnavailableError):
        headers["Retry-After"] = "1"
    shape = shapes.problem(error, instance=path)
    return ProblemAnswer(shape, outcome_of(error).http_status, headers=headers)
