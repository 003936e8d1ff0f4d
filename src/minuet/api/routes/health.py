"""Whether the process lives, and whether it can work."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from minuet import __version__
from minuet.api import replies
from minuet.api.answers import JsonAnswer
from minuet.api.context import All
from minuet.api.describing import describes
from minuet.api.routes.metrics import oldest_ms
from minuet.app import shapes
from minuet.errors import StoreError

router = APIRouter(tags=["health"])

#: How long the store may take to answer.
STORE_S = 2.0


@router.get("/health/live", **describes(replies.Alive))
async def live() -> Response:
    """Whether the process answers."""
    return JsonAnswer({"status": "ok", "version": __version__})


@router.get("/health/ready", **describes(replies.Ready))
async def ready(shared: All) -> Response:
    """Whether the store answers, how many workers are healthy, stale, dead or draining, and how
    long the oldest node that could run has waited.

    503 if the store does not answer, or the server is about to stop.
    """
    app = shared.app
    try:
        if shared.closing.is_set():
            raise StoreError("the server is stopping")
        async with asyncio.timeout(STORE_S):
            found = [shapes.worker(one) for one in await app.workers.list()]
            queues = await app.workers.queues()
    except (StoreError, TimeoutError) as error:
        text = str(error) or f"the store did not answer within {STORE_S:g} s"
        return JsonAnswer({"status": "unavailable", "store": text}, 503)
    counts = Counter(str(one["status"]) for one in found)
    answer: dict[str, Any] = {
        "status": "ok",
        "store": app.durability,
        "workers": dict(counts),
        "oldest_ms": oldest_ms(queues),
    }
    if shared.age_ms is not None:
        answer["data_age_ms"] = shared.data_age_ms
    return JsonAnswer(answer)
