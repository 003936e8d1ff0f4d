"""What a handler sees of the run it works for."""

from __future__ import annotations

import hashlib
import inspect
import logging
from collections.abc import AsyncIterable, Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from minuet.errors import LeaseLost, SecretError
from minuet.nodes.handler_log import KeepingLog, set_context
from minuet.nodes.masking import NO_MASK, Mask, mask_of
from minuet.nodes.secrets import known_values
from minuet.nodes.services import LlmDefaults, Services
from minuet.nodes.stream import BlobReference, BlobStream, as_file, pieces_of, reference_of
from minuet.nodes.values import result_decoder
from minuet.types import Json, Scope

if TYPE_CHECKING:
    import asyncio

    from minuet.nodes.agents import AgentServices
    from minuet.nodes.io.client import Client

T = TypeVar("T")

#: Characters of a line that a handler prints in parts.
PRINTED_MAX = 8_192


class TimeLimits(NamedTuple):
    """When an attempt should end, and when it is ended, on a clock."""

    now: Callable[[], float]
    soft: float | None
    hard: float | None


def make_key(run_id: str, node_id: str, scope: str, prefix: str = "") -> str:
    """The idempotency key of a node instance."""
    text = f"{run_id}\n{node_id}\n{scope}"
    if prefix:
        text += f"\n{prefix}"
    return hashlib.sha256(text.encode()).hexdigest()[:32]


