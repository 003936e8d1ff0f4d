"""One remote worker, and the worker here that stands for it."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from minuet.app.options import to_ms
from minuet.app.remote.tasks import Exchanged, RemoteTask, Settlement, TaskResult
from minuet.app.tenant import Tenant
from minuet.errors import LeaseLost, SessionError
from minuet.nodes.context import Context
from minuet.nodes.handler import REGISTERED, Handlers, Task
from minuet.nodes.spec import Call, NodeType
from minuet.store.exchange import Result
from minuet.store.records import Key
from minuet.telemetry.observer import TRACEPARENT, Tracer
from minuet.types import TYPE_QUEUE, Json
from minuet.worker.failure import ReportedError
from minuet.worker.identity import Identity

#: How long an exchange waits until the store has what was handed in. What is not settled then is
#: not in the answer, and is to be sent again.
SETTLE_S = 10.0

#: How long a call waits for the one before, which it has overtaken.
OVERTAKEN_S = 2.0
OVERTAKEN_POLLS = 100

#: Results that are remembered, to recognise those that are sent again.
REMEMBERED_MAX = 1_000

#: Nodes that need no handler and nothing from outside: run in this process.
HERE = ("wait", "human", "task:input", "task:output")


class RemoteWorker:
    """One remote worker, and the worker here that stands for it."""

    def __init__(
        self,
        tenant: Tenant,
        *,
        identity: Identity,
        executors: Sequence[str],
        queues: Sequence[str],
        concurrency: int,
        retries: Mapping[str, int],
        key: str = "",
    ) -> None:
        engine = tenant.engine
        self.tenant, self.name = tenant.name, identity.name
        #: The id of the API key with which it has registered.
        self.key = key
        self._retries = retries
        self._ids = engine.ids
        self._tracer = engine.options.tracer or Tracer()
        self._concurrency = concurrency
        self.lease_ms = to_ms(engine.options.lease_seconds)
        self.token = engine.ids.token() + engine.ids.token()
        self._tasks: dict[str, RemoteTask] = {}
        self._inbox: list[RemoteTask] = []
        self._revoked: list[str] = []
        self._remembered: OrderedDict[str, Settlement] = OrderedDict()
        self._changed = asyncio.Event()
        #: How many calls wait for the one that is being answered, and whether any does.
        self._queued = 0
        self._is_called = asyncio.Event()
        self._turn = asyncio.Lock()
        self._seq = 0
        #: Whether the remote worker knows that it drains.
        self._is_told = False
        self._reply = Exchanged()
        self._handlers = Handlers(REGISTERED)
        own = self._register(executors)
        self._worker = tenant.make_worker(
            handlers=self._handlers,
            identity=identity,
            queues=tuple(sorted({*(queues or own), *HERE})),
            concurrency=concurrency,
            settled=self._note_settled,
        )
        self._worker.limit(0)
        self.id = self._worker.id
        loop = asyncio.get_running_loop()
        self._seen_at = loop.time()
        self._working = loop.create_task(self._worker.run())
        self._watching = loop.create_task(self._watch())

    # ── what it executes ────────────────────────────────────────────────────────────────

    def _register(self, executors: Sequence[str]) -> list[str]:
        """Have its handlers and node types here; the queues of these."""
        queues = []
        for name in executors:
            plain = name.removeprefix(TYPE_QUEUE)
            if name == plain:
                self._handlers.add(
                    Task(self._handler(name), name=name, retries=self._retries.get(name))
                )
                queues.append(f"task:{name}")
            if ":" not in plain:
                self._handlers.add_type(self._type(plain))
                queues.append(f"{TYPE_QUEUE}{plain}")
        return queues

    def _handler(self, name: str) -> Any:
        async def run(ctx: Context, **config: Any) -> Any:
            return await self._run(name, config, ctx)

        return run

    def _type(self, name: str) -> NodeType:
        def bind(call: Call, context: Context) -> tuple[Any, dict[str, Any]]:
            return self._run, {"handler": name, "config": dict(call.config), "context": context}

        return NodeType(
            name=name,
            summary="Run by a worker over HTTP.",
            kind="registered",
            queue=f"{TYPE_QUEUE}{name}",
            bind=bind,
            place=f"{self.token}:1",
        )

    async def _run(self, handler: str, config: dict[str, Any], context: Context) -> Any:
        """Have the remote worker do a task."""
        # Without a tracer here, the worker may still have one.
        trace = self._tracer.headers().get(TRACEPARENT) or context.tags.get(TRACEPARENT)
        trace = trace if isinstance(trace, str) else None
        task = RemoteTask(self._ids.token(), handler, config, context, trace)
        self._tasks[task.id] = task
        self._inbox.append(task)
        self._changed.set()
        try:
            answer = await task.answer
        except asyncio.CancelledError:
            # It is no longer wanted: its time is over, its run is cancelled, its lease is lost.
            self._drop(task)
            raise
        if answer.released:
            context.cancel()
            raise LeaseLost("the worker gave the task back")
        if answer.error is not None:
            raise ReportedError(answer.error)
        return answer.result

    def _drop(self, task: RemoteTask) -> None:
        if self._tasks.pop(task.id, None) is None:
            return
        if task in self._inbox:
            self._inbox.remove(task)
        else:
            self._revoked.append(task.id)
            self._changed.set()
        if not task.settled.done():
            task.settled.set_result("stale")

    def _note_settled(self, key: Key, lease: str, result: Result) -> None:
        for task in self._tasks.values():
            if task.answer.done() and task.key == key and task.lease == lease:
                settlement: Settlement = "stale"
                if result == "applied":
                    settlement = "applied"
                elif result == "duplicate":
                    settlement = "duplicate"
                if not task.settled.done():
                    task.settled.set_result(settlement)
                return

    # ── the exchange ────────────────────────────────────────────────────────────────────

    @property
    def is_over(self) -> bool:
        """Whether nothing of it is left here: it left, it died, or it knows that it drains."""
        return self._watching.done()

    def is_token(self, given: str) -> bool:
        """Whether this is the token that it was given when it registered."""
        return hmac.compare_digest(given.encode(), self.token.encode())

    async def exchange(
        self,
        seq: int,
        done: Sequence[TaskResult],
        renew: Sequence[str],
        take: int,
        wait_ms: int,
        closing: asyncio.Event,
    ) -> Exchanged:
        """Take results, renew tasks and hand out new ones. The same number again gets the same
        answer; SessionError if it is not the next one."""
        self._seen_at = asyncio.get_running_loop().time()
        if seq == self._seq + 2:
            await self._before(seq)
        # A call that waits for tasks ends: the worker has something to hand in.
        self._queued += 1
        self._is_called.set()
        async with self._turn:
            self._queued -= 1
            if not self._queued:
                self._is_called.clear()
            if seq == self._seq:
                return self._reply
            if seq != self._seq + 1:
                raise SessionError(
                    f"seq: the next exchange of this worker has number {self._seq + 1}, not {seq}"
                )
            settled = await self._settle(done)
            revoked = self._renew(renew)
            tasks = await self._take(take, wait_ms, closing)
            revoked += self._revoked
            self._revoked = []
            self._seen_at = asyncio.get_running_loop().time()
            draining = self._worker.stopping.is_set() or self._working.done()
            self._seq, self._reply = seq, Exchanged(tasks, settled, revoked, draining)
            self._is_told = draining
            return self._reply

    async def _before(self, seq: int) -> None:
        """Wait for the call before this one, which was sent first and is still on its way."""
        for _ in range(OVERTAKEN_POLLS):
            if self._turn.locked() or seq <= self._seq + 1:
                return
            await asyncio.sleep(OVERTAKEN_S / OVERTAKEN_POLLS)

    async def _settle(self, done: Sequence[TaskResult]) -> list[dict[str, Json]]:
        waiting = []
        settled: list[dict[str, Json]] = []
        for one in done:
            task = self._tasks.get(one.task)
            if task is None:
                known = self._remembered.get(one.task)
                settled.append({"task": one.task, "result": "duplicate" if known else "stale"})
                continue
            if not task.answer.done():
                task.answer.set_result(one)
            task.named_at = asyncio.get_running_loop().time()
            waiting.append(task)
        if waiting:
            await asyncio.wait([task.settled for task in waiting], timeout=SETTLE_S)
        for task in waiting:
            if task.settled.done():
                self._tasks.pop(task.id, None)
                result = task.settled.result()
                settled.append({"task": task.id, "result": result})
                if result == "applied":
                    self._remember(task.id)
        return settled

    def _remember(self, id: str) -> None:
        self._remembered[id] = "applied"
        if len(self._remembered) > REMEMBERED_MAX:
            self._remembered.popitem(last=False)

    def _renew(self, named: Sequence[str]) -> list[str]:
        """Note that the remote worker still works on these; those that are not its own."""
        now = asyncio.get_running_loop().time()
        lost = []
        for id in named:
            task = self._tasks.get(id)
            if task is not None:
                task.named_at = now
            elif id not in self._revoked:
                lost.append(id)
        return lost

    async def _take(self, take: int, wait_ms: int, closing: asyncio.Event) -> list[dict[str, Json]]:
        held = len(self._tasks) - len(self._inbox)
        wanted = min(take, self._concurrency - held)
        if wanted > len(self._inbox):
            self._worker.limit(self._worker.running + wanted - len(self._inbox))
            try:
                await self._wait(wait_ms / 1000, closing)
            finally:
                self._worker.limit(0)
        first, self._inbox = self._inbox[: max(wanted, 0)], self._inbox[max(wanted, 0) :]
        now = asyncio.get_running_loop().time()
        for task in first:
            task.named_at = now
        return [task.shape(self.lease_ms) for task in first]

    async def _wait(self, seconds: float, closing: asyncio.Event) -> None:
        """Wait for a task, or for something else that the remote worker should know."""
        stops = [closing.wait(), self._worker.stopping.wait(), self._changed.wait()]
        stops.append(self._is_called.wait())
        self._changed.clear()
        if self._inbox or self._revoked:
            seconds = 0
        waits = [asyncio.ensure_future(stop) for stop in stops]
        working = {self._working}
        try:
            await asyncio.wait(
                {*waits, *working}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            for one in waits:
                one.cancel()

    # ── what a task asks for while it runs ──────────────────────────────────────────────

    async def load_step(self, task_id: str, name: str) -> tuple[bool, Json]:
        """Whether a step of a task has a result, and the result; LookupError if the task is not
        this worker's."""
        return await self._context(task_id).load_step(name)

    async def keep_step(self, task_id: str, name: str, value: Any) -> Json:
        """Keep the result of a step of a task; the first one stays, and is returned."""
        try:
            return await self._context(task_id).keep_step(name, value)
        except LeaseLost:
            raise LookupError(task_id) from None

    def keep_line(self, seq: int, task_id: str, level: str, text: str) -> None:
        """Keep a line of a task's handler with its node. Of a repeated call, it is kept already."""
        task = self._tasks.get(task_id)
        if task is not None and seq > self._seq:
            task.context.keep_line(level, text)

    def _context(self, task_id: str) -> Context:
        task = self._tasks.get(task_id)
        if task is None or task in self._inbox:
            raise LookupError(task_id)
        task.named_at = asyncio.get_running_loop().time()
        return task.context

    # ── its end ─────────────────────────────────────────────────────────────────────────

    async def _watch(self) -> None:
        """End what the remote worker has left."""
        lease_s = self.lease_ms / 1000
        while not (self._is_told and self._working.done()):
            await asyncio.sleep(lease_s / 10)
            if self._turn.locked():
                continue  # It is here, and waits.
            now = asyncio.get_running_loop().time()
            if now - self._seen_at > lease_s:
                break
            for task in list(self._tasks.values()):
                if task not in self._inbox and now - task.named_at > lease_s:
                    self._give_up(task)
        self._working.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._working

    def _give_up(self, task: RemoteTask) -> None:
        """The remote worker has forgotten a task, so others may take it; or the store has never
        said what became of its result."""
        if not task.answer.done():
            task.answer.set_result(TaskResult(task.id, released=True))
        if not task.settled.done():
            task.settled.set_result("stale")
        self._tasks.pop(task.id, None)

    async def end(self) -> None:
        """Give back what it holds, and deregister."""
        for task in list(self._tasks.values()):
            if not task.answer.done():
                task.answer.set_result(TaskResult(task.id, released=True))
        self._worker.stop()
        self._watching.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._working
