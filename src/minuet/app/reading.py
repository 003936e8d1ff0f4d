"""The opposite of `shapes`: JSON that a server has answered, as what the facade gives.

A field that an answer does not have is as its default says: a server may be older than its client.
Fields that are not known here are left out: it may be newer.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from minuet import events as happened
from minuet.app.approvals import Approval
from minuet.app.attempts import Attempt, InstanceDetails
from minuet.app.audit import AuditEntry
from minuet.app.bulk import Changed, ManyChanged
from minuet.app.consequences import Consequences
from minuet.app.dead_letters import DeadLetterView, LetterDetails, LetterGroup, Retried
from minuet.app.doctor import Finding
from minuet.app.finder import RunCounts
from minuet.app.keys import StoredKey
from minuet.app.leases import Leases, LeaseView
from minuet.app.logs import LogLine
from minuet.app.overview import Fleet, Overview
from minuet.app.redrives import Redrive
from minuet.app.results import (
    Explanation,
    NodeResult,
    RunResult,
    RunTree,
    StepView,
    TaskEvent,
    Undoing,
    Unserved,
    WaitView,
)
from minuet.app.search import Bucket, FoundRuns, Histogram
from minuet.app.shapes import UNREADABLE, Shape
from minuet.app.statistics import WorkflowStatistics
from minuet.app.webhooks import WebhookReceiver
from minuet.app.workers import HandlerView, QueueView, TaskView, WorkerView
from minuet.app.workflows import WorkflowView
from minuet.bridge.stalls import Stall
from minuet.events import Event, decode_event
from minuet.kernel.approvals import base_type
from minuet.nodes.spec import NodeTypeInfo
from minuet.scopes import encode
from minuet.store.records import Run

Made = TypeVar("Made")

#: The ends of names of times: as JSON has them, and as the facade has them.
_AT, _MS = "_at", "_ms"


def at_ms(text: str | None) -> int | None:
    """A time in milliseconds since 1970."""
    return None if text is None else _read_moment(text)


def _read_moment(text: str) -> int:
    # In whole numbers: a float of seconds loses milliseconds now and then.
    whole, _, rest = text.removesuffix("Z").partition(".")
    seconds = int(datetime.fromisoformat(f"{whole}+00:00").timestamp())
    return seconds * 1000 + int((rest or "0").ljust(3, "0")[:3])


@functools.cache
def _fields(kind: type[msgspec.Struct]) -> dict[str, str]:
    """The fields of a type, by their names in JSON."""
    return {
        name.removesuffix(_MS) + _AT if name.endswith(_MS) and name != "duration_ms" else name: name
        for name in kind.__struct_fields__
    }


def _make(kind: type[Made], shape: Mapping[str, Any], /, **more: Any) -> Made:
    """A value of a type: fields of the same name, times by their names, and these."""
    found: dict[str, Any] = {}
    for name, field in _fields(kind).items():  # type: ignore[arg-type]
        if name in shape:
            value = shape[name]
            found[field] = at_ms(value) if field != name else value
        elif field in shape:
            found[field] = shape[field]
    # Lists become tuples, and the like.
    made: Made = msgspec.convert({**found, **more}, kind)
    return made


# ── runs ────────────────────────────────────────────────────────────────────────────────────


def read_run(shape: Shape) -> Run:
    """A run without its nodes. Some fields of the store's own are not in the answer."""
    made = _make(
        Run,
        # In the answer, `children` are a list.
        {name: value for name, value in shape.items() if name not in ("children", "input")},
        run=shape["run_id"],
        tenant="",
        dead_letters=shape["dlq_count"],
        parent_node=shape["parent_node"] or "",
        parent_scope=encode(tuple(shape.get("parent_scope", ()))),
        children=shape.get("child_count", 0),
    )
    made.input = msgspec.json.encode(shape["input"])
    return made


def read_result(shape: Shape) -> RunResult:
    """A run with its nodes: now, or as it was after one of its events."""
    nodes = {name: read_node(one) for name, one in shape["nodes"].items()}
    rest = {name: value for name, value in shape.items() if name not in ("nodes", "output")}
    made = _make(RunResult, rest, nodes={}, output=None)
    return msgspec.structs.replace(made, nodes=nodes, output=shape["output"])


def read_nodes(shape: Shape) -> dict[str, NodeResult]:
    """Nodes, or instances of nodes, by their names."""
    return {name: read_node(one) for name, one in shape.items()}


def read_node(shape: Shape) -> NodeResult:
    wait, undoing = shape["waiting_for"], shape["compensation"]
    return NodeResult(
        status=shape["status"],
        output=shape["output"],
        attempts=shape["attempts"],
        error=shape["error"],
        reason=shape["reason"] or "",
        started_ms=at_ms(shape["started_at"]),
        ended_ms=at_ms(shape["ended_at"]),
        instances=shape["instances"],
        items=shape["items"],
        event=shape["event"],
        waiting_for=None if wait is None else read_wait(wait),
        steps=tuple(_make(StepView, one) for one in shape["steps"]),
        compensation=None if undoing is None else _make(Undoing, undoing),
    )


