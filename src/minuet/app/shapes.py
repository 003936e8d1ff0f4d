"""The JSON that programs read: one function for each thing, used by the command line's `--json` and
by everything else that answers in JSON.

Fields may be added, never renamed. Times are RFC 3339 in UTC with milliseconds (`…_at`); durations
are milliseconds (`…_ms`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import msgspec

from minuet import moments
from minuet.approvals import approval_id
from minuet.errors import (
    AlreadyDecidedError,
    DocumentError,
    InputError,
    MinuetError,
    RunConflictError,
)
from minuet.events import Event, event_type
from minuet.kernel.view import shown_error
from minuet.model import dump_document
from minuet.outcomes import outcome_of
from minuet.plan.plan import author_of
from minuet.scopes import decode
from minuet.types import Json

if TYPE_CHECKING:
    from minuet.app.approvals import Approval
    from minuet.app.attempts import InstanceDetails
    from minuet.app.audit import AuditEntry
    from minuet.app.bulk import ManyChanged
    from minuet.app.compiling import CompiledWorkflow
    from minuet.app.consequences import Consequences
    from minuet.app.dead_letters import DeadLetterView, LetterDetails, LetterGroup, Retried
    from minuet.app.dev import SampleView
    from minuet.app.doctor import Checkup
    from minuet.app.finder import RunCounts
    from minuet.app.keys import NewKey, StoredKey
    from minuet.app.leases import Leases, LeaseView
    from minuet.app.overview import Overview
    from minuet.app.redrives import Redrive
    from minuet.app.results import (
        NodeResult,
        RunResult,
        RunTree,
        StepView,
        Undoing,
        Unserved,
        WaitView,
    )
    from minuet.app.search import FoundRuns, Histogram
    from minuet.app.statistics import WorkflowStatistics
    from minuet.app.webhooks import WebhookReceiver
    from minuet.app.workers import HandlerView, QueueView, TaskView, WorkerView
    from minuet.app.workflows import WorkflowView
    from minuet.bridge.logs import LogLine
    from minuet.bridge.stalls import Stall
    from minuet.kernel.explain.answer import Explanation
    from minuet.model.diagnostics import Diagnostic
    from minuet.nodes.spec import NodeTypeInfo
    from minuet.store.records import Run

#: The type of an event that cannot be read.
UNREADABLE = "unreadable"

Shape = dict[str, Json]


def moment(at_ms: int | None) -> str | None:
    """A time as programs read it, if there is one."""
    return None if at_ms is None else moments.moment(at_ms)


# ── runs ────────────────────────────────────────────────────────────────────────────────────


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


def nodes(found: Mapping[str, NodeResult]) -> Shape:
    """Nodes, or instances of nodes, by their names."""
    return {name: node(one) for name, one in found.items()}


def node(found: NodeResult) -> Shape:
    """A node, or one instance of it."""
    return {
        "status": found.status,
        "output": found.output,
        "attempts": found.attempts,
        "error": found.error,
        "reason": found.reason or None,
        "started_at": moment(found.started_ms),
        "ended_at": moment(found.ended_ms),
        "instances": found.instances,
        "items": found.items,
        "event": found.event,
        "waiting_for": None if found.waiting_for is None else _waiting_for(found.waiting_for),
        "steps": [step(one) for one in found.steps],
        "compensation": None if found.compensation is None else _undoing(found.compensation),
    }


def _undoing(found: Undoing) -> Shape:
    """What has become of a node's compensator."""
    return {
        "status": found.status,
        "attempts": found.attempts,
        "error": found.error,
        "started_at": moment(found.started_ms),
        "ended_at": moment(found.ended_ms),
    }


def attempts(found: InstanceDetails, result: NodeResult) -> Shape:
    """A node instance with what it was given, and its attempts."""
    return {
        "node": found.node,
        "scope": list(found.scope),
        "idempotency_key": found.idempotency_key,
        "given": found.given,
        "attempts": [
            {
                "outcome": one.outcome,
                "ready_at": moment(one.ready_ms),
                "started_at": moment(one.started_ms),
                "ended_at": moment(one.ended_ms),
                "session": one.session or None,
                "worker": one.worker,
                "error": one.error,
                "lease_until": moment(one.until_ms),
                "event": one.seq,
            }
            for one in found.attempts
        ],
        "result": node(result),
    }


