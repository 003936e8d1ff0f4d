"""`minuet runs logs`: what the handlers of a run have printed and logged."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

import msgspec

from minuet import outcomes
from minuet.app import shapes
from minuet.app.watch import instance_name
from minuet.cli.output import clean, format_clock, print_json
from minuet.cli.stores import find_run, with_app
from minuet.scopes import decode

if TYPE_CHECKING:
    from minuet.app.app import Facade
    from minuet.app.logs import LogLine


def logs(arguments: Namespace) -> int:
    """Show the lines, or follow them."""

    async def ask(app: Facade) -> int:
        run_id = await find_run(app, arguments.run)
        as_json = arguments.output == "json"
        if arguments.follow:
            async for line in app.runs.follow_logs(run_id, arguments.node):
                if as_json:
                    print(msgspec.json.encode(shapes.log_line(line)).decode(), flush=True)
                else:
                    print(to_text(line), flush=True)
            return outcomes.COMPLETED
        found = await app.runs.logs(run_id, arguments.node)
        if as_json:
            print_json([shapes.log_line(line) for line in found])
        for line in [] if as_json else found:
            print(to_text(line))
        if not found and not as_json:
            print(f"Nothing was printed or logged by {arguments.node or 'the nodes of this run'}.")
        return outcomes.COMPLETED

    return with_app(arguments, ask)


def to_text(line: LogLine) -> str:
    """`12:00:01.123  charge[2], attempt 2  WARNING  text`"""
    where = instance_name(line.node, decode(line.scope))
    where += f", step {line.step}" if line.step else ""
    where += f", attempt {line.attempt}" if line.attempt > 1 else ""
    level = "" if line.level in ("stdout", "info") else f"{line.level.upper()}  "
    return clean(f"{format_clock(line.at_ms)}  {where}  {level}{line.text}")
