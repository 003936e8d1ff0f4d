"""What the routes that change a run share: `If-Match`, and how they are described."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import Request

from minuet.api.answers import JsonAnswer, answer_run
from minuet.api.bodies import expected_seq
from minuet.api.errors import PreconditionError
from minuet.app import shapes
from minuet.app.app import Facade
from minuet.app.finder import Run
from minuet.errors import RunConflictError

#: For `describes`.
CHANGES: dict[str, Any] = {
    "errors": (404, 409, 412),
    "headers": {"ETag": "The number of its last event."},
}


async def answer_change(
    request: Request,
    facade: Facade,
    run_id: str,
    change: Callable[..., Awaitable[Run]],
    *words: Any,
    **options: Any,
) -> JsonAnswer:
    """Change a run, if its last event is still the one that the client has seen (`If-Match`)."""
    expected = expected_seq(request)
    try:
        run = await change(run_id, *words, seq=expected, **options)
    except RunConflictError as error:
        if expected is None:
            raise
        now = await facade.runs.get(run_id)
        if now.seq == expected:
            raise
        message = f"has moved on to event {now.seq} (expected {expected})"
        raise PreconditionError(run_id, message, status=now.status, seq=now.seq) from error
    return answer_run(shapes.row(run))