def step(found: StepView) -> Shape:
    """A step of a durable function."""
    took_ms = None if found.started_ms is None else found.ended_ms - found.started_ms
    return {
        "name": found.name,
        "kind": found.kind,
        "status": found.status,
        "input": found.input,
        "output": found.output,
        "blob": found.blob,
        "error": found.error,
        "attempts": found.attempts,
        "started_at": moment(found.started_ms),
        "ended_at": moment(found.ended_ms),
        "duration_ms": took_ms,
        "child": found.child,
    }


def _waiting_for(found: WaitView) -> Shape:
    return {
        "kind": found.kind,
        "key": found.key,
        "since": moment(found.since_ms),
        "until": moment(found.until_ms),
        "data": found.data,
    }


def event(
    seq: int,
    at_ms: int,
    found: Event | bytes,
    *,
    cause: int | None = None,
    name: str | None = None,
    run_id: str = "",
) -> Shape:
    """An event, and the number of the one that led to it; an unreadable one as stored. `name` is
    another one than that of its type (`kernel.approvals.name_events`): then it is about an
    approval, whose id begins with that of its run."""
    if isinstance(found, bytes):
        kind, data = UNREADABLE, {"raw": found.decode("utf-8", "replace")}
    else:
        kind, data = name or event_type(found), _fields(found)
        if name is not None:
            node, scope = author_of(data["node"]), decode(data["scope"])
            data["approval_id"] = approval_id(run_id, node, scope)
    return {"seq": seq, "type": kind, "at": moment(at_ms), "data": data, "cause": cause}


def feed_event(run_id: str, workflow: str, seq: int, at_ms: int, found: Event | bytes) -> Shape:
    """An event of any run. What led to it is known from the history of its run."""
    shape = event(seq, at_ms, found)
    del shape["cause"]
    return {"run_id": run_id, "workflow": workflow, **shape}


def _fields(found: Event) -> Shape:
    """An event's data, with every field that its kind has."""
    data: Shape = {}
    for name in found.__struct_fields__:
        value = getattr(found, name)
        if isinstance(value, msgspec.Raw):
            value = msgspec.json.decode(value) if bytes(value) else None
        data[name] = value
    return data


def explanation(found: Explanation) -> Shape:
    """Why a node is in its state."""
    shape: Shape = msgspec.to_builtins(found)
    return shape


def approval(found: Approval) -> Shape:
    """What people are asked, and what they have decided."""
    return {
        "id": found.id,
        "run_id": found.run_id,
        "node_id": found.node_id,
        "scope": list(found.scope),
        "workflow": found.workflow,
        "title": found.title,
        "description": found.description,
        "approvers": list(found.approvers),
        "quorum": found.quorum,
        "status": found.status,
        "decision": found.decision,
        "payload": found.payload,
        "form": found.form,
        "decisions": [
            {
                "by": one.by,
                "decision": one.decision,
                "comments": one.comments,
                "data": one.data,
                "at": moment(one.at_ms),
            }
            for one in found.decisions
        ],
        "leads_to": found.leads_to,
        "requester": found.requester,
        "four_eyes": found.four_eyes,
        "metadata": found.metadata,
        "created_at": moment(found.created_ms),
        "decided_at": moment(found.decided_ms),
        "timeout_at": moment(found.timeout_ms),
        "at_timeout": found.at_timeout,
        "approval_ui_url": found.approval_ui_url,
    }


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


# ── workers ─────────────────────────────────────────────────────────────────────────────────


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


