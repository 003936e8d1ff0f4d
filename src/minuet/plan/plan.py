"""A compiled workflow: a flat, verified graph, identified by the hash of its content.

A plan is data: it is stored with the runs that use it, read by workers of later releases and
never compiled again. So its format has a number. `plan.compile` makes it; the kernel reads it.

How scopes work. Loops, `each` joins and the items of a foreach are *constructs*. A node's `nest`
names the constructs that enclose it, outermost first, and an instance's scope has one number for
each. An edge says how its target's scope follows from its source's: keep the first `keep` numbers
(the constructs that enclose both ends), then append `enter` (0 for a loop that is entered, the
arrival's number for an `each` join, the item's number for a foreach). The back edge of a loop adds
one to the last kept number instead.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from minuet.types import ITEMS, UNDO

#: The newest format. A worker refuses a plan with a newer one. A plan has the oldest format that
#: can say what it says, so workers of earlier versions go on with plans that they understand.
FORMAT = 4

#: The format of a plan with a foreach, and of one that holds failures.
FOREACH_FORMAT = 2
HOLD_FORMAT = 3

#: The format of a plan with compensators, or of runs that are undone without being asked to.
UNDO_FORMAT = 3

#: The format of a plan with nodes in processes of their own, or whose outputs may have only so many
#: bytes: a worker of an earlier version would ignore both.
LIMIT_FORMAT = 4

#: Why an edge exists. One edge (a pair of nodes) may have several reasons.
Role: TypeAlias = Literal["static", "branch", "break", "timeout", "back", "error", "reject"]

RetryAuthor: TypeAlias = Literal["document", "settings"]

ConstructKind: TypeAlias = Literal["loop", "each", "map"]


#: In the names of nodes that no author wrote, and in no others.
HIDDEN = "$"

#: The type of nodes that run a durable function; and of agents, which are one.
FLOW = "flow"
AGENT = "agent"

#: The type of the hidden node that lists what to undo, and of those that undo a child run.
UNDO_TYPE, UNDO_CHILD_TYPE = "$undo", "$undo_child"

#: The type of nodes that start child runs.
WORKFLOW = "workflow"

#: What the hidden nodes of a foreach have instead of a node type. No author can write these.
ITEMS_TYPE, GATHER_TYPE = "$items", "$gather"


class Part(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Base of a plan's parts."""


class Edge(Part, frozen=True):
    """An edge from the node that contains it to `target`."""

    target: str
    roles: tuple[Role, ...] = ("static",)
    #: How many numbers of the source's scope the target's scope begins with.
    keep: int = 0
    #: The numbers that follow them.
    enter: tuple[int, ...] = ()


class Read(Part, frozen=True):
    """An output that a node's templates and conditions use, beyond its live arrivals.

    The instance read is the latest one under the first `keep` numbers of the reader's scope.
    With `previous`, it is that of the previous iteration: the node comes after the reader in
    the same loop body, so it is an ancestor only through the back edge, and `keep` includes
    that loop's number.
    """

    node: str
    keep: int = 0
    previous: bool = False
    #: All instances under the prefix instead of the latest: the items of a foreach.
    every: bool = False


class Rule(Part, frozen=True):
    """One rule of a branch."""

    condition: Any
    targets: tuple[str, ...] = ()


class Branch(Part, frozen=True):
    """Rules in order. The first that matches wins."""

    type: Literal["conditional", "agent_driven"] = "conditional"
    rules: tuple[Rule, ...] = ()
    default: tuple[str, ...] = ()
    available: tuple[str, ...] = ()


class Loop(Part, frozen=True):
    """The condition that sends a run back, and how often it may do so."""

    condition: Any
    max_iterations: int
    #: The first node of the body.
    entry: str
    #: Whether running out of iterations has its own exit. Without one it fails the node.
    has_timeout_path: bool = False


class Retry(Part, frozen=True):
    """A complete retry policy."""

    max_attempts: int = 3
    backoff_ms: int = 1000
    multiplier: float = 2.0
    max_delay_ms: int = 60_000
    jitter: bool = True
    #: Exception classes, error codes and HTTP statuses. Empty: all.
    retry_on: tuple[str, ...] = ()
    no_retry_on: tuple[str, ...] = ()


RETRY_DEFAULT = Retry()


class Concurrency(Part, frozen=True):
    """At most `limit` instances with the same rendered key at once."""

    key: str
    limit: int = 1


class Foreach(Part, frozen=True):
    """Which part of a node with `foreach` a node of the plan is (`plan.foreach`)."""

    #: The author's node.
    node: str
    role: Literal["items", "item", "gather"] = "gather"
    #: How many items run at once. None: all.
    max_parallel: int | None = None
    #: How many items must complete; the others are withdrawn then. None: all are awaited.
    need: int | None = None
    #: What an item that failed does: it fails the node, or the error takes the place of its output.
    on_item_error: Literal["fail", "continue"] = "fail"
    #: The item's name in templates.
    alias: str = "item"


