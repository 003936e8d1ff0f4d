"""Durable functions, run by a worker.

The code of a function runs in turns (`functions.instance`). Between two turns the worker keeps
what the code has got (`flow_journal`), in one call, and only then starts what it has asked for:
steps (`flow_steps`), child runs and signals (`flow_inbox`). So an effect never follows from a
result that could be lost. If the code waits for nothing that runs here, the function is left, and
its token waits in the store for a time, a signal or the end of a child run (`flow_waits`).
"""

from __future__ import annotations

import asyncio
import contextvars
from asyncio import _enter_task, _leave_task
from collections.abc import Callable, Sequence
from concurrent.futures import Executor as ThreadPool
from functools import partial
from typing import Any
from uuid import UUID

from minuet.bridge.values import encode
from minuet.functions.flow import Flow
from minuet.functions.function import Function
from minuet.functions.instance import Call, FunctionInstance
from minuet.functions.journal import Journal
from minuet.ids import Ids
from minuet.nodes.context import Context
from minuet.nodes.handler import Handlers
from minuet.nodes.masking import NO_MASK
from minuet.nodes.spec import Wait
from minuet.store.base import Store
from minuet.worker.children import Children
from minuet.worker.flow_arrivals import Arrival, Arrivals
from minuet.worker.flow_inbox import FlowInbox
from minuet.worker.flow_journal import FlowJournal, Restart
from minuet.worker.flow_steps import FlowSteps, StepServices
from minuet.worker.flow_waits import describe_waiting, make_wait
from minuet.worker.isolation.attempts import Isolation
from minuet.worker.policy import Policies
from minuet.worker.recording import StepRecorder
from minuet.worker.services import mask_output


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
        isolation: Isolation,
    ) -> None:
        self.store = store
        self.tenant = tenant
        self.children = children
        self.recorder = recorder
        self.services = StepServices(policies, handlers, threads, ids, now_ms, isolation)
        self.ids = ids
        self.now_ms = now_ms

    async def run(
        self,
        function: Function[Any, Any],
        arguments: dict[str, Any],
        context: Context,
        *,
        is_new: bool,
        was_left: bool,
    ) -> Any:
        """What the function returns, or what its token is to wait for. `is_new`: it has no journal
        yet. `was_left`: what it waited for has come."""
        while True:
            run = FlowRun(self, function, arguments, context, is_new=is_new, was_left=was_left)
            try:
                return await run.run()
            except Restart:
                is_new = False
            finally:
                await run.leave()


