"""The fields of a workflow document: the one place where they are declared.

Reading, dumping, the JSON Schema for editors and docs/reference/document.md are all derived
from this table. The defaults are those of the classes in `model.workflow`.
"""

from __future__ import annotations

from typing import Any

from minuet.model.field_types import (
    ANY,
    STRING,
    Choice,
    Either,
    ErrorName,
    Flag,
    JsonList,
    JsonObject,
    ListOf,
    Number,
    Text,
    Whole,
)
from minuet.model.fields import Field, ObjectType
from minuet.model.problem import BROKEN, Problem, Problems
from minuet.model.workflow import (
    AgentConfig,
    Branch,
    Budget,
    Compensator,
    Concurrency,
    ConfigRef,
    Defaults,
    Edge,
    Foreach,
    HumanConfig,
    Limits,
    Loop,
    Node,
    NodeLimits,
    OnCancel,
    OnFailure,
    Placement,
    Reassign,
    Retry,
    Rule,
    Workflow,
)
from minuet.types import MEMORY_MB_MIN, Path

FLAG = Flag()
COUNT = Whole(1)
MILLISECONDS = Whole(0)
#: What workers accept from any node (`bridge.values`). A higher limit would have no effect.
OUTPUT_BYTES_MAX = 64 * 1024 * 1024
#: Thirty years: longer than any process lasts, and it fits everywhere as milliseconds.
SECONDS = Number(above=0, maximum=10**9)
HOURS = Number(above=0, maximum=10**9 // 3600, unit=3600)
MONEY = Number(minimum=0, maximum=10**9)

NODE_ID = Text(
    "a node id",
    pattern="[A-Za-z0-9_-]{1,128}",
    rule="a node id has 1 to 128 letters (a-z, A-Z), digits, _ or -",
    code="bad-id",
)
NODE_IDS = ListOf("a list of node ids", NODE_ID)
#: Names of people, workers, executors and tools.
LABEL = Text(
    "a label",
    pattern=r"[^\x00-\x1f\x7f-\x9f]{1,256}",
    rule="a label has 1 to 256 characters, and no control characters",
)
LABELS = ListOf("a list of labels", LABEL)
NAME = Text(
    "a name",
    pattern="[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,255}",
    rule="a name has 1 to 256 letters (a-z, A-Z), digits, _, -, ., : or /",
)
WORKFLOW_NAME = Text(
    "a workflow name",
    pattern=r"[^\s\x00-\x1f\x7f-\x9f/@\\]"
    r"(?:[^\x00-\x1f\x7f-\x9f/@\\]{0,126}[^\s\x00-\x1f\x7f-\x9f/@\\])?",
    rule="a workflow name has 1 to 128 characters, without /, @ and \\, control characters, and "
    "blanks at its ends",
)
VARIABLE = Text(
    "a variable name",
    pattern="[A-Za-z_][A-Za-z0-9_]{0,63}",
    rule="a variable name has letters (a-z, A-Z), digits and _, and no digit in front",
)
BLOB = Text(
    "a blob reference",
    pattern=r"(?:cas://)?sha256:[A-Za-z0-9_.-]{1,128}",
    rule="a blob reference is cas://sha256:… or sha256:…",
    prefix="cas://",
)
ERROR_NAMES = ListOf("a list of exception classes, error codes and HTTP statuses", ErrorName())
TEMPLATE = STRING
SCHEMA = JsonObject("a JSON Schema object")
CONDITION = Either(
    "a condition (CEL text, or an object with a type)",
    STRING,
    JsonObject("a condition object", required=("type",)),
)


def _keep_unless_disabled(
    values: dict[str, Any], helpers: dict[str, Any], path: Path, problems: Problems
) -> bool:
    return helpers.get("enabled", True) is not False


def _settle_loop(
    values: dict[str, Any], helpers: dict[str, Any], path: Path, problems: Problems
) -> bool:
    if values.get("loop_back_to") == "self":
        values["loop_back_to"] = None
    return _keep_unless_disabled(values, helpers, path, problems)


def _settle_node(
    values: dict[str, Any], helpers: dict[str, Any], path: Path, problems: Problems
) -> bool:
    waits = helpers.get("wait_for_all")
    if waits is None or waits is BROKEN:
        return True
    join = values.setdefault("join", "all" if waits else "any")
    if join is not BROKEN and (join == "all") is not waits:
        written = "true" if waits else "false"
        message = f"wait_for_all: {written} contradicts join: {join}"
        hint = "keep join, which is more precise"
        problems.add(Problem("contradiction", message, (*path, "wait_for_all"), hint))
    return True


RETRY = ObjectType(
    "Retry",
    "a retry policy",
    Retry,
    Field("max_attempts", COUNT, "The number of attempts, including the first."),
    Field("backoff_ms", MILLISECONDS, "Delay before the second attempt."),
    Field(
        "multiplier",
        Number(minimum=1, maximum=100),
        "The factor by which each delay is longer than the one before.",
    ),
    Field("max_delay_ms", MILLISECONDS, "The longest delay."),
    Field("jitter", FLAG, "Whether delays are randomized, so that not all nodes retry at once."),
    Field(
        "retry_on",
        ERROR_NAMES,
        "Exception classes (with or without their module, including subclasses), error codes and "
        "HTTP statuses (503, 5xx): only these are retried. Without it, all are.",
    ),
    Field("no_retry_on", ERROR_NAMES, "Those that are not retried, written in the same way."),
    short="max_attempts",
)

BUDGET = ObjectType(
    "Budget",
    "a budget",
    Budget,
    Field("tokens", Whole(1, 10**12), "Tokens of a language model, input and output."),
    Field("usd", MONEY, "Money, in US dollars."),
)

_LIMITS = (
    Field("deadline_s", SECONDS, "Seconds after which it must be over."),
    Field(
        "max_hops",
        COUNT,
        "How many node instances may run one after another: the longest path through a run, "
        "on which each round of a loop counts again.",
    ),
    Field("max_fanout", COUNT, "How many nodes one node may start at once."),
    Field(
        "max_output_bytes",
        Whole(1, OUTPUT_BYTES_MAX),
        "The largest size of one output, as JSON. No output may exceed 16 MiB.",
    ),
)
NODE_LIMITS = ObjectType(
    "NodeLimits",
    "limits of a node",
    NodeLimits,
    *_LIMITS,
    Field(
        "max_memory_mb",
        Whole(MEMORY_MB_MIN, 1_000_000),
        "With `isolation: process`: how much memory the process of an attempt may use, in MiB.",
    ),
)
_RUN_LIMITS = (
    *_LIMITS,
    Field("max_iterations", COUNT, "How many rounds a loop may have."),
    Field(
        "max_bytes",
        Whole(1, 10**15),
        "How many bytes all outputs of a run may have together, as JSON.",
    ),
)
#: Those that a run is given when it is started.
RUN_LIMITS = ObjectType("RunLimits", "limits of a run", Limits, *_RUN_LIMITS)
LIMITS = ObjectType(
    "Limits",
    "limits",
    Limits,
    *_RUN_LIMITS,
    Field("budget", BUDGET, "What all agents of a run may spend in total."),
)

DEFAULTS = ObjectType(
    "Defaults",
    "defaults",
    Defaults,
    Field("retry", RETRY, "For nodes without `retry`."),
    Field(
        "timeout_seconds", SECONDS, "For nodes without `timeout_seconds`.", spellings=("timeout",)
    ),
    Field("queue", NAME, "The queue of the nodes' tokens. Workers choose which queues they serve."),
)

ON_FAILURE = ObjectType(
    "OnFailure",
    "a failure policy",
    OnFailure,
    Field("compensate", FLAG, "Whether completed nodes are undone when a run fails."),
)

ON_CANCEL = ObjectType(
    "OnCancel",
    "a policy for cancelled runs",
    OnCancel,
    Field(
        "compensate",
        FLAG,
        "Whether completed nodes are undone when a run is cancelled, or its deadline has passed.",
    ),
)

RULE = ObjectType(
    "Rule",
    "a rule",
    Rule,
    Field("condition", CONDITION, "When the rule applies.", spellings=("when",)),
    Field("next_nodes", NODE_IDS, "Where the run goes then. May be empty.", required=True),
)

BRANCH = ObjectType(
    "Branch",
    "a branch",
    Branch,
    Field("enabled", FLAG, "`false`: ignore the branch.", helper=True),
    Field("type", Choice("conditional", "agent_driven"), "Who decides: the rules, or an agent."),
    Field("rules", ListOf("a list of rules", RULE), "Tried in order. The first that matches wins."),
    Field("default", NODE_IDS, "Where the run goes when no rule matches."),
    Field("available_next_nodes", NODE_IDS, "The nodes that an agent may choose from."),
    settle=_keep_unless_disabled,
)

LOOP = ObjectType(
    "Loop",
    "a loop",
    Loop,
    Field("enabled", FLAG, "`false`: ignore the loop.", helper=True),
    Field("condition", CONDITION, "The loop continues while it is true.", spellings=("while",)),
    Field("max_iterations", COUNT, "The number of rounds, including the first."),
    Field("loop_back_to", NODE_ID, "Where the next round starts: an earlier node, or `self`."),
    Field(
        "break_path",
        NODE_IDS,
        "Where the run goes when the condition no longer holds. "
        "Without it: to the node's dependents.",
    ),
    Field(
        "timeout_path",
        NODE_IDS,
        "Where the run goes when the iterations are used up. Without it, the node fails.",
    ),
    settle=_settle_loop,
)

FOREACH = ObjectType(
    "Foreach",
    "a foreach",
    Foreach,
    Field(
        "items",
        Either("a template or a list", TEMPLATE, JsonList()),
        "The node runs once per item.",
    ),
    Field("max_parallel", COUNT, "How many items run at once; without it, all."),
    Field(
        "need",
        COUNT,
        "How many items must complete; the others are withdrawn then. Without it, all are awaited.",
    ),
    Field("as", VARIABLE, "The name of the item in templates.", attribute="as_"),
    Field(
        "on_item_error",
        Choice("fail", "continue"),
        "What an item that failed does: it fails the node, or its error takes the place of its "
        "output.",
    ),
)

POLICY = Choice(
    "reject",
    "approve",
    "fail",
    also={
        "auto_reject": "reject",
        "auto_reject_after_timeout": "reject",
        "auto_approve": "approve",
        "auto_approve_after_timeout": "approve",
    },
)

REASSIGN = ObjectType(
    "Reassign",
    "an escalation_policy",
    Reassign,
    Field(
        "reassign",
        Either("a list of names, or a template", TEMPLATE, LABELS),
        "Who decides from then on, instead of the approvers.",
    ),
    Field(
        "timeout_seconds",
        SECONDS,
        "How long they have; without it, forever.",
        spellings=("timeout",),
        converted={"timeout_hours": HOURS},
    ),
    Field("then", POLICY, "The decision when their time is over too."),
)


def _check_times(
    values: dict[str, Any], helpers: dict[str, Any], path: Path, problems: Problems
) -> bool:
    """Nobody is ever asked instead of the approvers if those have forever."""
    policy = values.get("escalation_policy")
    if isinstance(policy, Reassign) and "timeout_seconds" not in values:
        message = "the approval is never reassigned: its approvers have no time limit"
        hint = "say in `timeout_hours` or `timeout_seconds` how long they have"
        problems.add(Problem("wrong-value", message, (*path, "escalation_policy"), hint))
    return True


HUMAN_CONFIG = ObjectType(
    "HumanConfig",
    "the human_config of a node",
    HumanConfig,
    Field(
        "approvers",
        Either("a list of names, or a template", TEMPLATE, LABELS),
        "Who may decide: names of people and groups. Without any, everybody may.",
    ),
    Field(
        "timeout_seconds",
        SECONDS,
        "How long to wait for the decision.",
        spellings=("timeout",),
        converted={"timeout_hours": HOURS},
    ),
    Field(
        "escalation_policy",
        Either("`reject`, `approve`, `fail`, or an object with `reassign`", POLICY, REASSIGN),
        "The decision when the time is over, or who decides then. `auto_reject`, `auto_approve` "
        "and both with `_after_timeout` are accepted too.",
    ),
    Field("form", SCHEMA, "JSON Schema of the data of a decision."),
    Field("quorum", COUNT, "How many people must approve. One rejection rejects."),
    Field("title", STRING, "What the approvers see first, a template."),
    Field("description", STRING, "What else they should know, a template."),
    Field(
        "payload",
        ANY,
        "What they decide on, with templates; it is also passed on. Without it: what the node got.",
    ),
    Field("approval_ui_url", STRING, "Where the approvers decide, if not in Minuet's UI."),
    Field(
        "on_reject",
        Choice("fail", "complete"),
        "What a rejection does without a `rejection_path`: fail the run, or only end this path.",
    ),
    Field("four_eyes", FLAG, "`true`: the person who started the run cannot decide."),
    Field(
        "remind_after_seconds",
        SECONDS,
        "When to remind those who have not decided; without it, after `remind_every_seconds`.",
        converted={"remind_after_hours": HOURS},
    ),
    Field(
        "remind_every_seconds",
        SECONDS,
        "How often to remind them from then on; without it, once.",
        converted={"remind_every_hours": HOURS},
    ),
    settle=_check_times,
)

AGENT_CONFIG = ObjectType(
    "AgentConfig",
    "the agent_config of a node",
    AgentConfig,
    Field("model", LABEL, "The language model."),
    Field("temperature", Number(minimum=0, maximum=2), "How much the answers vary."),
    Field(
        "available_tools",
        LABELS,
        "The tools that the agent may call: handlers, `workflow:NAME`, or tools of Minuet.",
        spellings=("allowed_tools",),
    ),
    Field("prompt", TEMPLATE, "What the agent should do, a template."),
    Field("max_turns", COUNT, "How often the model may be called."),
    Field("budget", BUDGET, "What the agent may spend."),
    Field("response_schema", SCHEMA, "JSON Schema of the result."),
    Field("max_tokens", COUNT, "The longest answer of one call, in tokens."),
)

COMPENSATOR = ObjectType(
    "Compensator",
    "a compensator",
    Compensator,
    Field(
        "handler", NAME, "The handler that undoes the node.", spellings=("action",), required=True
    ),
    Field(
        "config",
        JsonObject(),
        "The handler's arguments. Strings are templates, which see what those of the node see, and "
        "`output`, the node's output. Without it: the config of the node.",
    ),
    Field(
        "timeout_seconds",
        SECONDS,
        "Per attempt. Without it: 60.",
        spellings=("timeout_sec", "timeout"),
    ),
    Field(
        "retry",
        RETRY,
        "How a failed attempt is repeated. Without it: 3 attempts.",
        spellings=("retry_config",),
    ),
)

PLACEMENT = ObjectType(
    "Placement",
    "placement constraints",
    Placement,
    Field(
        "requires_executors",
        LABELS,
        "Node types, handlers or executors. The worker must offer at least one of them.",
    ),
    Field(
        "requires_capabilities",
        JsonObject(),
        "What the worker must offer: a number is a minimum, a list a subset, anything else equal.",
    ),
    Field(
        "max_parallel_per_node",
        COUNT,
        "How many instances one worker may run at once (1 by default).",
    ),
    Field("allowed_nodes", LABELS, "The only workers that may run it, by name or id."),
    Field("forbidden_nodes", LABELS, "Workers that may not."),
)

CONCURRENCY = ObjectType(
    "Concurrency",
    "a concurrency limit",
    Concurrency,
    Field(
        "key",
        TEMPLATE,
        "A template. Instances with the same key share the limit. "
        "A key that is empty or null means no limit.",
    ),
    Field("limit", COUNT, "How many may run at once."),
)

CONFIG_REF = ObjectType(
    "ConfigRef",
    "a config_ref object",
    ConfigRef,
    Field("cas_ref", BLOB, "The blob."),
    Field(
        "type_url",
        STRING,
        "What kind of config it is, and in which version. The node type can check it: "
        '`call.parts["type_url"]`.',
    ),
    short="cas_ref",
)

ON_DLQ = Choice("fail", "hold")

NODE = ObjectType(
    "Node",
    "a node",
    Node,
    Field("id", NODE_ID, "Unique in the document.", spellings=("node_id",)),
    Field("description", STRING, "What the node does: for people, and for agents that choose it."),
    Field("type", NAME, "The node type."),
    Field("handler", NAME, "For `task`: a registered name or `module:function`."),
    Field("config", JsonObject(), "What the node type or handler needs. Strings are templates."),
    Field("config_ref", CONFIG_REF, "The config, stored as a blob."),
    Field("dependencies", NODE_IDS, "Nodes that come before.", spellings=("depends_on",)),
    Field("dependents", NODE_IDS, "Nodes that come after."),
    Field(
        "join",
        Either(
            '"all", "any", "each" or a whole number',
            Choice("all", "any", "each", otherwise="a whole number"),
            COUNT,
        ),
        "How many dependencies the node waits for. `each`: it runs once per arrival.",
        told_by="wait_for_all",
    ),
    Field("wait_for_all", FLAG, "`true` is `join: all`, `false` is `join: any`.", helper=True),
    Field(
        "join_rest",
        Choice("absorb", "cancel"),
        "What happens to dependencies that are still running when the join has enough arrivals.",
    ),
    Field("branch", BRANCH, "Where the output goes, decided when the output is known."),
    Field("loop", LOOP, "Whether the run goes back to this or an earlier node."),
    Field("foreach", FOREACH, "Run the node once per item of a list."),
    Field("retry", RETRY, "How a failed attempt is repeated.", spellings=("retry_config",)),
    Field("timeout_seconds", SECONDS, "Per attempt.", spellings=("timeout", "timeout_sec")),
    Field(
        "soft_timeout_seconds",
        SECONDS,
        "When the handler of an attempt learns that it should come to an end (`ctx.out_of_time`). "
        "`timeout_seconds` ends it.",
        spellings=("soft_timeout",),
    ),
    Field(
        "isolation",
        Choice("process", "none"),
        "`process`: each attempt runs in a process of its own, which can be killed. Without it, "
        "the handler's author decides.",
    ),
    Field("limits", NODE_LIMITS, "Upper bounds. The smallest one that applies wins."),
    Field(
        "on_error",
        Either(
            '"fail", "continue" or a list of node ids',
            Choice("fail", "continue", otherwise="a list of node ids"),
            NODE_IDS,
        ),
        "What a failure of the node does: fail the run, continue, or take another path.",
    ),
    Field(
        "on_dlq",
        ON_DLQ,
        "What a failure for good does that `on_error` does not handle: see the workflow's field, "
        "which counts without this one.",
    ),
    Field("human_config", HUMAN_CONFIG, "For `human` nodes: who decides, by when."),
    Field(
        "rejection_path",
        NODE_IDS,
        "Where the run goes after a rejection. Without it, `on_reject` of `human_config` counts.",
    ),
    Field("agent_config", AGENT_CONFIG, "For `agent` nodes: model, tools and bounds."),
    Field("compensator", COMPENSATOR, "How the node is undone."),
    Field(
        "placement_constraints",
        PLACEMENT,
        "Which workers may run it.",
        spellings=("placement",),
        attribute="placement",
    ),
    Field("concurrency", CONCURRENCY, "How many instances with the same key run at once."),
    Field(
        "secrets",
        ListOf("a list of names", NAME),
        "Secrets that the node may read, in its config and in its handler.",
    ),
    settle=_settle_node,
)

EDGE = ObjectType(
    "Edge",
    "an edge",
    Edge,
    Field("from", NODE_ID, "The node that comes before.", attribute="source"),
    Field("to", NODE_ID, "The node that comes after.", attribute="target"),
)

WORKFLOW = ObjectType(
    "Workflow",
    "a workflow",
    Workflow,
    Field("$schema", STRING, "For editors. Minuet ignores it.", helper=True),
    Field("name", WORKFLOW_NAME, "The name of the workflow."),
    Field("description", STRING, "What the workflow does."),
    Field("input", SCHEMA, "JSON Schema of a run's input, checked at its start."),
    Field("limits", LIMITS, "Upper bounds. The smallest one that applies wins."),
    Field("defaults", DEFAULTS, "Defaults for nodes."),
    Field("on_failure", ON_FAILURE, "What happens when a run fails."),
    Field("on_cancel", ON_CANCEL, "What happens when a run is cancelled."),
    Field("dlq_policy", Choice("non_retryable", "all"), "Which failures become dead letters."),
    Field(
        "on_dlq",
        ON_DLQ,
        "What a failure for good does: fail the run, or hold the node until somebody decides, "
        "while the rest of the run goes on.",
    ),
    Field(
        "output",
        ANY,
        "The run's output, with templates. Without it: the outputs of the "
        "nodes without successors, by node.",
    ),
    Field("nodes", ListOf("a list of nodes", NODE), "The steps.", required=True),
    Field(
        "edges",
        ListOf("a list of edges", EDGE),
        "Dependencies written as separate edges, in addition to those of the nodes.",
    ),
)
