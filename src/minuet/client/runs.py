"""`client.runs`: the verbs of `app.runs`, by a server."""

from __future__ import annotations

import asyncio
import builtins
import uuid
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any, NoReturn

import msgspec

from minuet.app import reading
from minuet.app.actions import BulkAction, PreviewAction
from minuet.app.attempts import InstanceDetails
from minuet.app.bulk import ManyChanged
from minuet.app.compiling import EncodedInput, is_name, read_source
from minuet.app.consequences import Consequences
from minuet.app.finder import Run, RunCounts, RunList
from minuet.app.handle import CANCEL_REASON, RunHandle
from minuet.app.limits import RunLimits
from minuet.app.logs import LogLine, LogLines
from minuet.app.options import Seconds, as_seconds
from minuet.app.results import (
    Explanation,
    NodeResult,
    NumberedEvent,
    RunResult,
    RunTree,
    Unserved,
    output_decoder,
    raise_unless_completed,
)
from minuet.app.retention import Deleted
from minuet.app.runs import Runs
from minuet.app.search import FoundRuns, Histogram
from minuet.app.statistics import StatisticsList
from minuet.app.watch import Program, read_program
from minuet.bridge.history import LEVELS_MAX
from minuet.bridge.recording import Recording, read_recording
from minuet.bridge.stalls import Stall
from minuet.bridge.values import to_plain
from minuet.client.base import PAGE_MAX, Remote, only_local, pages, remote
from minuet.client.transport import Transport, path_of
from minuet.errors import RunConflictError, RunNotFoundError, RunTimeoutError
from minuet.events import Event, Place
from minuet.model import dump_document
from minuet.nodes.values import Decode, as_it_is
from minuet.scopes import encode
from minuet.types import TERMINAL, RunStatus
from minuet.worker.raised import RaisedHere

#: Runs that are started at once.
AT_ONCE = 16

#: Events asked for at once.
EVENTS = 10_000


#: Plans that are kept.
PROGRAMS_MAX = 64


def document_of(workflow: Any) -> dict[str, Any]:
    """What a server is told to run: a document, or the name of a deployed workflow."""
    if is_name(workflow):
        return {"workflow": str(workflow)}
    return {"document": dump_document(read_source(workflow).workflow)}


