"""`minuet run` and `minuet resume`: work in this process until the runs are over.

Ctrl-C drains: running handlers may finish, what they did is kept, and the command says how to
go on. Nothing is lost if it is pressed twice, or the machine is switched off: then the nodes
that were running are run again.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from types import ModuleType

from minuet.app.app import App, Facade
from minuet.app.compiling import read_source
from minuet.cli.handlers import (
    find_beside,
    load_handlers,
    recall,
    remember,
    resume_command,
    with_places,
)
from minuet.cli.inputs import file_and_input, read_input, read_limit_options
from minuet.cli.output import note
from minuet.cli.problems import print_diagnostics
from minuet.cli.process import StopSignals
from minuet.cli.process import run as run_process
from minuet.cli.session import Session
from minuet.cli.sources import find_source, python_file
from minuet.cli.stores import find_run, open_to_read
from minuet.cli.worker_options import read_worker_options
from minuet.errors import ConfigError, DocumentError
from minuet.types import TYPE_QUEUE

#: How long running handlers may take after a signal to stop, or when the time is up.
DRAIN_S = 10.0
TIMEOUT_DRAIN_S = 1.0

#: Open runs that are counted at most.
OTHERS_MAX = 999


def run(arguments: Namespace) -> int:
    """Check a workflow and run it to its end."""
    file, values = file_and_input(arguments)
    python = python_file(file)
    document = read_source(find_source(file))
    names = arguments.handlers or ([python] if python else find_beside(file))
    modules = load_handlers(names)
    app = _make_app(arguments, modules, own_runs_only=True)
    try:
        compiled = app.workflows.compile(document)
    except DocumentError as error:
        raise with_places(error, document, names, app.handlers) from None
    print_diagnostics(document.source, compiled.warnings)
    for node, lacking in app.workflows.find_misplaced(compiled.plan).items():
        note(f"node {node} waits for another worker: this one lacks {lacking}")
    value = app.workflows.encode_input(compiled, read_input(values))
    limits = read_limit_options(arguments.limit)

    async def start() -> dict[str, int]:
        await _print_others(app, arguments.store)
        return {(await app.start(compiled, value, tags=remember(names), limits=limits)).id: 0}

    signals = StopSignals(app.options.grace_s)
    session = Session(app, arguments, names, is_one=True, signals=signals)
    return run_process(lambda: session.work(start), signals)


def resume(arguments: Namespace) -> int:
    """Continue runs that are not over."""
    modules = load_handlers(arguments.handlers)
    app = _make_app(arguments, modules, own_runs_only=bool(arguments.runs))

    async def work() -> int:
        async with open_to_read(arguments.store, handlers=modules) as reader:
            wanted = await _runs_to_resume(reader, arguments.runs)
            await _check_handlers(reader, arguments, wanted)

        async def start() -> dict[str, int]:
            rows = [await app.runs.get(run_id) for run_id in wanted]
            await app.runs.prepare(rows)
            for row in rows:
                if row.status == "PAUSED":
                    await app.runs.resume(row.run)
            return {row.run: row.seq for row in rows}

        session = Session(
            app, arguments, arguments.handlers, is_one=len(wanted) == 1, signals=signals
        )
        return await session.work(start) if wanted else session.print_nothing_open()

    signals = StopSignals(app.options.grace_s)
    return run_process(work, signals)


def _make_app(arguments: Namespace, modules: Sequence[ModuleType], *, own_runs_only: bool) -> App:
    settings = arguments.settings
    options = read_worker_options(arguments, modules)
    if arguments.concurrency:
        options["concurrency"] = arguments.concurrency
    elif settings.is_set("WORKER_CONCURRENCY"):
        options["concurrency"] = settings["WORKER_CONCURRENCY"]
    options["drain_seconds"] = DRAIN_S if arguments.timeout is None else TIMEOUT_DRAIN_S
    options["own_runs_only"] = own_runs_only
    # Who types the command has the document, and may call what this machine may call.
    options["egress_private"] = True
    return App(arguments.store, **options)


async def _runs_to_resume(reader: Facade, named: list[str]) -> list[str]:
    """The runs named, or all that are open; paused ones only if they are named."""
    if named:
        found = [await find_run(reader, text) for text in named]
        return list(dict.fromkeys(found))
    store = await reader.runs.moved_store()
    if store is not None:
        note(f"the runs of this store were moved to {store}: go on there")
    runs = await reader.runs.list_open()
    for row in runs:
        if row.status == "PAUSED":
            note(f"run {row.run} is paused and stays so; go on with: minuet resume {row.run}")
    return [row.run for row in runs if row.status != "PAUSED"]


async def _print_others(app: App, store: str) -> None:
    """Say that there are open runs which this command leaves alone."""
    others = await app.runs.list(statuses=("RUNNING",), limit=OTHERS_MAX + 1)
    if others:
        count = len(others) if len(others) <= OTHERS_MAX else f"more than {OTHERS_MAX}"
        are = "other runs are open and are" if len(others) > 1 else "other run is open and is"
        handlers = {name: None for row in others for name in recall(row.tags)}
        command = resume_command(store, [], list(handlers))
        note(f"{count} {are} left alone; go on with: {command}")


async def _check_handlers(reader: Facade, arguments: Namespace, run_ids: Sequence[str]) -> None:
    """Refuse to continue runs that need handlers that are not here: they would not end."""
    for run_id in run_ids:
        missing = await reader.runs.missing_handlers(run_id)
        if missing:
            row = await reader.runs.get(run_id)
            places = [place for place in recall(row.tags) if place not in arguments.handlers]
            raise ConfigError(
                f"run {row.run} of {row.workflow!r} needs {_which_handlers(missing)} not here"
                f"{_how_to_get_them(arguments, places)}"
            )


def _which_handlers(missing: list[str]) -> str:
    names = [
        f"the node type {name.removeprefix(TYPE_QUEUE)!r}"
        if name.startswith(TYPE_QUEUE)
        else f"the handler {name!r}"
        for name in missing
    ]
    return f"{' and '.join(names)}, which {'are' if len(names) > 1 else 'is'}"


def _how_to_get_them(arguments: Namespace, places: list[str]) -> str:
    if not places:
        return ": name the module or file with --handlers, or name the runs to resume"
    command = resume_command(arguments.store, arguments.runs, [*arguments.handlers, *places])
    return f". The run was started with other handlers; go on with: {command}"
