"""Workers, and what they work on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from minuet.app.shapes.base import Shape, moment

if TYPE_CHECKING:
    from minuet.app.leases import Leases, LeaseView
    from minuet.app.workers import HandlerView, QueueView, TaskView, WorkerView


def worker(found: WorkerView) -> Shape:
    """A worker."""
    return {
        "id": found.id,
        "name": found.name,
        "host": found.host,
        "pid": found.pid,
        "version": found.version,
        "status": found.state,
        "draining": found.draining,
        "concurrency": found.concurrency,
        "busy": found.running,
        "leftover": found.leftover,
        "queues": list(found.queues),
        "executors": list(found.executors),
        "capabilities": found.capabilities,
        "runs": None if found.runs is None else list(found.runs),
        "session": found.session,
        "registered_at": moment(found.registered_ms),
        "last_seen_at": moment(found.heartbeat_ms),
        "silent_ms": found.silent_ms,
    }


def queue(found: QueueView) -> Shape:
    """A queue: what waits in it, and for whom."""
    return {
        "queue": found.queue,
        "ready": found.ready,
        "running": found.running,
        "oldest_at": moment(found.oldest_ms),
        "served_by": list(found.served_by),
        "needs": found.needs,
        "workflow": found.workflow,
        "node": found.node,
        "limit": found.limit,
        "why": found.why or None,
    }


def lease(found: LeaseView) -> Shape:
    """A node instance that a worker holds."""
    return {
        "run_id": found.run,
        "workflow": found.workflow,
        "node": found.node,
        "scope": list(found.scope),
        "queue": found.queue,
        "attempt": found.attempt,
        "worker": found.worker,
        "worker_name": found.worker_name,
        "since": moment(found.since_ms),
        "until": moment(found.until_ms),
    }


def leases(found: Leases) -> Shape:
    """What workers hold."""
    return {
        "items": [lease(one) for one in found.leases],
        "next": None,
        "looked_at": found.looked_at,
        "complete": found.is_complete,
    }


def ready_task(found: TaskView) -> Shape:
    """A node instance that a worker could take."""
    return {
        "run_id": found.run,
        "node": found.node,
        "scope": list(found.scope),
        "queue": found.queue,
        "attempt": found.attempt,
        "due_at": moment(found.due_ms),
    }


def handler(found: HandlerView) -> Shape:
    """A handler that workers have."""
    return {
        "name": found.name,
        "workers": list(found.workers),
        "config_schema": found.config_schema,
    }
