"""What an author wrote, as values: one class per part of a workflow document.

Spellings are unified (`node_id` → `id`, `depends_on` → `dependencies`, …) and defaults are
filled in, but nothing is resolved: references are still names, conditions and templates are
still text. `model.document` makes these values from YAML and JSON, `plan.compile` turns them into
a plan. The classes hold the document, not its meaning.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

#: A condition as written: CEL text, or an object with a `type`.
ConditionSource: TypeAlias = str | dict[str, Any]

Join: TypeAlias = Literal["all", "any", "each"] | int
JoinRest: TypeAlias = Literal["absorb", "cancel"]
OnError: TypeAlias = Literal["fail", "continue"] | tuple[str, ...]

#: What a failure for good does: fail the run, or hold the node until somebody decides.
OnDlq: TypeAlias = Literal["fail", "hold"]


class Value(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Base of all parts: frozen, keyword-only, unset fields left out when encoded."""


class Retry(Value, frozen=True):
    """How often and how soon a failed attempt is repeated. None: the default decides."""

    #: The number of attempts, including the first.
    max_attempts: int | None = None
    backoff_ms: int | None = None
    multiplier: float | None = None
    max_delay_ms: int | None = None
    jitter: bool | None = None
    #: Exception classes, error codes and HTTP statuses: only these are retried, and these not.
    retry_on: tuple[str, ...] | None = None
    no_retry_on: tuple[str, ...] | None = None


class Budget(Value, frozen=True):
    """What agents may spend."""

    tokens: int | None = None
    usd: float | None = None


class Limits(Value, frozen=True):
    """Upper bounds. The smallest one that applies wins."""

    deadline_s: float | None = None
    max_hops: int | None = None
    max_fanout: int | None = None
    max_iterations: int | None = None
    max_output_bytes: int | None = None
    #: Of all outputs of a run.
    max_bytes: int | None = None
    budget: Budget | None = None


class NodeLimits(Limits, frozen=True):
    """Limits of a node."""

    #: Of an attempt in a process of its own, in MiB.
    max_memory_mb: int | None = None


class Defaults(Value, frozen=True):
    """Defaults for nodes."""

    retry: Retry | None = None
    timeout_seconds: float | None = None
    queue: str | None = None


class OnFailure(Value, frozen=True):
    """What happens when a run fails."""

    compensate: bool = False


class OnCancel(Value, frozen=True):
    """What happens when a run is cancelled."""

    compensate: bool = False


class Rule(Value, frozen=True):
    """One rule of a branch."""

    condition: ConditionSource
    next_nodes: tuple[str, ...] = ()


class Branch(Value, frozen=True):
    """Where a node's output goes, decided when the output is known."""

    type: Literal["conditional", "agent_driven"] = "conditional"
    rules: tuple[Rule, ...] = ()
    default: tuple[str, ...] = ()
    available_next_nodes: tuple[str, ...] = ()


class Loop(Value, frozen=True):
    """A node that may send the run back: to itself or to an earlier node."""

    condition: ConditionSource
    max_iterations: int | None = None
    #: None is the node itself.
    loop_back_to: str | None = None
    #: None: the node's static dependents.
    break_path: tuple[str, ...] | None = None
    #: None: running out of iterations fails the node.
    timeout_path: tuple[str, ...] | None = None


class Foreach(Value, frozen=True):
    """Run the node once per item."""

    items: Any
    max_parallel: int | None = None
    need: int | None = None
    as_: str = msgspec.field(default="item", name="as")
    on_item_error: Literal["fail", "continue"] = "fail"


class Reassign(Value, frozen=True):
    """Others who decide when the time is over, and what happens when theirs is over too."""

    #: Names of people and groups, or a template that gives a list of them.
    reassign: tuple[str, ...] | str
    timeout_seconds: float | None = None
    then: Literal["reject", "approve", "fail"] = "reject"