class FlowRun:
    """One function instance in the hands of a worker."""

    def __init__(
        self,
        flows: Flows,
        function: Function[Any, Any],
        arguments: dict[str, Any],
        context: Context,
        *,
        is_new: bool,
        was_left: bool,
    ) -> None:
        self._flows = flows
        self._was_left = was_left
        self._function = function
        self._arguments = arguments
        self._context = context
        store, tenant = flows.store, flows.tenant
        self._kept = FlowJournal(store, tenant, flows.recorder, context, is_new=is_new)
        self._arrivals = Arrivals()
        self._steps = FlowSteps(flows.services, context, self._kept, self._arrivals)
        self._instance: FunctionInstance | None = None
        self._inbox: FlowInbox | None = None
        #: Events of signals that entries have received, by the entries' keys.
        self._received: dict[str, int] = {}

    # ── the way ─────────────────────────────────────────────────────────────────────────

    async def run(self) -> Any:
        """Run until the function ends, or waits."""
        flows, context = self._flows, self._context
        journal = Journal(await self._kept.load(), (context.generation, context.attempt))
        instance = self._instance = FunctionInstance(journal, self, self._function.place)
        instance.was_left = self._was_left
        self._inbox = FlowInbox(
            flows.store,
            flows.tenant,
            flows.children,
            context,
            self._kept,
            instance,
            self._arrivals,
        )
        flow = Flow(
            instance,
            run_id=context.run_id,
            workflow=context.workflow,
            node_id=context.node_id,
            tags=context.tags,
        )
        instance.begin(partial(self._function.function, flow, **self._arguments))
        while True:
            self._turn()
            asked, is_over = instance.take_asked(), instance.is_over
            await self._keep()
            if is_over or instance.cancelled:
                await self._cancel(is_over=is_over)
            if is_over:
                return instance.result()
            await self._start(asked)
            self._steps.start_due()
            if self._arrivals or self._is_due():
                continue
            if not self._steps.are_running:
                return self._wait()
            await self._until_something()

    async def leave(self) -> None:
        """Stop what runs, and drop the code."""
        if self._inbox is not None:
            self._inbox.leave()
            self._inbox = None
        await self._steps.stop_all()
        if self._instance is not None:
            _off_task(self._instance.close)
            # The two know each other. Collecting such pairs costs more than this.
            self._instance = None

    def _turn(self) -> None:
        """Run the code until it waits for what is not here."""
        _off_task(self._pump)
        if self._arrivals.fatal is not None:
            raise self._arrivals.fatal

    def _pump(self) -> None:
        instance = self._instance
        assert instance is not None
        instance.turn()
        instance.was_left = False
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

    def _next_arrival(self) -> Arrival | None:
        instance = self._instance
        assert instance is not None
        arrival = self._arrivals.take(instance)
        if arrival is not None or not instance.has_timers:
            return arrival
        now_ms = self._flows.now_ms()
        due = [call for call in instance.timers() if call.due_ms <= now_ms]
        first = min(due, key=lambda call: (call.due_ms, call.occurrence), default=None)
        return None if first is None else Arrival(first, {})

    def _is_due(self) -> bool:
        assert self._instance is not None
        if not self._instance.has_timers:
            return False
        now_ms = self._flows.now_ms()
        return any(call.due_ms <= now_ms for call in self._instance.timers())

    def _next_due_ms(self) -> int | None:
        """When the next timer is over, or a step is to be tried again."""
        assert self._instance is not None
        times = [call.due_ms for call in self._instance.timers()]
        retry_ms = self._steps.next_due_ms()
        return min(times if retry_ms is None else [*times, retry_ms], default=None)

    async def _until_something(self) -> None:
        """Wait until a step has ended, or something else has come."""
        assert self._inbox is not None
        due_ms = self._next_due_ms()
        delay = None if due_ms is None else max(0.0, (due_ms - self._flows.now_ms()) / 1000)
        self._inbox.watch()
        await self._arrivals.wait(delay)

    async def _keep(self) -> None:
        """Keep what the code has got, and wait until that is durable."""
        assert self._instance is not None
        unsaved = self._instance.journal.take_unsaved()
        if unsaved:
            await self._kept.keep(unsaved, self._received)

    # ── what the code asks for ──────────────────────────────────────────────────────────

    async def _start(self, asked: Sequence[Call]) -> None:
        assert self._instance is not None
        assert self._inbox is not None
        is_alone = len(asked) == len(self._instance.waiting) == 1
        has_come = False
        for call in asked:
            if call.kind == "step":
                if is_alone:
                    await self._steps.run_alone(call)
                else:
                    self._steps.start(call)
            elif call.kind != "timer":
                if call.kind == "child":
                    await self._inbox.start_child(call)
                has_come = True
        if has_come:
            await self._inbox.look()

    async def _cancel(self, *, is_over: bool) -> None:
        """Stop steps and child runs that the code no longer waits for: all, once it is over."""
        assert self._instance is not None
        assert self._inbox is not None
        cancelled, self._instance.cancelled = self._instance.cancelled, []
        if is_over:
            cancelled += self._instance.waiting.values()
        for call in cancelled:
            if call.kind == "step":
                self._steps.stop(call)
            elif call.kind == "child":
                await self._inbox.cancel_child(call)

    def _wait(self) -> Wait:
        """What the token is to wait for."""
        assert self._instance is not None
        assert self._inbox is not None
        described = describe_waiting(self._instance, self._inbox.children, self._steps.paused)
        names = list(self._inbox.awaited())
        return make_wait(names, self._next_due_ms(), self._flows.now_ms(), described)

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


def _off_task(function: Callable[[], None]) -> None:
    """Call something outside of the current task: while the code of a function runs, which has a
    loop and tasks of its own, no task of this loop may be the current one. Python documents the
    two functions for those who extend asyncio; from 3.14 on a thread has one current task, and
    not one for each loop."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    _leave_task(loop, task)
    try:
        # In a context of its own: the code must not see what this worker has set.
        contextvars.Context().run(function)
    finally:
        _enter_task(loop, task)
