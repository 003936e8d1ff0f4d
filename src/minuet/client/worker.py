"""A worker over HTTP: takes tasks from a server, calls handlers, and hands their results in.

One exchange follows the other (`POST /workers/{id}/exchange`). While nothing is done, one waits at
the server for tasks. When a handler returns, the next one is sent at once with its result, and the
server ends the wait of the first. Results that come together travel together.

The server takes tokens, renders configs, keeps leases, retries and routes. What needs the store is
not here: durable functions, nodes that wait, and secrets by name (those in a config come with it).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Sequence
from typing import Any, NoReturn, get_args

import msgspec

from minuet.api.errors import NotFoundError
from minuet.api.requests import Level
from minuet.bridge.values import encode_value
from minuet.client.transport import Transport, path_of
from minuet.errors import (
    FunctionError,
    LeaseLost,
    MinuetError,
    SecretError,
    ServerUnavailableError,
    SessionError,
    StoreUnavailableError,
)
from minuet.nodes.context import Context
from minuet.nodes.handler import Handlers
from minuet.nodes.io.client import Client
from minuet.nodes.io.egress import Egress
from minuet.nodes.io.prices import Prices
from minuet.nodes.services import LlmDefaults
from minuet.types import Json
from minuet.worker.detached import STOPPED, DetachedHandlers, Finished, Task

#: How long an exchange waits at the server for tasks.
WAIT_MS = 20_000

#: Bytes of results in one exchange: a server reads 16 MiB at once.
RESULT_BYTES_MAX = 8 << 20

#: Lines of handlers that are kept for the next exchange, and characters of one.
LINES_MAX = 10_000
LINE_MAX = 100_000
LEVELS = frozenset(get_args(Level))

#: Pause after a server could not be reached.
PAUSE_S = 1.0

_log = logging.getLogger("minuet.worker")


class _Exchanged(msgspec.Struct):
    """What a server answers."""

    tasks: list[Task] = []
    settled: list[dict[str, str]] = []
    revoked: list[str] = []
    draining: bool = False


_decode = msgspec.json.Decoder(_Exchanged).decode


class Counts(msgspec.Struct):
    """How many tasks a worker has handed in, by how that went."""

    completed: int = 0
    failed: int = 0
    released: int = 0
    #: Handed in too late: they were somebody else's by then.
    stale: int = 0


class HttpWorker:
    """Works for a server until it is stopped."""

    def __init__(
        self,
        transport: Transport,
        handlers: Handlers,
        *,
        name: str,
        concurrency: int,
        queues: Sequence[str] = (),
        capabilities: dict[str, Any] | None = None,
        executors: Sequence[str] = (),
        drain_s: float = 30.0,
        egress: Egress | None = None,
    ) -> None:
        self._transport = transport
        self._services = _Services(transport, self._path, Client(egress))
        self._calls = DetachedHandlers(handlers, self._services, concurrency)
        self.name = name
        self.concurrency = concurrency
        self.drain_s = drain_s
        self._queues = list(queues)
        self._capabilities = capabilities or {}
        self._executors = list(executors)
        self.counts = Counts()
        #: Set: take nothing more, finish, and end.
        self.stopping = asyncio.Event()
        #: Its id at the server; "": it is not registered.
        self.id = ""
        self.lease_ms = 0
        self._seq = 0
        self._running: dict[str, asyncio.Task[None]] = {}
        self._done: list[Finished] = []
        self._woken = asyncio.Event()
        self._is_draining = False

    @property
    def executors(self) -> list[str]:
        """What it runs."""
        return sorted({*self._calls.executors, *self._executors})

    def unfinished(self) -> list[str]:
        """The node instances whose handlers run, in words."""
        return self._calls.unfinished()

    def stop(self) -> None:
        """Begin to drain."""
        self.stopping.set()
        self._woken.set()

    async def run(self) -> None:
        """Work until `stop`, or until the server asks it to drain; then finish, and leave."""
        try:
            while not (self.stopping.is_set() or self._is_draining):
                try:
                    await self._work()
                except (NotFoundError, SessionError):
                    # The server was restarted, or it is another one. Our tasks are not ours any
                    # more: their leases run out.
                    self._forget()
                except (ServerUnavailableError, StoreUnavailableError) as error:
                    _log.warning("%s; trying again", error)
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(PAUSE_S):
                            await self.stopping.wait()
            await self._drain()
        finally:
            self._forget()
            await self._calls.close()
            await self._services.client.close()

    # ── exchanges ───────────────────────────────────────────────────────────────────────

    async def _work(self) -> None:
        """Exchange until it is time to stop."""
        if not self.id:
            await self._register()
        exchanges: set[asyncio.Task[None]] = set()
        waking: asyncio.Task[Any] | None = None
        try:
            while not (self.stopping.is_set() or self._is_draining):
                # One may wait for tasks while the next one hands in.
                if not exchanges or (len(exchanges) == 1 and self._done):
                    exchanges.add(self._send())
                self._woken.clear()
                waking = asyncio.ensure_future(self._woken.wait())
                ended, _ = await asyncio.wait(
                    {*exchanges, waking}, return_when=asyncio.FIRST_COMPLETED
                )
                waking.cancel()
                for one in ended & exchanges:
                    exchanges.discard(one)
                    one.result()
        finally:
            if waking is not None:
                waking.cancel()
            await self._finish(exchanges)

    async def _finish(self, exchanges: set[asyncio.Task[None]]) -> None:
        """Let what is on its way arrive: the last one ends the wait of the one before."""
        if exchanges and self.id:
            exchanges.add(self._send(take=False))
        for result in await asyncio.gather(*exchanges, return_exceptions=True):
            if isinstance(result, BaseException) and not isinstance(result, MinuetError):
                raise result

    async def _register(self) -> None:
        body = {
            "name": self.name,
            "executors": self.executors,
            "queues": self._queues,
            "capabilities": self._capabilities,
            "concurrency": self.concurrency,
            "retries": self._calls.retries,
        }
        found = await self._transport.post("/workers", body)
        self.id, self.lease_ms, self._seq = found["worker_id"], found["lease_ms"], 0

    def _send(self, *, take: bool = True) -> asyncio.Task[None]:
        """Hand in what is done, renew the rest, and take as many tasks as there is room for."""
        self._seq += 1
        done, self._done = _first(self._done)
        free = self.concurrency - len(self._running)
        lines = self._services.lines
        body = {
            "seq": self._seq,
            "lines": [lines.popleft() for _ in range(len(lines))],
            "done": [_handed_in(one) for one in done],
            "renew": list(self._running),
            "take": max(free, 0) if take else 0,
            "wait_ms": min(WAIT_MS, self.lease_ms // 3) if take and free > 0 else 0,
        }
        return asyncio.ensure_future(self._exchange(body, done))

    async def _exchange(self, body: dict[str, Any], done: list[Finished]) -> None:
        path = path_of("workers", self.id, "exchange")
        try:
            answer = await self._transport.call(
                "POST", path, body=body, again=True, silence_s=60 + WAIT_MS / 1000
            )
        except BaseException:
            # They may be handed in again: the server knows those that it has.
            self._done = [*done, *self._done]
            raise
        self._take(_decode(answer.data), done)

    def _take(self, found: _Exchanged, done: list[Finished]) -> None:
        self._is_draining = self._is_draining or found.draining
        settled = {one["task"]: one["result"] for one in found.settled}
        for one in done:
            result = settled.get(one.task.task)
            if result is None:
                self._done.append(one)  # The store has not said: hand it in again.
            elif result == "stale":
                self.counts.stale += 1
            elif one.error is not None:
                self.counts.failed += 1
            elif one.output is not None:
                self.counts.completed += 1
            else:
                self.counts.released += 1
        for id in found.revoked:
            self._calls.abandon(id)
        for task in found.tasks:
            self._running[task.task] = asyncio.ensure_future(self._run(task))

    async def _run(self, task: Task) -> None:
        try:
            finished = await self._calls.run(task)
        except STOPPED:
            return
        except StoreUnavailableError:
            finished = Finished(task)  # The server could not be asked: somebody else may try.
        finally:
            self._running.pop(task.task, None)
            self._woken.set()
        self._done.append(finished)

    # ── the end ─────────────────────────────────────────────────────────────────────────

    async def _drain(self) -> None:
        """Give handlers time to finish, hand in, give back the rest, and leave."""
        self.stopping.set()
        if not self.id:
            return
        loop = asyncio.get_running_loop()
        until = loop.time() + self.drain_s
        with contextlib.suppress(MinuetError):
            while self._running and loop.time() < until:
                left_s = min(until - loop.time(), self.lease_ms / 3000)
                await asyncio.wait(set(self._running.values()), timeout=left_s)
                await self._send(take=False)
            while self._done:
                await self._send(take=False)
        # What still runs is given back with it.
        self.counts.released += len(self._running)
        with contextlib.suppress(MinuetError):
            await self._transport.call("DELETE", path_of("workers", self.id), again=True)

    def _forget(self) -> None:
        """Drop everything: it is not ours any more."""
        for id in list(self._running):
            self._calls.abandon(id)
        self._running.clear()
        self._done.clear()
        self.id = ""

    def _path(self, *words: str) -> str:
        return path_of("workers", self.id, *words)


def _first(done: list[Finished]) -> tuple[list[Finished], list[Finished]]:
    """As many results as go into one exchange, and the rest."""
    size = 0
    for number, one in enumerate(done):
        size += len(one.output or b"")
        if size > RESULT_BYTES_MAX and number:
            return done[:number], done[number:]
    return done, []


def _handed_in(finished: Finished) -> dict[str, Any]:
    """A result, as the server takes it."""
    id, error = finished.task.task, finished.error
    if finished.output is not None:
        return {"task": id, "result": msgspec.Raw(finished.output)}
    if error is None:
        return {"task": id, "released": True}
    record = error.record
    return {
        "task": id,
        "error": {
            "type": record.get("type") or "Error",
            "message": record.get("message") or "",
            "code": record.get("code") or "handler_raised",
            "verdict": error.verdict,
            "names": list(error.names),
            "codes": list(error.codes),
            "traceback": record.get("traceback") or [],
            "after_ms": error.after_ms,
        },
    }


class _Services:
    """What handlers ask of a worker over HTTP (`nodes.services.Services`)."""

    def __init__(self, transport: Transport, path: Any, client: Client) -> None:
        self._transport = transport
        self._path = path
        self.client = client
        #: What handlers have printed and logged, from any thread.
        self.lines: deque[dict[str, str]] = deque(maxlen=LINES_MAX)

    def keep_line(self, context: Context, level: str, text: str) -> None:
        """Keep a line until the next exchange; the oldest are dropped if there are too many."""
        if level not in LEVELS:
            level = "info"
        self.lines.append({"task": context.lease_id, "level": level, "text": text[:LINE_MAX]})

    async def load_step(self, context: Context, name: str) -> tuple[bool, Json]:
        """Whether a step has a result, and the result."""
        with _asking(context):
            found = await self._transport.get(self._step(context, name))
        return found["known"], found["value"]

    def encode_step(self, context: Context, name: str, value: Any) -> bytes:
        """A step's result as JSON."""
        return encode_value(value)

    async def keep_step(self, context: Context, name: str, data: bytes) -> Json:
        """Keep a step's result; the first one stays."""
        path, body = self._step(context, name), {"value": msgspec.Raw(data)}
        with _asking(context):
            answer = await self._transport.call("PUT", path, body=body, again=True)
        return answer.json()["value"]

    def _step(self, context: Context, name: str) -> str:
        path: str = self._path("tasks", context.lease_id, "steps", name)
        return path

    async def write_blob(self, context: Context, pieces: AsyncIterable[bytes]) -> tuple[str, int]:
        """Keep a content at the server; its reference and its size. It belongs to no run."""
        content = b"".join([piece async for piece in pieces])
        with _asking(context):
            answer = await self._transport.call("PUT", "/blobs", content=content, again=True)
        found = answer.json()
        return found["cas_ref"], found["bytes"]

    async def read_blob(self, context: Context, ref: str) -> AsyncIterator[bytes]:
        """The bytes of a blob, piece by piece."""
        path = path_of("blobs", ref.removeprefix("cas://"))
        with _asking(context):
            async for piece in self._transport.download(path, run_id=context.run_id):
                yield piece

    def read_secret(self, name: str) -> str:
        """Not possible: secrets in a config come with it."""
        raise SecretError(
            f"the secret {name!r} is not here: a worker over HTTP gets secrets in its config, as "
            "{{ secrets.NAME }}"
        )

    @property
    def llm(self) -> LlmDefaults:
        """Nothing: nodes that ask language models run at the server's workers."""
        return LlmDefaults(None, None, Prices())

    async def find_wait(self, context: Context) -> Json:
        """Nothing: nodes that wait do not run here."""
        return None

    @property
    def agents(self) -> NoReturn:
        """Nothing: agents run at the server's workers."""
        raise FunctionError("agents are run by workers on the store, not over HTTP")

    async def run_child(self, context: Context, *_: Any, **__: Any) -> Any:
        """Not possible: it needs the store."""
        raise FunctionError("child runs are started by workers on the store, not over HTTP")


@contextlib.contextmanager
def _asking(context: Context) -> Any:
    """What a call for a handler means to it."""
    try:
        yield
    except NotFoundError:
        context.cancel()
        raise LeaseLost("the task is no longer ours") from None
    except StoreUnavailableError as error:
        context.outage = error
        raise
