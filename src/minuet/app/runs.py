"""`app.runs`: start runs and change them; what it inherits asks about them and waits for them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, overload

from minuet.app.actions import BulkAction, PreviewAction
from minuet.app.argument_rules import is_storable
from minuet.app.arguments import checked
from minuet.app.awaiting import Awaiting
from minuet.app.bulk import ManyChanged, change_many
from minuet.app.compiling import AnyDocument, encode_input, encode_inputs
from minuet.app.consequences import Consequences, preview
from minuet.app.handle import CANCEL_REASON, RunHandle
from minuet.app.limits import RunLimits, read_limits
from minuet.app.repairing import change_run, check_seq, keep_value
from minuet.app.results import output_decoder
from minuet.app.retention import Deleted, Retention
from minuet.app.retrying import retry
from minuet.app.run_log import log_end
from minuet.app.starting import Startable, Starter, limited
from minuet.app.tenant import Tenant
from minuet.app.workers import Workers
from minuet.app.workflows import Workflows
from minuet.bridge.reporting import report_named
from minuet.bridge.undo import rollback
from minuet.errors import (
    InputError,
    RunConflictError,
    RunNotFoundError,
    StartError,
    StoreUnavailableError,
)
from minuet.model import DocumentSource
from minuet.nodes.values import Decode, as_it_is
from minuet.plan.digest import encode_plan
from minuet.store.changes import Cancel, Pause, Resume, SendSignal, Start
from minuet.store.records import Run
from minuet.types import TERMINAL, InputT, OutputT


class Runs(Awaiting):
    """The runs of a tenant."""

    def __init__(self, tenant: Tenant, workflows: Workflows, workers: Workers) -> None:
        super().__init__(tenant, workers)
        self._workflows = workflows
        self._starter = Starter(tenant)

    # ── starting ────────────────────────────────────────────────────────────────────────

    @overload
    async def start(
        self,
        workflow: DocumentSource[InputT, OutputT],
        input: InputT,
        *,
        idempotency_key: str | None = None,
        tags: dict[str, Any] | None = None,
        limits: RunLimits | None = None,
    ) -> RunHandle[OutputT]: ...

    @overload
    async def start(
        self,
        workflow: DocumentSource[None, OutputT],
        input: None = None,
        *,
        idempotency_key: str | None = None,
        tags: dict[str, Any] | None = None,
        limits: RunLimits | None = None,
    ) -> RunHandle[OutputT]: ...

    @overload
    async def start(
        self,
        workflow: AnyDocument,
        input: Any = None,
        *,
        idempotency_key: str | None = None,
        tags: dict[str, Any] | None = None,
        limits: RunLimits | None = None,
    ) -> RunHandle: ...

    @checked
    async def start(
        self,
        workflow: Any,
        input: Any = None,
        *,
        idempotency_key: str | None = None,
        tags: dict[str, Any] | None = None,
        limits: RunLimits | None = None,
    ) -> RunHandle:
        """Start a run and return its handle once the run is durable.

        With an idempotency key, starting the same again returns the same run. `limits` hold for
        this run; of these and those of the document, the smaller ones count.
        """
        (answer,) = await self._start(workflow, [input], [idempotency_key], tags, limits)
        if isinstance(answer, RunConflictError):
            raise answer
        return answer

    @overload
    async def start_many(
        self,
        workflow: DocumentSource[InputT, OutputT],
        inputs: Iterable[InputT],
        *,
        idempotency_keys: Iterable[str | None] | None = None,
        tags: dict[str, Any] | None = None,
        limits: RunLimits | None = None,
    ) -> list[RunHandle[OutputT]]: ...

    @overload
    async def start_many(
        self,
        workflow: AnyDocument,
        inputs: Iterable[Any],
        *,
        idempotency_keys: Iterable[str | None] | None = None,
        tags: dict[str, Any] | None = None,
        limits: RunLimits | None = None,
    ) -> list[RunHandle]: ...

    @checked
    async def start_many(
        self,
        workflow: Any,
        inputs: Iterable[Any],
        *,
        idempotency_keys: Iterable[str | None] | None = None,
        tags: dict[str, Any] | None = None,
        limits: RunLimits | None = None,
    ) -> list[RunHandle]:
        """Start many runs of one workflow in one step; return them in the order of `inputs`.

        All inputs are checked before anything is started. Each run then has its own answer:
        when keys belong to runs of other inputs, StartError has in its `answers`, for each
        input, its run or why it was refused.
        """
        values = list(inputs)
        keys = [None] * len(values) if idempotency_keys is None else list(idempotency_keys)
        if len(keys) != len(values):
            problem = (
                f"idempotency_keys: expected {len(values)}, one for each input, got {len(keys)}"
            )
            raise InputError([problem], argument="idempotency_keys")
        answers = await self._start(workflow, values, keys, tags, limits)
        started = [answer for answer in answers if isinstance(answer, RunHandle)]
        if len(started) < len(answers):
            raise StartError(answers)
        return started

    async def _start(
        self,
        workflow: Any,
        inputs: Sequence[Any],
        keys: Sequence[str | None],
        tags: dict[str, Any] | None,
        limits: RunLimits | None,
    ) -> list[RunHandle | RunConflictError]:
        """Start runs; for each, its handle or why it was refused."""
        self._behind.check_open()
        source = await self._workflows.startable(workflow)
        encoded = encode_inputs(source.plan, inputs)
        source = limited(source, read_limits(limits))
        loaded = await self._starter.keep(source)
        self._behind.serve(loaded)
        decode = output_decoder(workflow)
        with self._behind.raised.starting():
            answers = await self._starter.start(source, loaded, encoded, keys, tags)
            handles = [
                self._handle(one.run, decode, one) if isinstance(one, Run) else one
                for one in answers
            ]
        self._behind.work_on(answer.run for answer in answers if isinstance(answer, Run))
        return handles

    @overload
    async def create(
        self,
        workflow: DocumentSource[Any, OutputT],
        *,
        tags: dict[str, Any] | None = None,
        limits: RunLimits | None = None,
    ) -> RunHandle[OutputT]: ...

    @overload
    async def create(
        self,
        workflow: AnyDocument,
        *,
        tags: dict[str, Any] | None = None,
        limits: RunLimits | None = None,
    ) -> RunHandle: ...

    @checked
    async def create(
        self,
        workflow: Any,
        *,
        tags: dict[str, Any] | None = None,
        limits: RunLimits | None = None,
    ) -> RunHandle:
        """Store a PENDING run, to be triggered later; return it once it is durable."""
        self._behind.check_open()
        source = limited(await self._workflows.startable(workflow), read_limits(limits))
        run = await self._starter.create(source, tags)
        return self._handle(run.run, output_decoder(workflow), run)

    @checked
    async def trigger(self, run_id: str, input: Any = None) -> Run:
        """Start a PENDING run with an input; RunConflictError when it has been started."""
        self._behind.check_open()
        run = await self.get(run_id)
        loaded = await self._behind.load(run.plan, run_id)
        plan = loaded.program.plan
        encoded = encode_input(plan, input)
        for blob in encoded.blobs:
            await self._store.put_blob(blob, run=run_id, tenant=self._tenant)
        self._behind.serve(loaded)
        self._behind.work_on([run_id])
        entries = loaded.translator.deliveries(loaded.program.entries())
        return await change_run(
            self._behind, run_id, Start(entries, encoded.data, plan.deadline_ms)
        )

    @checked
    async def start_again(self, run_id: str, input: Any = None) -> RunHandle:
        """Start a new run of the plan that a run follows, as if it were started for the first time.
        Without an input, it gets the same as that run."""
        self._behind.check_open()
        run = await self.get(run_id)
        loaded = await self._behind.load(run.plan, run_id)
        plan = loaded.program.plan
        if input is None:
            input = await self._reader.input(run)
        data = None if run.version is not None else encode_plan(plan)
        source = Startable(plan, run.plan, data, run.version, run.tag)
        return await self._start_one(source, input)

    async def _start_one(self, source: Startable, input: Any) -> RunHandle:
        loaded = await self._starter.keep(source)
        self._behind.serve(loaded)
        encoded = encode_input(source.plan, input)
        (answer,) = await self._starter.start(source, loaded, [encoded], [None], None)
        assert isinstance(answer, Run)  # It has no idempotency key.
        self._behind.work_on([answer.run])
        return self._handle(answer.run, as_it_is, answer)

    @checked
    def handle(self, run_id: str) -> RunHandle:
        """A handle of a run by its whole id; nothing is looked up."""
        return self._handle(run_id, as_it_is)

    def _handle(self, run_id: str, decode: Decode, row: Run | None = None) -> RunHandle:
        return RunHandle(run_id, self, decode, self._behind.raised.of(run_id), row)

    @checked
    async def prepare(self, runs: Iterable[Run]) -> None:
        """Make the worker serve all queues that these runs use, and work on them."""
        self._behind.check_open()
        rows = [row for run in runs for row in await self._with_children(run)]
        self._behind.work_on(run.run for run in rows)
        for digest, run in sorted({run.plan: run.run for run in rows}.items()):
            self._behind.serve(await self._behind.load(digest, run))

    async def _with_children(self, run: Run) -> list[Run]:
        """A run, and the open runs below it."""
        found = [run]
        for row in found:  # It grows while it is walked.
            found += [child for child in await self._children(row) if child.status not in TERMINAL]
        return found

    # ── changing ────────────────────────────────────────────────────────────────────────

    @checked
    async def cancel(
        self, run_id: str, *, reason: str = CANCEL_REASON, seq: int | None = None
    ) -> Run:
        """End a run as CANCELLED. Running handlers are cancelled; their results do not count.

        With `seq`, here and in the other changes, only if this is still the number of the run's
        last event: RunConflictError if something has happened since.
        """
        run = await change_run(self._behind, run_id, Cancel(reason), seq)
        self._behind.abandon(run_id)
        with suppress(StoreUnavailableError):  # Then a worker does it.
            await report_named(self._store, self._tenant, run_id)
        log_end(run)
        return run

    @checked
    async def pause(self, run_id: str, *, seq: int | None = None) -> Run:
        """Start nothing more of a run; handlers that are running may finish."""
        return await change_run(self._behind, run_id, Pause(), seq)

    @checked
    async def resume(self, run_id: str, *, seq: int | None = None) -> Run:
        """Continue a paused run."""
        return await change_run(self._behind, run_id, Resume(), seq)

    @checked
    async def retry(
        self,
        run_id: str,
        *,
        generation: int | None = None,
        undone: bool = False,
        seq: int | None = None,
    ) -> Run:
        """Run what failed or was cut off again, in the run's next generation. It has as much time
        as the plan gives a run.

        With `generation`, only if the run is in it: RunConflictError if it was retried meanwhile.
        A run that was undone is not retried. With `undone`, it is started over, if all of it was
        undone: the answer is another run, with the same input, in which everything runs again. It
        has idempotency keys of its own, because services that honour keys would take what was
        undone for done. Asking again gives the same run.
        """
        self._behind.check_open()
        return await retry(
            self,
            self._behind,
            self._starter,
            run_id,
            generation=generation,
            undone=undone,
            seq=seq,
        )

    @checked
    async def rollback(self, run_id: str, *, to: str | None = None, seq: int | None = None) -> Run:
        """Undo a run that is over: run the compensators of the nodes that completed, the last one
        first. With `to`, only of those that completed after this node.

        Returns once it is durable that the run is undone; `wait` waits until it is. What was
        undone is not undone again. RunConflictError when the run is not over, or there is nothing
        to undo.
        """
        self._behind.check_open()
        run = await self.get(run_id)
        check_seq(run, seq)
        loaded = await self._behind.load(run.plan, run_id)
        history = await self.history(run_id)
        change = rollback(loaded.program, history, run, to)
        self._behind.serve(loaded)
        # Another one may have undone it since: there would be nothing left to undo.
        run = await change_run(self._behind, run_id, change, run.seq)
        self._behind.work_on([run_id])
        return run

    @checked
    async def signal(
        self, run_id: str, name: str, data: Any = None, *, idempotency_key: str | None = None
    ) -> Run:
        """Send a run a signal, and return the run once the signal is durable.

        The node that has waited for a signal of this name the longest receives it; if none waits,
        it is kept for the next one. With an idempotency key, sending it again changes nothing.
        RunConflictError when the run is over, or keeps 1,000 signals that no node has received.
        """
        self._behind.check_open()
        if not is_storable(run_id):
            raise RunNotFoundError(run_id)
        value = await keep_value(self._behind, run_id, data, "data")
        signal_id = idempotency_key or self._behind.engine.ids.token()
        return await change_run(self._behind, run_id, SendSignal(name, signal_id, value))

    @checked
    async def preview(
        self,
        run_id: str,
        action: PreviewAction,
        node: str | None = None,
        *,
        data: Any = None,
        name: str | None = None,
        to: str | None = None,
    ) -> Consequences:
        """What a change of a run would do; nothing is changed.

        `node` is that of `skip`, `set_output`, `take_back`, `approve` and `reject`, `data` the
        output or the signal's data, `name` the signal's, `to` the node that `rollback` ends at.
        """
        self._behind.check_open()
        return await preview(
            self, self._behind, run_id, action, node=node, data=data, name=name, to=to
        )

    @checked
    async def change_many(
        self,
        action: BulkAction,
        run_ids: Iterable[str] = (),
        *,
        query: str = "",
        before: str | None = None,
        limit: int = 100,
        reason: str = CANCEL_REASON,
        dry_run: bool = False,
    ) -> ManyChanged:
        """Cancel, pause, resume, retry or delete runs: those with these ids, or the newest that fit
        a filter. Each is changed on its own, and the answer says of each what became of it.

        With `dry_run`, nothing is changed. `before` is `next` of the last answer.
        """
        self._behind.check_open()
        return await change_many(
            self,
            self._behind,
            action,
            list(run_ids),
            query,
            before=before,
            limit=limit,
            reason=reason,
            dry_run=dry_run,
        )

    @checked
    async def delete(self, run_ids: Iterable[str], *, dry_run: bool = False) -> Deleted:
        """Delete runs that are over, with all that belongs to them.

        If one of them is not there, is open, or is the parent of an open run, nothing is deleted:
        RunNotFoundError, RunConflictError.
        """
        self._behind.check_open()
        retention = Retention(self._store, self._tenant, self._behind.engine.clock)
        return await retention.delete(list(run_ids), dry_run=dry_run)