class HumanConfig(Value, frozen=True):
    """Who decides, by when, and what happens otherwise."""

    #: Names of people and groups, or a template that gives a list of them.
    approvers: tuple[str, ...] | str = ()
    timeout_seconds: float | None = None
    escalation_policy: Literal["reject", "approve", "fail"] | Reassign = "reject"
    form: dict[str, Any] | None = None
    quorum: int = 1
    title: str | None = None
    description: str | None = None
    payload: Any = None
    approval_ui_url: str | None = None
    on_reject: Literal["fail", "complete"] = "fail"
    four_eyes: bool = False
    #: When to remind them first, and how often from then on.
    remind_after_seconds: float | None = None
    remind_every_seconds: float | None = None


class AgentConfig(Value, frozen=True):
    """The model, tools and bounds of an agent."""

    model: str | None = None
    temperature: float | None = None
    available_tools: tuple[str, ...] = ()
    prompt: str | None = None
    max_turns: int | None = None
    budget: Budget | None = None
    response_schema: dict[str, Any] | None = None
    max_tokens: int | None = None


class Compensator(Value, frozen=True):
    """How a completed node is undone."""

    handler: str | None = None
    #: None: that of the node.
    config: dict[str, Any] | None = None
    timeout_seconds: float | None = None
    retry: Retry | None = None


class Placement(Value, frozen=True):
    """Which workers may run the node."""

    requires_executors: tuple[str, ...] = ()
    requires_capabilities: dict[str, Any] = msgspec.field(default_factory=dict)
    max_parallel_per_node: int | None = None
    allowed_nodes: tuple[str, ...] = ()
    forbidden_nodes: tuple[str, ...] = ()


class Concurrency(Value, frozen=True):
    """How many instances with the same key may run at once."""

    key: str
    limit: int = 1


class ConfigRef(Value, frozen=True):
    """A node's config, stored as a blob."""

    #: Always the full form, `cas://sha256:…`.
    cas_ref: str
    type_url: str | None = None


class Node(Value, frozen=True):
    """A step in the graph."""

    id: str
    description: str | None = None
    type: str = "task"
    handler: str | None = None
    config: dict[str, Any] = msgspec.field(default_factory=dict)
    config_ref: ConfigRef | None = None
    dependencies: tuple[str, ...] = ()
    dependents: tuple[str, ...] = ()
    join: Join = "all"
    join_rest: JoinRest = "absorb"
    branch: Branch | None = None
    loop: Loop | None = None
    foreach: Foreach | None = None
    retry: Retry | None = None
    timeout_seconds: float | None = None
    soft_timeout_seconds: float | None = None
    #: None: the handler's author decides.
    isolation: Literal["process", "none"] | None = None
    limits: NodeLimits | None = None
    on_error: OnError = "fail"
    #: None: as the workflow says.
    on_dlq: OnDlq | None = None
    human_config: HumanConfig | None = None
    #: None: `human_config.on_reject` says what a rejection does.
    rejection_path: tuple[str, ...] | None = None
    agent_config: AgentConfig | None = None
    compensator: Compensator | None = None
    placement: Placement | None = None
    concurrency: Concurrency | None = None
    secrets: tuple[str, ...] = ()


class Edge(Value, frozen=True):
    """A dependency written as a separate edge."""

    source: str = msgspec.field(name="from")
    target: str = msgspec.field(name="to")


class Workflow(Value, frozen=True):
    """A whole document."""

    name: str
    description: str | None = None
    #: JSON Schema of the run's input.
    input: dict[str, Any] | None = None
    limits: Limits = Limits()
    defaults: Defaults = Defaults()
    on_failure: OnFailure = OnFailure()
    on_cancel: OnCancel = OnCancel()
    dlq_policy: Literal["non_retryable", "all"] = "non_retryable"
    on_dlq: OnDlq = "fail"
    output: Any = None
    nodes: tuple[Node, ...] = ()
    edges: tuple[Edge, ...] = ()
