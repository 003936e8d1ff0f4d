"""What clients get: the shapes of `app.shapes`, as types for the OpenAPI document.

Nothing is built from these. A test compares them with what the server answers.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from minuet.app.roles import Role

Moment = Annotated[
    str,
    Meta(
        description="RFC 3339 in UTC with milliseconds.",
        examples=["2026-11-17T08:56:40.123Z"],
        extra_json_schema={"format": "date-time"},
    ),
]
Status = Literal["PENDING", "RUNNING", "PAUSED", "COMPENSATING", "COMPLETED", "FAILED", "CANCELLED"]
RunId = Annotated[str, Meta(examples=["019a8f3e5c7b7d10a4b2c6d8e0f21436"])]


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all answers."""


class WaitingFor(Reply, frozen=True):
    """What a node waits for."""

    kind: str
    key: str
    since: Moment | None
    until: Moment | None
    data: Any


class Compensation(Reply, frozen=True):
    """What has become of a node's compensator."""

    status: str
    attempts: int
    error: dict[str, Any] | None
    started_at: Moment | None
    ended_at: Moment | None


class Node(Reply, frozen=True):
    """A node of a run, or one instance of it."""

    status: Literal[
        "PENDING",
        "QUEUED",
        "RUNNING",
        "WAITING",
        "COMPLETED",
        "FAILED",
        "CANCELLED",
        "SKIPPED",
    ]
    output: Any
    attempts: int
    error: dict[str, Any] | None
    reason: str | None
    started_at: Moment | None
    ended_at: Moment | None
    instances: int
    items: Annotated[
        int | None, Meta(description="Of a foreach: how many items its list has, begun or not.")
    ]
    event: Annotated[int, Meta(description="Number of the event that holds the output.")]
    waiting_for: WaitingFor | None
    steps: Annotated[
        list[dict[str, Any]], Meta(description="What a durable function has done, in order.")
    ]
    compensation: Compensation | None


class Attempt(Reply, frozen=True):
    """One time that a worker had a node instance, or that it waits for one."""

    outcome: Literal["completed", "failed", "running", "lost", "waiting", "cancelled", "queued"]
    ready_at: Moment | None
    started_at: Moment | None
    ended_at: Moment | None
    session: Annotated[str | None, Meta(description="Of the worker.")]
    worker: Annotated[str | None, Meta(description="Its name; null: it is not known any more.")]
    error: dict[str, Any] | None
    lease_until: Annotated[Moment | None, Meta(description="Of one that runs.")]
    event: Annotated[int | None, Meta(description="Number of the event that says so.")]


class InstanceDetails(Reply, frozen=True):
    """A node instance with what it was given, and its attempts."""

    node: str
    scope: list[int]
    idempotency_key: str
    given: Annotated[
        dict[str, Any] | None,
        Meta(description="`config`, `inputs`, `input` and `item` as its handler sees them."),
    ]
    attempts: list[Attempt]
    result: Node


class RunRow(Reply, frozen=True):
    """A run without what only its history says: its output and its nodes."""

    run_id: RunId
    workflow: str
    version: Annotated[int | None, Meta(description="null: the run of a bare document.")]
    tag: str | None
    plan: Annotated[str, Meta(description="Reference of its compiled plan.")]
    status: Status
    input: Any
    error: dict[str, Any] | None
    counter: Annotated[int, Meta(description="Live tokens; 0 when the run is over.")]
    seq: Annotated[int, Meta(description="Number of its last event.")]
    generation: int
    tags: dict[str, Any]
    parent: str | None
    parent_node: str | None
    parent_scope: Annotated[
        list[int], Meta(description="Which instance of that node has started it.")
    ]
    child_count: Annotated[int, Meta(description="How often it has started a child run.")]
    submitted_by: str | None
    deadline_at: Moment | None
    dlq_count: int
    created_at: Moment
    started_at: Moment | None
    ended_at: Moment | None
    duration_ms: int | None


class ListedRun(RunRow, frozen=True):
    """A run in a list."""

    stalled: Annotated[
        str | None, Meta(description="What it waits for in vain, if stalled runs were asked for.")
    ] = None
    stalled_at: Annotated[
        Moment | None, Meta(description="When something happened to it last.")
    ] = None


