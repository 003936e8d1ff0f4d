"""`minuet workers …` and `minuet queues`: who works on a store, and what waits for whom."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable

from minuet import outcomes
from minuet.app import shapes
from minuet.app.app import Facade
from minuet.app.options import liveness_settings
from minuet.app.watch import instance_name
from minuet.app.workers import QueueView, WorkerView
from minuet.cli.output import (
    clean,
    format_age,
    format_clock,
    format_duration,
    note,
    print_json,
    print_table,
)
from minuet.cli.stores import with_app
from minuet.errors import ConfigError

#: Names of workers shown in one line.
NAMES_MAX = 4


def list_workers(arguments: Namespace) -> int:
    """List the workers of a store."""

    async def ask(app: Facade) -> int:
        workers = await app.workers.list()
        if arguments.output == "json":
            print_json([shapes.worker(worker) for worker in workers])
        elif not workers:
            print("No worker is registered. Start one with: minuet worker")
        else:
            titles = ("name", "id", "status", "heard", "host", "pid", "busy", "version", "offers")
            print_table(
                titles, [_worker_row(worker) for worker in workers], names=("name", "id", "host")
            )
        return outcomes.COMPLETED

    return with_app(arguments, ask, **liveness_settings(arguments.settings))


def drain(arguments: Namespace) -> int:
    """Ask a worker to take nothing more and to end; perhaps wait until it has."""

    async def ask(app: Facade) -> int:
        worker = await app.workers.find(arguments.worker)
        if not await app.workers.drain(worker.id):
            raise ConfigError(f"the worker {worker.name} has just ended")
        ended = None
        if arguments.wait:
            ended = await app.workers.wait_ended(worker.id, timeout=arguments.timeout)
        if arguments.output == "json":
            print_json({"id": worker.id, "name": worker.name, "draining": True, "ended": ended})
        elif ended is None:
            note(
                f"worker {worker.name} ({worker.id}) takes nothing more after its next heartbeat, "
                "finishes what it has, and ends"
            )
        else:
            said = "has ended" if ended else "has not ended yet"
            note(f"worker {worker.name} ({worker.id}) {said}")
        return outcomes.CANCELLED if ended is False else outcomes.COMPLETED

    return with_app(arguments, ask, **liveness_settings(arguments.settings))


def leases(arguments: Namespace) -> int:
    """Show what workers hold."""

    async def ask(app: Facade) -> int:
        found = await app.workers.leases(arguments.worker)
        if arguments.output == "json":
            print_json(shapes.leases(found)["items"])
        elif not found.leases:
            print("No worker holds anything.")
        else:
            rows = [
                (
                    clean(one.worker_name or "unknown"),
                    one.run,
                    clean(instance_name(one.node, one.scope)),
                    format_age(one.since_ms),
                    format_clock(one.until_ms) if one.until_ms is not None else "",
                )
                for one in found.leases
            ]
            print_table(("worker", "run", "node", "taken", "until"), rows, names=("worker", "node"))
        if not found.is_complete:
            note(f"Only the newest {found.looked_at:,} open runs were looked at.")
        return outcomes.COMPLETED

    return with_app(arguments, ask, **liveness_settings(arguments.settings))


def queues(arguments: Namespace) -> int:
    """Show what waits and what runs, queue by queue, and who serves it."""

    async def ask(app: Facade) -> int:
        found = await app.workers.queues()
        if arguments.output == "json":
            print_json([shapes.queue(queue) for queue in found])
        elif not found:
            print("Nothing waits, and nothing runs.")
        else:
            print_queues(found)
        return outcomes.COMPLETED

    return with_app(arguments, ask, **liveness_settings(arguments.settings))


def print_queues(found: Iterable[QueueView]) -> None:
    """A table of queues."""
    titles = ("queue", "ready", "oldest", "running", "served by", "needs")
    print_table(titles, [_queue_row(queue) for queue in found], names=("queue", "served by"))


def _worker_row(worker: WorkerView) -> tuple[str, ...]:
    status = f"{worker.status}, draining" if worker.draining else worker.status
    return (
        clean(worker.name),
        worker.id,
        status,
        f"{format_duration(worker.silent_ms)} ago",
        clean(worker.host),
        str(worker.pid),
        f"{worker.running} of {worker.concurrency}{_leftover(worker)}",
        worker.version,
        clean(_offers(worker)),
    )


def _leftover(worker: WorkerView) -> str:
    return f", {worker.leftover} of them over" if worker.leftover else ""


def _offers(worker: WorkerView) -> str:
    return " ".join(
        f"{name}={','.join(map(str, value)) if isinstance(value, list) else value}"
        for name, value in sorted(worker.capabilities.items())
    )


def _queue_row(queue: QueueView) -> tuple[str, ...]:
    return (
        clean(queue.queue or "(skips)"),
        str(queue.ready),
        format_age(queue.oldest_ms) if queue.ready and queue.oldest_ms is not None else "",
        str(queue.running),
        clean(_names(queue.served_by)) if queue.served_by else "nobody",
        clean(queue.why or _needs(queue)),
    )


def _needs(queue: QueueView) -> str:
    if queue.limit is None:
        return ""
    parts = [queue.needs] if queue.needs else []
    return ", ".join([*parts, f"{queue.limit} at once"]) + f" ({queue.workflow}: {queue.node})"


def _names(names: tuple[str, ...]) -> str:
    shown = ", ".join(sorted(set(names))[:NAMES_MAX])
    return f"{len(names)}: {shown}{', …' if len(set(names)) > NAMES_MAX else ''}"
