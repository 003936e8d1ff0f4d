"""`minuet signal`: send a signal to a run."""

from __future__ import annotations

from argparse import Namespace

from minuet import outcomes
from minuet.app import shapes
from minuet.app.app import Facade
from minuet.app.results import RunResult, WaitView
from minuet.cli.inputs import read_data
from minuet.cli.output import clean, note, paint, print_json
from minuet.cli.preview import preview
from minuet.cli.stores import command_line, find_to_change, with_app


def send(arguments: Namespace) -> int:
    """Send a signal, and say what has become of it."""
    data = read_data(arguments.data)
    if arguments.dry_run:
        return preview(arguments, "signal", data=data, name=arguments.name)

    async def ask(app: Facade) -> None:
        run_id = await find_to_change(app, arguments.run)
        run = await app.runs.signal(
            run_id, arguments.name, data, idempotency_key=arguments.idempotency_key
        )
        if arguments.output == "json":
            print_json(shapes.row(run))
            return
        print(f"run {run.run} ({paint(run.status)}) has signal {clean(repr(arguments.name))}")
        last = await app.runs.history(run_id, after=run.seq - 1, upto=run.seq)
        if last and shapes.event(*last[0])["type"] == "signal.received":
            note("No node waits for it now: the run keeps it for the next one that does.")

    with_app(arguments, ask)
    return outcomes.COMPLETED


def awaited_signals(result: RunResult) -> list[str]:
    """The names of the signals that nodes of a run wait for."""
    found: dict[str, None] = {}
    for node in result.nodes.values():
        if node.waiting_for is not None:
            found |= dict.fromkeys(signals_in(node.waiting_for))
    return list(found)


def signals_in(wait: WaitView) -> list[str]:
    """The names of the signals that a node waits for."""
    if wait.kind == "signal":
        return [wait.key]
    waits = wait.data.get("waits", ()) if isinstance(wait.data, dict) else ()
    return list({one["name"]: None for one in waits if one["for"] == "signal"})


def signal_command(store: str, run_id: str, name: str) -> str:
    """The command that sends a signal."""
    return command_line(store, "signal", run_id, *(["--"] if name.startswith("-") else []), name)