class Searched(Reply, frozen=True):
    """How far was looked for runs."""

    runs: Annotated[int, Meta(description="Runs that were looked at for this page.")]
    outputs: Annotated[int, Meta(description="Those of them whose outputs were read.")]
    back_to: Annotated[
        Moment | None, Meta(description="Runs older than this were not looked at; null: all were.")
    ]
    complete: bool


class Bucket(Reply, frozen=True, rename={"start": "from"}):
    """A part of a histogram."""

    start: Moment
    counts: Annotated[
        dict[str, int], Meta(description="Runs that were created in it, by their status now.")
    ]


class Histogram(Reply, frozen=True, rename={"start": "from", "end": "to"}):
    """Runs over time."""

    start: Moment
    end: Moment
    bucket_ms: int
    buckets: list[Bucket]
    counts: Annotated[dict[str, int], Meta(description="All of them, by status.")]
    counted: Annotated[int, Meta(description="Runs that were looked at.")]
    back_to: Annotated[
        Moment | None, Meta(description="Runs older than this were not counted; null: all were.")
    ]
    complete: bool


class Consequences(Reply, frozen=True):
    """What a change of a run would do."""

    action: str
    allowed: bool
    why: Annotated[str | None, Meta(description="Why it would be refused.")]
    status: Annotated[str, Meta(description="What the run would be right afterwards.")]
    ready: Annotated[list[str], Meta(description="Instances that would be ready to run.")]
    cut_off: Annotated[list[str], Meta(description="Instances that would be cut off.")]
    undone: Annotated[list[str], Meta(description="Instances to undo, the first one first.")]
    skipped: Annotated[list[str], Meta(description="Nodes that would be skipped as well.")]
    next: Annotated[list[str], Meta(description="Nodes that can come next.")]
    ahead: Annotated[list[str], Meta(description="These, and all that can come after them.")]
    children: Annotated[list[str], Meta(description="Open child runs that would be cancelled.")]


class ChangedRun(Reply, frozen=True):
    """What became of one of several runs, or would."""

    run_id: str
    workflow: str | None
    status: Annotated[
        Status | None,
        Meta(description="Before a preview, after a change; null: it is not there."),
    ]
    changed: bool
    why: Annotated[str | None, Meta(description="Why it was not changed, or would not be.")]


class ManyChanged(Reply, frozen=True):
    """What became of several runs, or would."""

    action: Literal["cancel", "pause", "resume", "retry", "delete"]
    preview: bool
    changed: int
    refused: int
    items: list[ChangedRun]
    next: Annotated[
        str | None, Meta(description="Of a filter: the `cursor` of the next runs; null: no more.")
    ]


class Unserved(Reply, frozen=True):
    """A node that is ready, in a queue that no live worker serves."""

    node_id: str
    queue: str
    handler: str | None
    needs: Annotated[str, Meta(description="Its placement constraints, in words.")]
    name: Annotated[str, Meta(description="The queue with its constraints.")]


class RunCounts(Reply, frozen=True):
    """How many runs are not over, and what people have to look at."""

    open: Annotated[dict[str, int], Meta(description="By status.")]
    dead_letters: Annotated[int, Meta(description="Those that are pending.")]


class HeldInstance(Reply, frozen=True):
    """A node instance that a worker holds."""

    node: Annotated[str, Meta(description="As the events name it.")]
    scope: Annotated[str, Meta(description="As the events write it.")]
    since: Moment


class Deleted(Reply, frozen=True):
    """What was deleted, or would be."""

    runs: int


class WebhookReceiver(Reply, frozen=True):
    """A receiver of webhooks, and how it does."""

    name: str
    url: Annotated[str | None, Meta(description="null: this server does not know it any more.")]
    events: list[str]
    waiting: Annotated[int, Meta(description="Webhooks that it has not accepted yet.")]
    oldest_at: Moment | None
    given_up: int
    failures: Annotated[int, Meta(description="Failed attempts since it last accepted one.")]
    error: str | None
    next_at: Moment | None
    sent_at: Moment | None


