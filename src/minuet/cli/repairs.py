"""`minuet runs skip`, `set-output` and `take-back`: decide what becomes of a node."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Awaitable, Callable
from typing import Any

from minuet import outcomes
from minuet.app import shapes
from minuet.app.app import Facade
from minuet.app.finder import Run
from minuet.app.runs import Runs
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
        lambda runs: runs.skip,
    )


def set_output(arguments: Namespace) -> int:
    """Give a node an output."""
    data = read_data(arguments.data)
    if arguments.dry_run:
        return preview(arguments, "set_output", node=arguments.node, data=data)
    return _repair(
        arguments,
        "has its output",
        lambda runs: runs.set_output,
        data,
    )


def take_back(arguments: Namespace) -> int:
    """Take a node back from its worker."""
    if arguments.dry_run:
        return preview(arguments, "take_back", node=arguments.node)
    return _repair(
        arguments,
        "is taken back",
        lambda runs: runs.take_back,
    )


def _repair(
    arguments: Namespace,
    done: str,
    verb: Callable[[Runs], Callable[..., Awaitable[Run]]],
    *words: Any,
) -> int:
    options = {
        "by": arguments.by or user_name(),
        "why": arguments.why,
        "seq": arguments.if_seq,
    }

    async def ask(app: Facade) -> None:
        run_id = await find_to_change(app, arguments.run)
        run = await verb(app.runs)(run_id, arguments.node, *words, **options)
        if arguments.output == "json":
            print_json(shapes.row(run))
            return
        print(f"{clean(arguments.node)} {done}; run {run.run} is {paint(run.status)}")
        if run.status == "RUNNING":
            print(goes_on(arguments.store, run))

    with_app(arguments, ask)
    return outcomes.COMPLETED
