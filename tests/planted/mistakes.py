"""Wrong versions of parts of the engine, for `tests.planted.bugs`.

Each is a mistake that was made in real systems, that this engine once had, or that somebody
could make here. Nothing but the simulation uses them.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from minuet import events
from minuet.app.starting import Starter
from minuet.bridge import reporting
from minuet.bridge.registry import Registry, Resolved
from minuet.errors import RunConflictError, StoreUnavailableError
from minuet.ids import SeededIds
from minuet.nodes.context import Context
from minuet.plan.placement import Placement, read_placement
from minuet.plan.plan import is_list
from minuet.simulation.contents import SimOutsideStore
from minuet.simulation.loop import current_process
from minuet.simulation.model import ModelStore
from minuet.store import families
from minuet.store.blob import Stub, blob_ref, encode_stub, stub_of
from minuet.store.changes import NewRun, SendSignal
from minuet.store.exchange import (
    Delivery,
    Done,
    Exchange,
    Failed,
    Held,
    Item,
    NewStep,
    Refusal,
    Reply,
    Result,
    Retried,
    Swept,
)
from minuet.store.outside import content_name
from minuet.store.records import (
    DEFAULT_TENANT,
    LIVE_STATES,
    Deployed,
    Join,
    Key,
    Read,
    Run,
    Signal,
    Token,
    WorkflowVersion,
)
from minuet.store.rules.transition import Transition
from minuet.store.rules.workflows import Named
from minuet.types import TERMINAL
from minuet.worker import children
from minuet.worker.assignment import Assignment
from minuet.worker.loop import Loop
from minuet.worker.pipeline import Pipeline
from minuet.worker.placed_queues import LimitedNode, PlacedQueues
from minuet.worker.sweeping import Sweeping
from minuet.worker.worker import Worker
from minuet.worker.workload import Workload

# ── leases ──────────────────────────────────────────────────────────────────────────────────


class NoLeaseCheck(Transition):
    def _judge(self, run: Run, token: Token, item: Item) -> Result | None:
        if token.state not in LIVE_STATES:
            return "duplicate"
        return "replan" if isinstance(item, Done) and item.plan != run.plan else None


class LateResultApplied(Transition):
    def _judge(self, run: Run, token: Token, item: Item) -> Result | None:
        result = super()._judge(run, token, item)
        return None if result == "closed" and token.lease == item.lease else result


class LateResultAfterAnother(Transition):
    """A lease that expired is as good as the one that followed it."""

    def _judge(self, run: Run, token: Token, item: Item) -> Result | None:
        if token.state == "leased" and item.lease in token.lost and isinstance(item, Done):
            return None if item.plan == run.plan else "replan"
        return super()._judge(run, token, item)


class LostLeasesStayLost(Transition):
    """A lease that expired, was granted again and is named by its worker stays expired."""

    def _revive(self, exchange: Exchange, run: Run, token: Token) -> None:
        if token.state == "ready":
            super()._revive(exchange, run, token)


class EveryExpiryIsACrash(Transition):
    """Nobody asks whether a worker comes back whose token somebody else has taken."""

    def _come_back(self, run: Run, token: Token, lease: str) -> None:
        pass


class PausedRunsKeepTheirSlots(Transition):
    def _park(self, token: Token) -> None:
        if token.lane == "":
            token.lane = "pause"
            self.changed_tokens.add(token.key)


class ForgetsExpiredToken(Transition):
    def expire(self, key: Key) -> bool:
        token, run = self.token(key), self.run(key[0])
        if token is None or run is None or token.state != "leased":
            return False
        self._end_token(run, token, "done", "completed")
        if run.counter == 0:
            self._complete(run)
        return True


class SweepsByAnOldLook(ModelStore):
    """The sweep notes whose time is nearly over, and expires them the next time round."""

    _noted: tuple[Key, ...] = ()

    async def sweep(self, limit: int = 1000) -> Swept:
        now_ms = self._clock.now_ms()
        step = self._transition(self, now_ms)
        for key in self._noted:
            token = step.token(key)
            if token is not None:
                token.state = "leased"
                step.expire(key)
        self._commit(step)
        soon = [
            t.key
            for t in self._tokens.values()
            if t.state == "leased" and (t.due_ms or 0) <= now_ms + 500
        ]
        self._noted = tuple(sorted(soon))
        return await super().sweep(limit)


class TakesBlobsOnTrust(ModelStore):
    """A store that does not look whether it has what a result stands for."""

    def has_own_blob(self, run: str, ref: str) -> bool:
        return True


class TakesChunksOnTrust(Transition):
    """Nobody looks whether the chunks are there that the list of a foreach names."""

    def _judge(self, run: Run, token: Token, item: Item) -> Result | None:
        if isinstance(item, Done) and is_list(item.node):
            item = msgspec.structs.replace(item, output=b"null")
        return super()._judge(run, token, item)


class TrustsItsContents(SimOutsideStore):
    """A failed put of a content counts as done: the blob store will surely come back."""

    async def _put(self, tenant: str, run: str, data: bytes) -> bytes:
        try:
            return await super()._put(tenant, run, data)
        except StoreUnavailableError:
            ref = blob_ref(data)
            return encode_stub(Stub(ref, len(data)))


class ReadsContentsAsTheyCome(SimOutsideStore):
    """What was read outside is not compared with its hash."""

    async def get_blob(
        self, ref: str, *, run: str | None = None, tenant: str = DEFAULT_TENANT
    ) -> bytes | None:
        data = await self._inside.get_blob(ref, run=run, tenant=tenant)
        stub = stub_of(data)
        if stub is None or run is None:
            return data
        return await self._contents.get(content_name(tenant, run, ref))


class CountsLeases(ModelStore):
    """A store that numbers the leases; being set back, it uses numbers again."""

    def __init__(self, clock: Any, *, transition: type[Transition] = Transition) -> None:
        super().__init__(clock, transition=transition)
        self.numbers = {"lease": 0}

    def copy_tables(self) -> dict[str, Any]:
        return {**super().copy_tables(), "numbers": dict(self.numbers)}


class CounterIds:
    """Leases that are the store's next number."""

    def __init__(self, seed: int, model: ModelStore) -> None:
        assert isinstance(model, CountsLeases)
        self._others = SeededIds(seed)
        self._model = model
        self._has_session = False

    def run_id(self) -> str:
        return self._others.run_id()

    def fraction(self) -> float:
        return self._others.fraction()

    def token(self) -> str:
        if not self._has_session:
            self._has_session = True
            return self._others.token()
        self._model.numbers["lease"] += 1
        return str(self._model.numbers["lease"])


