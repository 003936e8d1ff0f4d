"""Child runs, as the node that waits for one sees them: start it, go on with it, read its output.

Each call reads the current state of the child run, so it does not matter how often the node is
called, by whom, or what made it ready. Each attempt of the node stands for a generation of the
child run: the first attempt for the first one, and a later one for the next, unless the child run
is open or has completed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, TypeAlias

import msgspec

from minuet.bridge.history import HistoryReader
from minuet.bridge.programs import Programs
from minuet.bridge.registry import Registry
from minuet.bridge.reporting import PARENT_ENDED, report_named
from minuet.bridge.values import encode, needs_blob
from minuet.errors import (
    ChildDepthError,
    ChildFailedError,
    HandlerError,
    InputError,
    LeaseLost,
    ReplayError,
    RunConflictError,
    RunNotFoundError,
)
from minuet.functions.instance import Call
from minuet.functions.journal import ADVICE
from minuet.kernel.fold import replay
from minuet.kernel.view import run_output, shown_error
from minuet.nodes.context import Context
from minuet.nodes.spec import Wait
from minuet.plan.schema import find_input_problems
from minuet.store.base import Store
from minuet.store.blob import BLOB_PREFIX, blob_ref, blob_value
from minuet.store.changes import Cancel, RetryRun
from minuet.store.exchange import Held, NewStep
from minuet.store.families import child_id
from minuet.store.records import DEPTH_MAX, Key, Run
from minuet.telemetry.observer import Tracer
from minuet.types import TERMINAL, Json
from minuet.worker.contents import copy_to_parent

#: Compiles a workflow that a durable function starts: its plan's digest and bytes, and those of
#: the workflows inside it.
CompileChild: TypeAlias = Callable[[Any], list[tuple[str, bytes]]]

#: How often a child run that changes meanwhile is looked at again.
TRIES = 5


class Children:
    """The child runs that one worker starts."""

    def __init__(
        self,
        store: Store,
        tenant: str,
        programs: Programs,
        *,
        now_ms: Callable[[], int],
        adopt: Callable[[str, Iterable[str]], None],
        compile_child: CompileChild | None = None,
        tracer: Tracer,
    ) -> None:
        self._store = store
        self._tenant = tenant
        self._programs = programs
        #: The estimated time of the store.
        self._now_ms = now_ms
        #: Called with each child run that is started or goes on, and the queues of its plan.
        self._adopt = adopt
        self._compile_child = compile_child
        self._tracer = tracer
        self._reader = HistoryReader(store, tenant)
        self._registry = Registry(store)

    async def run(
        self,
        context: Context,
        workflow: str,
        input: Json,
        *,
        resumed: bool,
        timeout_ms: int | None,
    ) -> Json | Wait:
        """The output of the child run of a node instance, or what to wait for."""
        name = child_id(_instance(context))
        wanted = await self._wanted_generation(context, name)
        child = await self._store.read_run(self._tenant, name) if resumed else None
        if child is None:
            digest, version, tag = await self._find(workflow)
            child = await self._start(context, name, digest, input, timeout_ms, version, tag)
        for _ in range(TRIES):
            if child.status == "COMPLETED":
                output = await self._output(child)
                await copy_to_parent(self._store, self._tenant, name, context.run_id, output)
                return output
            if child.status not in ("FAILED", "CANCELLED"):
                return Wait("child", key=name)
            if child.generation >= wanted and _code(child) != PARENT_ENDED:
                raise ChildFailedError(name, child.status, shown_error(child.error))
            child = await self._retry(context, child, timeout_ms)
        raise RunConflictError(name, "changes too often to be started again", status=child.status)

    # ── of durable functions ────────────────────────────────────────────────────────────

    async def start(
        self, context: Context, number: int, workflow: Any, input: Json, *, asked: Call, ended: int
    ) -> Run:
        """Start a child run of a durable function, the one of this number. A signal reports its
        end, unless the function's run was over at that time.

        `ended` is the generation whose failure is forgotten: the child run is to go on."""
        name = child_id(_instance(context), number)
        child = await self._store.read_run(self._tenant, name)
        if child is None:
            digest, version, tag = await self._find_or_compile(workflow)
            child = await self._start(
                context, name, digest, input, None, version, tag, number=number
            )
        else:
            await self._check(context, child, workflow, input, asked)
        for _ in range(TRIES):
            is_over = child.status in ("FAILED", "CANCELLED")
            if not is_over or (child.generation > ended and _code(child) != PARENT_ENDED):
                return child
            child = await self._retry(context, child, None)
        raise RunConflictError(name, "changes too often to be started again", status=child.status)

    async def cancel(self, context: Context, number: int) -> None:
        """Cancel the child run of a durable function that has this number, if it is open."""
        name = child_id(_instance(context), number)
        child = await self._store.read_run(self._tenant, name)
        if child is None or child.status in TERMINAL:
            return
        with suppress(RunNotFoundError, RunConflictError):  # It is over by now.
            change = Cancel(PARENT_ENDED, by=context.run_id)
            await self._store.change_run(self._tenant, name, change)
            await report_named(self._store, self._tenant, name)

    async def _check(
        self, context: Context, child: Run, workflow: Any, input: Json, asked: Call
    ) -> None:
        """A child run that was started before must be the one that the code asks for."""
        wanted = asked.name
        if child.workflow != wanted:
            digest, _, _ = await self._find_or_compile(workflow)
            loaded = await self._programs.load(digest, run=context.run_id, tenant=self._tenant)
            wanted = loaded.program.plan.name
        if child.workflow != wanted:
            what = f"a run of {child.workflow!r}"
        elif msgspec.json.decode(child.input) != msgspec.json.decode(_kept(input)[0]):
            what = "one with another input"
        else:
            return
        raise ReplayError(
            f"the code has changed since this run began: its child run number {asked.number} is "
            f"{what} ({child.run}), but the code now asks for {asked.label!r} ({asked.place}). "
            f"{ADVICE}",
            recorded=f"child {child.workflow}",
            wanted=[asked.label],
        )

    async def _find_or_compile(self, workflow: Any) -> tuple[str, int | None, str | None]:
        if isinstance(workflow, str) and not set(workflow) & set("\n\r/"):
            return await self._find(workflow)
        if self._compile_child is None:
            raise HandlerError("this worker can start only deployed workflows, by their names")
        plans = self._compile_child(workflow)
        for _, data in plans:
            await self._store.put_blob(data, tenant=self._tenant)
        return plans[0][0], None, None

    async def end_of(self, name: str) -> dict[str, Any] | None:
        """What a child run of a durable function has come to, for its journal; None: it is open
        again."""
        child = await self._store.read_run(self._tenant, name)
        if child is None or child.status not in TERMINAL:
            return None
        found: dict[str, Any] = {"child": name, "child_generation": child.generation}
        if child.status == "COMPLETED":
            output = await self._output(child)
            if child.parent is not None:
                await copy_to_parent(self._store, self._tenant, name, child.parent, output)
            return {**found, "output": msgspec.Raw(encode(output)[0])}
        error = ChildFailedError(name, child.status, shown_error(child.error))
        return {**found, "error": {"code": error.code, "message": str(error), "child": error.child}}

    async def _wanted_generation(self, context: Context, name: str) -> int:
        """The generation of the child run that this attempt of the node stands for."""
        if (context.generation, context.attempt) == (1, 1):
            return 1
        step = f"child-{context.generation}-{context.attempt}"
        kept = (await self._store.read_steps(self._tenant, _instance(context))).get(step)
        if kept is None:
            child = await self._store.read_run(self._tenant, name)
            wanted = 1 if child is None else child.generation
            if child is not None and child.status in ("FAILED", "CANCELLED"):
                wanted += 1
            data = str(wanted).encode()
            new = NewStep(*_instance(context), context.lease_id, step, data)
            (answer,) = await self._store.record_steps(self._tenant, [new])
            if not isinstance(answer, bytes):
                context.cancel()
                raise LeaseLost(f"node {context.node_id} is no longer ours")
            kept = answer
        return int(kept)

    # ── starting ────────────────────────────────────────────────────────────────────────

    async def _start(
        self,
        context: Context,
        name: str,
        digest: str,
        input: Json,
        timeout_ms: int | None,
        version: int | None,
        tag: str | None,
        *,
        number: int = 0,
    ) -> Run:
        loaded = await self._programs.load(digest, run=context.run_id, tenant=self._tenant)
        plan = loaded.program.plan
        problems = find_input_problems(plan.input_schema, input) if plan.input_schema else []
        if problems:
            raise InputError([f"{plan.name}: {problem}" for problem in problems])
        data, blobs = _kept(input)
        new = loaded.translator.new_run(
            name,
            tenant=self._tenant,
            input=data,
            tags=self._tracer.child_tags(context.tags),
            blobs=blobs,
        )
        held = _held(context)
        deadline_ms = self._deadline_ms(context, new.deadline_ms, timeout_ms)
        new = msgspec.structs.replace(
            new,
            parent=held,
            parent_number=number,
            deadline_ms=deadline_ms,
            version=version,
            tag=tag,
        )
        self._adopt(name, loaded.program.queues)
        (answer,) = await self._store.create_runs([new])
        if isinstance(answer, Run):
            return answer
        # The workflow of that name may be another one by now: the child run stays what it is.
        child = await self._store.read_run(self._tenant, name)
        if child is not None:
            return child
        parent = await self._store.read_run(self._tenant, context.run_id)
        if parent is not None and parent.depth >= DEPTH_MAX:
            raise ChildDepthError(plan.name, DEPTH_MAX)
        context.cancel()
        raise LeaseLost(str(answer))

    async def find_input_schema(self, context: Context, workflow: str) -> dict[str, Any]:
        """JSON Schema of the input of a workflow."""
        digest, _, _ = await self._find(workflow)
        loaded = await self._programs.load(digest, run=context.run_id, tenant=self._tenant)
        return loaded.program.plan.input_schema or {"type": "object"}

    async def _find(self, workflow: str) -> tuple[str, int | None, str | None]:
        """The plan of a workflow; of a deployed one, also the version and the tag that led to
        it."""
        if workflow.startswith(BLOB_PREFIX):
            return workflow, None, None
        found = await self._registry.find(self._tenant, workflow)
        return found.version.plan, found.version.version, found.tag

    def _deadline_ms(self, context: Context, *limits: int | None) -> int | None:
        """How long a child run may take: as its plan and its node say, and no longer than its
        parent may."""
        known = [limit for limit in limits if limit is not None]
        if context.deadline_ms is not None:
            known.append(max(1, context.deadline_ms - self._now_ms()))
        return min(known, default=None)

    # ── going on ────────────────────────────────────────────────────────────────────────

    async def _retry(self, context: Context, child: Run, timeout_ms: int | None) -> Run:
        if child.undos:
            # What it did was undone. Its parent does not know whether it may be done again.
            raise ChildFailedError(child.run, child.status, shown_error(child.error))
        loaded = await self._programs.load(child.plan, run=child.run, tenant=self._tenant)
        plan = loaded.program.plan
        self._adopt(child.run, loaded.program.queues)
        deadline_ms = self._deadline_ms(context, plan.deadline_ms, timeout_ms)
        change = RetryRun(by=context.run_id, deadline_ms=deadline_ms, parent=_held(context))
        try:
            return await self._store.change_run(self._tenant, child.run, change, child.seq)
        except RunConflictError as error:
            found = await self._store.read_run(self._tenant, child.run)
            if found is None or found.seq == child.seq:
                context.cancel()
                raise LeaseLost(str(error)) from None
            return found

    async def _output(self, child: Run) -> Json:
        fold = replay(await self._reader.history(child.run))
        loaded = await self._programs.load(fold.state.plan, run=child.run, tenant=self._tenant)
        plan = loaded.program.plan
        last = plan.terminals if plan.output_node is None else (plan.output_node,)
        for token in fold.state.tokens.values():
            if token.node not in last:
                token.output = None  # It need not be loaded.
        await self._reader.open_blobs(child.run, fold)
        return run_output(loaded.program, fold.state)


def _instance(context: Context) -> Key:
    return (context.run_id, context.token_node, context.scope_text)


def _held(context: Context) -> Held:
    return Held(*_instance(context), context.lease_id)


def _code(run: Run) -> str:
    return str((run.error or {}).get("code", ""))


def _kept(input: Json) -> tuple[bytes, tuple[bytes, ...]]:
    """The input of a child run as the store keeps it, and its blobs."""
    data = encode(input)[0]
    if needs_blob(data):
        return blob_value(blob_ref(data), len(data)), (data,)
    return data, ()
