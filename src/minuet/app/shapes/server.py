"""A store and its server as a whole: the state, statistics, checkups, webhooks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from minuet.app.shapes.base import Shape, moment
from minuet.app.shapes.fleet import queue
from minuet.app.shapes.runs import histogram, row

if TYPE_CHECKING:
    from minuet.app.dev import SampleView
    from minuet.app.doctor import Checkup
    from minuet.app.overview import Overview
    from minuet.app.statistics import WorkflowStatistics
    from minuet.app.webhooks import WebhookReceiver


def statistics(found: WorkflowStatistics) -> Shape:
    """How the newest runs of a workflow went."""
    return {
        "workflow": found.workflow,
        "version": found.version,
        "counted": found.counted,
        "counts": dict(found.counts),
        "complete": not found.has_more,
        "success_rate": found.success_rate,
        "p50_ms": found.p50_ms,
        "p99_ms": found.p99_ms,
        "max_ms": found.max_ms,
        "since": moment(found.first_ms),
        "newest": [row(one) for one in found.newest],
    }


def overview(found: Overview) -> Shape:
    """The state of a store."""
    fleet = found.workers
    return {
        "version": found.version,
        "tenant": found.tenant,
        "store": found.store,
        "now": moment(found.now_ms),
        "runs": {"open": dict(found.open), "recent": histogram(found.recent)},
        "dead_letters": found.dead_letters,
        "approvals": found.approvals,
        "stalled": {"runs": found.stalled, "looked_at": found.stalled_among},
        "queues": [queue(one) for one in found.queues],
        "workers": {
            "counts": dict(fleet.counts),
            "busy": fleet.busy,
            "capacity": fleet.capacity,
            "versions": dict(fleet.versions),
        },
    }


def checkup(found: Checkup) -> Shape:
    """What was found in some runs."""
    return {
        "sound": not found.findings,
        "runs": found.runs,
        "findings": [finding.to_json() for finding in found.findings],
        "overdue": found.overdue,
        "store": found.store,
        "next": found.next,
    }


def webhook_receiver(found: WebhookReceiver) -> Shape:
    """A receiver of webhooks, and how it does."""
    return {
        "name": found.name,
        "url": found.url,
        "events": list(found.events),
        "waiting": found.waiting,
        "oldest_at": moment(found.oldest_ms),
        "given_up": found.given_up,
        "failures": found.failures,
        "error": found.error or None,
        "next_at": moment(found.due_ms),
        "sent_at": moment(found.sent_ms),
    }


def sample(found: SampleView) -> Shape:
    """The sample of a development server."""
    return {
        "workflow": found.workflow,
        "run_id": found.run_id,
        "worker": found.worker,
        "pid": found.pid,
        "kills": found.kills,
    }