class WebhookTested(Reply, frozen=True):
    """What became of a webhook that was sent to try a receiver."""

    name: str
    accepted: bool
    error: str | None


class ChildRun(Reply, frozen=True):
    """A child run, as its parent names it."""

    run_id: RunId
    node_id: str | None
    scope: list[int]
    workflow: str
    status: Status


class Diagnostic(Reply, frozen=True):
    """A problem of a document."""

    file: str
    line: int | None
    column: int | None
    severity: Literal["error", "warning"]
    code: str
    message: str
    path: str
    hint: str | None


class Run(RunRow, frozen=True):
    """A run with its output and its nodes."""

    output: Any
    nodes: dict[str, Node]
    children: list[ChildRun]
    compensated: Annotated[
        Literal["all", "partly"] | None, Meta(description="How much of it was undone.")
    ]
    last_event_at: Moment
    instances: Annotated[
        dict[str, Node], Meta(description="Every instance of every node, if they were asked for.")
    ] = {}
    diagnostics: Annotated[
        list[Diagnostic], Meta(description="Warnings about the document that was started.")
    ] = []


class RunAt(Reply, frozen=True):
    """A run as it was after one of its events."""

    run_id: RunId
    workflow: str
    status: Status
    output: Any
    nodes: dict[str, Node]
    error: dict[str, Any] | None
    compensated: Literal["all", "partly"] | None
    duration_ms: int | None
    version: int | None
    tag: str | None
    tags: dict[str, Any]
    generation: int
    seq: int
    last_seq: Annotated[int, Meta(description="Number of its last event now.")]
    last_event_at: Moment
    instances: Annotated[
        dict[str, Node], Meta(description="Every instance of every node, if they were asked for.")
    ] = {}


class Event(Reply, frozen=True):
    """A line of a run's history."""

    seq: int
    type: Annotated[str, Meta(examples=["node.completed"])]
    at: Moment
    data: dict[str, Any]
    cause: Annotated[
        int | None, Meta(description="Number of the event that led to it; null: from outside.")
    ]


class FeedEvent(Reply, frozen=True):
    """An event of any run."""

    run_id: str
    workflow: str
    seq: int
    type: Annotated[str, Meta(examples=["run.completed"])]
    at: Moment
    data: dict[str, Any]


class Explanation(Reply, frozen=True):
    """Why a node is in its state."""

    node: str
    scope: list[int]
    status: str
    summary: str
    reasons: list[str]
    missing: Annotated[
        list[Any], Meta(description="Arrivals and outputs that the node still needs.")
    ]
    details: dict[str, Any]


class GraphRule(Reply, frozen=True):
    """A rule of a branch."""

    condition: str
    targets: list[str]


class GraphBranch(Reply, frozen=True):
    """How a node chooses what follows it: the first rule that fits wins."""

    type: Literal["conditional", "agent_driven"]
    rules: list[GraphRule]
    default: list[str]


class GraphLoop(Reply, frozen=True):
    """How a node repeats what leads to it."""

    condition: str
    max_iterations: int
    entry: Annotated[str, Meta(description="The first node of what is repeated.")]


class GraphJoin(Reply, frozen=True):
    """How many arrivals a node waits for."""

    need: int
    expected: int


class GraphNode(Reply, frozen=True, kw_only=True):
    """A node of a workflow. Only a compact graph leaves something out."""

    id: str
    type: str
    handler: str | None = None
    nest: Annotated[
        list[str], Meta(description="The loops and joins around it, outermost first.")
    ] = []
    need: Annotated[int, Meta(description="Live arrivals that make it ready; 0: all.")] = 0
    dependencies: list[str] = []
    dependents: list[str] = []
    is_entry: bool = False
    is_terminal: bool = False
    is_output: Annotated[bool, Meta(description="The hidden node that renders the output.")] = False
    foreach: bool = False
    title: Annotated[str | None, Meta(description="What people are asked.")] = None
    join: GraphJoin | None = None
    each: Annotated[dict[str, Any] | None, Meta(description="Of a foreach: how its items run.")] = (
        None
    )
    branch: GraphBranch | None = None
    loop: GraphLoop | None = None
    child: Annotated[str | None, Meta(description="The workflow that it starts.")] = None
    config: Annotated[Any, Meta(description="As it was written, with templates.")] = None
    queue: str
    on_error: Literal["fail", "continue", "path"]
    max_attempts: int
    timeout_ms: int | None = None
    has_compensator: bool = False


