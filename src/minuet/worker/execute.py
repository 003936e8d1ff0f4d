"""What happens with a token between the grant and the hand-in, as a pipeline of named steps.

    find the program and node ─► render config ─► run ─► encode ─► settle ─► item

Node types of kind `inline` go through it at once, on the event loop; handlers run as tasks or
in threads. This is the border to user code: whatever a handler raises becomes an outcome.
"""

from __future__ import annotations

import asyncio
import copy
import logging
import os
from collections.abc import Callable
from concurrent.futures import Executor as ThreadPool
from typing import Any

import msgspec

from minuet.errors import (
    ExpressionError,
    HandlerError,
    LeaseLost,
    MinuetError,
    OutputError,
    RunNotFoundError,
    StoreUnavailableError,
)
from minuet.ids import Ids
from minuet.kernel.settle import (
    Failed,
    Outcome,
    Sent,
    Settlement,
    Skipped,
    Succeeded,
    Waiting,
    settle,
)
from minuet.nodes.catalog import NODE_TYPES
from minuet.nodes.context import Context
from minuet.nodes.handler import Handlers, Task
from minuet.nodes.spec import Call, NodeType, Wait
from minuet.plan.plan import Node, Retry
from minuet.store.base import Store
from minuet.store.blob import blob_value
from minuet.store.records import Failed as BrokenItem
from minuet.store.records import Held, Item, Released, Slot
from minuet.templates import compile_template
from minuet.types import Json
from minuet.worker.failure import crash_loop, describe, failure_of, timed_out
from minuet.worker.job import Job
from minuet.worker.output import encode_value, needs_blob, to_json
from minuet.worker.programs import Loaded, Programs

#: Leases of one token that may expire before it counts as killing its workers.
CRASHES_MAX = 3

#: Shortest and longest pause before a large output is put away again, and how often to say so.
KEEP_S = (0.05, 5.0)
TELL_S = 60.0

_log = logging.getLogger("minuet.worker")

#: How nodes are retried when nobody says anything.
RETRY_DEFAULT = Retry()


