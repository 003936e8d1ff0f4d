"""Change several runs with one command: those named, or those that fit a filter."""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import Any

from minuet import outcomes
from minuet.app import shapes
from minuet.app.actions import BulkAction
from minuet.app.app import Facade
from minuet.app.bulk import DONE, ManyChanged
from minuet.cli.output import clean, note, print_json, print_table
from minuet.cli.stores import find_to_change, with_app
from minuet.errors import ConfigError
from minuet.settings import masked


def change_many(arguments: Namespace, action: BulkAction, options: dict[str, Any]) -> int:
    """Change several runs, and say what became of each."""
    if bool(arguments.runs) == (arguments.filter is not None):
        raise ConfigError("name the runs, or say which with --filter FILTER")
    if arguments.filter is not None and not arguments.filter.strip():
        raise ConfigError("--filter: an empty filter fits all runs: say which")

    async def work(app: Facade) -> ManyChanged:
        if arguments.runs:
            ids = [await find_to_change(app, text) for text in arguments.runs]
            return await app.runs.change_many(action, ids, dry_run=arguments.dry_run, **options)
        found = await app.runs.change_many(
            action, query=arguments.filter, limit=arguments.limit, dry_run=True
        )
        ids = [one.run_id for one in found.runs if one.is_changed]
        if arguments.dry_run or not ids:
            return found
        many = f"{len(ids):,} run{'' if len(ids) == 1 else 's'}"
        confirm(arguments, f"{action.capitalize()} {many} of {masked(arguments.store)}?")
        done = await app.runs.change_many(action, ids, **options)
        return ManyChanged(action, False, done.runs, found.next)

    found = with_app(arguments, work)
    if arguments.output == "json":
        print_json(shapes.many_changed(found))
    else:
        _print(found)
    left = not found.is_preview and any(not one.is_changed for one in found.runs)
    return outcomes.FAILED if left else outcomes.COMPLETED


def _print(found: ManyChanged) -> None:
    if not found.runs:
        print("There are no such runs.")
        return
    done = f"would be {DONE[found.action]}" if found.is_preview else DONE[found.action]
    rows = [
        (
            one.run_id,
            clean(one.workflow or ""),
            one.status or "",
            clean(one.why.removeprefix(f"run {one.run_id}: ")) or done,
        )
        for one in found.runs
    ]
    print_table(("run", "workflow", "status", ""), rows, names=("workflow",))
    if found.next is not None:
        note("There may be more runs that fit: call it again, or with a larger --limit.")


def confirm(arguments: Namespace, question: str) -> None:
    """Ask for confirmation; ConfigError where there is no terminal to ask."""
    if arguments.yes:
        return
    is_final = question.startswith("Delete")
    if not (sys.stdin.isatty() and sys.stderr.isatty()) or arguments.output == "json":
        done = "deleted" if is_final else "changed"
        raise ConfigError(
            f"{question} Add --yes to do it, or --dry-run to see what would be {done}."
        )
    warning = " It cannot be undone." if is_final else ""
    print(f"{clean(question)}{warning} [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise ConfigError("nothing was changed")