class GraphEdgeRule(Reply, frozen=True):
    """A rule of a branch that leads along an edge."""

    rule: int
    condition: str


class GraphEdge(Reply, frozen=True, rename={"source": "from", "target": "to"}):
    """An edge of a workflow. Only a compact graph leaves something out."""

    source: str
    target: str
    roles: list[Literal["static", "branch", "break", "timeout", "back", "error", "reject"]] = []
    rules: list[GraphEdgeRule] = []
    is_default: Annotated[bool, Meta(description="Taken if no rule of the branch fits.")] = False


class Graph(Reply, frozen=True):
    """A workflow as nodes and edges."""

    name: str
    description: str | None
    constructs: dict[str, Any]
    nodes: list[GraphNode]
    edges: list[GraphEdge]


class Validated(Reply, frozen=True):
    """What is to be said about a document."""

    valid: bool
    diagnostics: list[Diagnostic]
    workflow: Annotated[str | None, Meta(description="Its name; null: it is not valid.")]
    plan: str | None
    graph: Graph | None
    input_schema: dict[str, Any] | None
    document: Annotated[
        dict[str, Any] | None, Meta(description="As data, with the names of fields as usual.")
    ]


class Submitted(Reply, frozen=True):
    """A run that waits to be triggered."""

    workflow_definition_id: Annotated[
        str, Meta(description="The deployed version: name@version.", examples=["order@1"])
    ]
    execution_id: RunId
    status: Literal["PENDING"]
    diagnostics: list[Diagnostic] = []


class Triggered(Reply, frozen=True):
    """A run that was started."""

    execution_id: RunId
    status: Status


class Workflow(Reply, frozen=True):
    """A version of a deployed workflow."""

    name: str
    version: int
    newest: Annotated[int, Meta(description="The workflow's newest version.")]
    digest: str
    tags: dict[str, int]
    created_at: Moment
    created_by: str | None
    message: str | None
    description: str | None
    document: dict[str, Any] | None
    is_new: Annotated[bool, Meta(description="Whether deploying made it.")] = False
    diagnostics: list[Diagnostic] = []


class Decision(Reply, frozen=True):
    """What a person has decided."""

    by: str
    decision: Literal["approve", "reject", "timeout"]
    comments: str
    data: Any
    at: Moment


class LeadsTo(Reply, frozen=True):
    """The nodes that follow a decision."""

    approve: list[str]
    reject: list[str]


class Approval(Reply, frozen=True):
    """What people are asked, and what they have decided."""

    id: Annotated[str, Meta(examples=["019a8f3e5c7b7d10a4b2c6d8e0f21436:approve"])]
    run_id: RunId
    node_id: str
    scope: list[int]
    workflow: str
    title: str | None
    description: str | None
    approvers: list[str]
    quorum: int
    status: Literal["pending", "decided", "timeout", "cancelled"]
    decision: Literal["approve", "reject", "timeout"] | None
    payload: Any
    form: dict[str, Any] | None
    decisions: list[Decision]
    leads_to: LeadsTo
    requester: str | None
    four_eyes: bool
    metadata: dict[str, Any]
    created_at: Moment
    decided_at: Moment | None
    timeout_at: Moment | None
    at_timeout: Annotated[
        Literal["approve", "reject", "fail", "reassign"] | None,
        Meta(description="What follows when the time is over; null: it waits forever."),
    ]
    approval_ui_url: str | None


class Decided(Reply, frozen=True):
    """What a decision has led to."""

    approval_id: str
    status: Annotated[
        Literal["resumed", "pending"],
        Meta(description="pending: more people must approve."),
    ]
    next_nodes: list[str]


