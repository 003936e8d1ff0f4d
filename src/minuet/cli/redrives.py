"""`minuet dlq redrives` and `minuet dlq stop`: what servers retry at a pace."""

from __future__ import annotations

from argparse import Namespace

from minuet import outcomes
from minuet.app import shapes
from minuet.app.app import Facade
from minuet.app.redrives import Redrive
from minuet.cli.output import brief, clean, format_short_age, note, print_json, print_table
from minuet.cli.stores import command_line, with_app


def list_redrives(arguments: Namespace) -> int:
    """List redrives, the newest first."""

    async def ask(app: Facade) -> list[Redrive]:
        return await app.dead_letters.redrives()

    found = with_app(arguments, ask)
    if arguments.output == "json":
        print_json([shapes.redrive(one) for one in found])
        return outcomes.COMPLETED
    if not found:
        print("No server has retried dead letters at a pace.")
        return outcomes.COMPLETED
    rows = [
        (
            one.id,
            one.state,
            f"{one.passed} of {one.total}",
            str(one.refused),
            "any" if one.per_second is None else f"{one.per_second:g}/s",
            format_short_age(one.started_ms),
            clean(one.by),
            brief(one.what, 60),
        )
        for one in found
    ]
    titles = ("id", "state", "passed", "refused", "pace", "age", "by", "dead letters")
    print_table(titles, rows)
    running = next((one for one in found if one.state in ("running", "interrupted")), None)
    if running is not None:
        note(f"Stop one with: {command_line(arguments.store, 'dlq', 'stop', running.id)}")
    return outcomes.COMPLETED


def stop(arguments: Namespace) -> int:
    """Have a redrive stop."""

    async def ask(app: Facade) -> Redrive:
        return await app.dead_letters.stop_redrive(arguments.id)

    found = with_app(arguments, ask)
    if arguments.output == "json":
        print_json(shapes.redrive(found))
        return outcomes.COMPLETED
    state = "stops within a second or so" if found.state == "running" else found.state
    print(clean(f"{found.id}: {state}, {found.passed} of {found.total} passed"))
    return outcomes.COMPLETED
