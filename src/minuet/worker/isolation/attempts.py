"""Run an attempt in a process of its own, and do for it what a worker does for its handlers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec

from minuet.errors import BlobError, LeaseLost, SecretError, StoreUnavailableError
from minuet.nodes.context import Context
from minuet.nodes.handler import AnyTask
from minuet.nodes.services import Services
from minuet.types import Json
from minuet.worker.failure import Examined
from minuet.worker.isolation.messages import (
    Answer,
    Ask,
    Began,
    Begin,
    Ended,
    FromProcess,
    Kept,
    Line,
    Place,
)
from minuet.worker.isolation.places import place_of
from minuet.worker.isolation.pool import Pool
from minuet.worker.isolation.process import START_S, Process, ProcessDied

#: What the process learns of the context.
_FIELDS = (
    *("run_id", "workflow", "node_id", "token_node", "scope", "scope_text", "attempt"),
    *("lease_id", "max_output_bytes", "generation", "deadline_ms", "tags", "undone_scope"),
)


class IsolatedError(Exception):
    """What a handler in another process raised, as data."""

    def __init__(
        self,
        examined: Examined,
        *,
        contents: dict[str, Any] | None = None,
        is_outside: bool = False,
        is_missing: bool = False,
    ) -> None:
        super().__init__(examined.record.get("message", ""))
        self.examined = examined
        #: Of a step of a durable function: what the error is made of.
        self.contents = contents or {}
        #: It came before the handler was called; because there is no such handler.
        self.is_outside = is_outside
        self.is_missing = is_missing


class TimedOut(Exception):
    """The attempt has used up its time, and its process was killed."""


def died(how: str) -> Examined:
    """The error of an attempt whose process has died."""
    message = f"the process of the attempt died: {how}"
    record = {"code": "process_died", "type": "ProcessDied", "message": message}
    return Examined(record, "open", ("ProcessDied",), ("process_died",))


class Isolation:
    """The isolated attempts of one worker."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._pool = Pool()
        self._places: dict[AnyTask, Place] = {}

    async def close(self) -> None:
        """Kill what still runs: the worker ends."""
        await self._pool.close()

    async def call(
        self,
        task: AnyTask,
        config: Mapping[str, Json],
        context: Context,
        *,
        soft_ms: int | None,
        hard_ms: int | None,
        memory_mb: int | None,
    ) -> bytes:
        """What a handler returns, as JSON. IsolatedError: what it raised. TimedOut: it was killed.

        If this is cancelled, the handler may end within a moment, and is killed after that; at
        once, if the node is no longer ours.
        """
        place = self._places.get(task) or place_of(task)
        self._places[task] = place
        begin = self._begin(place, task, config, context, soft_ms, hard_ms, memory_mb)
        try:
            process = await self._pool.take(memory_mb)
        except (ProcessDied, OSError) as error:
            raise IsolatedError(died(str(error))) from None
        try:
            ended = await self._run(process, begin, context)
        except asyncio.CancelledError:
            await self._pool.kill(process) if context.is_lost else await self._pool.stop(process)
            raise
        except ProcessDied as error:
            await self._pool.kill(process)
            raise IsolatedError(died(str(error))) from None
        except BaseException:
            await self._pool.kill(process)
            raise
        self._pool.give_back(process, ended)
        return _output_of(ended, context)

    def _begin(
        self,
        place: Place,
        task: AnyTask,
        config: Mapping[str, Json],
        context: Context,
        soft_ms: int | None,
        hard_ms: int | None,
        memory_mb: int | None,
    ) -> Begin:
        secrets: dict[str, str] = {}
        missing: dict[str, str] = {}
        for name in context.declared_secrets:
            try:
                secrets[name] = self._services.read_secret(name)
            except SecretError as error:
                missing[name] = str(error)
        takes_context = task.takes_context
        return Begin(
            place,
            msgspec.json.encode(config),
            {name: getattr(context, name) for name in _FIELDS},
            msgspec.json.encode(context.input) if takes_context else b"null",
            msgspec.json.encode(context.inputs) if takes_context else b"{}",
            secrets,
            missing,
            context.revealed,
            context.step_name,
            soft_ms,
            hard_ms,
            memory_mb,
        )

    async def _run(self, process: Process, begin: Begin, context: Context) -> Ended:
        serving = _Serving(process, context, self._services)
        try:
            process.send(begin)
            async with asyncio.timeout(START_S) as limit:
                async for message in serving.messages():
                    if isinstance(message, Ended):
                        return message
                    if isinstance(message, Began):
                        # From here on it is the handler's time.
                        seconds = None if begin.hard_ms is None else begin.hard_ms / 1000
                        when = None if seconds is None else asyncio.get_running_loop().time()
                        limit.reschedule(None if when is None else when + (seconds or 0))
        except TimeoutError:
            if limit.expired():
                raise TimedOut from None
            raise
        finally:
            serving.end()
        raise AssertionError