class DeadLetter(Reply, frozen=True):
    """A node instance that failed for good."""

    id: str
    run_id: RunId
    node_id: str
    scope: list[int]
    workflow: str
    queue: str
    generation: int
    reason: str
    error: dict[str, Any]
    fingerprint: str
    attempts: int
    at: Moment
    reprocessed_at: Moment | None
    discarded_at: Moment | None
    why: str | None
    status: Literal["pending", "reprocessed", "discarded"]
    #: Whether its run waits until somebody decides.
    held: bool


class LetterDetails(DeadLetter, frozen=True):
    """A dead letter, with what its handler was given and what happened to it."""

    input: dict[str, Any] | None
    history: list[dict[str, Any]]


class LetterGroup(Reply, frozen=True):
    """Dead letters with the same cause."""

    fingerprint: str
    count: int
    queues: dict[str, int]
    first_at: Moment
    last_at: Moment
    example: DeadLetter


class RetriedLetter(Reply, frozen=True):
    """What became of a dead letter that was to be retried."""

    id: str
    run_id: RunId
    retried: bool
    why: str | None


class Retried(Reply, frozen=True):
    """What became of dead letters that were to be retried."""

    items: list[RetriedLetter]


class RedriveRefusal(Reply, frozen=True):
    """A dead letter that a redrive has not retried."""

    id: str
    why: str


class Redrive(Reply, frozen=True):
    """Dead letters that a server retries one after the other."""

    id: str
    what: Annotated[str, Meta(description="Which ones: a run, a node, a queue or a cause.")]
    by: str | None
    per_second: float | None
    state: Annotated[
        Literal["running", "done", "stopped", "interrupted"],
        Meta(description="`interrupted`: its server has ended; the rest is still pending."),
    ]
    total: int
    retried: int
    refused: int
    refusals: Annotated[list[RedriveRefusal], Meta(description="The first of those refused.")]
    started_at: Moment
    noted_at: Annotated[Moment, Meta(description="When its server has last said how far it is.")]


class Key(Reply, frozen=True):
    """An API key, without the key itself."""

    id: str
    prefix: Annotated[str, Meta(description="The key begins with this.")]
    name: str
    tenant: str
    roles: list[Role]
    groups: list[str]
    trusted: bool
    created_at: Moment
    created_by: str | None
    expires_at: Moment | None
    revoked_at: Moment | None
    used_at: Annotated[
        Moment | None, Meta(description="When it was last used, to ten minutes; null: never.")
    ]


class NewKey(Key, frozen=True):
    """An API key that was just created."""

    key: Annotated[str, Meta(description="The key. It is never shown again.")]


class Sender(Reply, frozen=True):
    """Who sends a request, and what it may do."""

    name: Annotated[str | None, Meta(description="null: nobody knows; the request may say so.")]
    tenant: str
    roles: Annotated[list[Role], Meta(description="With those that they include.")]
    groups: list[str]
    trusted: Annotated[bool, Meta(description="It may act in the name of others.")]


class AuditEntry(Reply, frozen=True):
    """A change that somebody has asked for."""

    id: str
    at: Moment
    by: Annotated[str | None, Meta(description="Whose key it was; null: nobody knows.")]
    credential: Annotated[
        str | None, Meta(description="What the sender has shown.", examples=["key:k3b5x2qpa7ho"])
    ]
    address: Annotated[str | None, Meta(description="The address that sent it.")]
    action: Annotated[str, Meta(examples=["POST /runs/{run_id}/cancel"])]
    path: str
    status: Annotated[int | None, Meta(description="Of the answer; null: the server ended before.")]


class Worker(Reply, frozen=True):
    """A worker."""

    id: str
    name: str
    host: str
    pid: int
    version: str
    status: Literal["healthy", "stale", "dead", "draining"]
    draining: bool
    concurrency: int
    busy: int
    leftover: Annotated[int, Meta(description="Handlers that still run although they timed out.")]
    queues: list[str]
    executors: list[str]
    capabilities: dict[str, Any]
    runs: list[str] | None
    session: str
    registered_at: Moment
    last_seen_at: Moment
    silent_ms: int


class Queue(Reply, frozen=True):
    """A queue: what waits in it, and for whom."""

    queue: str
    ready: int
    running: int
    oldest_at: Moment | None
    served_by: list[str]
    needs: str
    workflow: str
    node: str
    limit: int | None
    why: Annotated[str | None, Meta(description="Why nobody serves it; null: somebody does.")]


