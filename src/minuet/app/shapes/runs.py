"""Runs: one, many, those of a family, and what a change of them does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import msgspec

from minuet.app.shapes.base import Shape, moment
from minuet.app.shapes.instances import nodes
from minuet.kernel.view import shown_error
from minuet.plan.plan import author_of
from minuet.scopes import decode

if TYPE_CHECKING:
    from minuet.app.bulk import ManyChanged
    from minuet.app.consequences import Consequences
    from minuet.app.finder import RunCounts
    from minuet.app.results import NodeResult, RunResult, RunTree, Unserved
    from minuet.app.search import FoundRuns, Histogram
    from minuet.bridge.stalls import Stall
    from minuet.store.records import Run


def result(found: RunResult) -> Shape:
    """How a run ended: what `run`, `resume` and `start --wait` print."""
    return {
        "run_id": found.run_id,
        "workflow": found.workflow,
        "status": found.status,
        "output": found.output,
        "nodes": {
            name: {
                "status": node.status,
                "output": node.output,
                "attempts": node.attempts,
                "error": node.error,
            }
            for name, node in found.nodes.items()
        },
        "error": found.error,
        "compensated": found.compensated,
        "duration_ms": found.duration_ms,
    }


def row(run: Run) -> Shape:
    """A run without what only its history says: its output and its nodes."""
    duration_ms = None if run.ended_ms is None else run.ended_ms - run.created_ms
    return {
        "run_id": run.run,
        "workflow": run.workflow,
        # Runs of a bare document have neither.
        "version": run.version,
        "tag": run.tag,
        "plan": run.plan,
        "status": run.status,
        "input": msgspec.json.decode(run.input),
        "error": shown_error(run.error),
        "counter": run.counter,
        "seq": run.seq,
        "generation": run.generation,
        "tags": run.tags,
        "parent": run.parent,
        "parent_node": author_of(run.parent_node) or None,
        "parent_scope": list(decode(run.parent_scope)),
        "child_count": run.children,
        "submitted_by": run.tags.get("submitted_by"),
        "deadline_at": moment(run.deadline_ms),
        "dlq_count": run.dead_letters,
        "created_at": moment(run.created_ms),
        "started_at": moment(run.started_ms),
        "ended_at": moment(run.ended_ms),
        "duration_ms": duration_ms,
    }


def found_run(run: Run, stall: Stall | None) -> Shape:
    """A run that fits a filter; how it stalls, if that was asked for."""
    return row(run) if stall is None else stalled(stall)


def searched(found: FoundRuns) -> Shape:
    """How far was looked for runs."""
    return {
        "runs": found.searched,
        "outputs": found.outputs,
        "back_to": moment(found.back_to_ms),
        "complete": found.next is None,
    }


def histogram(found: Histogram) -> Shape:
    """Runs over time."""
    return {
        "from": moment(found.from_ms),
        "to": moment(found.to_ms),
        "bucket_ms": found.bucket_ms,
        "buckets": [
            {"from": moment(one.from_ms), "counts": dict(one.counts)} for one in found.buckets
        ],
        "counts": dict(found.counts),
        "counted": found.counted,
        "back_to": moment(found.back_to_ms),
        "complete": found.back_to_ms is None,
    }


def consequences(found: Consequences) -> Shape:
    """What a change of a run would do."""
    return {
        "action": found.action,
        "allowed": found.is_allowed,
        "why": found.why or None,
        "status": found.status,
        "ready": list(found.ready),
        "cut_off": list(found.cut_off),
        "undone": list(found.undone),
        "skipped": list(found.skipped),
        "next": list(found.next),
        "ahead": list(found.ahead),
        "children": list(found.children),
    }


def many_changed(found: ManyChanged) -> Shape:
    """What became of several runs, or would."""
    return {
        "action": found.action,
        "preview": found.is_preview,
        "changed": sum(one.is_changed for one in found.runs),
        "refused": sum(not one.is_changed for one in found.runs),
        "items": [
            {
                "run_id": one.run_id,
                "workflow": one.workflow,
                "status": one.status,
                "changed": one.is_changed,
                "why": one.why or None,
            }
            for one in found.runs
        ],
        "next": found.next,
    }


def child(found: RunTree) -> Shape:
    """A child run, as its parent names it."""
    return {
        "run_id": found.run_id,
        "node_id": found.node or None,
        "scope": list(found.scope),
        "workflow": found.workflow,
        "status": found.status,
    }


def stalled(found: Stall) -> Shape:
    """A run that makes no progress."""
    return {
        **row(found.run),
        "stalled": found.explain(),
        "stalled_at": moment(found.since_ms),
    }


def unserved(found: Unserved) -> Shape:
    """A node that is ready, in a queue that no live worker serves."""
    return {
        "node_id": found.node,
        "queue": found.queue,
        "handler": found.handler,
        "needs": found.needs,
        "name": found.name,
    }


def tree(found: RunTree) -> Shape:
    """A run with its child runs, and theirs."""
    return {**child(found), "children": [tree(one) for one in found.children]}


def run(
    stored: Run,
    found: RunResult,
    each: Mapping[str, NodeResult] | None = None,
    children: Iterable[RunTree] = (),
) -> Shape:
    """A run with its output and its nodes; with `each`, also every instance of every node."""
    shape = {
        **row(stored),
        "error": found.error,
        "output": found.output,
        "compensated": found.compensated,
        "nodes": nodes(found.nodes),
        "children": [child(one) for one in children],
        "last_event_at": moment(found.last_event_ms),
        "duration_ms": found.duration_ms,
    }
    return shape if each is None else {**shape, "instances": nodes(each)}


def replayed(
    found: RunResult, last_seq: int, each: Mapping[str, NodeResult] | None = None
) -> Shape:
    """A run as it was after one of its events."""
    shape = {
        **result(found),
        "nodes": nodes(found.nodes),
        "version": found.version,
        "tag": found.tag,
        "tags": found.tags,
        "generation": found.generation,
        "seq": found.seq,
        "last_seq": last_seq,
        "last_event_at": moment(found.last_event_ms),
    }
    return shape if each is None else {**shape, "instances": nodes(each)}


def run_counts(found: RunCounts) -> Shape:
    """How many runs are open, and how many dead letters are pending."""
    return {"open": dict(found.open), "dead_letters": found.dead_letters}