def worker(found: WorkerView) -> Shape:
    """A worker. One that drains is `draining` while it sends heartbeats."""
    is_draining = found.draining and found.status == "healthy"
    return {
        "id": found.id,
        "name": found.name,
        "host": found.host,
        "pid": found.pid,
        "version": found.version,
        "status": "draining" if is_draining else found.status,
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


def run_counts(found: RunCounts) -> Shape:
    """How many runs are open, and how many dead letters are pending."""
    return {"open": dict(found.open), "dead_letters": found.dead_letters}


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


# ── dead letters ────────────────────────────────────────────────────────────────────────────


def dead_letter(found: DeadLetterView) -> Shape:
    """A dead letter without its input, which only its run's history says."""
    return {
        "id": found.id,
        "run_id": found.run_id,
        "node_id": found.node_id,
        "scope": list(found.scope),
        "workflow": found.workflow,
        "queue": found.queue,
        "generation": found.generation,
        "reason": found.reason,
        "error": found.error,
        "fingerprint": found.fingerprint,
        "attempts": found.attempts,
        "at": moment(found.at_ms),
        "reprocessed_at": _settled(found, "reprocessed"),
        "discarded_at": _settled(found, "discarded"),
        "why": found.why or None,
        "status": found.status,
        "held": found.held,
    }


def _settled(found: DeadLetterView, status: str) -> str | None:
    return moment(found.settled_ms) if found.status == status else None


def letter_details(found: LetterDetails) -> Shape:
    """A dead letter with its input, and what happened to its node instance."""
    history = [
        {"seq": one.seq, "type": one.type, "at": moment(one.at_ms), "data": one.details}
        for one in found.history
    ]
    return {**dead_letter(found.letter), "input": found.input, "history": history}


def letter_group(found: LetterGroup) -> Shape:
    """Dead letters with the same cause."""
    return {
        "fingerprint": found.fingerprint,
        "count": found.count,
        "queues": dict(found.queues),
        "first_at": moment(found.first_ms),
        "last_at": moment(found.last_ms),
        "example": dead_letter(found.example),
    }


def retried_letter(found: Retried) -> Shape:
    """What became of a dead letter that was to be retried."""
    return {
        "id": found.id,
        "run_id": found.run_id,
        "retried": found.is_retried,
        "why": found.why or None,
    }


def redrive(found: Redrive) -> Shape:
    """Dead letters that a server retries one after the other."""
    return {
        "id": found.id,
        "what": found.what,
        "by": found.by or None,
        "per_second": found.per_second,
        "state": found.state,
        "total": found.total,
        "retried": found.retried,
        "refused": found.refused,
        "refusals": [{"id": one.id, "why": one.why} for one in found.refusals],
        "started_at": moment(found.started_ms),
        "noted_at": moment(found.noted_ms),
    }


# ── workflows ───────────────────────────────────────────────────────────────────────────────


def workflow(found: WorkflowView) -> Shape:
    """A version of a deployed workflow."""
    return {
        "name": found.name,
        "version": found.version,
        "newest": found.newest,
        "digest": found.digest,
        "tags": dict(found.tags),
        "created_at": moment(found.created_ms),
        "created_by": found.created_by or None,
        "message": found.message or None,
        "description": found.description,
        "document": found.document,
    }


def log_line(line: LogLine) -> Shape:
    """A line that a handler has printed or logged."""
    return {
        "at": moment(line.at_ms),
        "node": line.node,
        "scope": list(decode(line.scope)),
        "attempt": line.attempt,
        "step": line.step or None,
        "level": line.level,
        "text": line.text,
    }


def node_type(found: NodeTypeInfo) -> Shape:
    """A node type."""
    return {
        "name": found.name,
        "version": found.version,
        "display_name": found.display_name or found.name,
        "summary": found.summary,
        "description": found.description,
        "icon": found.icon or None,
        "image": found.image or None,
        "queue": found.queue,
        "capabilities": {
            "supports_retry": found.kind != "inline",
            "takes_secrets": found.takes_secrets,
            **found.capabilities,
        },
        "config_schema": found.config_schema,
        "input_schema": found.input_schema,
        "output": found.output,
        "output_schema": found.output_schema,
        "example": found.example,
        "created_at": moment(found.created_ms),
    }


def diagnostics(found: Iterable[Diagnostic], file: str) -> list[Shape]:
    """Problems of a document."""
    return [
        {
            "file": file,
            "line": one.line,
            "column": one.column,
            "severity": one.severity,
            "code": one.code,
            "message": one.message,
            "path": one.path,
            "hint": one.hint,
        }
        for one in found
    ]


def validated(compiled: CompiledWorkflow | None, found: list[Shape]) -> Shape:
    """What is to be said about a document; None: it is not valid."""
    from minuet.plan.render import to_graph

    if compiled is None:
        unknown = ("workflow", "plan", "graph", "input_schema", "document")
        return {"valid": False, "diagnostics": found, **dict.fromkeys(unknown)}
    return {
        "valid": True,
        "diagnostics": found,
        "workflow": compiled.plan.name,
        "plan": compiled.digest,
        "graph": to_graph(compiled.plan),
        "input_schema": compiled.plan.input_schema,
        "document": dump_document(compiled.workflow),
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


# ── API keys ────────────────────────────────────────────────────────────────────────────────


def key(found: StoredKey) -> Shape:
    """An API key."""
    return {
        "id": found.id,
        "prefix": found.prefix,
        "name": found.name,
        "tenant": found.tenant,
        "roles": list(found.roles),
        "groups": list(found.groups),
        "trusted": found.is_trusted,
        "created_at": moment(found.created_ms),
        "created_by": found.created_by or None,
        "expires_at": moment(found.expires_ms),
        "revoked_at": moment(found.revoked_ms),
        "used_at": moment(found.used_ms),
    }


def new_key(made: NewKey) -> Shape:
    """An API key that was just created, with its text."""
    return {**key(made.key), "key": made.text}


def audit_entry(found: AuditEntry) -> Shape:
    """A change that somebody has asked for over HTTP."""
    return {
        "id": found.id,
        "at": moment(found.at_ms),
        "by": found.by or None,
        "credential": found.shown or None,
        "address": found.address or None,
        "action": found.action,
        "path": found.path,
        "status": found.status,
    }


# ── errors ──────────────────────────────────────────────────────────────────────────────────


def error(found: MinuetError) -> Shape:
    """An error as a command prints it: as the errors of runs and nodes are written."""
    shape: Shape = {"code": found.code, "message": _message(found)}
    if isinstance(found, DocumentError):
        shape["diagnostics"] = diagnostics(found.diagnostics, found.source)
    if isinstance(found, AlreadyDecidedError):
        shape["approval"] = approval(found.approval)
    return shape


def problem(found: MinuetError, *, instance: str | None = None) -> Shape:
    """An error as problem+json (RFC 9457)."""
    outcome = outcome_of(found)
    shape: Shape = {
        "type": f"urn:minuet:problem:{found.code}",
        "title": outcome.title,
        "status": outcome.http_status,
        "detail": _message(found),
        "code": found.code,
        "instance": instance,
    }
    if isinstance(found, DocumentError):
        shape["diagnostics"] = diagnostics(found.diagnostics, found.source)
    if isinstance(found, InputError):
        shape["problems"] = list(found.problems)
    if isinstance(found, AlreadyDecidedError):
        shape["approval"] = approval(found.approval)
    if isinstance(found, RunConflictError):
        shape |= {"run_status": found.status, "seq": found.seq}
    fields = {name: value for name, value in vars(found).items() if _is_plain(value)}
    if fields:
        shape["fields"] = fields
    return shape


def _is_plain(value: object) -> bool:
    """Whether a field of an error is the same after it was sent as JSON."""
    if isinstance(value, list | tuple):
        return all(isinstance(one, str) for one in value)
    return value is None or isinstance(value, str | int | float)


def _message(found: MinuetError) -> str:
    """The problem; those of a document are listed beside it."""
    if isinstance(found, DocumentError):
        return f"{found.source}: {count_errors(found.diagnostics)}"
    return str(found)


def count_errors(found: Iterable[Diagnostic]) -> str:
    """How many errors there are among the problems of a document, in words."""
    errors = sum(one.severity == "error" for one in found)
    return f"{errors} error{'s' if errors != 1 else ''}"
