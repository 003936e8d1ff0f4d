"""Runs as JSON, as several routes answer them."""

from __future__ import annotations

from minuet.app import shapes
from minuet.app.app import Facade


async def show_run(facade: Facade, run_id: str, *, all_instances: bool = False) -> shapes.Shape:
    """A run with its output, its nodes and its child runs."""
    found = await facade.runs.show(run_id)
    row = await facade.runs.get(run_id)
    each = await facade.runs.instances(run_id) if all_instances else None
    children = (await facade.runs.tree(run_id, levels=1)).children if row.children else ()
    return shapes.run(row, found, each, children)