class Lease(Reply, frozen=True):
    """A node instance that a worker holds."""

    run_id: str
    workflow: str
    node: str
    scope: list[int]
    queue: str
    attempt: int
    worker: Annotated[str | None, Meta(description="null: it is not known any more.")]
    worker_name: str | None
    since: Moment
    until: Annotated[
        Moment | None, Meta(description="Another worker gets it then, unless it is renewed.")
    ]


class WorkflowStatistics(Reply, frozen=True):
    """How the newest runs of a workflow went."""

    workflow: str
    version: Annotated[int | None, Meta(description="The newest deployed one; null: none is.")]
    counted: Annotated[int, Meta(description="Runs that were counted, the newest.")]
    counts: Annotated[dict[str, int], Meta(description="By status.")]
    complete: Annotated[bool, Meta(description="false: there are older ones.")]
    success_rate: Annotated[
        float | None, Meta(description="Of those that completed or failed; null: there are none.")
    ]
    p50_ms: Annotated[int | None, Meta(description="How long those took that completed.")]
    p99_ms: int | None
    max_ms: int | None
    since: Annotated[Moment | None, Meta(description="When the oldest of them was created.")]
    newest: list[RunRow]


class OpenRuns(Reply, frozen=True):
    """Runs of an overview."""

    open: Annotated[dict[str, int], Meta(description="Open runs, by status.")]
    recent: Annotated[Histogram, Meta(description="Runs that were created in the last day.")]


class StalledRuns(Reply, frozen=True):
    """Runs that make no progress."""

    runs: int
    looked_at: Annotated[int, Meta(description="Open runs that were looked at, the newest.")]


class Fleet(Reply, frozen=True):
    """The workers of a store together."""

    counts: Annotated[
        dict[str, int], Meta(description="How many are healthy, stale, dead or draining.")
    ]
    busy: int
    capacity: int
    versions: Annotated[dict[str, int], Meta(description="How many have which version of Minuet.")]


class Overview(Reply, frozen=True):
    """The state of a store."""

    version: str
    tenant: str
    store: Annotated[str, Meta(description="What the store is, and what it can lose.")]
    now: Moment
    runs: OpenRuns
    dead_letters: int
    approvals: Annotated[int, Meta(description="That wait; at most 1,000 are counted.")]
    stalled: StalledRuns
    queues: list[Queue]
    workers: Fleet


class Finding(Reply, frozen=True):
    """A problem in what a store holds."""

    run_id: str | None
    id: Annotated[str, Meta(description="Which invariant, or what kind of problem.")]
    message: str
    workflow: str = ""


class Checkup(Reply, frozen=True):
    """What was found in some runs."""

    sound: bool
    runs: Annotated[int, Meta(description="How many were examined.")]
    findings: list[Finding]
    overdue: Annotated[int, Meta(description="Leases and timers that no sweep has handled yet.")]
    store: str
    next: Annotated[str | None, Meta(description="The `cursor` of the next runs; null: no more.")]


class Repaired(Reply, frozen=True):
    """What was done to a run, or why nothing was done."""

    run_id: str
    changes: list[dict[str, Any]]
    refused: str | None
    left: list[Finding]


class ReadyTask(Reply, frozen=True):
    """A node instance that a worker could take."""

    run_id: str
    node: str
    scope: list[int]
    queue: str
    attempt: int
    due_at: Moment | None


class LogLine(Reply, frozen=True):
    """A line that a handler has printed or logged."""

    at: Moment
    node: str
    scope: list[int]
    attempt: int
    step: Annotated[str | None, Meta(description="Of a durable function: the step that said it.")]
    level: Annotated[str, Meta(description="`debug` to `critical`, or `stdout` or `stderr`.")]
    text: str


class NodeType(Reply, frozen=True):
    """A node type."""

    name: str
    version: str
    display_name: str
    summary: str
    description: str
    icon: str | None
    image: str | None
    queue: str
    capabilities: dict[str, Any]
    config_schema: dict[str, Any]
    input_schema: dict[str, Any]
    output: str
    output_schema: dict[str, Any]
    example: Any
    created_at: Annotated[
        Moment | None, Meta(description="When a worker first announced this version.")
    ]