# ── consuming and sending ───────────────────────────────────────────────────────────────────


class SendsInASecondStep(ModelStore):
    """A result is applied now, and what it sends with the next call of the same worker."""

    def __init__(self, clock: Any, *, transition: type[Transition] = Transition) -> None:
        super().__init__(clock, transition=transition)
        self._unsent: dict[str, list[Done]] = {}

    async def exchange(self, request: Exchange) -> Reply:
        step = self._transition(self, self._clock.now_ms())
        for item in self._unsent.pop(request.session, ()):
            run = step.run(item.run)
            if run is not None and run.status not in TERMINAL:
                step._deliver_all(run, item.node, item.scope, item.deliveries, hop=1)
                step.changed_runs.add(run.run)
        self._commit(step)
        later = [item for item in request.hand_in if isinstance(item, Done) and item.deliveries]
        stripped = tuple(
            msgspec.structs.replace(item, deliveries=()) if isinstance(item, Done) else item
            for item in request.hand_in
        )
        reply = await super().exchange(msgspec.structs.replace(request, hand_in=stripped))
        self._unsent[request.session] = later
        return reply


class SkipsAreDropped(Transition):
    def _done(self, run: Run, token: Token, item: Done) -> None:
        if item.outcome == "skipped":
            item = msgspec.structs.replace(item, deliveries=())
        super()._done(run, token, item)


