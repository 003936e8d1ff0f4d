"""`minuet start`: start a run that the workers of the store execute."""

from __future__ import annotations

import asyncio
from argparse import Namespace

from minuet import outcomes
from minuet.app import shapes
from minuet.app.compiling import CompiledWorkflow, is_name
from minuet.app.options import worker_settings
from minuet.app.results import RunResult
from minuet.cli.following import follow_run
from minuet.cli.inputs import file_and_input, read_input, read_limit_options
from minuet.cli.log import logging_to_stderr
from minuet.cli.output import note, print_json
from minuet.cli.problems import print_diagnostics
from minuet.cli.session import print_result
from minuet.cli.sources import find_source, python_file
from minuet.cli.stores import check_names, command_line, is_memory, open_place
from minuet.cli.unserved import reporting_unserved
from minuet.errors import ConfigError, RunTimeoutError


def start(arguments: Namespace) -> int:
    """Start a run; wait for its end only if asked to."""
    file, values = file_and_input(arguments)
    if is_memory(arguments.store):
        raise ConfigError("memory:// ends with this process: no worker would find the run")
    app = open_place(arguments.store, **worker_settings(arguments.settings))
    value, limits = read_input(values), read_limit_options(arguments.limit)
    workflow: str | CompiledWorkflow = file
    if is_name(file) and python_file(file) is None:
        check_names(arguments.store, file)
    else:
        workflow = app.workflows.compile(find_source(file))
        print_diagnostics(file, workflow.warnings)
        value = app.workflows.encode_input(workflow, value)

    async def work() -> int:
        async with app:
            run = await app.start(
                workflow, value, idempotency_key=arguments.idempotency_key, limits=limits
            )
            run_id = run.id
            if not arguments.wait:
                return _print_started(arguments, run_id, (await app.runs.get(run_id)).status)
            note(f"run {run_id} started; workers go on with it")
            try:
                async with reporting_unserved(app, [run_id], arguments.store):
                    ended = await follow_run(app, run_id, arguments.timeout)
                return _print_ended(arguments, await app.runs.show_ended(ended))
            except RunTimeoutError as error:
                return _print_open(arguments, await app.runs.show(run_id), error)

    with logging_to_stderr(arguments):
        return asyncio.run(work())


def _print_started(arguments: Namespace, run_id: str, status: str) -> int:
    if arguments.output == "json":
        print_json({"run_id": run_id, "status": status})
    else:
        print(run_id)
        note(f"Look at it with: {command_line(arguments.store, 'runs', 'show', run_id)}")
    return outcomes.COMPLETED


def _print_ended(arguments: Namespace, result: RunResult) -> int:
    if arguments.output == "json":
        print_json(shapes.result(result))
    else:
        print_result(result, arguments.store)
    return outcomes.OF_STATUS[result.status]


def _print_open(arguments: Namespace, result: RunResult, error: RunTimeoutError) -> int:
    """The timeout has passed, and the run is still open."""
    message = f"run {result.run_id} did not end within {error.seconds:g} s; it goes on"
    if arguments.output == "json":
        print_json({**shapes.result(result), "error": {"code": error.code, "message": message}})
    note(f"{message}.")
    return outcomes.CANCELLED
