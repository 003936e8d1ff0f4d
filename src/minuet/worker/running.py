"""Running a node: from its config to an outcome.

This is the border to user code: whatever a document, an input, a handler or a service raises
becomes the node's outcome. What still leaves is a cancellation by the worker, LeaseLost, an
outage of the worker's own store, or a KeyboardInterrupt.

Only calls that the worker makes to its own store may report that the store is not available. A
handler may use stores of its own, and their errors are the handler's.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor as ThreadPool
from typing import Any

import msgspec

from minuet.bridge.values import encode
from minuet.errors import HandlerError, LeaseLost, OutputError
from minuet.kernel.settle import AttemptFailed, Outcome, Succeeded, Waiting
from minuet.nodes.context import Context
from minuet.nodes.masking import NO_MASK
from minuet.nodes.spec import Call, Wait
from minuet.plan.plan import Node
from minuet.schemas import compile_schema
from minuet.store.base import Store
from minuet.telemetry.observer import Tracer
from minuet.types import Json
from minuet.worker.assignment import Assignment
from minuet.worker.failure import Failures
from minuet.worker.foreach import run_hidden
from minuet.worker.invocation import Invocation, Invocations, Isolated
from minuet.worker.isolation.attempts import IsolatedError, Isolation, TimedOut
from minuet.worker.leftover_threads import LeftoverThreads
from minuet.worker.rendering import make_call, render_config
from minuet.worker.services import mask_output

#: What a node type gets that does the same whatever it is called with.
_NO_CALL = Call({}, {}, None, {})


class Running:
    """Runs the nodes of one worker."""

    def __init__(
        self,
        store: Store,
        tenant: str,
        invocations: Invocations,
        failures: Failures,
        threads: Callable[[], ThreadPool],
        tracer: Tracer,
        isolation: Isolation,
    ) -> None:
        self._store = store
        self._tenant = tenant
        self._invocations = invocations
        self._failures = failures
        self._threads = threads
        self._tracer = tracer
        self._isolation = isolation
        self._leftover = LeftoverThreads()

    def run_inline(self, assignment: Assignment, node: Node) -> Outcome:
        """Run a node that awaits nothing."""
        node_type = assignment.facts.node_type
        assert node_type is not None
        assert node_type.run is not None
        try:
            config = render_config(assignment, node)
            call = _NO_CALL if node_type.is_constant else make_call(assignment, node, config)
            return _outcome_of(assignment, node_type.run(call))
        except Exception as error:
            # Any error here is the node's, not the worker's.
            return self._failures.outside_handler(assignment, error)

    def run_hidden(self, assignment: Assignment, node: Node) -> Outcome:
        """Run a part of a foreach that no author wrote."""
        try:
            return run_hidden(assignment, node)
        except Exception as error:
            return self._failures.outside_handler(assignment, error)

    def run(self, assignment: Assignment, node: Node) -> Coroutine[Any, Any, Outcome]:
        """Run a node's handler, or the I/O of its type."""
        run = self._run_traced if self._tracer.is_on else self._run
        return run(assignment, node)

    async def _run_traced(self, assignment: Assignment, node: Node) -> Outcome:
        with self._tracer.executing(assignment.grant, assignment.header, node.type) as fail:
            outcome = await self._run(assignment, node)
            if isinstance(outcome, AttemptFailed):
                fail(outcome.error)
            return outcome

    async def _run(self, assignment: Assignment, node: Node) -> Outcome:
        try:
            invocation = self._invocations.of(assignment, node)
        except HandlerError as error:
            return AttemptFailed(
                self._failures.outside_handler(assignment, error).error, reason="no_handler"
            )
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            # The next attempt would fail in the same way.
            return AttemptFailed(self._failures.outside_handler(assignment, error).error)
        if invocation.has_effects and not await self._store.wait_until_durable(
            self._tenant, assignment.held
        ):
            invocation.context.cancel()
            raise LeaseLost()
        if invocation.soft_ms is not None or invocation.timeout_ms is not None:
            now = asyncio.get_running_loop().time
            invocation.context.limit_time(now, invocation.soft_ms, invocation.timeout_ms)
        try:
            if invocation.isolated is not None:
                return await self._run_isolated(assignment, invocation, invocation.isolated)
            if not invocation.is_async:
                return await self._run_in_thread(assignment, invocation)
            if invocation.timeout_ms is not None:
                return await self._run_with_timeout(assignment, invocation, invocation.timeout_ms)
            result = await invocation.function(*invocation.positional, **invocation.named)
            return _outcome_of(assignment, result, invocation.output_schema)
        except asyncio.CancelledError as error:
            if assignment.is_ended:
                raise
            return self._failures.in_handler(assignment, error)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            if _is_workers(error, invocation.context):
                raise
            return self._failures.in_handler(assignment, error)
        finally:
            invocation.context.end_output()

    async def _run_with_timeout(
        self, assignment: Assignment, invocation: Invocation, timeout_ms: int
    ) -> Outcome:
        try:
            async with asyncio.timeout(timeout_ms / 1000) as limit:
                result = await invocation.function(*invocation.positional, **invocation.named)
                return _outcome_of(assignment, result, invocation.output_schema)
        except TimeoutError:
            if limit.expired():
                return self._failures.time_out(assignment, timeout_ms)
            raise

    async def _run_isolated(
        self, assignment: Assignment, invocation: Invocation, isolated: Isolated
    ) -> Outcome:
        try:
            assignment.output = await self._isolation.call(
                isolated.task,
                isolated.config,
                invocation.context,
                soft_ms=invocation.soft_ms,
                hard_ms=invocation.timeout_ms,
                memory_mb=isolated.memory_mb,
            )
        except TimedOut:
            left = "; its process was killed"
            return self._failures.time_out(assignment, invocation.timeout_ms or 0, left)
        except IsolatedError as error:
            if not error.is_outside:
                return self._failures.elsewhere(assignment, error.examined)
            reason = "no_handler" if error.is_missing else None
            return AttemptFailed(error.examined.record, reason=reason)
        return Succeeded(msgspec.json.decode(assignment.output))

    async def _run_in_thread(self, assignment: Assignment, invocation: Invocation) -> Outcome:
        timeout_ms = invocation.timeout_ms
        seconds = None if timeout_ms is None else timeout_ms / 1000
        if not invocation.overlap and not await self._leftover.wait(assignment, seconds):
            left = ": it could not begin, because the one before still runs"
            return self._failures.time_out(assignment, timeout_ms or 0, left)
        call = functools.partial(contextvars.copy_context().run, _call, invocation)
        loop = asyncio.get_running_loop()
        thread = assignment.thread = loop.run_in_executor(self._threads(), call)
        done, _ = await asyncio.wait((thread,), timeout=seconds)
        if not done:
            # A thread cannot be stopped. Its context says so, and what it returns is dropped.
            invocation.context.cancel()
            self._leftover.keep(assignment)
            left = "; its thread cannot be stopped and still runs"
            return self._failures.time_out(assignment, timeout_ms or 0, left)
        result, error = thread.result()
        if error is not None:
            if _is_workers(error, invocation.context):
                raise error
            # Not raised here: a coroutine cannot raise StopIteration, and a KeyboardInterrupt
            # is the handler's own, because a thread gets no Ctrl-C.
            return self._failures.in_handler(assignment, error)
        return _outcome_of(assignment, result, invocation.output_schema)