class Executor:
    """Turns jobs into items to hand in."""

    def __init__(
        self,
        *,
        store: Store,
        tenant: str,
        handlers: Handlers,
        ids: Ids,
        programs: Programs,
        threads: Callable[[], ThreadPool],
        crashes_max: int = CRASHES_MAX,
        retry: Retry = RETRY_DEFAULT,
    ) -> None:
        self._store = store
        self._tenant = tenant
        self._handlers = handlers
        self._ids = ids
        self._programs = programs
        self._threads = threads
        self._crashes_max = crashes_max
        #: What documents that leave it open were compiled with here.
        self._retry = retry

    # ── at once, or as a task ───────────────────────────────────────────────────────────

    def execute_now(self, job: Job) -> Item | None:
        """Settle the token without awaiting anything; None when that cannot be done."""
        job.loaded = self._programs.get(job.header.plan)
        if job.loaded is None:
            return None
        node = job.node = job.loaded.program.nodes.get(job.grant.node)
        if job.grant.cursor and job.missing_blobs():
            return None
        outcome = self._known_outcome(job)
        if outcome is None:
            assert node is not None
            node_type = NODE_TYPES.get(node.type)
            if node_type is None or node_type.run is None or node.config_ref is not None:
                return None
            if (node.concurrency is not None and not job.holds_slot) or job.missing_blobs():
                return None
            outcome = self._run_inline(job, job.loaded, node, node_type)
        job.outcome = outcome
        item = self._finish(job)
        if item is None:
            # Its output must be put away first. `execute` makes it again.
            job.outcome = None
        return item

    async def execute(self, job: Job) -> Item | None:
        """Run the token's node; None when the token is no longer ours."""
        try:
            job.outcome = await self._outcome(job)
        except asyncio.CancelledError:
            if not (job.abandoned or job.releasing):
                raise
        except StoreUnavailableError:
            job.releasing = True
        except LeaseLost as error:
            if job.context is not None and job.context.cancelled:
                # Not the handler's own idea. If the lease is not lost after all, others may go on.
                job.releasing = True
            else:
                job.outcome = failure_of(error)
        except MinuetError as error:
            job.outcome = failure_of(error)
        if job.abandoned:
            return None
        if job.releasing or job.outcome is None:
            return Released(*job.token)
        if job.loaded is None and isinstance(job.outcome, Failed):
            return BrokenItem(*job.token, job.outcome.error, "no_plan")
        try:
            return self._finish(job) or await self._finish_large(job)
        except asyncio.CancelledError:
            if not (job.abandoned or job.releasing):
                raise
            return None if job.abandoned else Released(*job.token)
        except RunNotFoundError:
            return None  # It was ended and deleted meanwhile.

    async def load(self, job: Job) -> None:
        """Find the job's program and node on its run's present plan."""
        job.loaded = await self._programs.load(
            job.header.plan, run=job.grant.run, tenant=self._tenant
        )
        job.node = job.loaded.program.nodes.get(job.grant.node)

    async def _outcome(self, job: Job) -> Outcome:
        if job.loaded is None:
            await self.load(job)
        assert job.loaded is not None
        await self._load_blobs(job)
        known = self._known_outcome(job)
        if known is not None:
            return known
        node = job.node
        assert node is not None
        if job.loaded.needs_config(node):
            assert node.config_ref is not None
            data = await self._store.get_blob(node.config_ref, tenant=self._tenant)
            if data is None:
                return failure_of(HandlerError(f"the config {node.config_ref} is not in the store"))
            job.loaded.keep_config(node, _read_config(node.config_ref, data))
        node_type = NODE_TYPES.get(node.type)
        if node_type is not None and node_type.run is not None:
            return self._run_inline(job, job.loaded, node, node_type)
        return await self._run_handler(job, job.loaded, node)

    async def _load_blobs(self, job: Job) -> None:
        for ref in job.missing_blobs():
            data = await self._store.get_blob(ref, run=job.grant.run, tenant=self._tenant)
            if data is None:
                raise HandlerError(f"the blob {ref} is not in the store")
            job.blobs[ref] = data

    def _known_outcome(self, job: Job) -> Outcome | None:
        """What can be said without running anything."""
        grant = job.grant
        if grant.skip:
            return Skipped()
        if job.node is None:
            error = {"code": "unknown_node", "message": f"the plan has no node {grant.node!r}"}
            return Failed(error)
        if grant.cursor:
            own = next(o for o in grant.reads if (o.node, o.scope) == (grant.node, grant.scope))
            job.output = own.data
            return Succeeded(job.value(own.data))
        if grant.expiry >= self._crashes_max and not _is_inline(job.node):
            return crash_loop(grant.expiry)
        return None

    # ── running ─────────────────────────────────────────────────────────────────────────

    def _render(self, job: Job, loaded: Loaded, node: Node) -> Json:
        config = loaded.config(node)
        if config.is_constant:
            return config.render({}, {})
        return config.render(job.outputs(), self._template_variables(job, node))

    def _template_variables(self, job: Job, node: Node) -> dict[str, Json]:
        return {
            "input": job.input(),
            "run": job.run_variable(),
            "iteration": job.scope[-1] if job.scope else 0,
        }

    def _run_inline(self, job: Job, loaded: Loaded, node: Node, node_type: NodeType) -> Outcome:
        assert node_type.run is not None
        try:
            config = self._render(job, loaded, node)
            call = Call(config, job.inputs(), job.input(), job.outputs(), job.resolution())
            return _outcome_of(node_type.run(call))
        except Exception as error:
            # Whatever it is, it is this node's trouble and not the worker's.
            return failure_of(error)

    async def _run_handler(self, job: Job, loaded: Loaded, node: Node) -> Outcome:
        try:
            task = self._find_handler(node)
            # A handler may change what it is given; the plan's config is for everybody.
            config = self._render(job, loaded, node)
            config = copy.deepcopy(config) if config else {}
            loop = None if task.is_async else asyncio.get_running_loop()
            job.context = self._context(job, node, loop)
            arguments = task.bind(config, job.context)
        except HandlerError as error:
            return Failed(describe(error, error.code), reason="no_handler")
        except (ExpressionError, OutputError) as error:
            return failure_of(error)
        timeout_ms = node.timeout_ms
        if timeout_ms is None and task.timeout is not None:
            timeout_ms = int(task.timeout * 1000)
        if task.effects != "none" and not await self._store.wait_until_durable(
            self._tenant, job.held
        ):
            job.context.cancel()
            raise LeaseLost()
        try:
            if task.is_async and timeout_ms is None:
                return _outcome_of(await task.function(**arguments))
            if task.is_async:
                return await self._run_with_timeout(task, arguments, timeout_ms or 0)
            return await self._run_in_thread(job, task, arguments, timeout_ms)
        except asyncio.CancelledError as error:
            if job.abandoned or job.releasing:
                raise
            return failure_of(error)
        except (LeaseLost, KeyboardInterrupt, StoreUnavailableError):
            raise
        except BaseException as error:
            return failure_of(error)

    def _find_handler(self, node: Node) -> Task:
        if node.handler is None:
            raise HandlerError(f"node {node.id!r} names no handler")
        return self._handlers.find(node.handler)

    async def _run_with_timeout(
        self, task: Task, arguments: dict[str, Any], timeout_ms: int
    ) -> Outcome:
        try:
            async with asyncio.timeout(timeout_ms / 1000) as limit:
                return _outcome_of(await task.function(**arguments))
        except TimeoutError:
            if limit.expired():
                return timed_out(timeout_ms)
            raise

    async def _run_in_thread(
        self, job: Job, task: Task, arguments: dict[str, Any], timeout_ms: int | None
    ) -> Outcome:
        loop = asyncio.get_running_loop()
        job.thread = loop.run_in_executor(self._threads(), _call, task.function, arguments)
        seconds = None if timeout_ms is None else timeout_ms / 1000
        done, _ = await asyncio.wait((job.thread,), timeout=seconds)
        if not done:
            # A thread cannot be stopped. It is told, and what it returns is dropped.
            assert timeout_ms is not None
            assert job.context is not None
            job.context.cancel()
            return timed_out(timeout_ms)
        result, error = job.thread.result()
        if isinstance(error, LeaseLost | StoreUnavailableError):
            raise error
        if error is not None:
            # Not raised here: a coroutine cannot raise StopIteration, and a KeyboardInterrupt
            # is the handler's own, because a thread gets no Ctrl-C.
            return failure_of(error)
        return _outcome_of(result)

    def _context(self, job: Job, node: Node, loop: asyncio.AbstractEventLoop | None) -> Context:
        return Context(
            services=self,
            run_id=job.grant.run,
            workflow=job.header.workflow,
            node_id=node.id,
            scope=job.scope,
            scope_text=job.grant.scope,
            attempt=job.grant.attempt,
            lease_id=job.grant.lease,
            inputs=job.inputs,
            input=job.input(),
            secrets=node.secrets,
            loop=loop,
        )

    # ── settling ────────────────────────────────────────────────────────────────────────

    def _finish(self, job: Job) -> Item | None:
        """Make the item; None when a large output must be put away first."""
        outcome = job.outcome
        if isinstance(outcome, Succeeded) and not job.grant.cursor:
            try:
                data = encode_value(outcome.output, bytes_max=self._output_bytes_max(job))
            except OutputError as error:
                outcome = job.outcome = failure_of(error)
            else:
                if needs_blob(data):
                    return None
                job.output = data
        return self.settle(job)

    async def _finish_large(self, job: Job) -> Item:
        assert isinstance(job.outcome, Succeeded)
        data = encode_value(job.outcome.output, bytes_max=self._output_bytes_max(job))
        job.output = blob_value(await self._keep_output(job, data), len(data))
        return self.settle(job)

    async def _keep_output(self, job: Job, data: bytes) -> str:
        """Put a large output away, and do not give up: the handler has run, and would run again.

        It ends when it is kept, when the lease is lost, and when the worker has drained for long
        enough; the last two cancel it.
        """
        pause_s, told_s = KEEP_S[0], None
        while True:
            try:
                return await self._store.put_blob(data, run=job.grant.run, tenant=self._tenant)
            except StoreUnavailableError as error:
                now_s = asyncio.get_running_loop().time()
                if told_s is None or now_s - told_s >= TELL_S:
                    told_s = now_s
                    _log.warning(
                        "the output of node %s of run %s (%d bytes) cannot be stored (%s); it is "
                        "kept in memory and tried again",
                        *(job.grant.node, job.grant.run, len(data), error),
                    )
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, KEEP_S[1])

    def _output_bytes_max(self, job: Job) -> int | None:
        if job.node is None or job.loaded is None:
            return None
        own, plans = job.node.max_output_bytes, job.loaded.program.plan.max_output_bytes
        if own is None or plans is None:
            return plans if own is None else own
        return min(own, plans)

    def settle(self, job: Job) -> Item:
        """Route the job's outcome on its program; again after the run got a new plan."""
        loaded, node, outcome = job.loaded, job.node, job.outcome
        assert loaded is not None
        assert outcome is not None
        if node is None:
            node = Node(id=job.grant.node)
        succeeded = isinstance(outcome, Succeeded)
        settlement = settle(
            loaded.program,
            self._with_policy(node) if isinstance(outcome, Failed) else node,
            job.scope,
            outcome,
            variables=self._condition_variables(job, node) if succeeded else {},
            attempt=job.grant.attempt,
            hop=job.grant.hop,
            cursor=job.grant.cursor,
            fraction=self._ids.fraction(),
        )
        return loaded.translator.item(job.grant, settlement, _payload(job, settlement))

    async def settle_again(self, job: Job) -> Item:
        """Route a result on the run's new plan, without running the node again."""
        try:
            await self.load(job)
        except StoreUnavailableError:
            # Hand in what there is: the store will ask for the new plan again.
            pass
        except MinuetError as error:
            return BrokenItem(*job.token, describe(error, error.code), "no_plan")
        return self.settle(job)

    def _with_policy(self, node: Node) -> Node:
        """The node with its handler's retries, when the document leaves them open."""
        if node.handler is None or node.retry not in (self._retry, RETRY_DEFAULT):
            return node
        try:
            retries = self._handlers.find(node.handler).retries
        except HandlerError:
            return node
        if retries is None:
            return node
        policy = msgspec.structs.replace(node.retry, max_attempts=retries + 1)
        return msgspec.structs.replace(node, retry=policy)

    def _condition_variables(self, job: Job, node: Node) -> dict[str, Json]:
        if node.branch is None and node.loop is None:
            return {}
        if job.context is not None:
            # The handler may have changed what it was given; conditions see what is recorded.
            job.read_again()
        ctx = {name: {"output": output} for name, output in job.outputs().items()}
        return {"ctx": ctx, "input": job.input(), "run": job.run_variable()}

    async def slot_request(self, job: Job) -> Item | None:
        """What to ask for before the node may run; None: nothing (or `execute` will say)."""
        try:
            if job.loaded is None:
                await self.load(job)
        except StoreUnavailableError:
            return Released(*job.token)
        except MinuetError:
            return None
        node, grant = job.node, job.grant
        if node is None or node.concurrency is None or job.holds_slot:
            return None
        if grant.skip or grant.cursor or grant.resolution is not None:
            return None
        try:
            await self._load_blobs(job)
            template = compile_template(node.concurrency.key)
            key = template.render(job.outputs(), self._template_variables(job, node))
        except StoreUnavailableError:
            return Released(*job.token)
        except MinuetError as error:
            job.outcome = failure_of(error)
            return self.settle(job)
        if key is None or key == "":
            return None  # No key, no limit.
        text = key if isinstance(key, str) else msgspec.json.encode(key).decode()
        return Slot(*job.token, text, node.concurrency.limit)

    # ── what contexts ask for ───────────────────────────────────────────────────────────

    async def load_step(self, context: Context, name: str) -> tuple[bool, Json]:
        """A step's result, if it has one."""
        key = (context.run_id, context.node_id, context.scope_text)
        known = (await self._store.read_steps(self._tenant, key)).get(name)
        return (False, None) if known is None else (True, msgspec.json.decode(known))

    async def keep_step(self, context: Context, name: str, value: Json) -> Json:
        """Keep a step's result under the handler's lease."""
        held = Held(context.run_id, context.node_id, context.scope_text, context.lease_id)
        data = encode_value(to_json(value))
        kept = await self._store.record_step(self._tenant, held, name, data)
        if kept is None:
            context.cancel()
            raise LeaseLost(f"step {name!r}: the node is no longer ours")
        return msgspec.json.decode(kept)

    def read_secret(self, name: str) -> str | None:
        """A secret's value, from the worker's environment."""
        return os.environ.get(name)


