"""Durable functions, run by a worker.

The code of a function runs in turns (`functions.instance`). Between two turns the worker keeps
what the code has got, in one call, and only then starts what it has asked for: so an effect never
follows from a result that could be lost. If the code waits for nothing that runs here, the function
is left, and its token waits in the store for a time, a signal or the end of a child run.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import Executor as ThreadPool
from functools import partial
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

import msgspec

from minuet import events
from minuet.bridge.values import encode, encode_value, needs_blob
from minuet.errors import BlobError, FunctionError, LeaseLost, ReplayError, StoreUnavailableError
from minuet.functions.exceptions import contents_of
from minuet.functions.flow import Flow
from minuet.functions.function import Function
from minuet.functions.instance import Call, FunctionInstance
from minuet.functions.journal import (
    NOTHING,
    OF_TASK,
    Entry,
    Journal,
    decode_entries,
    encode_entry,
    input_fields,
)
from minuet.ids import Ids
from minuet.kernel.retry import retry_delay_ms
from minuet.nodes.context import Context
from minuet.nodes.handler import AnyTask, Handlers, Task
from minuet.nodes.masking import NO_MASK, Mask
from minuet.nodes.spec import Wait
from minuet.store.base import Store
from minuet.store.exchange import Held, NewStep
from minuet.store.identifiers import NAME_BYTES_MAX
from minuet.store.large import get_content, put_content
from minuet.types import TERMINAL, Json
from minuet.worker.children import Children
from minuet.worker.failure import describe, failure_of, timed_out
from minuet.worker.policy import Policies
from minuet.worker.recording import StepRecorder
from minuet.worker.services import mask_output

T = TypeVar("T")

#: How long to wait for a hint that something has come for a function that is not left, because
#: steps of it run.
WATCH_MS = 5_000

#: A function that waits for more signals and child runs than its token can name looks for the
#: others this often.
LOOK_MS = 30_000

#: Shortest and longest pause before steps that could not be kept are kept again.
KEEP_S = (0.05, 5.0)

#: Things that a function waits for which are noted for people when it is left.
WAITS_MAX = 20

#: Begins the name of the signal that says that a child run is over.
CHILD_SIGNAL = "$child:"


class _Restart(Exception):
    """Another instance was faster: the journal has to be read again."""


class _Arrival(NamedTuple):
    """Something that the code waits for is there."""

    call: Call
    fields: dict[str, Any]
    #: Number of the event of the signal that brought it.
    signal: int = 0


class Flows:
    """Runs the durable functions of one worker."""

    def __init__(
        self,
        store: Store,
        tenant: str,
        *,
        children: Children,
        policies: Policies,
        recorder: StepRecorder,
        threads: Callable[[], ThreadPool],
        ids: Ids,
        now_ms: Callable[[], int],
        handlers: Handlers,
    ) -> None:
        self.handlers = handlers
        self.store = store
        self.tenant = tenant
        self.children = children
        self.policies = policies
        self.recorder = recorder
        self.threads = threads
        self.ids = ids
        self.now_ms = now_ms

    async def run(
        self,
        function: Function[Any, Any],
        arguments: dict[str, Any],
        context: Context,
        *,
        is_new: bool,
    ) -> Any:
        """What the function returns, or what its token is to wait for. `is_new`: it has no journal
        yet."""
        while True:
            run = _FlowRun(self, function, arguments, context)
            try:
                return await run.run(is_new=is_new)
            except _Restart:
                is_new = False
            finally:
                await run.leave()


class _FlowRun:
    """One function instance in the hands of a worker."""

    def __init__(
        self,
        flows: Flows,
        function: Function[Any, Any],
        arguments: dict[str, Any],
        context: Context,
    ) -> None:
        self._flows = flows
        self._function = function
        self._arguments = arguments
        self._context = context
        self._key = (context.run_id, context.token_node, context.scope_text)
        self._instance: FunctionInstance | None = None
        self._running: dict[Call, tuple[asyncio.Task[None], list[Context]]] = {}
        self._arrived: deque[_Arrival] = deque()
        self._wake = asyncio.Event()
        #: Ids of child runs that the code waits for.
        self._children: dict[str, Call] = {}
        #: Those that were over when this run of the function came to them.
        self._over: set[str] = set()
        #: Whether the journal was not read, because it cannot have entries.
        self._is_new = False
        #: Events of signals that have arrived here; entry keys that received one.
        self._seen: set[int] = set()
        self._received: dict[str, int] = {}
        self._watcher: asyncio.Task[None] | None = None
        #: What ends this run of the function from outside.
        self._fatal: BaseException | None = None

    # ── the way ─────────────────────────────────────────────────────────────────────────

    async def run(self, *, is_new: bool) -> Any:
        """Run until the function ends, or waits."""
        self._is_new = is_new
        entries = [] if is_new else await self._load()
        context = self._context
        journal = Journal(entries, (context.generation, context.attempt))
        instance = self._instance = FunctionInstance(journal, self, self._function.place)
        flow = Flow(
            instance,
            run_id=context.run_id,
            workflow=context.workflow,
            node_id=context.node_id,
            tags=context.tags,
        )
        instance.begin(partial(self._function.function, flow, **self._arguments))
        while True:
            await self._turn()
            if instance.is_over:
                await self._keep()
                return instance.result()
            self._stop_cancelled()
            asked = instance.take_asked()
            await self._keep()
            await self._start(asked)
            if self._arrived or self._is_due():
                continue
            if not self._running:
                return self._wait()
            await self._until_something()

    async def leave(self) -> None:
        """Stop what runs, and drop the code."""
        if self._watcher is not None:
            self._watcher.cancel()
        for task, contexts in self._running.values():
            for context in contexts:
                context.cancel()
            task.cancel()
        if self._running:
            await asyncio.wait([task for task, _ in self._running.values()], timeout=0)
        self._running.clear()
        if self._instance is not None:
            await self._off_task(self._instance.close)
            # The two know each other. Collecting such pairs costs more than this.
            self._instance = None

    async def _turn(self) -> None:
        """Run the code until it waits for what is not here."""
        await self._off_task(self._pump)
        if self._fatal is not None:
            raise self._fatal

    async def _off_task(self, function: Callable[[], None]) -> None:
        """Call something as a callback of the loop: while the code of a function runs, which has
        a loop and tasks of its own, no task of this loop may be the current one."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()

        def call() -> None:
            try:
                function()
            except BaseException as error:
                if not done.done():
                    done.set_exception(error)
            else:
                if not done.done():
                    done.set_result(None)

        # In a context of its own: the code must not see what this worker has set.
        loop.call_soon(call, context=contextvars.Context())
        await done

    def _pump(self) -> None:
        instance = self._instance
        assert instance is not None
        instance.turn()
        # One at a time: a replay does the same.
        while not instance.is_over:
            arrival = self._next_arrival()
            if arrival is None:
                return
            call = arrival.call
            entry = instance.journal.new(
                call.kind, call.name, call.occurrence, self._flows.now_ms(), **arrival.fields
            )
            if arrival.signal:
                self._received[entry.key] = arrival.signal
            instance.deliver(call, entry)
            instance.turn()

    def _next_arrival(self) -> _Arrival | None:
        instance = self._instance
        assert instance is not None
        while self._arrived:
            arrival = self._arrived.popleft()
            if instance.waiting.get(arrival.call.key) is arrival.call:
                return arrival
        now_ms = self._flows.now_ms()
        due = [call for call in instance.timers() if call.due_ms <= now_ms]
        first = min(due, key=lambda call: (call.due_ms, call.occurrence), default=None)
        return None if first is None else _Arrival(first, {})

    def _is_due(self) -> bool:
        assert self._instance is not None
        now_ms = self._flows.now_ms()
        return any(call.due_ms <= now_ms for call in self._instance.timers())

    def _next_due_ms(self) -> int | None:
        assert self._instance is not None
        return min((call.due_ms for call in self._instance.timers()), default=None)

    async def _until_something(self) -> None:
        """Wait until a step has ended, or something else has come."""
        due_ms = self._next_due_ms()
        delay = None if due_ms is None else max(0.0, (due_ms - self._flows.now_ms()) / 1000)
        if self._awaited() and self._watcher is None:
            self._watcher = asyncio.create_task(self._keep_watch())
        if delay is None:
            await self._wake.wait()
        else:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(delay):
                    await self._wake.wait()
        self._wake.clear()

    # ── the journal ─────────────────────────────────────────────────────────────────────

    async def _load(self) -> list[Entry]:
        flows = self._flows
        steps = await self._insist(partial(flows.store.read_steps, flows.tenant, self._key))
        own = [value for name, value in steps.items() if not name.startswith(OF_TASK)]
        entries = decode_entries(self._key[0], own)
        return [await self._with_output(entry) if entry.blob else entry for entry in entries]

    async def _with_output(self, entry: Entry) -> Entry:
        """An entry with its large output, which is kept as a blob."""
        store, tenant, run = self._flows.store, self._flows.tenant, self._key[0]
        data = await self._insist(lambda: get_content(store, entry.blob, run=run, tenant=tenant))
        if data is None:
            problem = f"has the result of {entry.label!r} and is missing in the store"
            raise BlobError(entry.blob, problem, "missing")
        return msgspec.structs.replace(entry, output=msgspec.Raw(bytes(data)))

    async def _encoded(self, entry: Entry) -> bytes:
        """An entry as the store keeps it: without its output, if that is large."""
        data = bytes(entry.output)
        if needs_blob(data):
            store, tenant, run = self._flows.store, self._flows.tenant, self._key[0]
            blob = await self._insist(lambda: put_content(store, data, run=run, tenant=tenant))
            entry = msgspec.structs.replace(entry, output=NOTHING, blob=blob)
        return encode_entry(entry)

    async def _keep(self) -> None:
        """Keep what the code has got, and wait until that is durable."""
        assert self._instance is not None
        unsaved = self._instance.journal.take_unsaved()
        if not unsaved:
            return
        lease, mask = self._context.lease_id, self._context.mask
        steps = [
            NewStep(
                *self._key,
                lease,
                mask(entry.key),
                await self._encoded(entry),
                self._received.get(entry.key, 0),
            )
            for entry in unsaved
        ]
        for part in _parts(steps):
            answers = await self._insist(partial(self._flows.recorder.record, part))
            if "lost" in answers:
                self._lose()
            if "gone" in answers:
                raise _Restart  # A signal went to another instance.
            if answers != [step.value for step in part]:
                if self._is_new:
                    raise _Restart  # The journal was not read, and has entries.
                names = ", ".join(repr(step.name) for step in part)
                raise FunctionError(f"two steps are kept under one name of {names}: rename one")
        held = Held(*self._key, lease)
        store, tenant = self._flows.store, self._flows.tenant
        if not await self._insist(partial(store.wait_until_durable, tenant, held)):
            self._lose()

    def _lose(self) -> None:
        self._context.cancel()
        raise LeaseLost(f"{self._context} is no longer ours")

    async def _insist(self, call: Callable[[], Awaitable[T]]) -> T:
        """Call the store, and do not give up: steps have run, and would run again. If the worker
        stops, or the lease is lost, this is cancelled."""
        pause_s = KEEP_S[0]
        while True:
            try:
                return await call()
            except StoreUnavailableError:
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, KEEP_S[1])

    # ── what the code asks for ──────────────────────────────────────────────────────────

    async def _start(self, asked: Sequence[Call]) -> None:
        for call in asked:
            if call.kind == "step":
                contexts: list[Context] = []
                task = asyncio.create_task(self._execute(call, contexts))
                self._running[call] = (task, contexts)
            elif call.kind == "child":
                await self._start_child(call)
        if any(call.kind in ("signal", "child") for call in asked):
            await self._look()

    def _stop_cancelled(self) -> None:
        """Stop steps that the code no longer waits for."""
        assert self._instance is not None
        cancelled, self._instance.cancelled = self._instance.cancelled, []
        for call in cancelled:
            task, contexts = self._running.pop(call, (None, []))
            for context in contexts:
                context.cancel()
            if task is not None:
                task.cancel()
            self._children = {
                child: one for child, one in self._children.items() if one is not call
            }

    def _arrive(self, call: Call, fields: dict[str, Any], signal: int = 0) -> None:
        self._arrived.append(_Arrival(call, fields, signal))
        self._wake.set()

    # ── steps ───────────────────────────────────────────────────────────────────────────

    async def _execute(self, call: Call, contexts: list[Context]) -> None:
        """Run a step until it succeeds or has failed for good."""
        started_ms = self._flows.now_ms()
        try:
            fields = await self._attempts(call, contexts)
        except asyncio.CancelledError:
            return
        except BaseException as error:
            self._fatal = error
            self._wake.set()
            return
        if self._running.pop(call, None) is not None:
            fields |= {"started_ms": started_ms, **input_fields(call.input)}
            self._arrive(call, fields)

    async def _attempts(self, call: Call, contexts: list[Context]) -> dict[str, Any]:
        task = call.target if isinstance(call.target, Task) else None
        policy = self._flows.policies.of_step(None if task is None else task.retries)
        timeout = None if task is None else task.timeout
        attempt = 1
        while True:
            is_async = inspect.iscoroutinefunction(call.target) if task is None else task.is_async
            context = self._context.for_step(call.key, attempt, is_async=is_async)
            contexts[:] = [context]
            try:
                value = await _limited(self._attempt(call, task, context), timeout)
                data, plain = encode(value, bytes_max=context.max_output_bytes)
                what = f"the result of step {call.label!r} of {context}"
                output = mask_output(context.mask, data, plain, what)[0]
                return {"output": msgspec.Raw(output), "attempts": attempt}
            except KeyboardInterrupt:
                raise
            except _TimeUp as error:
                context.cancel()
                failed = timed_out(int(error.seconds * 1000), policy)
                caught: BaseException = TimeoutError(failed.error["message"])
            except BaseException as error:
                is_ours = isinstance(error, LeaseLost | asyncio.CancelledError)
                if error is context.outage or (context.cancelled and is_ours):
                    raise
                failed, caught = failure_of(error, policy, context.mask), error
            contents = _masked(contents_of(caught), context.mask)
            failed = msgspec.structs.replace(failed, error={**failed.error, **contents})
            delay_ms = retry_delay_ms(policy.retry, attempt, failed, self._flows.ids.fraction())
            if delay_ms is None:
                return {"error": failed.error, "attempts": attempt}
            await asyncio.sleep(0 if self._flows.handlers.skips_delays else delay_ms / 1000)
            attempt += 1

    async def _attempt(self, call: Call, task: AnyTask | None, context: Context) -> Any:
        context.enter()
        stand_in = self._flows.handlers.step_stand_ins.get(call.name)
        instead = None if stand_in is None else stand_in(call.arguments, context)
        if instead is not None:
            value = instead()
            return await value if inspect.isawaitable(value) else value
        if task is not None:
            function: Callable[[], Any] = partial(task.call_with, call.arguments, context)
            is_async = task.is_async
        else:
            arguments = call.arguments
            function = partial(call.target, *arguments["args"], **arguments["kwargs"])
            is_async = inspect.iscoroutinefunction(call.target)
        if is_async:
            return await function()
        loop = asyncio.get_running_loop()
        work = partial(contextvars.copy_context().run, function)
        result = await loop.run_in_executor(self._flows.threads(), work)
        return await result if inspect.isawaitable(result) else result

    # ── child runs and signals ──────────────────────────────────────────────────────────

    async def _start_child(self, call: Call) -> None:
        assert self._instance is not None
        before = self._instance.journal.dropped.get(call.key)
        try:
            child = await self._insist(
                partial(
                    self._flows.children.start,
                    self._context,
                    call.number,
                    call.target,
                    msgspec.json.decode(call.input),
                    asked=call,
                    ended=0 if before is None else before.child_generation,
                )
            )
        except (LeaseLost, ReplayError):
            raise
        except Exception as error:
            mask = self._context.mask
            described = {**describe(error, mask), **_masked(contents_of(error), mask)}
            self._arrive(call, {"error": described, **input_fields(call.input)})
            return
        self._children[child.run] = call
        if child.status in TERMINAL:
            self._over.add(child.run)

    def _awaited(self) -> dict[str, list[Call]]:
        """What the code waits for that comes as a signal, by the signal's name."""
        assert self._instance is not None
        found: dict[str, list[Call]] = {}
        for call in self._instance.waiting.values():
            if call.kind == "signal":
                found.setdefault(call.name, []).append(call)
        for child, call in self._children.items():
            if call.key in self._instance.waiting:
                found[f"{CHILD_SIGNAL}{child}"] = [call]
        return found

    async def _look(self) -> None:
        """Fetch the signals that have come for the code."""
        awaited = self._awaited()
        if not awaited:
            return
        flows, run = self._flows, self._key[0]
        arrived = {arrival.call.key for arrival in self._arrived}
        for signal in await self._insist(lambda: flows.store.read_signals(flows.tenant, run)):
            calls = [call for call in awaited.get(signal.name, ()) if call.key not in arrived]
            if not calls or signal.seq in self._seen:
                continue
            call = calls[0]
            if call.kind == "child":
                fields = await self._ended(signal.name.removeprefix(CHILD_SIGNAL))
            else:
                fields = {"output": await self._signal_data(signal.seq)}
            if fields is None:
                await self._drop(signal.seq)
                continue
            self._seen.add(signal.seq)
            arrived.add(call.key)
            self._arrive(call, fields | input_fields(call.input), signal.seq)
        for child in sorted(self._over & self._children.keys()):
            # No signal came if this run was over, too, when the child run ended.
            call = self._children[child]
            fields = await self._ended(child) if call.key not in arrived else None
            if fields is not None:
                self._arrive(call, fields | input_fields(call.input))
        self._over.clear()

    async def _drop(self, signal: int) -> None:
        """Receive the signal of a child run that is open again, and do nothing with it."""
        name = f"{OF_TASK}{CHILD_SIGNAL}{signal}"
        step = NewStep(*self._key, self._context.lease_id, name, b"null", signal)
        if "lost" in await self._insist(partial(self._flows.recorder.record, [step])):
            self._lose()

    async def _signal_data(self, seq: int) -> msgspec.Raw:
        flows = self._flows
        (found,) = await self._insist(
            partial(flows.store.read_events, flows.tenant, self._key[0], seq - 1, 1)
        )
        event = events.decode_event(found.data)
        assert isinstance(event, events.SignalReceived)
        return msgspec.Raw(bytes(event.data))

    async def _ended(self, child: str) -> dict[str, Any] | None:
        """What a child run has come to; None: it goes on again."""
        return await self._insist(partial(self._flows.children.end_of, child))

    async def _keep_watch(self) -> None:
        try:
            await self._watch()
        except Exception as error:
            self._fatal = error
            self._wake.set()

    async def _watch(self) -> None:
        """While steps run, look again when something has happened to the run."""
        flows, run = self._flows, self._key[0]
        seq = -1
        while True:
            await self._look()
            found = await self._insist(partial(flows.store.read_run, flows.tenant, run))
            if found is None:
                return
            if found.seq == seq:
                await flows.store.wait_for_change(run, seq, WATCH_MS)
            seq = found.seq

    def _wait(self) -> Wait:
        """What the token is to wait for."""
        names = list(self._awaited())
        due_ms = self._next_due_ms()
        if not names and due_ms is None:
            raise FunctionError(
                "the function waits for something that cannot come: no step, time, signal or "
                "child run that it waits for is left"
            )
        key = encode_value(names).decode() if names else ""
        if len(key.encode()) > NAME_BYTES_MAX:
            key = _cut(names)
            soon_ms = self._flows.now_ms() + LOOK_MS
            due_ms = soon_ms if due_ms is None else min(due_ms, soon_ms)
        return Wait("flow", key=key, due_ms=due_ms, data=self._describe_waits())

    def _describe_waits(self) -> dict[str, Any]:
        """What the code waits for, for people: in the order in which it asked."""
        assert self._instance is not None
        timers = {call.key for call in self._instance.timers()}
        children = {call.key: child for child, call in self._children.items()}
        waits: list[dict[str, Any]] = []
        for call in self._instance.waiting.values():
            what: dict[str, Any] = {"for": call.kind, "name": call.name, "place": call.place}
            if call.kind == "timer":
                if call.key not in timers:
                    continue
                name = call.name or "sleep"
                what = {"for": name, "until_ms": call.due_ms, "place": call.place}
            elif call.kind == "child":
                what["run"] = children.get(call.key, "")
            waits.append(what)
        more = {"more": len(waits) - WAITS_MAX} if len(waits) > WAITS_MAX else {}
        return {"waits": waits[:WAITS_MAX], **more}

    # ── for the code ────────────────────────────────────────────────────────────────────

    def now_ms(self) -> int:
        return self._flows.now_ms()

    def encode(self, value: Any, what: str) -> bytes:
        data, plain = encode(value)
        mask = self._context.mask
        return data if mask is NO_MASK else mask_output(mask, data, plain, what)[0]

    def random(self) -> float:
        return self._flows.ids.fraction()

    def uuid(self) -> str:
        return str(UUID(self._flows.ids.token(), version=4))


def _parts(steps: list[NewStep]) -> Iterator[list[NewStep]]:
    """Steps in parts that end with those that receive a signal: if another instance was faster,
    nothing that follows from the signal is kept."""
    part: list[NewStep] = []
    for step in steps:
        part.append(step)
        if step.signal:
            yield part
            part = []
    if part:
        yield part


class _TimeUp(Exception):
    """An attempt took too long."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds


async def _limited(work: Awaitable[T], seconds: float | None) -> T:
    if seconds is None:
        return await work
    try:
        async with asyncio.timeout(seconds) as limit:
            return await work
    except TimeoutError:
        if limit.expired():
            raise _TimeUp(seconds) from None
        raise


def _masked(contents: dict[str, Any], mask: Mask) -> dict[str, Any]:
    """What an exception was made of, without secrets."""
    if mask is NO_MASK:
        return contents
    data = msgspec.json.encode(contents)
    masked: dict[str, Json] = mask.data(data, contents)
    return masked


def _cut(names: list[str]) -> str:
    """As many names as a token can wait for."""
    kept: list[str] = []
    size = 2
    for name in names:
        size += len(encode_value(name)) + 1
        if size > NAME_BYTES_MAX:
            break
        kept.append(name)
    return encode_value(kept).decode()