class LoopsForgetTheirRound(Transition):
    def _deliver_all(self, run: Any, source: Any, scope: str, deliveries: Any, *, hop: int) -> Any:
        deliveries = tuple(
            msgspec.structs.replace(d, scope="a0" * (len(d.scope) // 2)) for d in deliveries
        )
        return super()._deliver_all(run, source, scope, deliveries, hop=hop)


class LosesTheRestOfAFanOut(Transition):
    def _done(self, run: Run, token: Token, item: Done) -> None:
        super()._done(run, token, msgspec.structs.replace(item, cursor=None))


# ── joins ───────────────────────────────────────────────────────────────────────────────────


class JoinsFireAgain(Transition):
    """The join counts rows, and nobody remembers that it has fired."""

    def _arrive(self, run: Any, d: Delivery, source: Any, scope: Any, hop: Any, out: Any) -> bool:
        key = (run.run, d.node, d.scope)
        join = self.joins.get(key) or self._source.load_join(key)
        if join is not None:
            join.fired = False
            self.joins[key] = join
        return super()._arrive(run, d, source, scope, hop, out)

    def _emit(self, run: Run, delivery: Delivery, **options: Any) -> bool:
        token = self.token((run.run, delivery.node, delivery.scope))
        if token is None or token.state in LIVE_STATES:
            return super()._emit(run, delivery, **options)
        token.state, token.outcome, token.lease = "ready", "", ""
        self.changed_tokens.add(token.key)
        run.counter += 1
        return True


class CountsAnArrivalTwice(Transition):
    def _arrive(self, run: Any, d: Delivery, source: Any, scope: Any, hop: Any, out: Any) -> bool:
        key = (run.run, d.node, d.scope)
        if (key, source) not in self.arrivals and self._source.has_arrival(key, source):
            join = self.joins.get(key) or self._source.load_join(key)
            assert isinstance(join, Join)
            self.joins[key] = join
            join.live += 1
            self.changed_joins.add(key)
            return False
        return super()._arrive(run, d, source, scope, hop, out)


class SkipsDoNotCount(Transition):
    """A join waits for skipped branches as if they could still come."""

    def _arrive(self, run: Any, d: Delivery, source: Any, scope: Any, hop: Any, out: Any) -> bool:
        if not d.live:
            return False
        return super()._arrive(run, d, source, scope, hop, out)


class LateArrivalsAreSeen(Transition):
    """A join that has fired is handed what came later, if it is run again."""

    def _arrive(self, run: Any, d: Delivery, source: Any, scope: Any, hop: Any, out: Any) -> bool:
        arrived = super()._arrive(run, d, source, scope, hop, out)
        key = ((run.run, d.node, d.scope), source)
        if key in self.arrivals:
            self.arrivals[key] = msgspec.structs.replace(self.arrivals[key], late=False)
        return arrived


class ReadsWhatCameLater(Transition):
    """A node reads what there is when it is taken, each time."""

    def _fixed(self, run: Run, reads: tuple[Read, ...]) -> tuple[Read, ...]:
        return reads


class WithdrawnStillCount(Transition):
    def _withdraw(self, run: Run, d: Delivery, withdrawn: list[events.Place]) -> None:
        before = run.counter
        super()._withdraw(run, d, withdrawn)
        run.counter = before


# ── foreach ─────────────────────────────────────────────────────────────────────────────────


class CountsAnItemTwice(Transition):
    """An item that was tried before counts once more."""

    def _arrive(self, run: Any, d: Delivery, source: Any, scope: Any, hop: Any, out: Any) -> bool:
        arrived = super()._arrive(run, d, source, scope, hop, out)
        if d.window and self.tokens[run.run, source, scope].attempt > 1:
            self.joins[run.run, d.node, d.scope].live += 1
        return arrived


class AQuorumFiresTwice(Transition):
    """What arrives after the quorum fires it again, because nothing is withdrawn."""

    def _withdraw(self, run: Run, d: Delivery, withdrawn: list[events.Place]) -> None:
        if not d.window:
            super()._withdraw(run, d, withdrawn)

    def _arrive(self, run: Any, d: Delivery, source: Any, scope: Any, hop: Any, out: Any) -> bool:
        arrived = super()._arrive(run, d, source, scope, hop, out)
        if d.window:
            self.joins[run.run, d.node, d.scope].fired = False
        return arrived


class NeverIssuesAnItem(Transition):
    """An item that failed makes no other ready."""

    def _issue_next(self, run: Run, d: Delivery, item: Token) -> str | None:
        return super()._issue_next(run, d, item) if d.live else None


class LosesTheOrderOfItems(ModelStore):
    """Items come as text sorts them, last first."""

    def _read_by(self, run: str, read: Read) -> list[Token]:
        return super()._read_by(run, read)[::-1]


# ── runs, retries, timers, slots, steps ─────────────────────────────────────────────────────


class ClosedRunsStayAlive(Transition):
    def _close(self, run: Run, status: Any, error: Any) -> None:
        run.status, run.ended_ms, run.error = status, self.now_ms, error
        run.deadline_ms = None
        self.changed_runs.add(run.run)
        self.rewritten_runs.add(run.run)


class PausedRunsGoOn(Transition):
    def _make_ready(self, run: Run, token: Token, due_ms: int) -> None:
        super()._make_ready(run, token, due_ms)
        token.lane = ""


class LeasesAreNotRenewed(Transition):
    def renew(self, exchange: Exchange, held: Held) -> bool:
        token = self.token((held.run, held.node, held.scope))
        return token is not None and token.state == "leased" and token.lease == held.lease


class RenewalsForgetTheQueue(Transition):
    """A lease is renewed by the length of all others."""

    def renew(self, exchange: Exchange, held: Held) -> bool:
        return super().renew(msgspec.structs.replace(exchange, lease_ms_by_queue={}), held)


class RetriesForget(Transition):
    def _retry(self, run: Run, token: Token, item: Retried) -> None:
        super()._retry(run, token, item)
        token.attempt = 1


class ResolvesTwice(Transition):
    def resume(
        self,
        tenant: str,
        key: Key,
        resolution: bytes | None,
        *,
        by: str = "",
        wait_key: str | None = None,
    ) -> bool:
        token, run = self.token(key), self.run(key[0])
        if token is not None and run is not None and token.resolution is not None:
            token.state = "waiting"
        return super().resume(tenant, key, resolution, by=by, wait_key=wait_key)


class EarlySignalsAreDropped(Transition):
    def _send_signal(self, run: Run, change: SendSignal) -> str | None:
        if self._longest_waiting(run, change.name) is None and run.status not in TERMINAL:
            return None
        return super()._send_signal(run, change)


class KeptSignalsAreForgotten(Transition):
    def _receive_kept(self, run: Run, token: Token) -> None:
        """It waits for the next one."""


class SignalsStay(Transition):
    """What was received is received again."""

    def _receive(self, run: Run, token: Token, signal: Signal, data: bytes) -> None:
        super()._receive(run, token, signal, data)
        signal.node, signal.scope = "", ""


class SignalsCountAgain(Transition):
    """A signal that is sent again is another one."""

    def _send_signal(self, run: Run, change: SendSignal) -> str | None:
        source = self._source
        self._source = _KnowsNoSignal(source)
        try:
            return super()._send_signal(run, change)
        finally:
            self._source = source


class _KnowsNoSignal:
    def __init__(self, source: Any) -> None:
        self._source = source

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)

    def load_signal(self, run: str, id: str) -> None:
        return None


class NewestWaiterFirst(Transition):
    def _longest_waiting(self, run: Run, name: str) -> Token | None:
        waiting = self._source.find_waiting(run, "signal", name)
        found = max(waiting, key=lambda token: token.wait_event, default=None)
        return None if found is None else self.tokens.setdefault(found.key, found)


class DataMeansATimeout(Transition):
    """What came says itself whether it is a timeout."""

    def resume(
        self,
        tenant: str,
        key: Key,
        resolution: bytes | None,
        *,
        by: str = "",
        wait_key: str | None = None,
    ) -> bool:
        if resolution is not None and msgspec.json.decode(resolution) == {"timed_out": True}:
            resolution = None
        return super().resume(tenant, key, resolution, by=by, wait_key=wait_key)


class TimersWithoutCounting(Transition):
    """A waiting token is not counted, so the run may be over while it waits."""

    def _waiting(self, run: Run, token: Token, item: Any) -> None:
        super()._waiting(run, token, item)
        run.counter -= 1
        if run.counter == 0:
            self._complete(run)


class SlotsAreNotPassedOn(Transition):
    def promote_waiters(self) -> None:
        self._freed.clear()


class StepsHaveNoFence(Transition):
    """The last worker writes a step's result, whether or not it still holds the token."""

    def record_step(self, tenant: str, new: NewStep) -> bytes | Refusal:
        key = (new.run, new.node, new.scope)
        run = self.run(new.run)
        if run is None or run.tenant != tenant or self.token(key) is None:
            return "lost"
        self.steps[(key, new.name)] = new.value
        self._append(run, events.StepRecorded(*key[1:], new.name, msgspec.Raw(new.value)))
        return new.value


class StepsAreRecordedAgain(Transition):
    """A step that has a result is recorded once more, with the new one."""

    def record_step(self, tenant: str, new: NewStep) -> bytes | Refusal:
        key = (new.run, new.node, new.scope)
        answer = super().record_step(tenant, new)
        run = self.run(new.run)
        if isinstance(answer, bytes) and (key, new.name) not in self.steps and run is not None:
            self.steps[(key, new.name)] = new.value
            self._append(run, events.StepRecorded(*key[1:], new.name, msgspec.Raw(new.value)))
        return answer


class StartsAgain(ModelStore):
    """An idempotency key is not looked up."""

    async def create_runs(self, runs: Sequence[NewRun]) -> list[Run | RunConflictError]:
        anonymous = [msgspec.structs.replace(run, idempotency_key=None) for run in runs]
        answers = await super().create_runs(anonymous)
        for run, answer in zip(runs, answers, strict=True):
            if isinstance(answer, Run):
                self._runs[run.run].idempotency_key = run.idempotency_key
        return answers


# ── workers ─────────────────────────────────────────────────────────────────────────────────


class FaultyWorker(Worker):
    """A worker of which some parts are replaced: they keep their state and get other methods."""

    pipeline: type[Pipeline] = Pipeline
    workload: type[Workload] = Workload
    sweeping: type[Sweeping] = Sweeping
    loop: type[Loop] = Loop

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._pipeline.__class__ = self.pipeline
        self._workload.__class__ = self.workload
        self._sweeping.__class__ = self.sweeping
        self._loop.__class__ = self.loop


class _OwnClock(Sweeping):
    def now_ms(self) -> int:
        return self._clock.now_ms()


class TrustsItsOwnClock(FaultyWorker):
    sweeping = _OwnClock


class _FailsInAnOutage(Loop):
    async def work(self) -> None:
        try:
            await super().work()
        except StoreUnavailableError as error:
            raise RuntimeError("the store is away") from error


class CannotStopInAnOutage(FaultyWorker):
    """A request to stop while the store is away ends the worker with an error."""

    loop = _FailsInAnOutage


class _StartsLate(Pipeline):
    async def run(self, assignment: Assignment) -> Item | None:
        await asyncio.sleep(8)
        return await super().run(assignment)


class _AbandonsNothing(Workload):
    def revoke(self, key: Key, lease: str) -> None:
        pass

    def abandon_run(self, run: str) -> None:
        pass


class StartsWhatItHasTaken(FaultyWorker):
    """A worker keeps what it has taken for later, and starts it without another look."""

    pipeline = _StartsLate
    workload = _AbandonsNothing


class _EndsRuns(Loop):
    def _judge(self, assignment: Assignment, item: Item, result: Result, reply: Reply) -> None:
        super()._judge(assignment, item, result, reply)
        if isinstance(item, Failed):
            self._workload.abandon_run(assignment.grant.run)


class AnyFailureEndsTheRun(FaultyWorker):
    """A failure that was handed in is taken for the end of the run, also if it came too late."""

    loop = _EndsRuns


class _GivesBack(Pipeline):
    async def run(self, assignment: Assignment) -> Item | None:
        item = await super().run(assignment)
        if isinstance(item, Failed) and item.dead_letter == "no_plan":
            return assignment.release()
        return item


class WaitsForThePlan(FaultyWorker):
    """A token whose plan is missing is given back, to be taken again at once."""

    pipeline = _GivesBack


class ServesEveryQueue(Worker):
    """A worker takes any queue with constraints for one of its own."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._queues.placed = _AnyQueue(self._queues.offer())


class _AnyQueue(PlacedQueues):
    def _verdict(self, queue: str) -> Placement | None:
        return read_placement(queue)


class _CountsNothing(Workload):
    def running(self) -> Counter[LimitedNode]:
        return Counter()


class ForgetsWhatRuns(FaultyWorker):
    """A worker takes as if nothing of a node were running."""

    workload = _CountsNothing


class _LoadsAgain(Pipeline):
    async def run(self, assignment: Assignment) -> Item | None:
        if assignment.outcome is not None:
            await self.preparing.load_program(assignment)
        return await super().run(assignment)


class GivesUpOnTheNewPlan(FaultyWorker):
    pipeline = _LoadsAgain


@contextmanager
def key_per_attempt() -> Iterator[None]:
    """The idempotency key changes with each attempt."""
    right = Context.idempotency_key
    wrong = property(lambda ctx: f"{ctx.run_id}/{ctx.node_id}/{ctx.scope_text}/{ctx.attempt}")
    Context.idempotency_key = wrong  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        Context.idempotency_key = right  # type: ignore[method-assign]


# ── bytes of outputs ────────────────────────────────────────────────────────────────────────


class BytesNotLimited(Transition):
    def _judge(self, run: Run, token: Token, item: Item) -> Result | None:
        refusal = super()._judge(run, token, item)
        return None if refusal == "full" else refusal


class BytesNotKept(Transition):
    def _done(self, run: Run, token: Token, item: Done) -> None:
        before = run.output_bytes
        super()._done(run, token, item)
        run.output_bytes = before


@contextmanager
def full_runs_go_on() -> Iterator[None]:
    """A worker drops a result that its run has no room for."""
    right = Loop._judge

    def wrong(self: Loop, assignment: Any, item: Item, result: Result, reply: Reply) -> None:
        right(self, assignment, item, "stale" if result == "full" else result, reply)

    Loop._judge = wrong  # type: ignore[method-assign]
    try:
        yield
    finally:
        Loop._judge = right  # type: ignore[method-assign]


# ── deployed workflows ──────────────────────────────────────────────────────────────────────


class ReplacesVersions(ModelStore):
    """What a tag names is replaced, under its number."""

    async def deploy_workflow(
        self, new: WorkflowVersion, tags: Sequence[str] = ()
    ) -> Deployed | None:
        named = self._named.get((new.tenant, new.name), Named())
        number = named.tags.get(tags[0])
        if number is None:
            return await super().deploy_workflow(new, tags)
        kept = msgspec.structs.replace(new, version=number)
        self._versions[new.tenant, new.name, number] = kept
        return Deployed(kept, is_new=True)


@contextmanager
def newest_number() -> Iterator[None]:
    """A tag leads to a version's content, and to the newest number."""
    right = Registry.find

    async def wrong(self: Registry, tenant: str, text: str) -> Resolved:
        found = await right(self, tenant, text)
        newest = await self._store.read_workflow(tenant, found.version.name)
        number = found.version.version if newest is None else newest.newest
        version = msgspec.structs.replace(found.version, version=number)
        return msgspec.structs.replace(found, version=version)

    Registry.find = wrong  # type: ignore[method-assign]
    try:
        yield
    finally:
        Registry.find = right  # type: ignore[method-assign]


@contextmanager
def unseen_means_another() -> Iterator[None]:
    """A run whose first event cannot be read yet is taken for that of another request."""
    right = Starter._is_same

    async def wrong(self: Starter, run_id: str, new: NewRun) -> bool:
        try:
            return await right(self, run_id, new)
        except StoreUnavailableError as error:
            if "cannot be read yet" in str(error):
                return False
            raise

    Starter._is_same = wrong  # type: ignore[method-assign]
    try:
        yield
    finally:
        Starter._is_same = right  # type: ignore[method-assign]


# ── families ────────────────────────────────────────────────────────────────────────────────


class ForgetsRelatives(Transition):
    def _leave_unreported(self, run: Run) -> None:
        pass


class WaitsForWhatIsOver(Transition):
    def _is_over(self, run: Run, child: str) -> bool:
        return False


class ReportedThoughAwaited(Transition):
    """A run counts as reported although its parent waits for it."""

    def _is_parent_waiting(self, run: Run) -> bool:
        return False


class StartsChildrenWithoutLease(Transition):
    def _is_held(self, tenant: str, held: Held) -> bool:
        return True


@contextmanager
def child_of_each_process() -> Iterator[None]:
    real = families.child_id

    def own(instance: Key, number: int = 0) -> str:
        run, node, scope = instance
        return real((run, node, f"{scope} {current_process().name}"), number)

    vars(children)["child_id"] = own
    try:
        yield
    finally:
        vars(children)["child_id"] = real


@contextmanager
def children_go_on() -> Iterator[None]:
    real = reporting._cancel_children

    async def nothing(store: Any, run: Run) -> None:
        pass

    reporting._cancel_children = nothing
    try:
        yield
    finally:
        reporting._cancel_children = real