def _call(invocation: Invocation) -> tuple[Any, Any]:
    """Call a sync handler in its thread; exceptions come back as values, because a future
    cannot carry StopIteration and a thread must not end by SystemExit."""
    try:
        return invocation.function(*invocation.positional, **invocation.named), None
    except BaseException as error:
        return None, error


def _is_workers(error: BaseException, context: Context) -> bool:
    """Whether an exception that came out of a handler is the worker's own: its store is not
    available, or it has cancelled the handler."""
    return error is context.outage or (context.cancelled and isinstance(error, LeaseLost))


def _outcome_of(
    assignment: Assignment, value: Any, schema: dict[str, Any] | None = None
) -> Outcome:
    """What a node has returned, turned into JSON and checked against the schema of its node type.
    This may run the user's code."""
    # Only handlers and types with I/O have a context, and only they may read secrets.
    mask = assignment.context.mask if assignment.context is not None else NO_MASK
    if issubclass(type(value), Wait):
        _, data = mask_output(mask, *encode(value.data), f"what {assignment} waits with")
        return Waiting(value.kind, mask(value.key), value.due_ms, value.delay_ms, data)
    assignment.output, plain = encode(value, bytes_max=assignment.facts.max_output_bytes)
    if mask is not NO_MASK:
        assignment.output, plain = mask_output(
            mask, assignment.output, plain, f"the output of {assignment}"
        )
    if schema:
        _check_output(schema, plain)
    return Succeeded(plain)


def _check_output(schema: dict[str, Any], value: Json) -> None:
    problems = compile_schema(msgspec.json.encode(schema)).find_problems(value, "output")
    if problems:
        raise OutputError(f"the output does not fit its node type: {'; '.join(problems)}")
