"""A node type: its documentation, its schemas and its behaviour, in one value.

Each node type that comes with Minuet is one file that makes one `NodeType`; `@minuet.node_type`
makes one of a user's function. The spec feeds everything that must know about node types:
validation, `minuet node-types`, the reference pages and editors.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from minuet.nodes.context import Context
from minuet.types import Json


class Wait(msgspec.Struct, frozen=True):
    """Returned by a node instead of an output: it waits for something outside.

    When that has come, or the time is up, the node is called again: `call.resumed` is set, and
    `call.resolution` is what has come.
    """

    #: `timer`, `signal`, …
    kind: str
    key: str = ""
    #: Point in time, or time from now, at which the waiting ends even if nothing has come.
    due_ms: int | None = None
    delay_ms: int | None = None
    data: Json = None


class Call(msgspec.Struct, frozen=True):
    """What a node gets to work with."""

    #: Its config, rendered.
    config: Any
    #: Outputs of the dependencies that were live, by node.
    inputs: dict[str, Json]
    #: The run's input.
    input: Json
    #: `inputs`, and the outputs that the config or a condition names beyond them.
    outputs: dict[str, Json]
    #: It has waited, and the wait is over; False on the first call.
    resumed: bool = False
    #: The time was over before anything came.
    timed_out: bool = False
    #: What came; None on the first call and when the time was over.
    resolution: Json = None
    #: What the document says beside `config` and only this node type understands
    #: (`human_config`, `agent_config`, …), as written: templates in it are not rendered. Other
    #: instances of the node see the same objects.
    parts: Mapping[str, Json] = {}
    #: Names of the secrets that the node may read, with `ctx.secret`.
    secrets: tuple[str, ...] = ()
    #: Time that this attempt may take; None: no limit. The worker enforces it.
    timeout_ms: int | None = None
    #: When this attempt began, by the store's clock.
    taken_ms: int = 0
    #: Inside a foreach: `item` and `item_index`.
    variables: Mapping[str, Json] = {}


#: Runs on the event loop, at once: it must neither block nor await.
Inline: TypeAlias = Callable[[Call], Json | Wait]
#: Runs as an asyncio task of its own, in the same way as an async handler.
Asynchronous: TypeAlias = Callable[[Call, Context], Awaitable[Json | Wait]]

#: Binds a registered type's function to a call: the function, and its arguments by name.
Bound: TypeAlias = Callable[[Call, Context], tuple[Callable[..., Any], dict[str, Any]]]

#: What a handler or a registered type does to the world: nothing; something that may be done again
#: (because the receiver knows the idempotency key, say); or something that must not be done twice.
Effects: TypeAlias = Literal["none", "idempotent", "once"]

#: `inline`: computes, on the event loop. `io`: reaches outside, in a task of its own. `handler`:
#: the node names a handler. `flow`: it names a durable function. `registered`: a user's, by
#: `@minuet.node_type`. `later`: known to documents, cannot run yet.
Kind: TypeAlias = Literal["inline", "io", "handler", "flow", "registered", "later"]


class NodeTypeInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of node: what people and tools should know of it, wherever it runs."""

    name: str
    summary: str
    description: str = ""
    version: str = "1"
    #: What people call it, and the address of a picture; "": its name, and none.
    display_name: str = ""
    icon: str = ""
    #: What else tools should know of it, by name; and the container image of workers that run it.
    capabilities: dict[str, Json] = {}
    image: str = ""
    #: JSON Schema of `config`.
    config_schema: dict[str, Any] = msgspec.field(default_factory=lambda: {"type": "object"})
    #: Entries of `config` that are CEL and stay unchanged: rendering templates in them
    #: would turn data into code.
    expression_fields: tuple[str, ...] = ()
    #: JSON Schema of what arrives: the outputs of the dependencies that were live, by node.
    input_schema: dict[str, Any] = msgspec.field(default_factory=lambda: {"type": "object"})
    #: Its output, in words and as JSON Schema ({}: any JSON).
    output: str = "any JSON"
    output_schema: dict[str, Any] = {}
    #: One node of this type, as an author would write it.
    example: dict[str, Any] = {}
    kind: Kind = "inline"
    #: Of an `io` type: whether templates in its config may read secrets. What they become must
    #: not be kept, in an output or in another run. Handlers and registered types always may.
    secrets_in_config: bool = False
    #: Of an `io` type: seconds per attempt, for nodes without their own timeout; None: no limit.
    timeout_seconds: float | None = None
    #: Where its tokens wait.
    queue: str = "inline"
    #: Of a `registered` type: where it is defined.
    place: str = ""
    #: What its author says about running it twice; None: nothing.
    effects: Effects | None = None
    #: When a worker first announced this version; None: no worker has.
    created_ms: int | None = None

    @property
    def takes_secrets(self) -> bool:
        """Whether templates in its config may read secrets."""
        return self.secrets_in_config or self.kind in ("handler", "flow", "registered", "later")


class NodeType(NodeTypeInfo, frozen=True, kw_only=True):
    """A kind of node that can run here."""

    #: What it does: `run` if it is `inline`, `run_async` if it is `io`.
    run: Inline | None = None
    #: Of an `inline` type: whether it does the same whatever it is called with.
    is_constant: bool = False
    run_async: Asynchronous | None = None
    #: What it does if it is `registered`, and whether that is awaited (else it runs in a thread).
    bind: Bound | None = None
    is_async: bool = True

    def __post_init__(self) -> None:
        has = (self.run is not None, self.run_async is not None, self.bind is not None)
        if has != (self.kind == "inline", self.kind == "io", self.kind == "registered"):
            raise ValueError(
                f"node type {self.name!r} is of kind {self.kind!r}: an inline type has `run`, an "
                "io type has `run_async`, a registered one has `bind`, and the others have none"
            )
        if self.kind == "io" and self.queue == "inline":
            raise ValueError(
                f"node type {self.name!r} needs a queue of its own: the queue 'inline' is for "
                "nodes that need no permit"
            )
