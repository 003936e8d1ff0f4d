"""`--dry-run` of a change of one run: say what would happen."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from typing import Any

from minuet import outcomes
from minuet.app import shapes
from minuet.app.actions import PreviewAction
from minuet.app.app import Facade
from minuet.app.consequences import Consequences
from minuet.cli.output import clean, paint, print_json
from minuet.cli.stores import find_to_change, with_app

#: Names in one line.
NAMED_MAX = 10

LINES = {
    "ready": "ready to run",
    "cut_off": "cut off",
    "undone": "undone, in this order",
    "skipped": "skipped as well",
    "next": "can come next",
    "ahead": "can come later",
    "children": "child runs that are cancelled",
}


def preview(arguments: Namespace, action: PreviewAction, **options: Any) -> int:
    """Ask what a change would do, and print it."""

    async def ask(app: Facade) -> Consequences:
        run_id = await find_to_change(app, arguments.run)
        return await app.runs.preview(run_id, action, **options)

    return print_preview(arguments, with_app(arguments, ask))


def print_preview(arguments: Namespace, found: Consequences) -> int:
    """Print what a change would do."""
    if arguments.output == "json":
        print_json(shapes.consequences(found))
    elif not found.is_allowed:
        print(f"It would be refused: {clean(found.why)}")
    else:
        print(f"The run would be {paint(found.status)}.")
        for field, title in LINES.items():
            names = getattr(found, field)
            if field == "ahead":
                names = [one for one in names if one not in found.next]
            if names:
                print(f"{title}: {clean(_listed(names))}")
    return outcomes.COMPLETED if found.is_allowed else outcomes.FAILED


def _listed(names: Sequence[str]) -> str:
    more = len(names) - NAMED_MAX
    return ", ".join(names[:NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