def read_attempts(shape: Shape) -> InstanceDetails:
    """A node instance with its attempts."""
    found = tuple(
        Attempt(
            one["outcome"],
            at_ms(one["ready_at"]),
            at_ms(one["started_at"]),
            at_ms(one["ended_at"]),
            one["session"] or "",
            one["worker"],
            one["error"],
            at_ms(one["lease_until"]),
            one["event"],
        )
        for one in shape["attempts"]
    )
    scope = tuple(shape["scope"])
    return InstanceDetails(shape["node"], scope, shape["idempotency_key"], shape["given"], found)


def read_wait(shape: Shape) -> WaitView:
    since, until = at_ms(shape["since"]), at_ms(shape["until"])
    return WaitView(shape["kind"], shape["key"], since or 0, until, shape["data"])


def read_tree(shape: Shape) -> RunTree:
    """A run with its child runs, and theirs."""
    return RunTree(
        shape["run_id"],
        shape["workflow"],
        shape["status"],
        shape["node_id"] or "",
        tuple(shape["scope"]),
        tuple(map(read_tree, shape["children"])),
    )


def read_unserved(shape: Shape) -> Unserved:
    return _make(Unserved, shape, node=shape["node_id"])


class RemoteStall(Stall, frozen=True):
    """A run that makes no progress, and what a server says about it."""

    text: str = ""

    def explain(self) -> str:
        return self.text


def read_stall(shape: Shape) -> Stall:
    since_ms = at_ms(shape["stalled_at"]) or 0
    return RemoteStall(read_run(shape), since_ms, (), text=shape["stalled"])


def read_found_runs(page: Shape) -> FoundRuns:
    """A page of runs that fit a filter."""
    items, searched = page["items"], page["searched"]
    stalls = {one["run_id"]: read_stall(one) for one in items if one.get("stalled") is not None}
    return FoundRuns(
        tuple(map(read_run, items)),
        stalls,
        page["next"],
        searched["runs"],
        searched["outputs"],
        at_ms(searched["back_to"]),
    )


def read_consequences(shape: Shape) -> Consequences:
    return _make(Consequences, shape, is_allowed=shape["allowed"], why=shape["why"] or "")


def read_many_changed(shape: Shape) -> ManyChanged:
    runs = tuple(
        Changed(one["run_id"], one["changed"], one["status"], one["workflow"], one["why"] or "")
        for one in shape["items"]
    )
    return ManyChanged(shape["action"], shape["preview"], runs, shape["next"])


def read_histogram(shape: Shape) -> Histogram:
    return Histogram(
        _read_moment(shape["from"]),
        _read_moment(shape["to"]),
        shape["bucket_ms"],
        tuple(Bucket(_read_moment(one["from"]), one["counts"]) for one in shape["buckets"]),
        shape["counts"],
        shape["counted"],
        at_ms(shape["back_to"]),
    )


#: The fields of events that may have no value at all, which is null in the answer.
_EMPTY: frozenset[tuple[str, str]] = frozenset(
    (str(kind.__struct_config__.tag), field.name)
    for kind in happened.Fact.__subclasses__()
    for field in msgspec.structs.fields(kind)
    if field.type is msgspec.Raw and bytes(field.default) == b""
)


def read_event(shape: Shape) -> tuple[int, int, Event | bytes]:
    """An event with its number and its time; one that cannot be read here as bytes."""
    seq, at = shape["seq"], _read_moment(shape["at"])
    if shape["type"] == UNREADABLE:
        return seq, at, str(shape["data"]["raw"]).encode()
    kind = base_type(shape["type"])
    data = {
        name: value
        for name, value in shape["data"].items()
        if value is not None or (kind, name) not in _EMPTY
    }
    encoded = msgspec.json.encode({**data, "type": kind})
    try:
        return seq, at, decode_event(encoded)
    except msgspec.MsgspecError:
        return seq, at, encoded  # The server is newer.


def read_explanation(shape: Shape) -> Explanation:
    return msgspec.convert(shape, Explanation)


# ── the other nouns ─────────────────────────────────────────────────────────────────────────


def read_approval(shape: Shape) -> Approval:
    decisions = [{**one, "at_ms": at_ms(one["at"])} for one in shape["decisions"]]
    return _make(Approval, shape, decisions=decisions)


def read_letter(shape: Shape) -> DeadLetterView:
    settled = shape["reprocessed_at"] or shape["discarded_at"]
    return _make(
        DeadLetterView,
        shape,
        at_ms=at_ms(shape["at"]),
        settled_ms=at_ms(settled),
        why=shape["why"] or "",
    )


def read_letter_details(shape: Shape) -> LetterDetails:
    letter = read_letter(shape)
    history = [
        TaskEvent(
            at_ms=_read_moment(one["at"]),
            node=letter.node_id,
            scope=letter.scope,
            type=one["type"],
            seq=one["seq"],
            details=one["data"],
        )
        for one in shape["history"]
    ]
    return LetterDetails(letter, shape["input"], history)


