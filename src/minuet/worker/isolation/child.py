"""The process of attempts: it runs one handler at a time, and asks the worker for the rest.

The handler runs in the main thread, and a thread beside it speaks with the worker over a socket.
When the worker is gone, the process ends, with everything that it has started: it leads a
process group of its own.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import faulthandler
import logging
import os
import queue
import signal
import socket
import sys
import threading
import time
from collections.abc import AsyncIterable, AsyncIterator, Iterator
from typing import Any, NoReturn

import msgspec

from minuet.bridge.values import encode
from minuet.errors import BlobError, HandlerError, LeaseLost, SecretError, StoreUnavailableError
from minuet.functions.exceptions import contents_of
from minuet.nodes.context import Context
from minuet.nodes.handler import AnyTask
from minuet.nodes.io.client import Client
from minuet.nodes.kept_output import KeptStream
from minuet.nodes.masking import NO_MASK
from minuet.nodes.services import LlmDefaults
from minuet.types import Json
from minuet.worker.failure import Examined, examine
from minuet.worker.isolation import memory
from minuet.worker.isolation.messages import (
    Answer,
    Ask,
    Began,
    Begin,
    Ended,
    Kept,
    Line,
    Message,
    Prepare,
    Ready,
    decode_to_process,
    frame,
    read_frame,
)
from minuet.worker.isolation.places import find_task
from minuet.worker.services import encode_step, mask_output, outage_of

#: How long after its hard limit an attempt lives at most, if the worker cannot kill it any more.
ORPHAN_S = 10.0


class Connection:
    """The thread that speaks with the worker, and what it knows of the attempt."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self.loop = asyncio.new_event_loop()
        self._writer: asyncio.StreamWriter | None = None
        self._asked: dict[int, concurrent.futures.Future[Any]] = {}
        self.begins: queue.SimpleQueue[Begin] = queue.SimpleQueue()
        self.attempt: Attempt | None = None

    def start(self) -> None:
        threading.Thread(target=self._work, name="minuet-worker", daemon=True).start()

    def _work(self) -> None:
        try:
            self.loop.run_until_complete(self._read())
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            # The worker is gone, or this thread cannot go on: nobody wants the result. What the
            # handler has started is in the same group.
            os.killpg(0, signal.SIGKILL)

    async def _read(self) -> None:
        reader, self._writer = await asyncio.open_connection(sock=self._socket)
        self.loop.create_task(self._watch_memory())
        self._write(Ready())
        while True:
            message = decode_to_process(await read_frame(reader))
            if isinstance(message, Answer):
                self._answer(message)
            elif isinstance(message, Begin):
                self.begins.put(message)
            elif isinstance(message, Prepare):
                _prepare(message, self)
            elif self.attempt is not None:
                self.attempt.cancel()

    def _answer(self, answer: Answer) -> None:
        asked = self._asked.pop(answer.number)
        if not answer.kind:
            asked.set_result(answer.value)
        elif answer.kind == "lost":
            asked.set_exception(LeaseLost(answer.error))
        elif answer.kind == "unavailable":
            asked.set_exception(StoreUnavailableError(answer.error))
        elif answer.kind == "blob":
            asked.set_exception(BlobError(*answer.value))
        else:
            asked.set_exception(HandlerError(answer.error))

    async def _watch_memory(self) -> None:
        while True:
            await asyncio.sleep(memory.LOOK_S)
            attempt = self.attempt
            limit_mb = None if attempt is None else attempt.begin.memory_mb
            if limit_mb is not None and memory.held_mb() > limit_mb:
                self._write(Ended(error=out_of_memory(limit_mb), is_spoilt=True))
                assert self._writer is not None
                await self._writer.drain()
                os.killpg(0, signal.SIGKILL)

    # ── from any thread ─────────────────────────────────────────────────────────────────

    def send(self, message: Message) -> None:
        self.loop.call_soon_threadsafe(self._write, message)

    def send_now(self, message: Message) -> None:
        """Send a message, and wait until it is sent: what follows may let no other thread run."""

        async def write() -> None:
            self._write(message)

        asyncio.run_coroutine_threadsafe(write(), self.loop).result()

    def _write(self, message: Message) -> None:
        assert self._writer is not None
        self._writer.write(frame(message))

    async def ask(self, verb: str, *arguments: Any) -> Any:
        """Ask the worker for something."""
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()

        def begin() -> None:
            number = max(self._asked, default=0) + 1
            self._asked[number] = future
            self._write(Ask(number, verb, list(arguments)))

        self.loop.call_soon_threadsafe(begin)
        return await asyncio.wrap_future(future)


