"""`minuet runs skip`, `set-output` and `take-back`: decide what becomes of a node."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Awaitable, Callable
from typing import Any

from minuet import outcomes
from minuet.app import shapes
from minuet.app.app import Facade
from minuet.cli.handlers import goes_on
from minuet.cli.inputs import read_data
from minuet.cli.output import clean, paint, print_json
from minuet.cli.preview import preview
from minuet.cli.stores import find_to_change, with_app
from minuet.cli.user import user_name


def skip(arguments: Namespace) -> int:
    """Skip a node."""
    if arguments.dry_run:
        return preview(arguments, "skip", node=arguments.node)
    return _repair(
        arguments,
        "is skipped",
        lambda app, run, by: app.runs.skip(run, arguments.node, by=by, why=arguments.why),
    )


def set_output(arguments: Namespace) -> int:
    """Give a node an output."""
    data = read_data(arguments.data)
    if arguments.dry_run:
        return preview(arguments, "set_output", node=arguments.node, data=data)
    return _repair(
        arguments,
        "has its output",
        lambda app, run, by: app.runs.set_output(
            run, arguments.node, data, by=by, why=arguments.why
        ),
    )


def take_back(arguments: Namespace) -> int:
    """Take a node back from its worker."""
    if arguments.dry_run:
        return preview(arguments, "take_back", node=arguments.node)
    return _repair(
        arguments,
        "is taken back",
        lambda app, run, by: app.runs.take_back(run, arguments.node, by=by, why=arguments.why),
    )


def _repair(
    arguments: Namespace, done: str, change: Callable[[Facade, str, str], Awaitable[Any]]
) -> int:
    by = arguments.by or user_name()

    async def ask(app: Facade) -> None:
        run = await change(app, await find_to_change(app, arguments.run), by)
        if arguments.output == "json":
            print_json(shapes.row(run))
            return
        print(f"{clean(arguments.node)} {done}; run {run.run} is {paint(run.status)}")
        if run.status == "RUNNING":
            print(goes_on(arguments.store, run))

    with_app(arguments, ask)
    return outcomes.COMPLETED
