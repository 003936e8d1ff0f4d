"""`minuet runs list` and `histogram`: find runs by a filter, and count them over time."""

from __future__ import annotations

from argparse import Namespace

from minuet import outcomes
from minuet.app import shapes
from minuet.app.app import Facade
from minuet.app.filters import make_query
from minuet.app.finder import Run
from minuet.app.options import liveness_settings
from minuet.app.search import FoundRuns, Histogram
from minuet.cli.output import (
    brief,
    clean,
    error_text,
    format_duration,
    format_moment,
    format_short_age,
    note,
    print_json,
    print_table,
    workflow_text,
)
from minuet.cli.stores import with_app

#: Columns of the bar of a part of a histogram.
BAR = 40


def query_of(arguments: Namespace) -> str:
    """The filter that the options of a command say."""
    return make_query(
        arguments.filter,
        statuses=arguments.status,
        workflow=arguments.workflow,
        tag=arguments.tag,
        parent=arguments.parent,
        since=arguments.since,
        until=arguments.until,
        stalled=arguments.stalled,
    )


def list_runs(arguments: Namespace) -> int:
    """List runs that fit a filter, the newest first."""

    async def ask(app: Facade) -> FoundRuns:
        return await find_runs(app, query_of(arguments), arguments.limit)

    found = with_app(arguments, ask, **liveness_settings(arguments.settings))
    if arguments.output == "json":
        print_json([shapes.found_run(run, found.stalls.get(run.run)) for run in found.runs])
    elif not found.runs:
        print("No run is stalled." if arguments.stalled else "There are no such runs.")
    elif found.stalls:
        _print_stalled(found)
    else:
        print_runs(found.runs)
    return outcomes.COMPLETED


async def find_runs(app: Facade, query: str, limit: int) -> FoundRuns:
    """The newest runs that fit a filter, however far it has to be looked."""
    found = await app.runs.search(query, limit=limit)
    runs, stalls = list(found.runs), dict(found.stalls)
    while found.next is not None and len(runs) < limit:
        note(f"looked at runs since {format_moment(found.back_to_ms)} …")
        found = await app.runs.search(query, before=found.next, limit=limit - len(runs))
        runs += found.runs
        stalls |= found.stalls
    return FoundRuns(tuple(runs), stalls, found.next, 0, 0, found.back_to_ms)


def print_runs(runs: tuple[Run, ...]) -> None:
    """A table of runs."""
    rows = [
        (
            run.run,
            run.status,
            workflow_text(run.workflow, run.version),
            format_short_age(run.created_ms),
            format_duration(run.ended_ms - run.created_ms) if run.ended_ms else "",
            brief(error_text(run.error), 60),
        )
        for run in runs
    ]
    print_table(("run", "status", "workflow", "age", "took", "error"), rows, names=("workflow",))


def _print_stalled(found: FoundRuns) -> None:
    rows = [
        (
            run.run,
            workflow_text(run.workflow, run.version),
            format_short_age(found.stalls[run.run].since_ms),
            clean(found.stalls[run.run].explain()),
        )
        for run in found.runs
    ]
    print_table(("run", "workflow", "since", "why"), rows, names=("workflow",))


def histogram(arguments: Namespace) -> int:
    """Count runs over time."""

    async def ask(app: Facade) -> Histogram:
        return await app.runs.histogram(query_of(arguments), buckets=arguments.buckets)

    found = with_app(arguments, ask)
    if arguments.output == "json":
        print_json(shapes.histogram(found))
        return outcomes.COMPLETED
    most = max(sum(one.counts.values()) for one in found.buckets) or 1
    rows = []
    for one in found.buckets:
        count = sum(one.counts.values())
        bar = "#" * -(-count * BAR // most)
        text = ", ".join(f"{number} {status}" for status, number in sorted(one.counts.items()))
        rows.append((format_moment(one.from_ms)[:-4], bar, text))
    print_table(("from", "", "runs"), rows)
    if found.back_to_ms is not None:
        note(f"Runs before {format_moment(found.back_to_ms)} were not counted.")
    return outcomes.COMPLETED