def out_of_memory(limit_mb: int, found: Examined | None = None) -> Examined:
    """The error of an attempt that needs more memory than it may use."""
    found = found or examine(MemoryError())
    message = f"the handler needs more memory than max_memory_mb ({limit_mb} MiB) allows"
    record = {**found.record, "code": "memory_limit", "message": message}
    return msgspec.structs.replace(found, record=record, codes=("memory_limit",))


def _prepare(message: Prepare, connection: Connection) -> None:
    sys.argv[:] = message.arguments
    logging.getLogger().addHandler(_ToWorker(connection))
    sys.stdout = KeptStream(sys.stdout, "stdout")
    sys.stderr = KeptStream(sys.stderr, "stderr")
    for name, level in message.levels.items():
        logging.getLogger(name or None).setLevel(level)


class _ToWorker(logging.Handler):
    """Sends log records to the worker, whose handlers write them."""

    def __init__(self, connection: Connection) -> None:
        super().__init__()
        self._connection = connection
        self._formatter = logging.Formatter()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            attempt = self._connection.attempt
            if attempt is not None:
                attempt.context.mask.record(record)
            trace = record.exc_text or ""
            if record.exc_info and not trace:
                trace = self._formatter.formatException(record.exc_info)
            self._connection.send(
                Line(
                    record.name,
                    record.levelno,
                    record.getMessage(),
                    record.created,
                    trace,
                    record.pathname,
                    record.lineno,
                    record.funcName or "",
                )
            )
        except Exception:
            self.handleError(record)


class ChildServices:
    """What contexts ask of the worker, from another process (`nodes.services.Services`)."""

    def __init__(self, connection: Connection, begin: Begin) -> None:
        self._connection = connection
        self._begin = begin

    def keep_line(self, context: Context, level: str, text: str) -> None:
        """Keep a line that the handler has printed or logged."""
        self._connection.send(Kept(level, text))

    async def load_step(self, context: Context, name: str) -> tuple[bool, Json]:
        """Whether a step has a result, and the result."""
        with _outage_of(context):
            data = await self._connection.ask("load_step", context.mask(name))
        return (False, None) if data is None else (True, msgspec.json.decode(data))

    def encode_step(self, context: Context, name: str, value: Any) -> bytes:
        """A step's result as JSON, without secrets."""
        return encode_step(context, name, value)

    async def keep_step(self, context: Context, name: str, data: bytes) -> Json:
        """Keep a step's result under the handler's lease."""
        with _outage_of(context):
            kept = await self._connection.ask("keep_step", context.mask(name), data)
        return msgspec.json.decode(kept)

    async def find_wait(self, context: Context) -> Json:
        """None: a handler in another process does not wait."""
        return None

    def read_secret(self, name: str) -> str:
        """A secret's value; SecretError if there is none."""
        value = self._begin.secrets.get(name)
        if value is None:
            raise SecretError(self._begin.missing.get(name, f"the secret {name!r} is not here"))
        return value

    async def write_blob(self, context: Context, pieces: AsyncIterable[bytes]) -> tuple[str, int]:
        """Keep a content as a blob of the run; its reference and its size."""
        with _outage_of(context):
            number = await self._connection.ask("begin_blob")
            async for piece in pieces:
                context.heartbeat()
                await self._connection.ask("add_to_blob", number, piece)
            ref, size = await self._connection.ask("end_blob", number)
        return ref, size

    async def read_blob(self, context: Context, ref: str) -> AsyncIterator[bytes]:
        """The bytes of a blob, piece by piece."""
        with _outage_of(context):
            number = await self._connection.ask("open_blob", ref)
            while piece := await self._connection.ask("read_blob", number):
                context.heartbeat()
                yield piece

    @property
    def client(self) -> Client:
        raise HandlerError("ctx.client is for node types; it is not in the process of an attempt")

    @property
    def llm(self) -> LlmDefaults:
        raise HandlerError("ctx.llm is for node types; it is not in the process of an attempt")

    @property
    def agents(self) -> NoReturn:
        raise HandlerError("agents do not run in the process of an attempt")

    async def run_child(self, *arguments: Any, **named: Any) -> Any:
        raise HandlerError("child runs are not started from the process of an attempt")


