"""A `Context` for tests of one handler, without a run, a worker or a store.

It is the real class with services of its own, so what a handler may do with it, and what it may
not, is the same as in a run.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Mapping
from typing import Any, NamedTuple, NoReturn, TypeVar

import msgspec

from minuet.bridge.values import encode_value
from minuet.errors import BlobError, HandlerError, SecretError
from minuet.nodes.context import Context
from minuet.nodes.io.client import Client
from minuet.nodes.services import LlmDefaults
from minuet.scopes import encode
from minuet.store.blob import blob_ref
from minuet.types import Json, Scope

T = TypeVar("T")


class LogLine(NamedTuple):
    """A line that a handler has logged with `ctx.log`."""

    level: str
    message: str


class FakeContext(Context):
    """A `minuet.Context` that remembers what a handler does with it.

    `ctx.cancelled` can be set: then `ctx.heartbeat()` raises LeaseLost, as in a run whose result
    is no longer wanted.
    """

    def __init__(self, services: FakeServices, is_async: bool | None, **fields: Any) -> None:
        self._is_async = is_async
        self._fake = services
        #: How often the handler has called `ctx.heartbeat()`.
        self.heartbeats = 0
        #: What it has logged, with level and message.
        self.logs: list[LogLine] = []
        super().__init__(services=services, loop=None, **fields)

    @property
    def steps(self) -> dict[str, Json]:
        """The results of its steps, by name, also those that the test has given."""
        return self._fake.steps

    @property
    def blobs(self) -> dict[str, bytes]:
        """The contents of its blobs, by reference."""
        return self._fake.blobs

    @property
    def cancelled(self) -> bool:
        """Whether the result is no longer wanted. A test may set it."""
        return self._cancelled

    @cancelled.setter
    def cancelled(self, cancelled: bool) -> None:
        self._cancelled = cancelled

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """The logger of the context. It remembers what it logs."""
        return _RememberingLog(super().log, self)

    def heartbeat(self) -> None:
        """Count the call, and stop here if the result is no longer wanted."""
        self.heartbeats += 1
        super().heartbeat()

    # A worker knows whether a handler is awaited or runs in a thread. A test just calls it, so
    # this is decided when it is needed: a handler that is awaited has an event loop.

    @property
    def _loop(self) -> Any:
        return None if self._runs_async() else self

    @_loop.setter
    def _loop(self, loop: Any) -> None:
        pass

    def _runs_async(self) -> bool:
        if self._is_async is not None:
            return self._is_async
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return False
        return True

    def _wait(self, awaitable: Awaitable[T]) -> T:
        """Wait in a sync handler. The caller's thread may have an event loop of its own."""
        answers: list[T] = []
        errors: list[BaseException] = []

        async def wrapped() -> T:
            return await awaitable

        def work() -> None:
            try:
                answers.append(asyncio.run(wrapped()))
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=work, name="minuet-testing")
        thread.start()
        thread.join()
        if errors:
            raise errors[0]
        return answers[0]


def context(
    *,
    run_id: str = "run-1",
    workflow: str = "workflow",
    node_id: str = "node",
    scope: Scope = (),
    attempt: int = 1,
    generation: int = 1,
    input: Json = None,
    inputs: Mapping[str, Json] | None = None,
    secrets: Mapping[str, str] | None = None,
    steps: Mapping[str, Json] | None = None,
    tags: Mapping[str, Any] | None = None,
    deadline_ms: int | None = None,
    max_output_bytes: int | None = None,
    time_left: float | None = None,
    out_of_time: bool = False,
    is_async: bool | None = None,
) -> FakeContext:
    """A context to call a handler with.

    `inputs` are the outputs of the dependencies, `secrets` the values of the secrets that the node
    declares, `steps` the results of steps that an earlier attempt has recorded. What an async
    handler awaits (`ctx.step`, `ctx.blob`), a sync handler just gets: by default, the handler is
    async if an event loop runs where it is called; `is_async` says it.
    """
    values = dict(secrets or {})
    made = FakeContext(
        FakeServices(values, dict(steps or {})),
        is_async,
        run_id=run_id,
        workflow=workflow,
        node_id=node_id,
        scope=scope,
        scope_text=encode(scope),
        attempt=attempt,
        lease_id="lease-1",
        inputs=lambda: dict(inputs or {}),
        input=input,
        secrets=tuple(values),
        max_output_bytes=max_output_bytes,
        generation=generation,
        deadline_ms=deadline_ms,
        tags=tags,
    )
    # Its clock stands still.
    hard_ms = None if time_left is None else int(time_left * 1000)
    made.limit_time(lambda: 0.0, 0 if out_of_time else None, hard_ms)
    return made


