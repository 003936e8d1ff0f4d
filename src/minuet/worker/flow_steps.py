"""The steps of a durable function: attempts, time limits, and pauses between attempts.

A short pause is waited for here. A longer one is noted in the store, with the number of the attempt
that failed: if nothing else of the function runs, the function is left meanwhile, and the worker
is free. The worker that takes it up goes on with the next attempt.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor as ThreadPool
from functools import partial
from typing import Any, NamedTuple, TypeVar

import msgspec

from minuet.bridge.values import encode
from minuet.errors import LeaseLost
from minuet.functions.exceptions import contents_of
from minuet.functions.instance import Call
from minuet.functions.journal import Backoff, backoff_name, encode_backoff, input_fields
from minuet.ids import Ids
from minuet.kernel.retry import retry_delay_ms
from minuet.kernel.settle import AttemptFailed
from minuet.nodes.context import Context
from minuet.nodes.handler import AnyTask, Handlers, Task
from minuet.nodes.masking import NO_MASK, Mask
from minuet.types import Json
from minuet.worker.failure import failure_of, timed_out
from minuet.worker.flow_arrivals import Arrivals
from minuet.worker.flow_journal import FlowJournal
from minuet.worker.in_context import in_context
from minuet.worker.isolation.attempts import IsolatedError, Isolation, TimedOut
from minuet.worker.policy import Policies, Policy
from minuet.worker.services import mask_output

T = TypeVar("T")

#: The longest pause between two attempts that is waited for in memory.
HELD_MS = 1_000


class StepServices(NamedTuple):
    """What steps need of their worker."""

    policies: Policies
    handlers: Handlers
    threads: Callable[[], ThreadPool]
    ids: Ids
    now_ms: Callable[[], int]
    isolation: Isolation


class FlowSteps:
    """The steps of one function instance that are under way."""

    def __init__(
        self,
        services: StepServices,
        context: Context,
        journal: FlowJournal,
        arrivals: Arrivals,
    ) -> None:
        self._services = services
        self._context = context
        self._journal = journal
        self._arrivals = arrivals
        self._running: dict[Call, tuple[asyncio.Task[None], list[Context]]] = {}
        #: Steps that are tried again later.
        self.paused: dict[Call, Backoff] = {}

    @property
    def are_running(self) -> bool:
        """Whether one of them is being executed."""
        return bool(self._running)

    def next_due_ms(self) -> int | None:
        """When the next one is to be tried again."""
        return min((backoff.due_ms for backoff in self.paused.values()), default=None)

    def start(self, call: Call) -> None:
        """Begin with a step, or go on with it, beside others."""
        begin = self._begin(call)
        if begin is not None:
            self._run(call, *begin)

    async def run_alone(self, call: Call) -> None:
        """Do a step that is all that the code waits for, so that nothing can stop it but the end
        of this run of the function: a task of its own would only cost time. It has a context of
        its own all the same, as each handler has."""
        begin = self._begin(call)
        if begin is None:
            return
        contexts: list[Context] = []
        try:
            fields = await in_context(
                contextvars.copy_context(), self._attempts(call, *begin, contexts)
            )
        except asyncio.CancelledError:
            for context in contexts:
                context.cancel()
            raise
        self._end(call, fields)

    def _begin(self, call: Call) -> tuple[int, int] | None:
        """The attempt to begin with, and when the first one began; None: it is too early."""
        now_ms = self._services.now_ms()
        backoff = self._journal.backoffs.get(call.key)
        if backoff is None:
            return 1, now_ms
        if backoff.due_ms > now_ms:
            self.paused[call] = backoff
            return None
        return backoff.attempt + 1, backoff.started_ms

    def start_due(self) -> None:
        """Try those again whose time has come."""
        if self.paused:
            now_ms = self._services.now_ms()
            for call in [call for call, back in self.paused.items() if back.due_ms <= now_ms]:
                backoff = self.paused.pop(call)
                self._run(call, backoff.attempt + 1, backoff.started_ms)

    def stop(self, call: Call) -> None:
        """Stop a step that the code no longer waits for."""
        self.paused.pop(call, None)
        task, contexts = self._running.pop(call, (None, []))
        for context in contexts:
            context.cancel()
        if task is not None:
            task.cancel()

    async def stop_all(self) -> None:
        """Stop everything."""
        tasks = [task for task, _ in self._running.values()]
        for call in list(self._running):
            self.stop(call)
        if tasks:
            await asyncio.wait(tasks, timeout=0)

    def _run(self, call: Call, attempt: int, started_ms: int) -> None:
        contexts: list[Context] = []
        task = asyncio.create_task(self._execute(call, attempt, started_ms, contexts))
        self._running[call] = (task, contexts)

    async def _execute(
        self, call: Call, attempt: int, started_ms: int, contexts: list[Context]
    ) -> None:
        """Run a step until it succeeds, has failed for good, or is to be tried again later."""
        try:
            fields = await self._attempts(call, attempt, started_ms, contexts)
        except asyncio.CancelledError:
            return
        except BaseException as error:
            self._arrivals.fail(error)
            return
        if self._running.pop(call, None) is not None:
            self._end(call, fields)

    def _end(self, call: Call, fields: dict[str, Any] | Backoff) -> None:
        if isinstance(fields, Backoff):
            self.paused[call] = fields
            self._arrivals.wake()
        else:
            self._arrivals.add(call, fields)

    async def _attempts(
        self, call: Call, attempt: int, started_ms: int, contexts: list[Context]
    ) -> dict[str, Any] | Backoff:
        """What comes of a step, as fields of its entry; or that it is tried again later."""
        task = call.target if isinstance(call.target, Task) else None
        services = self._services
        policy = services.policies.of_step(None if task is None else task.retries)
        while True:
            is_async = inspect.iscoroutinefunction(call.target) if task is None else task.is_async
            context = self._context.for_step(call.key, attempt, is_async=is_async)
            contexts[:] = [context]
            found = await self._attempt(call, task, context, policy)
            # What its entry says beside what came of it.
            about = {"attempts": attempt, "started_ms": started_ms, **input_fields(call.input)}
            if not isinstance(found, AttemptFailed):
                return {"output": msgspec.Raw(found), **about}
            delay_ms = retry_delay_ms(policy.retry, attempt, found, services.ids.fraction())
            if delay_ms is None:
                return {"error": found.error, **about}
            if delay_ms > HELD_MS and not services.handlers.skips_delays:
                return await self._pause(call, attempt, started_ms, delay_ms, found)
            await asyncio.sleep(0 if services.handlers.skips_delays else delay_ms / 1000)
            attempt += 1

    async def _pause(
        self, call: Call, attempt: int, started_ms: int, delay_ms: int, failed: AttemptFailed
    ) -> Backoff:
        """Note that a step is tried again later."""
        backoff = Backoff(
            key=call.key,
            attempt=attempt,
            due_ms=self._services.now_ms() + delay_ms,
            started_ms=started_ms,
            error={name: failed.error.get(name) for name in ("type", "message")},
            epoch=(self._context.generation, self._context.attempt),
        )
        await self._journal.note(backoff_name(backoff), encode_backoff(backoff))
        return backoff

    async def _attempt(
        self, call: Call, task: AnyTask | None, context: Context, policy: Policy
    ) -> bytes | AttemptFailed:
        """The result of one attempt, as JSON; or how it failed."""
        try:
            value = await self._limited(call, task, context)
            data, plain = encode(value, bytes_max=context.max_output_bytes)
            if context.mask is NO_MASK:
                return data
            what = f"the result of step {call.label!r} of {context}"
            return mask_output(context.mask, data, plain, what)[0]
        except KeyboardInterrupt:
            raise
        except _TimeUp as error:
            context.cancel()
            failed = timed_out(int(error.seconds * 1000), policy, left=error.left)
            contents = contents_of(TimeoutError(failed.error["message"]))
        except IsolatedError as error:
            failed, contents = error.examined.under(policy), error.contents
        except BaseException as error:
            # The step was stopped, or the time of its function is over.
            own = self._context
            is_stopped = context.cancelled or own.cancelled or own.time_left == 0
            is_ours = isinstance(error, LeaseLost | asyncio.CancelledError)
            if error is context.outage or (is_stopped and is_ours):
                raise
            failed = failure_of(error, policy, context.mask)
            contents = masked(contents_of(error), context.mask)
        finally:
            context.end_output()
        return msgspec.structs.replace(failed, error={**failed.error, **contents})

    async def _limited(self, call: Call, task: AnyTask | None, context: Context) -> Any:
        """What a step returns, within its time; here, or in a process of its own."""
        context.enter()
        if task is None:
            return await self._call(call, task, context)
        hard_ms = None if task.timeout is None else int(task.timeout * 1000)
        soft_ms = None if task.soft_timeout is None else int(task.soft_timeout * 1000)
        context.limit_time(asyncio.get_running_loop().time, soft_ms, hard_ms)
        handlers = self._services.handlers
        stands_in = call.name in handlers.step_stand_ins
        if task.isolation != "process" or stands_in or not handlers.isolates:
            if task.timeout is None:
                return await self._call(call, task, context)
            return await _limited(self._call(call, task, context), task.timeout)
        try:
            data = await self._services.isolation.call(
                task,
                msgspec.json.decode(call.input or b"{}"),
                context,
                soft_ms=soft_ms,
                hard_ms=hard_ms,
                memory_mb=task.max_memory_mb,
            )
        except TimedOut:
            raise _TimeUp(task.timeout or 0, "; its process was killed") from None
        return msgspec.json.decode(data)

    async def _call(self, call: Call, task: AnyTask | None, context: Context) -> Any:
        stand_in = self._services.handlers.step_stand_ins.get(call.name)
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
        result = await loop.run_in_executor(self._services.threads(), work)
        return await result if inspect.isawaitable(result) else result


class _TimeUp(Exception):
    """An attempt took too long."""

    def __init__(self, seconds: float, left: str = "") -> None:
        self.seconds = seconds
        #: What became of what still ran.
        self.left = left


async def _limited(work: Awaitable[T], seconds: float) -> T:
    try:
        async with asyncio.timeout(seconds) as limit:
            return await work
    except TimeoutError:
        if limit.expired():
            raise _TimeUp(seconds) from None
        raise


def masked(contents: dict[str, Any], mask: Mask) -> dict[str, Any]:
    """What an exception was made of, without secrets."""
    if mask is NO_MASK:
        return contents
    data = msgspec.json.encode(contents)
    without: dict[str, Json] = mask.data(data, contents)
    return without
