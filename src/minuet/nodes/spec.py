"""What a node type is: its documentation, its schemas and its behaviour, in one value.

Each node type is one file that makes one `NodeType`. The spec feeds everything that must know
about node types: validation, `minuet node-types`, the reference pages and editors.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Literal, TypeAlias

import msgspec

from minuet.types import Json


class Wait(msgspec.Struct, frozen=True):
    """Returned by a node instead of an output: it waits for something outside.

    When that has come (or the time is over) the node is called again with
    `call.resolution` set.
    """

    #: `timer`, `signal`, …
    kind: str
    key: str = ""
    #: Point in time, or time from now, at which the waiting ends by itself.
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
    #: What it waited for; None on the first call.
    resolution: Json = None


#: Runs on the event loop, at once: it must neither block nor await.
Inline: TypeAlias = Callable[[Call], Json | Wait]
#: Runs as a task of its own.
Coroutine: TypeAlias = Callable[[Call], Awaitable[Json | Wait]]


class NodeType(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of node."""

    name: str
    summary: str
    description: str = ""
    #: JSON Schema of `config`.
    config_schema: dict[str, Any] = msgspec.field(default_factory=lambda: {"type": "object"})
    #: Entries of `config` that are CEL, to be taken as they stand: rendering templates in them
    #: would turn data into code.
    expression_fields: tuple[str, ...] = ()
    #: JSON Schema of what arrives: the outputs of the dependencies that were live, by node.
    input_schema: dict[str, Any] = msgspec.field(default_factory=lambda: {"type": "object"})
    #: What its output looks like, in words and as JSON Schema ({}: any JSON).
    output: str = "any JSON"
    output_schema: dict[str, Any] = {}
    #: One node of this type, as an author would write it.
    example: dict[str, Any] = {}
    #: `handler`: the node names a handler; the others bring their own behaviour.
    kind: Literal["inline", "handler", "later"] = "inline"
    #: Where its tokens wait.
    queue: str = "inline"
    run: Inline | None = None
