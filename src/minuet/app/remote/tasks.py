"""What a remote worker gets and sends: tasks, their results and errors."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from minuet.nodes.context import Context
from minuet.store.records import Key
from minuet.types import Json
from minuet.worker.failure import Examined, Verdict
from minuet.worker.trace import clean

#: Characters of the type of an error.
TYPE_MAX = 100

Settlement: TypeAlias = Literal["applied", "duplicate", "stale"]


class TaskResult(msgspec.Struct, frozen=True):
    """What a remote worker says became of a task."""

    task: str
    result: Any = None
    error: Examined | None = None
    #: Given back, as if it had never been taken.
    released: bool = False


class Exchanged(msgspec.Struct, frozen=True):
    """The answer to an exchange."""

    tasks: list[dict[str, Json]] = []
    settled: list[dict[str, Json]] = []
    #: Tasks to stop working on.
    revoked: list[str] = []
    #: It gets nothing more: finish, and end.
    draining: bool = False


class RemoteTask:
    """A task in the hands of a remote worker, or on its way there."""

    def __init__(
        self,
        id: str,
        handler: str,
        config: Mapping[str, Json],
        context: Context,
        traceparent: str | None,
    ) -> None:
        loop = asyncio.get_running_loop()
        self.id = id
        self.handler = handler
        self.config = config
        self.context = context
        #: Its place in a trace.
        self.traceparent = traceparent
        self.key: Key = (context.run_id, context.token_node, context.scope_text)
        self.lease = context.lease_id
        #: What the remote worker has sent.
        self.answer: asyncio.Future[TaskResult] = loop.create_future()
        #: What the store has said to it.
        self.settled: asyncio.Future[Settlement] = loop.create_future()
        #: When the remote worker has last named it.
        self.named_at = loop.time()

    def shape(self, lease_ms: int) -> dict[str, Json]:
        """What the remote worker gets."""
        context = self.context
        return {
            "task": self.id,
            "run_id": context.run_id,
            "node_id": context.node_id,
            "scope": list(context.scope),
            "handler": self.handler,
            "config": dict(self.config),
            "inputs": dict(context.inputs),
            "input": context.input,
            "attempt": context.attempt,
            "idempotency_key": context.idempotency_key,
            "lease_ms": lease_ms,
            "traceparent": self.traceparent,
        }


def reported(
    kind: str,
    message: str,
    *,
    retryable: bool,
    code: str = "handler_raised",
    verdict: Verdict | None = None,
    names: Sequence[str] = (),
    codes: Sequence[str] = (),
    traceback: Sequence[Any] = (),
    after_ms: int | None = None,
) -> Examined:
    """An error that a remote worker reports. One that knows no more says whether another attempt
    may help; Minuet's own worker says what the retry policy of a node asks for."""
    name = clean(kind[:TYPE_MAX]) or "Error"
    record: dict[str, Any] = {"code": code, "type": name, "message": clean(message)}
    if traceback:
        record["traceback"] = list(traceback)
    chosen: Verdict = ("passing" if retryable else "final") if verdict is None else verdict
    return Examined(record, chosen, (name, "Exception", *names), (code, *codes), after_ms)