def read_letter_group(shape: Shape) -> LetterGroup:
    return LetterGroup(
        fingerprint=shape["fingerprint"],
        count=shape["count"],
        queues=shape["queues"],
        first_ms=_read_moment(shape["first_at"]),
        last_ms=_read_moment(shape["last_at"]),
        example=read_letter(shape["example"]),
    )


def read_retried(shape: Shape) -> Retried:
    return Retried(shape["id"], shape["run_id"], shape["retried"], shape["why"] or "")


def read_redrive(shape: Shape) -> Redrive:
    return _make(Redrive, shape, by=shape["by"] or "")


def read_worker(shape: Shape) -> WorkerView:
    return _make(
        WorkerView,
        shape,
        # One that drains is shown as such while it is healthy.
        status="healthy" if shape["status"] == "draining" else shape["status"],
        heartbeat_ms=at_ms(shape["last_seen_at"]),
        running=shape["busy"],
        silent_ms=shape["silent_ms"],
    )


def read_run_counts(shape: Shape) -> RunCounts:
    return _make(RunCounts, shape)


def read_queue(shape: Shape) -> QueueView:
    return _make(QueueView, shape, why=shape.get("why") or "")


def read_leases(page: Shape) -> Leases:
    leases = tuple(
        LeaseView(
            one["run_id"],
            one["workflow"],
            one["node"],
            tuple(one["scope"]),
            one["queue"],
            one["attempt"],
            one["worker"],
            one["worker_name"],
            _read_moment(one["since"]),
            at_ms(one["until"]),
        )
        for one in page["items"]
    )
    return Leases(leases, page["looked_at"], page["complete"])


def read_statistics(shape: Shape) -> WorkflowStatistics:
    return WorkflowStatistics(
        shape["workflow"],
        shape["version"],
        shape["counted"],
        shape["counts"],
        not shape["complete"],
        shape["success_rate"],
        shape["p50_ms"],
        shape["p99_ms"],
        shape["max_ms"],
        at_ms(shape["since"]),
        tuple(map(read_run, shape["newest"])),
    )


def read_overview(shape: Shape) -> Overview:
    return Overview(
        shape["version"],
        shape["tenant"],
        shape["store"],
        _read_moment(shape["now"]),
        shape["runs"]["open"],
        read_histogram(shape["runs"]["recent"]),
        shape["dead_letters"],
        shape["approvals"],
        shape["stalled"]["runs"],
        shape["stalled"]["looked_at"],
        tuple(map(read_queue, shape["queues"])),
        Fleet(**shape["workers"]),
    )


def read_finding(shape: Shape) -> Finding:
    return Finding(shape["run_id"] or "", shape["id"], shape["message"], shape.get("workflow", ""))


def read_handler(shape: Shape) -> HandlerView:
    return _make(HandlerView, shape)


def read_workflow(shape: Shape) -> WorkflowView:
    return _make(
        WorkflowView,
        shape,
        message=shape["message"] or "",
        created_by=shape["created_by"] or "",
        newest=shape.get("newest", shape["version"]),
    )


def read_ready_task(shape: Shape) -> TaskView:
    return _make(TaskView, shape, run=shape["run_id"])


def read_node_type(shape: Shape) -> NodeTypeInfo:
    own = dict(shape["capabilities"])
    can_retry, secrets = own.pop("supports_retry", True), own.pop("takes_secrets", False)
    return _make(
        NodeTypeInfo,
        shape,
        display_name="" if shape["display_name"] == shape["name"] else shape["display_name"],
        icon=shape["icon"] or "",
        image=shape["image"] or "",
        capabilities=own,
        # What else there is to know of its kind, the server does not say.
        kind="io" if can_retry else "inline",
        secrets_in_config=secrets,
    )


def read_receiver(shape: Shape) -> WebhookReceiver:
    return _make(WebhookReceiver, shape, due_ms=at_ms(shape["next_at"]), error=shape["error"] or "")


def read_log_line(shape: Shape) -> LogLine:
    return LogLine(
        _read_moment(shape["at"]),
        shape["node"],
        encode(tuple(shape["scope"])),
        shape["attempt"],
        shape["level"],
        shape["text"],
        shape["step"] or "",
    )


def read_key(shape: Shape) -> StoredKey:
    """An API key; what it hashes to is not in the answer."""
    return _make(
        StoredKey,
        shape,
        digest=b"",
        is_trusted=shape["trusted"],
        created_by=shape["created_by"] or "",
    )


def read_audit_entry(shape: Shape) -> AuditEntry:
    return AuditEntry(
        id=shape["id"],
        at_ms=_read_moment(shape["at"]),
        by=shape["by"] or "",
        shown=shape["credential"] or "",
        address=shape["address"] or "",
        action=shape["action"],
        path=shape["path"],
        status=shape["status"],
    )
