"""What happens with a token between the grant and the hand-in, as a pipeline of named steps.

    find the program and node ─► render config ─► run ─► encode ─► settle ─► item

Node types of kind `inline` go through it at once, on the event loop; handlers run as tasks or
in threads. This is the border to user code: whatever a document, an input or a handler raises
becomes the node's outcome. What still leaves `execute_now`, `slot_request`, `execute` or `settle`
is a bug of ours, a cancellation by the worker, or a KeyboardInterrupt.

Only calls that are made here, to the worker's own store, may say that the store is away. A
handler may use stores of its own, and their trouble is the handler's.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import copy
import functools
import logging
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Executor as ThreadPool
from typing import Any

import msgspec

from minuet.bridge.programs import Loaded, Programs
from minuet.bridge.values import encode, encode_value, needs_blob
from minuet.errors import (
    DamagedRowError,
    HandlerError,
    InputLimitError,
    LeaseLost,
    MinuetError,
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
from minuet.nodes.handler import AnyTask, Handlers
from minuet.nodes.spec import Call, NodeType, Wait
from minuet.plan.plan import RETRY_DEFAULT, Node, Retry
from minuet.store.base import Store
from minuet.store.blob import blob_value
from minuet.store.records import INPUT_BYTES_MAX, Held, Item, Released, Slot
from minuet.store.records import Failed as BrokenItem
from minuet.templates import compile_template
from minuet.types import Json
from minuet.worker.abandoned import Left
from minuet.worker.failure import UNWRITTEN, Policy, crash_loop, failure_of, timed_out
from minuet.worker.job import Job

#: Leases of one token that may expire before it counts as killing its workers.
CRASHES_MAX = 3

#: Shortest and longest pause before a large output is put away again, and how often to say so.
KEEP_S = (0.05, 5.0)
TELL_S = 60.0

_log = logging.getLogger("minuet.worker")


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
        self._left = Left()
        #: What documents that leave it open were compiled with here.
        self._retry = retry

    # ── at once, or as a task ───────────────────────────────────────────────────────────

    def execute_now(self, job: Job) -> Item | None:
        """Settle the token without awaiting anything; None when that cannot be done."""
        try:
            return self._execute_now(job)
        except Exception as error:
            if job.loaded is None:
                raise
            return self._settle_error(job, error)

    def _execute_now(self, job: Job) -> Item | None:
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
            # Its output must be put away first, by `execute`.
            job.outcome = None
        return item

    async def execute(self, job: Job) -> Item | None:
        """Run the token's node; None when the token is no longer ours."""
        try:
            if job.large is None:
                job.outcome = await self._outcome(job)
            else:
                # It was run by `execute_now`.
                job.outcome = job.large
        except asyncio.CancelledError:
            if not (job.abandoned or job.releasing):
                raise
        except StoreUnavailableError:
            # Ours: `_run_handler` has turned everything that a handler raised into an outcome.
            job.releasing = True
        except LeaseLost as error:
            if job.context is not None and job.context.cancelled:
                # Not the handler's own idea. If the lease is not lost after all, others may go on.
                job.releasing = True
            else:
                job.outcome = self._failure(job, error)
        except Exception as error:
            job.outcome = self._failure(job, error)
        if job.abandoned:
            return None
        if job.releasing or job.outcome is None:
            return Released(*job.token)
        if job.loaded is None and isinstance(job.outcome, Failed):
            return BrokenItem(*job.token, job.outcome.error, "no_plan")
        try:
            item = self._finish(job) if job.large is None else None
            return item or await self._finish_large(job)
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
                raise HandlerError(f"the config {node.config_ref} is not in the store")
            job.loaded.keep_config(node, _read_config(node.config_ref, data))
        node_type = NODE_TYPES.get(node.type)
        if node_type is not None and node_type.run is not None:
            return self._run_inline(job, job.loaded, node, node_type)
        return await self._run_handler(job, job.loaded, node)

    async def _load_blobs(self, job: Job) -> None:
        missing = job.missing_blobs()
        if missing or job.grant.oversize:
            job.check_size()
        for ref in missing:
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
        try:
            job.check_rows()
        except DamagedRowError as error:
            return failure_of(error)
        if grant.cursor:
            own = next(o for o in grant.reads if (o.node, o.scope) == (grant.node, grant.scope))
            job.output = own.data
            return Succeeded(job.value(own.data, "its own output"))
        if grant.oversize:
            return failure_of(InputLimitError(grant.oversize, INPUT_BYTES_MAX))
        if grant.expiry >= self._crashes_max and not _is_inline(job.node):
            return crash_loop(grant.expiry)
        return None

    # ── running ─────────────────────────────────────────────────────────────────────────

    def _render(self, job: Job, loaded: Loaded, node: Node) -> Json:
        config = loaded.config(node)
        if config.is_constant:
            return config.render({}, {})
        # What reaches the document's output says when it is due; what it is made of, its reads.
        is_output = node.id == loaded.program.plan.output_node
        outputs = job.reads() if is_output else job.outputs()
        return config.render(outputs, self._template_variables(job, node))

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
            return self._outcome_of(job, node_type.run(call))
        except Exception as error:
            # Whatever it is, it is this node's trouble and not the worker's.
            return self._failure(job, error)

    async def _run_handler(self, job: Job, loaded: Loaded, node: Node) -> Outcome:
        try:
            task = self._find_handler(node)
            # A handler may change what it is given; the plan's config is for everybody.
            config = self._render(job, loaded, node)
            config = copy.deepcopy(config) if config else {}
            loop = None if task.is_async else asyncio.get_running_loop()
            context = job.context = self._context(job, node, loop)
            context.enter()
            arguments = task.bind(config, context)
        except HandlerError as error:
            failed = self._failure(job, error)
            return Failed(failed.error, reason="no_handler")
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            # The arguments' own classes, for example, run code of the user's. It will be the same
            # next time.
            return Failed(self._failure(job, error).error)
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
                return self._outcome_of(job, await task.function(**arguments))
            if task.is_async:
                return await self._run_with_timeout(job, task, arguments, node, timeout_ms or 0)
            return await self._run_in_thread(job, task, arguments, node, timeout_ms)
        except asyncio.CancelledError as error:
            if job.abandoned or job.releasing:
                raise
            return self._failure(job, error, self._policy(node))
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            if _is_workers(error, context):
                raise
            return self._failure(job, error, self._policy(node))

    def _find_handler(self, node: Node) -> AnyTask:
        if node.handler is None:
            raise HandlerError(f"node {node.id!r} names no handler")
        return self._handlers.find(node.handler)

    async def _run_with_timeout(
        self, job: Job, task: AnyTask, arguments: dict[str, Any], node: Node, timeout_ms: int
    ) -> Outcome:
        try:
            async with asyncio.timeout(timeout_ms / 1000) as limit:
                return self._outcome_of(job, await task.function(**arguments))
        except TimeoutError:
            if limit.expired():
                return timed_out(timeout_ms, self._policy(node))
            raise

    async def _run_in_thread(
        self,
        job: Job,
        task: AnyTask,
        arguments: dict[str, Any],
        node: Node,
        timeout_ms: int | None,
    ) -> Outcome:
        assert job.context is not None
        seconds = None if timeout_ms is None else timeout_ms / 1000
        if not task.overlap and not await self._left.wait(job, seconds):
            left = ": it could not begin, because the one before still runs"
            return timed_out(timeout_ms or 0, self._policy(node), left=left)
        call = functools.partial(contextvars.copy_context().run, _call, task.function, arguments)
        loop = asyncio.get_running_loop()
        job.thread = loop.run_in_executor(self._threads(), call)
        done, _ = await asyncio.wait((job.thread,), timeout=seconds)
        if not done:
            # A thread cannot be stopped. It is told, and what it returns is dropped.
            job.context.cancel()
            self._left.keep(job)
            left = "; its thread cannot be stopped and still runs"
            return timed_out(timeout_ms or 0, self._policy(node), left=left)
        result, error = job.thread.result()
        if error is not None:
            if _is_workers(error, job.context):
                raise error
            # Not raised here: a coroutine cannot raise StopIteration, and a KeyboardInterrupt
            # is the handler's own, because a thread gets no Ctrl-C.
            return self._failure(job, error, self._policy(node))
        return self._outcome_of(job, result)

    def _outcome_of(self, job: Job, value: Any) -> Outcome:
        """What a node has returned, turned into JSON, which may run code of the user's."""
        if issubclass(type(value), Wait):
            data = encode(value.data)[1]
            return Waiting(value.kind, value.key, value.due_ms, value.delay_ms, data)
        job.output, plain = encode(value, bytes_max=self._output_bytes_max(job))
        return Succeeded(plain)

    def _failure(self, job: Job, error: BaseException, policy: Policy = UNWRITTEN) -> Failed:
        """The outcome of a node that raised, without the secrets that it may read."""
        names = job.node.secrets if job.node is not None else ()
        secrets = [value for name in names if (value := self.read_secret(name))]
        return failure_of(error, policy, secrets)

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
        if isinstance(job.outcome, Succeeded) and not job.grant.cursor and needs_blob(job.output):
            job.large = job.outcome
            return None
        return self.settle(job)

    async def _finish_large(self, job: Job) -> Item:
        data = job.output
        ref = await self._keep_output(job, data)
        job.output, job.large = blob_value(ref, len(data)), None
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
        try:
            return self._settle(job)
        except Exception as error:
            if isinstance(job.outcome, Failed):
                raise
            return self._settle_error(job, error)

    def _settle_error(self, job: Job, error: Exception) -> Item:
        """What was to be done with a token has raised: that is what became of its node."""
        job.outcome = self._failure(job, error)
        return self._settle(job)

    def _settle(self, job: Job) -> Item:
        loaded, node, outcome = job.loaded, job.node, job.outcome
        assert loaded is not None
        assert outcome is not None
        if node is None:
            node = Node(id=job.grant.node)
        succeeded = isinstance(outcome, Succeeded)
        settlement = settle(
            loaded.program,
            msgspec.structs.replace(node, retry=self._policy(node).retry)
            if isinstance(outcome, Failed)
            else node,
            job.scope,
            outcome,
            variables=self._condition_variables(job, node) if succeeded else {},
            attempt=job.grant.attempt,
            hop=job.grant.hop,
            cursor=job.grant.cursor,
            fraction=self._ids.fraction(),
        )
        # Values that were read are many times as large as their bytes, and jobs wait for the store.
        job.read_again()
        return loaded.translator.item(job.grant, settlement, _payload(job, settlement))

    async def settle_again(self, job: Job) -> Item:
        """Route a result on the run's new plan, without running the node again."""
        try:
            await self.load(job)
        except StoreUnavailableError:
            # Hand in what there is: the store will ask for the new plan again.
            pass
        except MinuetError as error:
            return BrokenItem(*job.token, self._failure(job, error).error, "no_plan")
        return self.settle(job)

    def _policy(self, node: Node) -> Policy:
        """The document's retries, or the handler's own, or those of the settings."""
        # Plans of older versions do not say who wrote a policy; one that is not the default
        # was probably written.
        is_foreign = node.retry_by is None and node.retry not in (self._retry, RETRY_DEFAULT)
        if node.retry_by == "document" or is_foreign:
            return Policy(node.retry, is_written=True)
        try:
            retries = self._find_handler(node).retries
        except HandlerError:
            retries = None
        if retries is None:
            return Policy(node.retry)
        own = msgspec.structs.replace(node.retry, max_attempts=retries + 1)
        return Policy(own, is_written=True)

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
        except Exception:
            return None
        node, grant = job.node, job.grant
        if node is None or node.concurrency is None or job.holds_slot:
            return None
        if grant.skip or grant.cursor or grant.resolution is not None:
            return None
        try:
            job.check_rows()
            await self._load_blobs(job)
            key = self._slot_key(job, node, node.concurrency.key)
        except StoreUnavailableError:
            return Released(*job.token)
        except Exception as error:
            return self._settle_error(job, error)
        return Slot(*job.token, key, node.concurrency.limit) if key else None  # No key, no limit.

    def _slot_key(self, job: Job, node: Node, source: str) -> str:
        """The name of the slot that a node needs; "": none."""
        key = compile_template(source).render(job.outputs(), self._template_variables(job, node))
        data = encode_value(key)
        return key or "" if isinstance(key, str | None) else data.decode()

    # ── what contexts ask for ───────────────────────────────────────────────────────────

    async def load_step(self, context: Context, name: str) -> tuple[bool, Json]:
        """A step's result, if it has one."""
        key = (context.run_id, context.node_id, context.scope_text)
        with _outage_of(context):
            known = (await self._store.read_steps(self._tenant, key)).get(name)
        return (False, None) if known is None else (True, msgspec.json.decode(known))

    def encode_step(self, value: Any) -> bytes:
        """A step's result as JSON."""
        return encode_value(value)

    async def keep_step(self, context: Context, name: str, data: bytes) -> Json:
        """Keep a step's result under the handler's lease."""
        held = Held(context.run_id, context.node_id, context.scope_text, context.lease_id)
        with _outage_of(context):
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


def _is_workers(error: BaseException, context: Context) -> bool:
    """Whether an exception that came out of a handler is the worker's own: its store is away, or
    it has told the handler to stop."""
    return error is context.outage or (context.cancelled and isinstance(error, LeaseLost))


@contextlib.contextmanager
def _outage_of(context: Context) -> Iterator[None]:
    """Remember an outage of the worker's own store, which the handler gets to see as well."""
    try:
        yield
    except StoreUnavailableError as error:
        context.outage = error
        raise


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


def _payload(job: Job, settlement: Settlement) -> bytes:
    """The encoded output (or what a waiting node leaves for others to see)."""
    if isinstance(settlement, Sent) and settlement.outcome == "completed":
        return job.output
    if isinstance(settlement, Sent) and settlement.outcome == "failed":
        return encode_value(settlement.output)
    if isinstance(settlement, Waiting):
        return encode_value(settlement.data)
    return b"null"
