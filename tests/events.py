"""A run's events in the form that tests look at: flat, with times in milliseconds."""

from __future__ import annotations

from typing import Any

from minuet.app import shapes
from minuet.app.app import App


async def read_events(app: App, run_id: str) -> list[dict[str, Any]]:
    """The events of a run, each as one flat mapping with its time in milliseconds."""
    return [
        {"seq": seq, "at_ms": at_ms, "type": shape["type"], **shape["data"]}
        for seq, at_ms, event in await app.runs.stored_events(run_id)
        for shape in [shapes.event(seq, at_ms, event)]
    ]