class Handler(Reply, frozen=True):
    """A handler that workers have."""

    name: str
    workers: Annotated[list[str], Meta(description="Names of the workers that have it.")]
    config_schema: Annotated[
        dict[str, Any] | None, Meta(description="null: its worker does not say.")
    ]


class BlobReference(Reply, frozen=True):
    """Where a content is kept."""

    cas_ref: Annotated[str, Meta(examples=["cas://sha256:9f86d081884c7d65…"])]
    bytes: int


class Registered(Reply, frozen=True):
    """A worker over HTTP that was registered."""

    worker_id: str
    token: Annotated[
        str, Meta(description="May be sent instead of an API key: `Authorization: Bearer TOKEN`.")
    ]
    lease_ms: Annotated[
        int, Meta(description="A worker that is silent for this long loses its tasks.")
    ]


class Task(Reply, frozen=True):
    """A task for a worker over HTTP."""

    task: Annotated[str, Meta(description="Stands for the lease; send it back.")]
    run_id: RunId
    node_id: str
    scope: list[int]
    handler: str
    config: Any
    inputs: dict[str, Any]
    input: Any
    attempt: int
    idempotency_key: str
    lease_ms: int
    traceparent: Annotated[
        str | None, Meta(description="Its place in a trace (W3C Trace Context), if it has one.")
    ]


class Step(Reply, frozen=True):
    """A step of a task."""

    known: Annotated[bool, Meta(description="Whether it has a result.")]
    value: Any


class Settled(Reply, frozen=True):
    """What became of a task that was handed in."""

    task: str
    result: Annotated[
        Literal["applied", "duplicate", "stale"],
        Meta(description="stale: it is no longer this worker's task, and nothing has changed."),
    ]


class Exchanged(Reply, frozen=True):
    """The answer to an exchange."""

    tasks: list[Task]
    settled: list[Settled]
    revoked: Annotated[list[str], Meta(description="Tasks to stop working on.")]
    draining: Annotated[bool, Meta(description="It gets nothing more: finish, and end.")]


class Ready(Reply, frozen=True):
    """Whether the server can work."""

    status: Literal["ok", "unavailable"]
    store: str
    workers: Annotated[
        dict[str, int] | None, Meta(description="How many workers have which status.")
    ] = None
    oldest_ms: Annotated[
        int | None, Meta(description="How long the oldest node that can be run has waited.")
    ] = None
    data_age_ms: Annotated[
        int | None, Meta(description="Of a replica: how old its data is at most.")
    ] = None


class Alive(Reply, frozen=True):
    """The process answers."""

    status: Literal["ok"]
    version: str


class Sample(Reply, frozen=True):
    """The sample of a development server."""

    workflow: str
    run_id: str
    worker: Annotated[str, Meta(description="The name of its worker.")]
    pid: Annotated[
        int | None, Meta(description="Of the worker's process; null: it is being started again.")
    ]
    kills: Annotated[int, Meta(description="How often it was killed.")]


class Dev(Reply, frozen=True):
    """Whether this is a development server."""

    is_dev: bool
    sample: Sample | None


class Killed(Reply, frozen=True):
    """A process that was killed."""

    pid: int


class Problem(Reply, frozen=True):
    """What went wrong (RFC 9457)."""

    type: Annotated[str, Meta(examples=["urn:minuet:problem:run-not-found"])]
    title: str
    status: int
    detail: str
    code: Annotated[str, Meta(description="Stable.", examples=["run-not-found"])]
    instance: str | None
    diagnostics: list[Diagnostic] = []
    problems: list[str] = []
    run_status: Annotated[str | None, Meta(description="Of 409 and 412: how the run is.")] = None
    seq: Annotated[int | None, Meta(description="Of 409 and 412: its last event.")] = None
    approval: Approval | None = None
    fields: Annotated[
        dict[str, Any], Meta(description="The fields of the exception that Python programs get.")
    ] = {}