def _call(function: Callable[..., Any], arguments: dict[str, Any]) -> tuple[Any, Any]:
    """Call a sync handler in its thread; exceptions come back as values, because a future
    cannot carry StopIteration and a thread must not end by SystemExit."""
    try:
        return function(**arguments), None
    except BaseException as error:
        return None, error


def _read_config(ref: str, data: bytes) -> dict[str, Json]:
    """A config that is kept as a blob; HandlerError unless it is a JSON object."""
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise HandlerError(f"the config {ref} is no JSON object: {error}") from None


def _is_inline(node: Node) -> bool:
    """Whether a node runs no code of the user's. It cannot kill a worker, so it never is why its
    workers died."""
    node_type = NODE_TYPES.get(node.type)
    return node_type is not None and node_type.run is not None


def _outcome_of(value: Any) -> Outcome:
    if isinstance(value, Wait):
        return Waiting(value.kind, value.key, value.due_ms, value.delay_ms, value.data)
    return Succeeded(to_json(value))


def _payload(job: Job, settlement: Settlement) -> bytes:
    """The encoded output (or what a waiting node leaves for others to see)."""
    if isinstance(settlement, Sent) and settlement.outcome == "completed":
        return job.output
    if isinstance(settlement, Sent) and settlement.outcome == "failed":
        return encode_value(settlement.output)
    if isinstance(settlement, Waiting):
        return encode_value(settlement.data)
    return b"null"
