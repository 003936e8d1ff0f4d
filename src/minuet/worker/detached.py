"""Run handlers without a store: for a worker over HTTP.

A server takes the tokens, renders configs and routes results; what is left is the call of a
handler. It is made by the same code as in every worker (`running`, `invocation`): the context,
threads, processes of their own, time limits and errors are the same.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec

from minuet.bridge.programs import Config, Facts
from minuet.errors import CannotWaitError, LeaseLost
from minuet.kernel.scope import encode
from minuet.kernel.settle import AttemptFailed, Succeeded
from minuet.nodes.handler import Handlers
from minuet.nodes.services import Services
from minuet.plan.plan import Node
from minuet.store.exchange import Grant, RunHeader
from minuet.telemetry.observer import Tracer
from minuet.types import Json, Scope
from minuet.worker.assignment import Assignment
from minuet.worker.failure import Examined, Failures, examine
from minuet.worker.invocation import Invocations
from minuet.worker.isolation.attempts import Isolation
from minuet.worker.policy import Policies, Policy
from minuet.worker.raised import RaisedHere
from minuet.worker.running import Running


class Task(msgspec.Struct, frozen=True):
    """What a server hands out. A newer one may send more."""

    task: str
    run_id: str
    node_id: str
    scope: tuple[int, ...]
    handler: str
    config: dict[str, Any]
    inputs: dict[str, Any]
    input: Any
    attempt: int
    lease_ms: int


class Finished(msgspec.Struct, frozen=True):
    """What became of a task: the output as JSON, or an error. None of both: it is given back."""

    task: Task
    output: bytes | None = None
    error: Examined | None = None


class _Assignment(Assignment, eq=False):
    """A task, in the form in which workers work on tokens."""

    given_inputs: dict[str, Json] = msgspec.field(default_factory=dict)
    given_input: Json = None

    def inputs(self) -> dict[str, Json]:
        return dict(self.given_inputs)

    def input(self) -> Json:
        return self.given_input


def _assign(task: Task, node: Node) -> _Assignment:
    scope: Scope = tuple(task.scope)
    return _Assignment(
        Grant(task.run_id, task.node_id, encode(scope), task.task, attempt=task.attempt),
        RunHeader(task.run_id, "", ""),
        node=node,
        facts=Facts(node, None),
        # It is rendered: nothing in it is a template any more.
        config=Config(task.config, tuple(task.config)),
        given_inputs=task.inputs,
        given_input=task.input,
    )


class _Errors(Failures):
    """Keeps errors as data: the server decides by the node's policy."""

    def _fail(self, assignment: Assignment, error: BaseException, policy: Policy) -> AttemptFailed:
        return AttemptFailed({"examined": examine(error, self._mask(assignment))})


class _Durable:
    """Stands for the store: the server hands out only what is durable."""

    async def wait_until_durable(self, *_: Any) -> bool:
        return True


class DetachedHandlers:
    """Calls the handlers of a process for tasks that come from a server."""

    def __init__(self, handlers: Handlers, services: Services, concurrency: int) -> None:
        self._handlers = handlers
        self._concurrency = concurrency
        self._threads: ThreadPoolExecutor | None = None
        self._isolation = Isolation(services)
        policies = Policies(handlers, Policy().retry)
        store: Any = _Durable()
        flows: Any = None  # A durable function needs the store.
        self._running = Running(
            store,
            "",
            Invocations(handlers, services, flows),
            _Errors(policies, services.read_secret, RaisedHere()),
            self._thread_pool,
            Tracer(),
            self._isolation,
        )
        self._assignments: dict[str, _Assignment] = {}

    @property
    def executors(self) -> list[str]:
        """What it runs: handlers, and node types that are registered here."""
        ours = {name for name in self._handlers.names() if self._handlers.find(name).is_ours}
        names = {*self._handlers.names(), *self._handlers.functions()} - ours
        return sorted({*names, *(f"type:{name}" for name in self._handlers.types())})

    @property
    def retries(self) -> dict[str, int]:
        """How often handlers are tried again, as their authors say."""
        found = {name: self._handlers.find(name).retries for name in self._handlers.names()}
        return {name: retries for name, retries in found.items() if retries is not None}

    async def run(self, task: Task) -> Finished:
        """Call a handler. What it raises is an answer; CancelledError and LeaseLost are raised if
        `abandon` was called."""
        is_type = self._handlers.find_type(task.handler) is not None
        node = Node(task.node_id, task.handler) if is_type else _task_node(task)
        assignment = self._assignments[task.task] = _assign(task, node)
        assignment.task = asyncio.current_task()
        try:
            outcome = await self._running.run(assignment, node)
        finally:
            del self._assignments[task.task]
        if isinstance(outcome, Succeeded):
            return Finished(task, output=assignment.output)
        if isinstance(outcome, AttemptFailed):
            found = outcome.error.get("examined")
            if not isinstance(found, Examined):
                # A time limit, or a handler that is not here: data already.
                found = Examined(outcome.error, "open", (outcome.error.get("type", ""),))
            return Finished(task, error=found)
        return Finished(task, error=examine(CannotWaitError(task.handler)))

    def abandon(self, task_id: str) -> None:
        """Stop a handler; nobody wants its result."""
        found = self._assignments.get(task_id)
        if found is not None:
            found.abandon(is_lost=True)

    def unfinished(self) -> list[str]:
        """The node instances whose handlers run, in words."""
        return [str(one) for one in self._assignments.values()]

    def _thread_pool(self) -> ThreadPoolExecutor:
        if self._threads is None:
            prefix = "minuet-handler"
            self._threads = ThreadPoolExecutor(self._concurrency, thread_name_prefix=prefix)
        return self._threads

    async def close(self) -> None:
        """End its threads and processes."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
        await self._isolation.close()


def _task_node(task: Task) -> Node:
    return Node(task.node_id, handler=task.handler)


#: What `run` raises after `abandon`.
STOPPED = (asyncio.CancelledError, LeaseLost)