class Context:
    """The run, node and attempt that a handler, or a node type with I/O, works for.

    A handler may be started more than once for the same node (after a crash, say), and only
    one result is committed. Pass `idempotency_key` to services that can
    recognise repeated calls by it.
    """

    # What few attempts ever set; an attempt has its own only then. With slots, every attempt would
    # have all of them: more memory and more time.
    _cancelled = False
    _key: str | None = None
    _time: TimeLimits | None = None
    #: Begins the names of the steps that are kept.
    _prefix = ""
    #: The mask, and the values that the handler had got when it was made.
    _mask: tuple[tuple[str, ...], Mask] | None = None
    #: What it has printed since the last end of a line, by stream.
    _printed: dict[str, str] | None = None
    #: Bytes of lines that are kept. For the worker.
    kept_bytes = 0
    #: The last outage of the worker's own store that the handler has seen. For the worker.
    outage: Exception | None = None
    #: Whether another worker may have the node by now. For the worker.
    is_lost = False

    def __init__(
        self,
        services: Services,
        run_id: str,
        workflow: str,
        node_id: str,
        scope: Scope,
        scope_text: str,
        attempt: int,
        lease_id: str,
        inputs: Callable[[], dict[str, Json]],
        input: Json | Callable[[], Json],
        secrets: tuple[str, ...],
        loop: asyncio.AbstractEventLoop | None,
        token_node: str = "",
        undone_scope: str | None = None,
        revealed: tuple[str, ...] = (),
        max_output_bytes: int | None = None,
        generation: int = 1,
        deadline_ms: int | None = None,
        tags: Mapping[str, Any] | None = None,
    ) -> None:
        self._services = services
        # Both are made when they are first asked for; many handlers do not ask.
        self._inputs: Callable[[], dict[str, Json]] | dict[str, Json] = inputs
        self._input = input
        self._secrets = secrets
        #: The values of secrets that the handler has got. For the worker, which masks them.
        self.revealed = revealed
        #: Set for handlers that run in a thread: the worker's event loop.
        self._loop = loop
        #: 1, and one more after each retry of the run.
        self.generation = generation
        #: When the run must be over, in milliseconds since 1970; None: at any time.
        self.deadline_ms = deadline_ms
        self._tags = tags
        self.run_id = run_id
        self.workflow = workflow
        self.node_id = node_id
        #: The node that the token is of: another one if this is an item of a foreach.
        self.token_node = token_node or node_id
        #: Of the node's compensator: the scope of the instance that it undoes, as text.
        self._undone_scope = undone_scope
        #: Iteration numbers of the loops around the node, outermost first; in a foreach, the item's
        #: number is last.
        self.scope = scope
        self.scope_text = scope_text
        #: 1 for the first try; a crash of a worker does not count, a failure does.
        self.attempt = attempt
        #: The authority to finish this attempt; changes each time the node is taken.
        self.lease_id = lease_id
        #: How large the output may be, as JSON; None: the document does not limit it.
        self.max_output_bytes = max_output_bytes

    @property
    def client(self) -> Client:
        """The worker's HTTP client. For node types that call services."""
        return self._services.client

    @property
    def llm(self) -> LlmDefaults:
        """The worker's service for language models. For node types that ask them."""
        return self._services.llm

    @property
    def agents(self) -> AgentServices:
        """What agents need of the worker. For their node type."""
        return self._services.agents

    @property
    def input(self) -> Json:
        """The run's input."""
        if callable(self._input):
            self._input = self._input()
        return self._input

    @property
    def tags(self) -> dict[str, Any]:
        """The run's tags, as a copy."""
        return dict(self._tags or {})

    @property
    def inputs(self) -> Mapping[str, Json]:
        """The outputs of the dependencies that were live, by node."""
        if callable(self._inputs):
            self._inputs = self._inputs()
        return self._inputs

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt of this node instance, and for no other instance. A
        compensator has another key than its node."""
        if self._key is None:
            place = (self.run_id, self.node_id, self.scope_text)
            if self._undone_scope is not None:
                # The same whichever undo of the run this is.
                place = (self.run_id, self.node_id, f"{self._undone_scope}\nundo")
            self._key = make_key(*place, self._prefix)
        return self._key

    @property
    def cancelled(self) -> bool:
        """Whether the result is no longer wanted: run cancelled or lease lost."""
        return self._cancelled

    @property
    def time_left(self) -> float | None:
        """Seconds until the attempt is ended (`timeout_seconds`), at least 0; None: it has no
        limit."""
        time = self._time
        return None if time is None or time.hard is None else max(0.0, time.hard - time.now())

    @property
    def out_of_time(self) -> bool:
        """Whether the attempt should come to an end: its soft limit (`soft_timeout_seconds`) has
        passed. Ask for it in long loops."""
        time = self._time
        return time is not None and time.soft is not None and time.now() >= time.soft

    async def until_out_of_time(self) -> None:
        """Wait until the attempt should come to an end; forever if it has no soft limit. For async
        handlers, beside what they do."""
        import asyncio

        time = self._time
        if time is None or time.soft is None:
            await asyncio.get_running_loop().create_future()
            return
        # A timer may fire a moment before its time.
        await asyncio.sleep(max(0.0, time.soft - time.now() + 0.001))

    def limit_time(
        self, now: Callable[[], float], soft_ms: int | None, hard_ms: int | None
    ) -> None:
        """The attempt begins, and has so much time. For the worker."""
        if soft_ms is None and hard_ms is None:
            return
        began = now()
        soft = None if soft_ms is None else began + soft_ms / 1000
        hard = None if hard_ms is None else began + hard_ms / 1000
        self._time = TimeLimits(now, soft, hard)

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger that knows the run and the node."""
        extra = {
            "run_id": self.run_id,
            "node_id": self.node_id,
            "scope": self.scope,
            "attempt": self.attempt,
        }
        return KeepingLog(extra, self)

    def keep_line(self, level: str, text: str) -> None:
        """Keep a line with the node instance. For what reads logs and standard output."""
        self._services.keep_line(self, level, self.mask(text))

    def keep_output(self, stream: str, text: str) -> None:
        """Keep what the handler has printed, line by line. For what reads standard output."""
        if self._printed is None:
            self._printed = {}
        *lines, rest = (self._printed.pop(stream, "") + text).split("\n")
        for line in lines:
            self.keep_line(stream, line)
        if len(rest) > PRINTED_MAX:
            self.keep_line(stream, rest)
        elif rest:
            self._printed[stream] = rest

    def end_output(self) -> None:
        """Keep what the handler has printed last, without an end of line. For the worker."""
        if self._printed:
            for stream, text in self._printed.items():
                self.keep_line(stream, text)
            self._printed.clear()

    def __str__(self) -> str:
        return f"node {self.node_id} of run {self.run_id}"

    def for_step(self, step: str, attempt: int, *, is_async: bool) -> Context:
        """The context of a task that is a step of a durable function. For the worker."""
        made = Context.__new__(Context)
        made.__dict__.update(self.__dict__)
        made._prefix = f"$task:{step}/"
        made._key, made._cancelled, made.outage, made._time = None, False, None, None
        made._printed = None
        made.attempt = attempt
        if not is_async:
            # Imported here, because a program that only reads documents does not need it.
            import asyncio

            made._loop = asyncio.get_running_loop()
        return made

    @property
    def step_name(self) -> str:
        """The step that its task is, of a durable function; "": it is none. For the worker."""
        return self._prefix.removeprefix("$task:").removesuffix("/")

    def use_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        """Wait for the worker on this event loop: the handler runs in another thread. For the
        worker."""
        self._loop = loop

    def enter(self) -> None:
        """Attribute what this asyncio task logs from now on to this run and node. For the worker,
        which runs each handler in a task of its own."""
        set_context(self)

    def heartbeat(self) -> None:
        """Stop here if the result is no longer wanted.

        Leases are renewed without it; call it in long loops of sync handlers, which cannot
        be interrupted from outside.
        """
        if self._cancelled:
            raise LeaseLost(f"node {self.node_id} of run {self.run_id} is no longer ours")

    def secret(self, name: str) -> str:
        """The value of a secret that the node declares under `secrets`."""
        if name not in self._secrets:
            raise SecretError(
                f"node {self.node_id!r} does not declare the secret {name!r}: add it to the "
                "node's secrets"
            )
        value = self._services.read_secret(name)
        self.revealed += (value,)
        return value

    @property
    def undone_scope(self) -> str | None:
        """Of a compensator: the scope of the instance that it undoes. For the worker."""
        return self._undone_scope

    @property
    def declared_secrets(self) -> tuple[str, ...]:
        """The names of the secrets that the node declares. For the worker."""
        return self._secrets

    @property
    def mask(self) -> Mask:
        """Masks the secrets that the handler has got, and those that it may read. For the
        worker."""
        if not self._secrets and not self.revealed:
            return NO_MASK
        if self._mask is None or self._mask[0] is not self.revealed:
            declared = known_values(self._secrets, self._services.read_secret)
            self._mask = (self.revealed, mask_of(frozenset((*self.revealed, *declared))))
        return self._mask[1]

    def step(self, name: str, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Do `fn(*args, **kwargs)` once, and keep its result if the node is run again.

        In an async handler await it; in a sync handler it returns the result. The result is kept
        as JSON. It has the type that `fn` is annotated to return, the first time and later; without
        an annotation it is JSON. `fn` may still run twice if the worker dies before the result is
        kept.
        """
        name = self._prefix + name
        if self._loop is None:
            return self._step(name, fn, args, kwargs)
        known, value = self._wait(self._services.load_step(self, name))
        if not known:
            data = self._services.encode_step(self, name, fn(*args, **kwargs))
            value = self._wait(self._services.keep_step(self, name, data))
        return _as_returned(name, fn, value)

    async def _step(
        self, name: str, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        known, value = await self._services.load_step(self, name)
        if not known:
            result = fn(*args, **kwargs)
            if inspect.isawaitable(result):
                result = await result
            data = self._services.encode_step(self, name, result)
            value = await self._services.keep_step(self, name, data)
        return _as_returned(name, fn, value)

    def blob(self, source: Any) -> Any:
        """Store a large content without holding it in memory, and return its reference.

        `source` is bytes, the path of a file, an open file, or an async iterator of bytes. The
        reference is JSON, `{"cas_ref": "cas://sha256:…", "bytes": …}`: return it, or put it into
        what you return, and another handler of the run opens it with `ctx.open`. The content
        belongs to the run and is deleted with it.

        In an async handler await it; in a sync handler it returns the reference.
        """
        stored = self._blob(pieces_of(source))
        return stored if self._loop is None else self._wait(stored)

    async def _blob(self, pieces: AsyncIterable[bytes]) -> BlobReference:
        ref, size = await self._services.write_blob(self, pieces)
        return {"cas_ref": ref, "bytes": size}

    def open(self, reference: Any) -> Any:
        """Read a content that `ctx.blob` or `minuet blobs put` has stored.

        In an async handler, what this returns is iterated (`async for piece in ctx.open(ref)`) or
        read (`await ctx.open(ref).read()`); in a sync handler it is a file open for reading. Each
        piece is verified before you get it; BlobError says that the content is missing or damaged.
        """
        pieces = self._services.read_blob(self, reference_of(reference))
        if self._loop is None:
            return BlobStream(pieces)
        return as_file(lambda: self._wait(anext(pieces, b"")))

    async def load_step(self, name: str) -> tuple[bool, Json]:
        """Whether a step has a result, and the result. For node types."""
        return await self._services.load_step(self, name)

    async def keep_step(self, name: str, value: Json) -> Json:
        """Keep a step's result; the first one stays and is returned. For node types."""
        data = self._services.encode_step(self, name, value)
        return await self._services.keep_step(self, name, data)

    async def find_wait(self) -> Json:
        """The data of the node instance's last wait; None: it has not waited. It reads the run's
        history. For node types."""
        return await self._services.find_wait(self)

    async def run_child(
        self, workflow: str, input: Json, *, resumed: bool, timeout_ms: int | None
    ) -> Any:
        """The output of the child run of this node instance, or what to wait for. For the node
        type `workflow`."""
        return await self._services.run_child(
            self, workflow, input, resumed=resumed, timeout_ms=timeout_ms
        )

    def _wait(self, awaitable: Awaitable[T]) -> T:
        """Wait in a handler's thread for something that happens on the worker's loop."""
        # Imported here, because a program that only reads documents does not need it.
        import asyncio

        assert self._loop is not None

        async def wrapped() -> T:
            return await awaitable

        return asyncio.run_coroutine_threadsafe(wrapped(), self._loop).result()

    def cancel(self) -> None:
        """Let the handler know that its result is no longer wanted. For the worker."""
        self._cancelled = True


def _as_returned(name: str, fn: Callable[..., Any], value: Json) -> Any:
    """What a step has kept, in the type that its function is annotated to return."""
    decode = result_decoder(fn)
    return decode(value, f"step {name!r}, the result")
