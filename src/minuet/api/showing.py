"""Runs as JSON, as several routes answer them."""

from __future__ import annotations

from minuet.app import shapes
from minuet.app.app import Facade
from minuet.app.handle import RunHandle


async def show_run(facade: Facade, run_id: str, *, all_instances: bool = False) -> shapes.Shape:
    """A run with its output, its nodes and its child runs."""
    row, found = await facade.runs.show_row(run_id)
    each = await facade.runs.instances(run_id) if all_instances else None
    children = (await facade.runs.tree(run_id, levels=1)).children if row.children else ()
    return shapes.run(row, found, each, children)


async def show_started(facade: Facade, started: RunHandle) -> shapes.Shape:
    """A run that was just started, with as few reads as possible. One that a repeated request finds
    may have children by now."""
    row = started.row or await facade.runs.get(started.id)
    if row.children:
        return await show_run(facade, row.run)
    return shapes.run(row, await facade.runs.show_started(row), None, ())
