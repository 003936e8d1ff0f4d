"""`minuet overview` and `minuet workflows stats`: how a store and its workflows do."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from typing import Any

from minuet import outcomes
from minuet.app import shapes
from minuet.app.app import Facade
from minuet.app.options import liveness_settings
from minuet.cli.output import clean, format_duration, print_json, print_table
from minuet.cli.stores import with_app
from minuet.cli.workers import print_queues


def overview(arguments: Namespace) -> int:
    """Show the state of a store."""

    async def ask(app: Facade) -> int:
        found = await app.overview()
        if arguments.output == "json":
            print_json(shapes.overview(found))
            return outcomes.COMPLETED
        fleet, recent = found.workers, found.recent
        rows = [
            ("store", clean(found.store)),
            ("open runs", _counts(found.open)),
            ("runs of the last day", _counts(recent.counts)),
            ("stalled", f"{found.stalled} of the newest {found.stalled_among} that are open"),
            ("dead letters", str(found.dead_letters)),
            ("approvals", str(found.approvals)),
            ("workers", f"{_counts(fleet.counts)}; {fleet.busy} of {fleet.capacity} busy"),
            ("versions", _counts(fleet.versions)),
        ]
        print_table(("", f"Minuet {found.version}"), rows)
        if found.queues:
            print()
            print_queues(found.queues)
        return outcomes.COMPLETED

    return with_app(arguments, ask, **liveness_settings(arguments.settings))


def statistics(arguments: Namespace) -> int:
    """Show how the newest runs of workflows went."""

    async def ask(app: Facade) -> int:
        found = await app.runs.statistics(arguments.name, limit=arguments.limit)
        if arguments.output == "json":
            print_json([shapes.statistics(one) for one in found])
        elif not found:
            print("There are no such workflows.")
        else:
            rows = [
                (
                    clean(one.workflow),
                    "" if one.version is None else str(one.version),
                    f"{one.counted}{'+' if one.has_more else ''}",
                    "" if one.success_rate is None else f"{one.success_rate:.0%}",
                    format_duration(one.p50_ms),
                    format_duration(one.p99_ms),
                    _counts(one.counts),
                )
                for one in found
            ]
            titles = ("workflow", "version", "runs", "completed", "p50", "p99", "by status")
            print_table(titles, rows, names=("workflow",))
        return outcomes.COMPLETED

    return with_app(arguments, ask)


def _counts(counts: Mapping[Any, int]) -> str:
    return ", ".join(f"{number} {name}" for name, number in sorted(counts.items())) or "none"