@contextlib.contextmanager
def _outage_of(context: Context) -> Iterator[None]:
    """Remember an outage of the worker's store, and that the attempt is not wanted any more."""
    try:
        with outage_of(context):
            yield
    except LeaseLost:
        context.cancel()
        raise


class Attempt:
    """One attempt."""

    def __init__(self, begin: Begin, connection: Connection) -> None:
        self.begin = begin
        self._connection = connection
        self._lock = threading.Lock()
        #: Of an async handler, while it runs.
        self._running: tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]] | None = None
        self.context = self._make_context()

    def _make_context(self) -> Context:
        begin = self.begin
        context = Context(
            services=ChildServices(self._connection, begin),
            inputs=lambda: msgspec.json.decode(begin.inputs),
            input=lambda: msgspec.json.decode(begin.input),
            secrets=tuple({**begin.secrets, **begin.missing}),
            revealed=begin.revealed,
            loop=None,
            **{**begin.context, "scope": tuple(begin.context["scope"])},
        )
        if begin.step:
            context = context.for_step(begin.step, begin.context["attempt"], is_async=True)
        return context

    def cancel(self) -> None:
        """The result is no longer wanted."""
        self.context.cancel()
        with self._lock:
            if self._running is not None:
                loop, task = self._running
                loop.call_soon_threadsafe(task.cancel)

    def run(self) -> Ended:
        """Run the handler to its end."""
        begin, context = self.begin, self.context
        context.enter()
        try:
            task = find_task(begin.place)
            if not task.is_async:
                context.use_loop(self._connection.loop)
            arguments = task.bind(msgspec.json.decode(begin.config), context)
        except BaseException as error:
            is_missing = isinstance(error, HandlerError)
            return Ended(error=self._examine(error), is_outside=True, is_missing=is_missing)
        context.limit_time(time.monotonic, begin.soft_ms, begin.hard_ms)
        self._connection.send_now(Began())
        if begin.hard_ms is not None:
            # The worker kills the process in time. This is for one that has died itself, and for
            # code that lets no other thread run.
            with open(os.devnull, "w") as nowhere:
                faulthandler.dump_traceback_later(
                    begin.hard_ms / 1000 + ORPHAN_S, exit=True, file=nowhere
                )
                return self._call(task, arguments)
        return self._call(task, arguments)

    def _call(self, task: AnyTask, arguments: dict[str, Any]) -> Ended:
        context = self.context
        try:
            memory.limit_memory(self.begin.memory_mb)
            if task.is_async:
                value = self._run_async(task, arguments)
            else:
                value = task.function(**arguments)
            data, plain = encode(value, bytes_max=context.max_output_bytes)
            mask = context.mask
            if mask is not NO_MASK:
                data, _ = mask_output(mask, data, plain, f"the output of {context}")
            memory.limit_memory(None)
            return Ended(output=data)
        except BaseException as error:
            memory.limit_memory(None)
            return Ended(
                error=self._examine(error),
                contents=self._contents(error) if self.begin.step else {},
                is_outage=error is context.outage,
                is_lost=context.cancelled and isinstance(error, LeaseLost | asyncio.CancelledError),
                is_spoilt=isinstance(error, MemoryError),
            )
        finally:
            context.end_output()
            faulthandler.cancel_dump_traceback_later()

    def _run_async(self, task: AnyTask, arguments: dict[str, Any]) -> Any:
        async def run() -> Any:
            running = asyncio.current_task()
            assert running is not None
            with self._lock:
                self._running = (asyncio.get_running_loop(), running)
            try:
                self.context.heartbeat()
                return await task.function(**arguments)
            finally:
                with self._lock:
                    self._running = None

        return asyncio.run(run())

    def _contents(self, error: BaseException) -> dict[str, Any]:
        contents = contents_of(error)
        masked: dict[str, Any] = self.context.mask.data(msgspec.json.encode(contents), contents)
        return masked

    def _examine(self, error: BaseException) -> Examined:
        limit_mb = self.begin.memory_mb
        if isinstance(error, MemoryError) and limit_mb is not None:
            return out_of_memory(limit_mb, examine(error, self.context.mask))
        return examine(error, self.context.mask)


def main(descriptor: int) -> None:
    """Run attempts until the worker is gone."""
    connection = Connection(socket.socket(fileno=descriptor))
    connection.start()
    while True:
        begin = connection.begins.get()
        connection.attempt = attempt = Attempt(begin, connection)
        ended = attempt.run()
        connection.attempt = None
        connection.send(msgspec.structs.replace(ended, peak_mb=memory.peak_mb()))
