"""What a worker and the process of an attempt say to each other, over a pair of sockets.

    worker:   Prepare, Begin, Answer, Cancel
    process:  Ready, Began, Ask, Line, Kept, Ended

A message is four bytes of length and MessagePack. Values of users are JSON inside: each side reads
them with the same code as a worker that has no such process.
"""

from __future__ import annotations

import asyncio
from typing import Any, TypeAlias

import msgspec

from minuet.worker.failure import Examined

#: More than any message has: the largest value that can be kept, and what belongs to it.
MESSAGE_BYTES_MAX = 256 * 1024 * 1024

#: Bytes before each message, which say how long it is.
HEAD_BYTES = 4


class Message(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Base of all messages."""


class Prepare(Message, frozen=True):
    """Once for each process: the worker's command line, and which log records are wanted."""

    arguments: tuple[str, ...]
    #: Levels by logger; "" is the root.
    levels: dict[str, int]


class Place(msgspec.Struct, frozen=True):
    """Where the function of a handler is."""

    handler: str
    module: str
    #: "": the module is found by its name.
    file: str
    #: The function in the module.
    name: str
    #: The module is a script: `file` is run, under another name than `__main__`.
    is_script: bool = False


class Begin(Message, frozen=True):
    """Run an attempt."""

    place: Place
    #: JSON.
    config: bytes
    #: Fields of the context.
    context: dict[str, Any]
    #: The run's input and the outputs of the dependencies: JSON, if the handler has a context.
    input: bytes
    inputs: bytes
    #: The values of the secrets that the node declares, and why others have none.
    secrets: dict[str, str]
    missing: dict[str, str]
    #: Values of secrets that the config was rendered with.
    revealed: tuple[str, ...]
    #: The step that it is, of a durable function; "": it is a node.
    step: str
    soft_ms: int | None
    hard_ms: int | None
    memory_mb: int | None


class Answer(Message, frozen=True):
    """What a worker answers to `Ask`: a value, or an error with its kind."""

    number: int
    value: Any = None
    error: str = ""
    #: `lost`: the lease. `unavailable`: the store. `blob`: its content. Else anything.
    kind: str = ""


class Cancel(Message, frozen=True):
    """The result is no longer wanted."""


class Ready(Message, frozen=True):
    """The process has started."""


class Began(Message, frozen=True):
    """The handler is called now."""


class Ask(Message, frozen=True):
    """The context asks the worker for something."""

    number: int
    verb: str
    arguments: list[Any]


class Line(Message, frozen=True):
    """A record of the log."""

    logger: str
    level: int
    text: str
    created: float
    traceback: str = ""
    file: str = ""
    line: int = 0
    function: str = ""


class Kept(Message, frozen=True):
    """A line to be kept with the node."""

    level: str
    text: str


class Ended(Message, frozen=True):
    """The attempt is over: an output as JSON, or an error."""

    output: bytes | None = None
    error: Examined | None = None
    #: Of a step of a durable function: what its error is made of.
    contents: dict[str, Any] = {}
    #: The error came before the handler was called.
    is_outside: bool = False
    #: The error is that the handler is not there.
    is_missing: bool = False
    #: The error is the worker's own: of its store, or the lost lease.
    is_outage: bool = False
    is_lost: bool = False
    #: The most memory that the process has used so far, in MiB.
    peak_mb: int = 0
    #: The process should not be used again.
    is_spoilt: bool = False


ToProcess: TypeAlias = Prepare | Begin | Answer | Cancel
FromProcess: TypeAlias = Ready | Began | Ask | Line | Kept | Ended

_encoder = msgspec.msgpack.Encoder()
decode_to_process = msgspec.msgpack.Decoder(ToProcess).decode
decode_from_process = msgspec.msgpack.Decoder(FromProcess).decode


def frame(message: Message) -> bytes:
    """A message in the form in which it is sent."""
    data = _encoder.encode(message)
    return len(data).to_bytes(HEAD_BYTES) + data


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    """The next message; IncompleteReadError when there is none any more."""
    size = int.from_bytes(await reader.readexactly(HEAD_BYTES))
    if size > MESSAGE_BYTES_MAX:
        raise ValueError(f"a message of {size:,} bytes")
    return await reader.readexactly(size)