class _RememberingLog(logging.LoggerAdapter[logging.Logger]):
    """Logs as the adapter that it wraps does, and remembers each line."""

    def __init__(self, log: logging.LoggerAdapter[logging.Logger], context: FakeContext) -> None:
        super().__init__(log.logger, log.extra)
        self._context = context

    def log(self, level: int, msg: object, *args: Any, **kwargs: Any) -> None:
        text = str(msg) % args if args else str(msg)
        line = LogLine(logging.getLevelName(level), self._context.mask(text))
        self._context.logs.append(line)
        super().log(level, msg, *args, **kwargs)


class FakeServices:
    """What a worker does for a handler, in memory (`nodes.services.Services`)."""

    def __init__(self, secrets: dict[str, str], steps: dict[str, Json]) -> None:
        self.secrets = secrets
        self.steps = steps
        self.blobs: dict[str, bytes] = {}

    def keep_line(self, context: Context, level: str, text: str) -> None:
        """Nothing: the context remembers what is logged."""

    async def load_step(self, context: Context, name: str) -> tuple[bool, Json]:
        """Whether a step has a result, and the result."""
        return name in self.steps, self.steps.get(name)

    def encode_step(self, context: Context, name: str, value: Any) -> bytes:
        """A step's result as JSON; OutputError if it cannot be kept."""
        return encode_value(value)

    async def keep_step(self, context: Context, name: str, data: bytes) -> Json:
        """Keep a step's result; the first one stays."""
        return self.steps.setdefault(name, msgspec.json.decode(data))

    async def find_wait(self, context: Context) -> Json:
        """There is none: a handler does not wait."""
        return None

    def read_secret(self, name: str) -> str:
        """A secret's value; SecretError if there is none."""
        if name not in self.secrets:
            raise SecretError(f"the secret {name!r} is not here: pass it in `secrets`")
        return self.secrets[name]

    @property
    def agents(self) -> NoReturn:
        """There are none: use `play`."""
        _refuse("an agent")

    @property
    def client(self) -> Client:
        """There is none: a test of a handler calls no service."""
        _refuse("ctx.client")

    @property
    def llm(self) -> LlmDefaults:
        """There is none."""
        _refuse("ctx.llm")

    async def write_blob(self, context: Context, pieces: AsyncIterable[bytes]) -> tuple[str, int]:
        """Keep a content; its reference and its size."""
        data = b"".join([piece async for piece in pieces])
        ref = blob_ref(data)
        self.blobs[ref] = data
        return ref, len(data)

    def read_blob(self, context: Context, ref: str) -> AsyncIterator[bytes]:
        """The bytes of a blob; BlobError if it is not here."""
        if ref not in self.blobs:
            raise BlobError(ref, "this context has no such blob: store it with ctx.blob first")
        return _Once(self.blobs[ref])

    async def run_child(
        self,
        context: Context,
        workflow: str,
        input: Json,
        *,
        resumed: bool,
        timeout_ms: int | None,
    ) -> Any:
        """There is none: use `play`."""
        _refuse("a child run")


class _Once:
    """A content in one piece. Not a generator: an event loop would close that at its end."""

    def __init__(self, data: bytes) -> None:
        self._left = [data] if data else []

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if not self._left:
            raise StopAsyncIteration
        return self._left.pop()


def _refuse(what: str) -> NoReturn:
    raise HandlerError(
        f"a context of minuet.testing has no {what}: play a workflow with the node instead "
        "(minuet.testing.play)"
    )