@remote
class RemoteRuns(Remote, Runs):
    """The runs of a tenant, by a server."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._programs: dict[str, Program] = {}
        #: Handlers run elsewhere: what they raise is never known here.
        self._raised = RaisedHere()

    # ── starting ────────────────────────────────────────────────────────────────────────

    async def _start(
        self,
        workflow: Any,
        inputs: Sequence[Any],
        keys: Sequence[str | None],
        tags: dict[str, Any] | None,
        limits: RunLimits | None,
    ) -> list[RunHandle | RunConflictError]:
        rest = {**document_of(workflow), "tags": tags, "limits": limits}
        decode = output_decoder(workflow)
        turns = asyncio.Semaphore(AT_ONCE)

        async def start(value: Any, key: str | None) -> RunHandle | RunConflictError:
            # With a key, a start whose answer is lost can be repeated.
            body = {**rest, "inputs": _plain(value), "idempotency_key": key or uuid.uuid4().hex}
            try:
                async with turns:
                    found = await self._post("/runs", body, again=True)
            except RunConflictError as error:
                return error
            return self._handle(found["run_id"], decode)

        return list(await asyncio.gather(*map(start, inputs, keys)))

    async def create(
        self,
        workflow: Any,
        *,
        tags: dict[str, Any] | None = None,
        limits: RunLimits | None = None,
    ) -> RunHandle:
        """Store a PENDING run, to be triggered later; return it once it is durable."""
        body = {**document_of(workflow), "tags": tags, "limits": limits, "start": False}
        found = await self._post("/runs", body)
        return self._handle(found["run_id"], output_decoder(workflow))

    async def trigger(self, run_id: str, input: Any = None) -> Run:
        """Start a PENDING run with an input; RunConflictError when it has been started."""
        return await self._change(_path(run_id, "start"), {"inputs": _plain(input)})

    async def start_again(self, run_id: str, input: Any = None) -> RunHandle:
        """Start a new run of the plan that a run follows, as if it were started for the first time.
        Without an input, it gets the same as that run."""
        run = await self.get(run_id)
        if run.status != "COMPLETED":
            message = f"is {run.status}: through a server, only a COMPLETED run is started again"
            raise RunConflictError(run_id, message, status=run.status, seq=run.seq)
        path = path_of("workflow", "trigger", run_id)
        found = await self._post(path, {"input_params": _plain(input)})
        return self._handle(found["execution_id"], as_it_is)

    def _handle(self, run_id: str, decode: Decode, row: Run | None = None) -> RunHandle:
        return RunHandle(run_id, self, decode, self._raised.of(run_id), row)

    async def prepare(self, runs: Iterable[Run]) -> None:
        """Not possible: a client has no worker."""
        self._no_worker("preparing a worker for runs")

    # ── waiting ─────────────────────────────────────────────────────────────────────────

    async def result(self, run_id: str, *, timeout: Seconds | None = None) -> RunResult:
        """As `wait`; RunFailed unless the run completes."""
        found = await self.wait(run_id, timeout=timeout)
        return raise_unless_completed(found, self._raised.of(run_id))

    async def wait_ended(self, run_id: str, *, timeout: Seconds | None = None) -> Run:
        """As `wait`, without reading the run's history: its row."""
        limit_s = as_seconds(timeout)
        try:
            async with asyncio.timeout(limit_s):
                while True:
                    run = await self.get(run_id)
                    if run.status in TERMINAL:
                        return run
                    # The stream ends when the run is over.
                    async for _ in self._transport.events(_events(run_id), run.seq):
                        pass
        except TimeoutError:
            raise RunTimeoutError(run_id, limit_s or 0) from None

    async def follow(self, run_id: str, *, after: int = 0) -> AsyncIterator[NumberedEvent]:
        """A run's events as they happen, until the run is over."""
        async for shape in self._transport.events(_events(run_id), after):
            seq, at_ms, event = reading.read_event(shape)
            if not isinstance(event, bytes):
                yield seq, at_ms, event

    # ── changing ────────────────────────────────────────────────────────────────────────

    async def _change(self, path: str, body: Any = None, seq: int | None = None) -> Run:
        headers = {} if seq is None else {"if-match": f'"{seq}"'}
        answer = await self._transport.call("POST", path, body=body or {}, headers=headers)
        return reading.read_run(answer.json())

    async def cancel(
        self, run_id: str, *, reason: str = CANCEL_REASON, seq: int | None = None
    ) -> Run:
        """End a run as CANCELLED. Running handlers are cancelled; their results do not count."""
        return await self._change(_path(run_id, "cancel"), {"reason": reason}, seq)

    async def pause(self, run_id: str, *, seq: int | None = None) -> Run:
        """Start nothing more of a run; handlers that are running may finish."""
        return await self._change(_path(run_id, "pause"), seq=seq)

    async def resume(self, run_id: str, *, seq: int | None = None) -> Run:
        """Continue a paused run."""
        return await self._change(_path(run_id, "resume"), seq=seq)

    async def retry(
        self,
        run_id: str,
        *,
        generation: int | None = None,
        undone: bool = False,
        seq: int | None = None,
    ) -> Run:
        """Run what failed or was cut off again, in the run's next generation."""
        if generation is not None:
            run = await self.get(run_id)
            if run.generation != generation:
                raise RunConflictError(run_id, "was retried", status=run.status, seq=run.seq)
            seq = run.seq if seq is None else seq
        return await self._change(_path(run_id, "retry"), {"undone": undone}, seq)

    async def rollback(self, run_id: str, *, to: str | None = None, seq: int | None = None) -> Run:
        """Undo a run that is over: run the compensators of the nodes that completed, the last one
        first. With `to`, only of those that completed after this node."""
        return await self._change(_path(run_id, "rollback"), {"to": to}, seq)

    async def signal(
        self, run_id: str, name: str, data: Any = None, *, idempotency_key: str | None = None
    ) -> Run:
        """Send a run a signal, and return the run once the signal is durable."""
        body = {"data": _plain(data), "idempotency_key": idempotency_key or uuid.uuid4().hex}
        path = _path(run_id, "signals", name)
        return reading.read_run(await self._post(path, body, again=True))

    async def skip(
        self, run_id: str, node: str, *, by: str = "", why: str = "", seq: int | None = None
    ) -> Run:
        """Skip a node that has not settled."""
        path = _path(run_id, "nodes", node, "skip")
        return await self._change(path, {"by": by, "why": why}, seq)

    async def set_output(
        self,
        run_id: str,
        node: str,
        data: Any,
        *,
        by: str = "",
        why: str = "",
        seq: int | None = None,
    ) -> Run:
        """Give a node that has not settled an output, as if its handler had returned it."""
        body = {"data": _plain(data), "by": by, "why": why}
        return await self._change(_path(run_id, "nodes", node, "set-output"), body, seq)

    async def take_back(
        self, run_id: str, node: str, *, by: str = "", why: str = "", seq: int | None = None
    ) -> Run:
        """Take a node back from the worker that runs it, at once."""
        path = _path(run_id, "nodes", node, "take-back")
        return await self._change(path, {"by": by, "why": why}, seq)

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
        """What a change of a run would do; nothing is changed."""
        body = {"action": action, "node": node, "data": _plain(data), "name": name, "to": to}
        return reading.read_consequences(await self._post(_path(run_id, "preview"), body))

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
        """Cancel, pause, resume, retry or delete runs, each on its own."""
        body: dict[str, Any] = {"run_ids": builtins.list(run_ids), "q": query, "cursor": before}
        body |= {"limit": min(limit, PAGE_MAX), "preview": dry_run}
        if action == "delete":
            return reading.read_many_changed(await self._post("/runs/bulk/delete", body))
        body |= {"action": action, "reason": reason}
        return reading.read_many_changed(await self._post("/runs/bulk", body))

    async def delete(self, run_ids: Iterable[str], *, dry_run: bool = False) -> Deleted:
        """Delete runs that are over, with all that belongs to them.

        If one of them cannot be deleted, none is, unless that changes meanwhile.
        """
        deleted = Deleted()
        ids = list(dict.fromkeys(run_ids))
        for only_try in (True, False)[: 1 if dry_run else 2]:
            deleted = Deleted()
            for run_id in ids:
                path = _path(run_id)
                params = {"dry_run": only_try}
                answer = await self._transport.call("DELETE", path, params=params)
                deleted.runs += answer.json()["runs"]
        return deleted

    # ── finding ─────────────────────────────────────────────────────────────────────────

    async def get(self, run_id: str) -> Run:
        """The run's row: its status and times, without its nodes."""
        return reading.read_run(await self._get(_path(run_id, "summary")))

    async def _exists(self, run_id: str) -> bool:
        try:
            await self.get(run_id)
        except RunNotFoundError:
            return False
        return True

    async def list(
        self,
        *,
        statuses: tuple[RunStatus, ...] = (),
        workflow: str | None = None,
        before: str | None = None,
        limit: int = 100,
    ) -> RunList:
        """Runs, the newest first."""
        found = await pages(
            self._get, "/runs", limit, status=statuses, workflow=workflow, before=before
        )
        return [reading.read_run(shape) for shape in found]

    async def search(
        self, query: str = "", *, before: str | None = None, limit: int = 100
    ) -> FoundRuns:
        """Runs that fit a filter, the newest first."""
        page = await self._get("/runs", q=query, cursor=before, limit=min(limit, PAGE_MAX))
        return reading.read_found_runs(page)

    async def histogram(self, query: str = "", *, buckets: int = 60) -> Histogram:
        """How many runs that fit a filter were created in each part of a time."""
        shape = await self._get("/runs/histogram", q=query, buckets=buckets)
        return reading.read_histogram(shape)

    async def statistics(self, workflow: str | None = None, *, limit: int = 100) -> StatisticsList:
        """How the newest runs of a workflow went, or of each workflow."""
        limit = min(limit, PAGE_MAX)
        page = await self._get("/statistics", workflow=workflow, limit=limit)
        return [reading.read_statistics(shape) for shape in page["items"]]

    async def count(self) -> RunCounts:
        """How many runs are open, by status, and how many dead letters are pending."""
        return reading.read_run_counts(await self._get("/counts"))

    async def moved_store(self) -> str | None:
        """Not known: a server does not say where its store is."""
        return None

    # ── asking ──────────────────────────────────────────────────────────────────────────

    async def events(
        self, run_id: str, *, after: int = 0, upto: int | None = None
    ) -> builtins.list[dict[str, Any]]:
        """A run's events as data (`shapes.event`), with what led to each of them."""
        found: builtins.list[dict[str, Any]] = []
        cursor = None
        while True:
            page = await self._get(_events(run_id), after=after, limit=EVENTS, cursor=cursor)
            found += page["items"]
            cursor = page["next"]
            if cursor is None or (upto is not None and int(cursor) >= upto):
                return [one for one in found if upto is None or one["seq"] <= upto]

    async def stored_events(
        self, run_id: str, *, after: int = 0
    ) -> builtins.list[tuple[int, int, Event | bytes]]:
        """A run's events; one that cannot be read as bytes."""
        return [reading.read_event(shape) for shape in await self.events(run_id, after=after)]

    async def history(
        self, run_id: str, *, after: int = 0, upto: int | None = None
    ) -> builtins.list[NumberedEvent]:
        """A run's events."""
        return [
            (seq, at_ms, event)
            for seq, at_ms, event in await self.stored_events(run_id, after=after)
            if not isinstance(event, bytes) and (upto is None or seq <= upto)
        ]

    async def causes(self, run_id: str) -> dict[int, int | None]:
        """For each event the number of the one that led to it; None: it came from outside."""
        return {shape["seq"]: shape["cause"] for shape in await self.events(run_id)}

    async def program(self, run_id: str, digest: str) -> Program:
        """The program that a run follows."""
        found = self._programs.get(digest)
        if found is None:
            path = path_of("blobs", digest.removeprefix("cas://"))
            pieces = [piece async for piece in self._transport.download(path, run_id=run_id)]
            while len(self._programs) >= PROGRAMS_MAX:
                del self._programs[next(iter(self._programs))]
            found = self._programs[digest] = read_program(b"".join(pieces), digest)
        return found

    async def show(self, run_id: str) -> RunResult:
        """How the run stands, with what runs at this moment."""
        return reading.read_result(await self._get(_path(run_id)))

    async def show_row(self, run_id: str) -> tuple[Run, RunResult]:
        """The run's row, and how the run stands: both of the same moment."""
        shape = await self._get(_path(run_id))
        return reading.read_run(shape), reading.read_result(shape)

    async def show_started(self, run: Run) -> RunResult:
        """How a run stands that was just started."""
        return await self.show(run.run)

    async def show_ended(self, run: Run) -> RunResult:
        """How a run that is over has ended."""
        return await self.replay(run.run, at=run.seq)

    async def replay(self, run_id: str, *, at: int | None = None) -> RunResult:
        """How the run stood after event `at` (or stands now, by its history alone)."""
        return reading.read_result(await self._get(_path(run_id, "state"), at=at))

    async def instances(
        self, run_id: str, node: str | None = None, *, at: int | None = None
    ) -> dict[str, NodeResult]:
        """Each instance of each node, or of one node, by its name."""
        if node is not None and at is None:
            return reading.read_nodes(await self._get(_path(run_id, "nodes", node)))
        path = _path(run_id) if at is None else _path(run_id, "state")
        shape = await self._get(path, at=at, instances=True)
        found = reading.read_nodes(shape["instances"])
        if node is None:
            return found
        return {name: one for name, one in found.items() if name == node or _node(name) == node}

    async def attempts(self, run_id: str, node: str) -> InstanceDetails:
        """What a node instance was given, and its attempts."""
        return reading.read_attempts(await self._get(_path(run_id, "nodes", node, "attempts")))

    async def explain(self, run_id: str, node: str) -> Explanation:
        """Why a node, or one instance of it (`check[2]`), has not run, or is in its state."""
        return reading.read_explanation(await self._get(_path(run_id, "why", node)))

    async def unserved(self, run_id: str) -> builtins.list[Unserved]:
        """Nodes that are ready and that no live worker serves, one for each queue."""
        page = await self._get(_path(run_id, "unserved"))
        return [reading.read_unserved(shape) for shape in page["items"]]

    async def stalled(self, *, limit: int = 100) -> builtins.list[Stall]:
        """Runs that wait for nobody, and to which nothing has happened for long."""
        found = await pages(self._get, "/runs", limit, stalled=True)
        return [reading.read_stall(shape) for shape in found]

    async def stall(self, run_id: str) -> Stall | None:
        """How a run stalls: since when, and why; None: it does not."""
        await self.get(run_id)
        found = await self.stalled(limit=1_000)
        return next((one for one in found if one.run.run == run_id), None)

    async def logs(self, run_id: str, node: str | None = None) -> LogLines:
        """The lines that the handlers of a run have printed and logged, in the order of time."""
        page = await self._get(_path(run_id, "logs"), node=node)
        return [reading.read_log_line(shape) for shape in page["items"]]

    async def follow_logs(self, run_id: str, node: str | None = None) -> AsyncIterator[LogLine]:
        """All lines so far, and then each as it comes, until the run is over."""
        seen: set[str] = set()
        async for id, shape in self._transport.stream(_path(run_id, "logs"), node=node):
            # After a connection was lost, some come again.
            if id not in seen:
                seen.add(id)
                yield reading.read_log_line(shape)

    async def missing_handlers(self, run_id: str) -> builtins.list[str]:
        """Not possible: a client has no worker."""
        self._no_worker("looking for missing handlers")

    async def tree(self, run_id: str, *, levels: int = LEVELS_MAX) -> RunTree:
        """A run with its child runs, and theirs, down to this many levels below it."""
        return reading.read_tree(await self._get(_path(run_id, "tree"), levels=levels))

    async def export(self, run_id: str) -> Recording:
        """A run and its child runs as one value, with their histories and plans."""
        path = _path(run_id, "export")
        answer = await self._transport.call("GET", path, again=True)
        return read_recording(answer.data)

    async def held(self, run_id: str) -> dict[Place, int]:
        """The node instances that workers hold at this moment, and since when (in ms)."""
        found = await self.instances(run_id)
        return {
            _place(name): node.started_ms or 0
            for name, node in found.items()
            if node.status == "RUNNING"
        }

    def _no_worker(self, what: str) -> NoReturn:
        only_local(what, "a client has no worker; `minuet worker --url` starts one")


def _path(run_id: str, *words: str) -> str:
    if not run_id or "/" in run_id:
        raise RunNotFoundError(run_id)  # No id of a run has a slash, and no path can have it.
    return path_of("runs", run_id, *words)


def _events(run_id: str) -> str:
    return _path(run_id, "events")


def _plain(value: Any) -> Any:
    """A value as JSON."""
    if isinstance(value, EncodedInput):
        return msgspec.json.decode(value.blobs[0] if value.blobs else value.data)
    return to_plain(value)


def _node(name: str) -> str:
    return name.partition("[")[0]


def _place(name: str) -> Place:
    """The place of an instance that is called `check[2]` or `check[2.0]`."""
    node, _, rest = name.partition("[")
    numbers = tuple(int(number) for number in rest.removesuffix("]").split(".") if number)
    return node, encode(numbers)
