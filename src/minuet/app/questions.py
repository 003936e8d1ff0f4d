"""What can be asked about a run: how it stands, what happened, and why."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence, Set
from typing import Any

import msgspec

from minuet.app import shapes
from minuet.app.argument_rules import is_storable
from minuet.app.arguments import checked
from minuet.app.finder import PAGE, Finder, RunList
from minuet.app.handlers import find_missing, still_to_run
from minuet.app.move.parcel import refs_in
from minuet.app.options import to_ms
from minuet.app.results import NodeResult, RunResult, RunTree, Unserved, node_result
from minuet.app.tenant import Tenant
from minuet.app.watch import Watch
from minuet.app.workers import Workers, WorkerView
from minuet.bridge.beginning import first_events
from minuet.bridge.history import LEVELS_MAX as LEVELS_MAX
from minuet.bridge.history import HistoryReader, scope_of
from minuet.bridge.pages import read_runs
from minuet.bridge.recording import Recorder, Recording
from minuet.bridge.stalls import STALLING, Stall, find_stall
from minuet.errors import InputError, RunNotFoundError
from minuet.events import Event, Place
from minuet.functions.steps import StepView, steps_of
from minuet.kernel.approvals import name_events
from minuet.kernel.explain.answer import Explanation, explain, find_node, no_instance
from minuet.kernel.explain.waiting import Fact
from minuet.kernel.fold import Fold, NumberedEvent, replay
from minuet.kernel.program import Program
from minuet.kernel.scope import encode as encode_scope
from minuet.kernel.scope import show as show_scope
from minuet.kernel.timeline import TaskEvent, causes, task_events
from minuet.kernel.undo import compensated, undoing_of, undoings
from minuet.kernel.view import InstanceView, node_views, run_output, shown_error
from minuet.plan.placement import describe_needs, read_placement
from minuet.plan.plan import AGENT, FLOW, author_of, item_id
from minuet.store.records import Run
from minuet.types import TERMINAL, Scope


class Questions(Finder):
    """What can be asked about the runs of a tenant. Nothing here changes a run."""

    def __init__(self, tenant: Tenant, workers: Workers) -> None:
        super().__init__(tenant)
        self._workers = workers
        self._reader = HistoryReader(tenant.store, tenant.name)

    @checked
    async def history(
        self, run_id: str, *, after: int = 0, upto: int | None = None
    ) -> list[NumberedEvent]:
        """A run's events."""
        await self.get(run_id)
        return await self._reader.history(run_id, after, upto)

    @checked
    async def stored_events(
        self, run_id: str, *, after: int = 0
    ) -> list[tuple[int, int, Event | bytes]]:
        """A run's events; one that cannot be read as the bytes that the store holds."""
        await self.get(run_id)
        return await self._reader.stored_events(run_id, after)

    @checked
    async def events(
        self, run_id: str, *, after: int = 0, upto: int | None = None
    ) -> list[dict[str, Any]]:
        """A run's events as data (`shapes.event`), with what led to each of them."""
        await self.get(run_id)
        stored = await self._reader.stored_events(run_id, 0, upto)
        readable = [(seq, at, one) for seq, at, one in stored if not isinstance(one, bytes)]
        # What comes after a gap in the history cannot be folded, so it is not known what led to it.
        led = causes(readable) if len(readable) == len(stored) else {}
        named = name_events(readable)
        return [
            shapes.event(*one, cause=led.get(one[0]), name=named.get(one[0]), run_id=run_id)
            for one in stored
            if one[0] > after
        ]

    @checked
    async def causes(self, run_id: str) -> dict[int, int | None]:
        """For each event the number of the one that led to it; None: it came from outside."""
        return causes(await self.history(run_id))

    @checked
    async def task_events(self, run_id: str) -> list[TaskEvent]:
        """What happened to each node instance: created, pending, assigned, started, …"""
        return task_events(await self.history(run_id))

    @checked
    async def program(self, run_id: str, digest: str) -> Program:
        """The program that a run follows."""
        return (await self._behind.load(digest, run_id)).program

    @checked
    async def replay(self, run_id: str, *, at: int | None = None) -> RunResult:
        """How the run stood after event `at` (or stands now, by its history alone)."""
        history = await self._history_at(run_id, at)
        return await self._result(run_id, replay(history), history)

    async def _history_at(self, run_id: str, at: int | None) -> list[NumberedEvent]:
        history = await self.history(run_id, upto=at)
        if at is not None and history[-1][0] < at:
            problem = f"at: run {run_id} has {history[-1][0]} events, there is no event {at}"
            raise InputError([problem], argument="at")
        return history

    @checked
    async def instances(
        self, run_id: str, node: str | None = None, *, at: int | None = None
    ) -> dict[str, NodeResult]:
        """Each instance of each node, or of one node, by its name: `check[2]` is the third
        iteration of a loop. `node` may name a single instance; with `at`, after that event."""
        history = await self._history_at(run_id, at)
        fold = replay(history)
        program = await self.program(run_id, fold.state.plan)
        wanted, scope = (None, None) if node is None else find_node(program, node)
        await self._reader.open_blobs(run_id, fold)
        held = {} if at is not None else await self._reader.held(run_id)
        undone = undoings(program, fold, held)
        found = {
            name + show_scope(one.scope): node_result(
                one,
                _steps(fold, program, name, one.scope),
                undone.get((_token_node(program, name), encode_scope(one.scope))),
            )
            for name, view in node_views(program, fold.state, fold.details, held.keys()).items()
            if wanted is None or name == wanted.id
            # A node that nothing has reached has no instance, but a status.
            for one in view.instances or (InstanceView((), view.status, reason=view.reason),)
        }
        if wanted is None or scope is None:
            return found
        name = wanted.id + show_scope(scope)
        if name not in found:
            raise no_instance(wanted.id, scope, list(found))
        return {name: found[name]}

    @checked
    async def show(self, run_id: str) -> RunResult:
        """How the run stands, with what runs at this moment."""
        _, found = await self.show_row(run_id)
        return found

    @checked
    async def show_row(self, run_id: str) -> tuple[Run, RunResult]:
        """The run's row, and how the run stands: both of the same moment, also while it goes on."""
        run = await self.get(run_id)
        history = await self._reader.history(run.run, 0, run.seq)
        if not history:
            # Deleted since.
            raise RunNotFoundError(run_id)
        held = await self._reader.held(run.run)
        return run, await self._result(run.run, replay(history), history, held.keys())

    @checked
    async def show_started(self, run: Run) -> RunResult:
        """How a run stands that was just started: what workers hold by now is not read."""
        program = await self.program(run.run, run.plan)
        history = first_events(run, program) or await self._reader.history(run.run)
        return await self._result(run.run, replay(history), history)

    @checked
    async def show_ended(self, run: Run) -> RunResult:
        """How a run that is over has ended: nothing of it runs, so its history is enough. It may
        have been retried since: what comes after its end does not count."""
        history = [one for one in await self._reader.history(run.run) if one[0] <= run.seq]
        if not history:
            raise RunNotFoundError(run.run)
        return await self._result(run.run, replay(history), history)

    @checked
    async def explain(self, run_id: str, node: str) -> Explanation:
        """Why a node, or one instance of it (`check[2]`), has not run, or is in its state."""
        fold = replay(await self.history(run_id))
        program = await self.program(run_id, fold.state.plan)
        # Conditions are evaluated again on the outputs.
        await self._reader.load_conditions(run_id, program)
        await self._reader.open_blobs(run_id, fold)
        facts = await self._live_facts(run_id)
        # Some of them may take a second, in another process.
        answer = await asyncio.to_thread(explain, program, fold, node, facts=facts)
        return _with_steps(answer, _steps(fold, program, answer.node, answer.scope))

    @checked
    async def unserved(self, run_id: str) -> list[Unserved]:
        """Nodes that are ready and that no live worker serves, one for each queue."""
        run = await self.get(run_id)
        if run.status not in ("RUNNING", "COMPENSATING"):
            return []
        facts = await self._live_facts(run_id)
        waiting = {
            fact["queue"]: node
            for (node, _), fact in sorted(facts.items(), reverse=True)
            if fact.get("workers") == 0
        }
        program = await self.program(run_id, run.plan)
        found = []
        for queue, name in sorted(waiting.items()):
            placement = read_placement(queue)
            node = program.nodes.get(name)
            found.append(
                Unserved(
                    name,
                    queue if placement is None else placement.queue,
                    None if node is None else node.handler,
                    "" if placement is None else describe_needs(placement),
                    queue,
                )
            )
        return found

    async def _live_facts(self, run_id: str) -> dict[tuple[str, str], Fact]:
        """What the store knows of a run's live tokens, and who could take them."""
        live = await self._reader.live_facts(run_id)
        if any(fact["state"] == "ready" for fact in live.values()):
            workers = await self._workers.list()
            for fact in live.values():
                _count_workers(fact, run_id, workers)
        return live

    @checked
    async def stalled(self, *, limit: int = 100) -> list[Stall]:
        """Runs that wait for nobody, and to which nothing has happened for `stall_seconds`, the
        newest first. All open runs are looked at, by the thousand."""
        now_ms = self._behind.engine.clock.now_ms()
        stall_ms = to_ms(self._behind.engine.options.stall_seconds)
        found: list[Stall] = []
        async for run in read_runs(self._store, self._tenant, STALLING, page=PAGE):
            stall = await find_stall(self._store, run, now_ms, stall_ms)
            found += [stall] if stall is not None else []
            if len(found) == limit:
                break
        return found

    @checked
    async def stall(self, run_id: str) -> Stall | None:
        """How a run stalls: since when, and why; None: it does not."""
        now_ms = self._behind.engine.clock.now_ms()
        stall_ms = to_ms(self._behind.engine.options.stall_seconds)
        return await find_stall(self._store, await self.get(run_id), now_ms, stall_ms)

    @checked
    async def missing_handlers(self, run_id: str) -> list[str]:
        """The handlers that a run still needs and that this process does not have."""
        run = await self.get(run_id)
        plan = (await self.program(run_id, run.plan)).plan
        handlers = self._behind.engine.handlers
        if not find_missing((*plan.nodes, *plan.undos), handlers):
            return []
        # What is done is not run again, so its handlers are not needed.
        live = {node for node, _ in await self._reader.live_facts(run_id)}
        undos = plan.undos if plan.undo_on or run.status == "COMPENSATING" else ()
        return find_missing((*still_to_run(plan, live), *undos), handlers)

    @checked
    async def tree(self, run_id: str, *, levels: int = LEVELS_MAX) -> RunTree:
        """A run with its child runs, and theirs, down to this many levels below it."""
        return await self._tree(await self.get(run_id), levels)

    async def _tree(self, run: Run, levels: int) -> RunTree:
        rows = await self._children(run) if levels > 0 else []
        return RunTree(
            run.run,
            run.workflow,
            run.status,
            author_of(run.parent_node),
            scope_of(run),
            tuple([await self._tree(row, levels - 1) for row in rows]),
        )

    async def _children(self, run: Run) -> RunList:
        """The child runs of a run, in the order of its nodes."""
        if not run.children:
            return []
        return await self._reader.children(run, await self.program(run.run, run.plan))

    @checked
    async def export(self, run_id: str) -> Recording:
        """A run and its child runs as one value, with their histories and plans: `encode` makes
        the JSON that `minuet runs export` prints, and `minuet.testing.replay` plays it again."""
        tree = await self.tree(run_id)
        return await Recorder(self._store, self._tenant).record(_all_ids(tree), refs_in)

    @checked
    async def watch(self, run_id: str) -> Watch:
        """A view of a run for its events as they arrive (`follow`); no event is in it yet."""
        run = await self.get(run_id)
        program = await self.program(run_id, run.plan)
        return Watch(run_id, run.workflow, run.seq, program)

    @checked
    async def held(self, run_id: str) -> dict[Place, int]:
        """The node instances that workers hold at this moment, and since when (in ms)."""
        return await self._reader.held(run_id) if is_storable(run_id) else {}

    async def _result(
        self,
        run_id: str,
        fold: Fold,
        history: list[NumberedEvent],
        held: Set[Place] = frozenset(),
    ) -> RunResult:
        state = fold.state
        program = await self.program(run_id, state.plan)
        await self._reader.open_blobs(run_id, fold)
        views = node_views(program, state, fold.details, held)
        started_ms, last_ms = history[0][1], history[-1][1]
        over = state.status in TERMINAL
        undone = undoings(program, fold, held)
        return RunResult(
            run_id=run_id,
            workflow=state.workflow,
            status=state.status,  # type: ignore[arg-type]
            output=run_output(program, state) if state.status == "COMPLETED" else None,
            nodes={
                name: node_result(
                    view, _steps(fold, program, name, view.scope), undoing_of(undone, name)
                )
                for name, view in views.items()
            },
            error=shown_error(state.error),
            duration_ms=last_ms - started_ms if over else None,
            seq=state.seq,
            generation=state.generation,
            tags=getattr(history[0][2], "tags", {}),
            last_event_ms=last_ms,
            version=getattr(history[0][2], "version", None),
            tag=getattr(history[0][2], "tag", None),
            compensated=compensated(program, state, history),
        )