class Node(Part, frozen=True):
    """A step of the plan."""

    id: str
    type: str = "task"
    handler: str | None = None
    config: Any = None
    config_ref: str | None = None
    #: The queue where its ready tokens wait.
    queue: str = "task"
    nest: tuple[str, ...] = ()
    edges: tuple[Edge, ...] = ()
    #: How many live arrivals make it ready. 0: all that are expected.
    need: int = 0
    #: Arrivals expected, by the innermost loop of `nest` that is past its first iteration:
    #: `expects[0]` when none is, `expects[d]` when it is the d-th loop. Arrivals from outside
    #: that loop came before and are not awaited again.
    expects: tuple[int, ...] = (0,)
    #: Nodes from which every path leads to this join. They are cancelled when it fires early.
    cancels: tuple[str, ...] = ()
    reads: tuple[Read, ...] = ()
    branch: Branch | None = None
    loop: Loop | None = None
    retry: Retry = RETRY_DEFAULT
    #: Who wrote `retry`. The document's overrides the handler's own; the settings' does not.
    #: None: nobody, or the plan is older than this field.
    retry_by: RetryAuthor | None = None
    timeout_ms: int | None = None
    #: When an attempt should come to an end.
    soft_timeout_ms: int | None = None
    #: Where attempts run. None: the handler's author decides.
    isolation: Literal["process", "none"] | None = None
    #: Of an attempt in a process of its own, in MiB.
    max_memory_mb: int | None = None
    #: What an error does: fail the run, continue, or take the edges with role `error`.
    on_error: Literal["fail", "continue", "path"] = "fail"
    #: Whether a failure that breaks the run is held instead, until somebody decides.
    hold: bool = False
    max_hops: int | None = None
    max_fanout: int | None = None
    max_output_bytes: int | None = None
    concurrency: Concurrency | None = None
    secrets: tuple[str, ...] = ()
    foreach: Foreach | None = None
    #: The node whose instances it undoes, of a hidden node. "": it is not such a node.
    undoes: str = ""
    #: What future node types need, as written in the document.
    extra: dict[str, Any] = msgspec.field(default_factory=dict)


class Plan(Part, frozen=True, kw_only=True):
    """A compiled version of a workflow."""

    format: int = 1
    name: str
    #: In topological order (ignoring back edges).
    nodes: tuple[Node, ...]
    #: Each construct by name: a loop by its loop node, an `each` join by its node, the items of a
    #: foreach by the node that runs for each.
    constructs: dict[str, ConstructKind] = msgspec.field(default_factory=dict)
    #: Nodes that start with the run.
    entries: tuple[str, ...]
    #: Nodes without successors: the run's output consists of their outputs.
    terminals: tuple[str, ...]
    #: The hidden node that renders the document's `output`, if it has one.
    output_node: str | None = None
    input_schema: dict[str, Any] | None = None
    deadline_ms: int | None = None
    max_hops: int | None = None
    max_fanout: int | None = None
    max_output_bytes: int | None = None
    #: Of all outputs together.
    max_bytes: int | None = None
    dlq_policy: Literal["non_retryable", "all"] = "non_retryable"
    description: str | None = None
    #: The hidden nodes that run compensators.
    undos: tuple[Node, ...] = ()
    #: When a run is undone without being asked to.
    undo_on: Literal["", "failure", "cancel", "both"] = ""


def items_id(node: str) -> str:
    """The hidden node that renders the list of a node with `foreach`."""
    return f"{node}{ITEMS}"


def item_id(node: str) -> str:
    """The hidden node that runs once per item."""
    return f"{node}$item"


def undo_id(node: str) -> str:
    """The hidden node that undoes the instances of an author's node."""
    return f"{node}{UNDO}"


def is_list(name: str) -> bool:
    """Whether this is the hidden node that renders the list of a foreach."""
    return name.endswith(ITEMS)


def is_undo(name: str) -> bool:
    """Whether this is a hidden node that undoes, or lists what to undo."""
    return name.endswith(UNDO)


def author_of(name: str) -> str:
    """The node that an author wrote, for one of the hidden nodes of its foreach."""
    return name.split(HIDDEN)[0] or name if HIDDEN in name else name


def authored(plan: Plan) -> tuple[Node, ...]:
    """The plan's nodes as their author wrote them: one for each foreach. The hidden node that
    renders the output is one of them."""
    if plan.format < FOREACH_FORMAT:
        return plan.nodes
    nodes = {node.id: node for node in plan.nodes}
    found = []
    for node in plan.nodes:
        each = node.foreach
        if each is not None and each.role != "gather":
            continue
        if each is not None:
            item = nodes[item_id(node.id)]
            node = msgspec.structs.replace(
                node, type=item.type, handler=item.handler, need=nodes[items_id(node.id)].need
            )
        edges = tuple(
            msgspec.structs.replace(edge, target=author_of(edge.target)) for edge in node.edges
        )
        found.append(msgspec.structs.replace(node, edges=edges))
    return tuple(found)