def _output_of(ended: Ended, context: Context) -> bytes:
    if ended.error is None:
        assert ended.output is not None
        return ended.output
    if ended.is_outage and context.outage is not None:
        raise context.outage
    if ended.is_lost and context.cancelled:
        raise LeaseLost(f"{context} is no longer ours")
    raise IsolatedError(
        ended.error,
        contents=ended.contents,
        is_outside=ended.is_outside,
        is_missing=ended.is_missing,
    )


class _Serving:
    """Answers what one attempt asks for, and writes what it logs."""

    def __init__(self, process: Process, context: Context, services: Services) -> None:
        self._process = process
        self._context = context
        self._services = services
        self._tasks: set[asyncio.Task[None]] = set()
        self._written: dict[int, _Written] = {}
        self._read: dict[int, AsyncIterator[bytes]] = {}

    async def messages(self) -> AsyncIterator[FromProcess]:
        """What the process says of the attempt itself."""
        while True:
            message = await self._process.receive()
            if isinstance(message, Line):
                self._log(message)
            elif isinstance(message, Kept):
                self._services.keep_line(self._context, message.level, message.text)
            elif isinstance(message, Ask):
                task = asyncio.get_running_loop().create_task(self._serve(message))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            else:
                yield message

    def end(self) -> None:
        """The attempt is over: nobody waits for answers."""
        for task in self._tasks:
            task.cancel()
        for written in self._written.values():
            written.task.cancel()

    async def _serve(self, asked: Ask) -> None:
        try:
            value = await getattr(self, f"_{asked.verb}")(*asked.arguments)
            answer = Answer(asked.number, value)
        except LeaseLost as error:
            answer = Answer(asked.number, None, str(error), "lost")
        except StoreUnavailableError as error:
            answer = Answer(asked.number, None, str(error), "unavailable")
        except BlobError as error:
            answer = Answer(asked.number, [error.ref, error.problem, error.state], "", "blob")
        except Exception as error:
            answer = Answer(asked.number, None, f"{type(error).__name__}: {error}", "other")
        self._process.send(answer)

    def _log(self, line: Line) -> None:
        """Write a log record as if it had been made here. This runs in the attempt's task, so it is
        marked with its run and node."""
        logger, context = logging.getLogger(line.logger), self._context
        if logger.isEnabledFor(line.level):
            record = logger.makeRecord(
                line.logger, line.level, line.file, line.line, line.text, (), None, line.function
            )
            record.created = line.created
            record.exc_text = line.traceback or None
            for name in ("run_id", "node_id", "scope", "attempt"):
                setattr(record, name, getattr(context, name))
            logger.handle(record)

    # ── what contexts ask for ───────────────────────────────────────────────────────────

    async def _load_step(self, name: str) -> bytes | None:
        known, value = await self._services.load_step(self._context, name)
        return msgspec.json.encode(value) if known else None

    async def _keep_step(self, name: str, data: bytes) -> bytes:
        return msgspec.json.encode(await self._services.keep_step(self._context, name, data))

    async def _begin_blob(self) -> int:
        number = len(self._written) + 1
        self._written[number] = _Written(self._services, self._context)
        return number

    async def _add_to_blob(self, number: int, piece: bytes) -> None:
        await self._written[number].add(piece)

    async def _end_blob(self, number: int) -> tuple[str, int]:
        return await self._written[number].end()

    async def _open_blob(self, ref: str) -> int:
        number = len(self._read) + 1
        self._read[number] = self._services.read_blob(self._context, ref)
        return number

    async def _read_blob(self, number: int) -> bytes:
        return await anext(self._read[number], b"")


class _Written:
    """A blob that the process writes, piece by piece."""

    def __init__(self, services: Services, context: Context) -> None:
        self._pieces: asyncio.Queue[bytes] = asyncio.Queue(1)
        loop = asyncio.get_running_loop()
        self.task = loop.create_task(services.write_blob(context, self._each()))

    async def _each(self) -> AsyncIterator[bytes]:
        while piece := await self._pieces.get():
            yield piece

    async def add(self, piece: bytes) -> None:
        """Take the next piece; the error of the blob store, if there was one."""
        if not piece:
            return
        putting = asyncio.get_running_loop().create_task(self._pieces.put(piece))
        await asyncio.wait({putting, self.task}, return_when=asyncio.FIRST_COMPLETED)
        if self.task.done():
            putting.cancel()
            self.task.result()

    async def end(self) -> tuple[str, int]:
        """The reference of the blob, and its size."""
        putting = asyncio.get_running_loop().create_task(self._pieces.put(b""))
        try:
            return await self.task
        finally:
            putting.cancel()