def _steps(fold: Fold, program: Program, node: str, scope: Scope) -> tuple[StepView, ...]:
    """The steps of a durable function or an agent, if the node is one."""
    name = _token_node(program, node)
    if program.nodes[name].type not in (FLOW, AGENT):
        return ()
    return steps_of(fold.state.steps, name, encode_scope(scope))


def _token_node(program: Program, node: str) -> str:
    """The node that does what an author's node does: the hidden one of its items, if it has any."""
    return item_id(node) if program.nodes[node].foreach is not None else node


def _with_steps(answer: Explanation, steps: tuple[StepView, ...]) -> Explanation:
    """The explanation of a durable function, with the step that it came to."""
    if not steps:
        return answer
    last, count = steps[-1], len(steps)
    reasons = [f"it has {count} step{'' if count == 1 else 's'}, the last is {last.name!r}"]
    if answer.status == "FAILED" and last.error is not None:
        tries = f" after {last.attempts} attempts" if last.attempts > 1 else ""
        what = f"{last.error.get('type', '')}: {last.error.get('message', '')}".strip(": ")
        reasons = [f"its step {last.name!r} (the {_th(count)}) failed{tries}: {what}"]
    details = {**answer.details, "steps": [shapes.step(one) for one in steps]}
    return msgspec.structs.replace(answer, reasons=(*answer.reasons, *reasons), details=details)


def _th(number: int) -> str:
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{'th' if number % 100 in (11, 12, 13) else ending}"


def _all_ids(tree: RunTree) -> Iterator[str]:
    yield tree.run_id
    for child in tree.children:
        yield from _all_ids(child)


def _count_workers(fact: Fact, run_id: str, workers: Sequence[WorkerView]) -> None:
    """Add who could take a token that waits to be taken."""
    if fact["state"] == "ready" and not fact["lane"]:
        serving = [w for w in workers if w.takes and w.serves(fact["queue"], run_id)]
        fact["workers"] = len(serving)
        fact["known"] = sum(worker.status != "dead" for worker in workers)
