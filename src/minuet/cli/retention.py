"""`minuet runs delete` and `minuet gc`: delete runs, and what is no longer needed."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import AsyncIterator

import msgspec

from minuet import outcomes
from minuet.app.app import Facade
from minuet.app.retention import GRACE_S, Deleted
from minuet.cli.bulk import change_many, confirm
from minuet.cli.output import ProgressLine, note, print_json
from minuet.cli.stores import find_run, with_app
from minuet.errors import ConfigError, RunNotFoundError
from minuet.settings import masked


def delete_runs(arguments: Namespace) -> int:
    """Delete runs that are over."""
    if arguments.filter is not None:
        if arguments.runs or arguments.older_than is not None or arguments.status:
            raise ConfigError("--filter says which runs: name none, and no other option")
        return change_many(arguments, "delete", {})
    if bool(arguments.runs) == (arguments.older_than is not None):
        raise ConfigError("name the runs to delete, or use --older-than AGE or --filter FILTER")
    if arguments.runs and arguments.status:
        raise ConfigError("--status goes with --older-than")

    async def work(app: Facade) -> Deleted:
        found = await _delete_runs(app, arguments, dry_run=True)
        if not arguments.dry_run and found.runs:
            confirm(arguments, f"Delete {_count(found.runs, 'run')} of {masked(arguments.store)}?")
            found = await _delete_runs(app, arguments, dry_run=False)
        return found

    return _print(arguments, with_app(arguments, work), runs_only=True)


async def _delete_runs(app: Facade, arguments: Namespace, *, dry_run: bool) -> Deleted:
    if not arguments.runs:
        deleting = app.retention.delete_older(
            arguments.older_than / 1000, statuses=arguments.status, dry_run=dry_run
        )
        return await _follow(deleting, quiet=dry_run)
    try:
        return await app.runs.delete(arguments.runs, dry_run=dry_run)
    except RunNotFoundError as error:
        # Deleting needs the whole id; show it to users who wrote its beginning.
        meant = await find_run(app, error.run_id)
        raise ConfigError(f"to delete a run, write its whole id: {meant}") from None


def collect(arguments: Namespace) -> int:
    """Remove what is no longer needed."""

    async def work(app: Facade) -> Deleted:
        runs = Deleted()
        if arguments.older_than is not None:
            tenants = await app.list_tenants()

            def deleting(*, dry_run: bool) -> AsyncIterator[Deleted]:
                return app.retention.delete_older(
                    arguments.older_than / 1000, tenants=tenants, dry_run=dry_run
                )

            runs = await _follow(deleting(dry_run=True), quiet=True)
            if not arguments.dry_run and runs.runs:
                confirm(
                    arguments, f"Delete {_count(runs.runs, 'run')} of {masked(arguments.store)}?"
                )
                runs = await _follow(deleting(dry_run=False))
        grace = GRACE_S if arguments.grace is None else arguments.grace / 1000
        collecting = app.retention.collect(
            grace=grace,
            audit_older_than=arguments.settings["MINUET_AUDIT_RETENTION"] or None,
            dry_run=arguments.dry_run,
        )
        deleted = await _follow(collecting)
        return msgspec.structs.replace(deleted, runs=runs.runs, named=runs.named, moved=runs.moved)

    return _print(arguments, with_app(arguments, work), runs_only=False)


async def _follow(deleting: AsyncIterator[Deleted], *, quiet: bool = False) -> Deleted:
    """Follow to the end, and print progress now and then."""
    progress = None if quiet else ProgressLine()
    deleted = Deleted()
    async for deleted in deleting:
        if progress is not None:
            progress.show(", ".join(_words(deleted)) or "nothing yet")
    if progress is not None:
        progress.close()
    return deleted


def _print(arguments: Namespace, deleted: Deleted, *, runs_only: bool) -> int:
    if arguments.output == "json":
        report = {"dry_run": arguments.dry_run, **msgspec.structs.asdict(deleted)}
        wanted = ("dry_run", "runs", "named", "moved")
        print_json({k: v for k, v in report.items() if not runs_only or k in wanted})
        return outcomes.COMPLETED
    verb = "Would delete" if arguments.dry_run else "Deleted"
    print(f"{verb} {', '.join(_words(deleted)) or 'nothing'}.")
    if deleted.named:
        note(f"Kept {_count(deleted.named, 'run')} that open runs name as their parents.")
    if deleted.moved:
        note(
            f"Kept {_count(deleted.moved, 'run')} that moved to another store; "
            "delete them by their ids if they have arrived there."
        )
    return outcomes.COMPLETED


def _words(deleted: Deleted) -> list[str]:
    names = ("run", "plan", "config", "content", "session", "worker")
    counts = ((name, getattr(deleted, f"{name}s")) for name in names)
    words = [_count(count, name) for name, count in counts if count]
    if deleted.audit:
        words.append(f"{deleted.audit:,} of the audit log")
    return words


def _count(count: int, name: str) -> str:
    return f"{count:,} {name}{'' if count == 1 else 's'}"
