"""The JSON that programs read: one function for each thing, in a module for each noun.

The command line's `--json` and everything else that answers in JSON use it. Fields may be added,
never renamed. Times are RFC 3339 in UTC with milliseconds (`…_at`); durations are milliseconds
(`…_ms`).
"""

from __future__ import annotations

from minuet.app.shapes.access import audit_entry, key, new_key
from minuet.app.shapes.approvals import approval
from minuet.app.shapes.base import Shape, moment
from minuet.app.shapes.dead_letters import (
    dead_letter,
    letter_details,
    letter_group,
    redrive,
    retried_letter,
)
from minuet.app.shapes.fleet import handler, lease, leases, queue, ready_task, worker
from minuet.app.shapes.history import UNREADABLE, event, feed_event
from minuet.app.shapes.instances import attempts, explanation, log_line, node, nodes, step
from minuet.app.shapes.problems import count_errors, error, problem
from minuet.app.shapes.runs import (
    child,
    consequences,
    found_run,
    histogram,
    many_changed,
    replayed,
    result,
    row,
    run,
    run_counts,
    searched,
    stalled,
    tree,
    unserved,
)
from minuet.app.shapes.server import checkup, overview, sample, statistics, webhook_receiver
from minuet.app.shapes.workflows import deployed, diagnostics, node_type, validated, workflow

__all__ = [
    "Shape",
    "UNREADABLE",
    "approval",
    "attempts",
    "audit_entry",
    "checkup",
    "child",
    "consequences",
    "count_errors",
    "dead_letter",
    "deployed",
    "diagnostics",
    "error",
    "event",
    "explanation",
    "feed_event",
    "found_run",
    "handler",
    "histogram",
    "key",
    "lease",
    "leases",
    "letter_details",
    "letter_group",
    "log_line",
    "many_changed",
    "moment",
    "new_key",
    "node",
    "node_type",
    "nodes",
    "overview",
    "problem",
    "queue",
    "ready_task",
    "redrive",
    "replayed",
    "result",
    "retried_letter",
    "row",
    "run",
    "run_counts",
    "sample",
    "searched",
    "stalled",
    "statistics",
    "step",
    "tree",
    "unserved",
    "validated",
    "webhook_receiver",
    "worker",
    "workflow",
]
