"""`minuet runs attempts`: one node instance, attempt by attempt."""

from __future__ import annotations

from argparse import Namespace

from minuet import outcomes
from minuet.app import shapes
from minuet.app.app import Facade
from minuet.cli.output import (
    brief,
    clean,
    error_text,
    format_clock,
    format_duration,
    print_json,
    print_table,
)
from minuet.cli.stores import find_run, with_app


def attempts(arguments: Namespace) -> int:
    """Show what a node was given, and its attempts."""

    async def ask(app: Facade) -> None:
        run_id = await find_run(app, arguments.run)
        found = await app.runs.attempts(run_id, arguments.node)
        if arguments.output == "json":
            (result,) = (await app.runs.instances(run_id, found.name)).values()
            print_json(shapes.attempts(found, result))
            return
        print(f"{clean(found.name)}: idempotency key {found.idempotency_key}")
        rows = []
        for one in found.attempts:
            queued = _between(one.ready_ms, one.started_ms)
            took = _between(one.started_ms, one.ended_ms)
            started = "" if one.started_ms is None else format_clock(one.started_ms)
            worker = clean(one.worker or one.session[:8])
            rows.append((one.outcome, started, queued, took, worker, brief(error_text(one.error))))
        print_table(("outcome", "began", "waited", "took", "worker", "error"), rows)
        if found.given is not None:
            print("config:")
            print_json(found.given["config"])

    with_app(arguments, ask)
    return outcomes.COMPLETED


def _between(first_ms: int | None, last_ms: int | None) -> str:
    return "" if first_ms is None or last_ms is None else format_duration(last_ms - first_ms)
