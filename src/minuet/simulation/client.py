"""Clients: they start runs, interfere with them, and record what was promised.

A client follows a script that is drawn in advance: start a run, then cancel, pause, resume or
patch it, or fire its timer early, and perhaps delete it when it is over. A call without a reply is
repeated. A killed client starts its script again, with the same idempotency keys; what it was
promised before still counts.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from minuet.app.app import App
from minuet.app.compiling import CompiledWorkflow
from minuet.approvals import Verdict
from minuet.bridge.programs import Loaded, Programs
from minuet.bridge.translate import Translator
from minuet.errors import (
    ApprovalNotFoundError,
    InputError,
    NotAnApproverError,
    RunConflictError,
    RunNotFoundError,
    RunTimeoutError,
    StoreError,
    StoreUnavailableError,
)
from minuet.ids import Ids
from minuet.kernel.scope import decode
from minuet.simulation.approvals import PEOPLE
from minuet.simulation.coverage import Coverage
from minuet.simulation.documents import SIGNALS
from minuet.simulation.registry import Shelf, start_by_name
from minuet.simulation.repairs import Repairer
from minuet.store.changes import Change, NewPlan, Start
from minuet.store.exchange import Delivery
from minuet.store.records import DEFAULT_TENANT, TIMED_OUT, Key, Run, Snapshot
from minuet.types import TERMINAL, Json

#: How long a client waits for an end before it reads the run again.
PATIENCE = 5.0

#: How often a client looks for a timer to fire early.
LOOKS = 6

#: How often people look at what a run asks, and what they decide.
ROUNDS = 20
VERDICTS: tuple[Verdict, ...] = ("approve", "approve", "approve", "reject")


class Script(msgspec.Struct, frozen=True):
    """What a client does with one run."""

    workflow: CompiledWorkflow
    #: The same workflow under another description: another plan, with the same meaning.
    revised: CompiledWorkflow
    input: Any
    key: str
    start_at: float
    #: (seconds to wait before, what to do)
    actions: tuple[tuple[float, str], ...] = ()
    #: How often a run that did not complete is retried.
    retries: int = 0
    #: Create the run first, and start it with a second call.
    in_two_steps: bool = False
    tenant: str = DEFAULT_TENANT
    #: Try to delete the run right after its start, and delete it when it is over.
    deletes_early: bool = False
    deletes: bool = False
    #: Signals that it sends: (seconds to wait before, name, how often).
    signals: tuple[tuple[float, str, int], ...] = ()
    #: The tag of the deployed workflow that it starts a run of. None: it has the document.
    tag: str | None = None
    #: How often it undoes the run when that is over.
    rollbacks: int = 0
    #: Somebody repairs the run meanwhile.
    is_repaired: bool = False

    @property
    def name(self) -> str:
        """Unique among all scripts. Tenants may have the same keys."""
        return f"{self.tenant} {self.key}"


class Promise(msgspec.Struct, frozen=True):
    """Something that the store has acknowledged."""

    what: str
    run: str
    seq: int
    sent_at: float
    acked_at: float


class Seen(msgspec.Struct, frozen=True):
    """The end of a run, as a client saw it."""

    run: str
    status: str
    seq: int
    output: bytes


class Promises:
    """What all clients were promised and shown. It outlives them."""

    def __init__(self) -> None:
        #: Script → run.
        self.started: dict[str, str] = {}
        self.made: list[Promise] = []
        self.seen: list[Seen] = []
        #: Run and id of signals.
        self.signals: list[tuple[str, str]] = []
        #: Decisions: run, approval, decision, person.
        self.decisions: list[tuple[str, str, str, str]] = []
        #: Actions that got a reply, by script and position in it.
        self.done: set[tuple[str, int]] = set()
        #: Completed scripts.
        self.finished: set[str] = set()


def draw_actions(chance: random.Random) -> tuple[tuple[float, str], ...]:
    """Draw the actions on a run while it is open."""
    kinds = ("cancel", "pause", "patch", "resolve", "resume", "retry", "look")
    found = []
    for _ in range(chance.choice((0, 0, 1, 1, 2, 3))):
        kind = chance.choices(kinds, (3, 3, 6, 4, 2, 1, 2))[0]
        found.append((chance.expovariate(2), kind))
        if kind == "pause":
            found.append((chance.expovariate(1), "resume"))
    return tuple(found)


def draw_signals(chance: random.Random) -> tuple[tuple[float, str, int], ...]:
    """Draw the signals to a run: some come early, some twice, some too late."""
    return tuple(
        (chance.choice((0.0, 0.3, 1.0, 3.0)), chance.choice(SIGNALS), chance.choice((1, 1, 2)))
        for _ in range(chance.choice((0, 2, 4, 8)))
    )


class Client:
    """One client process with its own App."""

    def __init__(
        self,
        app: App,
        ids: Ids,
        scripts: list[Script],
        promises: Promises,
        shelf: Shelf,
        coverage: Coverage,
    ) -> None:
        self._app = app
        self._tenant = scripts[0].tenant
        self._ids = ids
        self._scripts = scripts
        self._promises = promises
        self._shelf = shelf
        self._coverage = coverage
        self._programs = Programs(app.store)

    async def run(self) -> None:
        """Follow all scripts concurrently."""
        loop = asyncio.get_running_loop()
        for task in [loop.create_task(self._follow(script)) for script in self._scripts]:
            await task

    async def _follow(self, script: Script) -> None:
        if script.name in self._promises.finished:
            return
        loop = asyncio.get_running_loop()
        await asyncio.sleep(max(0.0, script.start_at - loop.time()))
        run = await self._start(script)
        sending = loop.create_task(self._send(run, script))
        # A task more would change the order of all others.
        asks = any(node.type == "human" for node in script.workflow.plan.nodes)
        deciding = loop.create_task(self._ask_people(run, script)) if asks else None
        over: list[bool] = []
        repairing = (
            loop.create_task(self._repair(run, script, over)) if script.is_repaired else None
        )
        if script.deletes_early:
            await self._delete(run, script)
        for number, (delay, action) in enumerate(script.actions):
            if (script.name, number) not in self._promises.done:
                await asyncio.sleep(delay)
                await getattr(self, f"_{action}")(run, script)
                self._promises.done.add((script.name, number))
        for left in range(script.retries, -1, -1):
            status = await self._watch(run, script)
            if not left or status not in ("FAILED", "CANCELLED"):
                break
            await self._retry(run, script)
        for _ in range(script.rollbacks):
            await self._rollback(run, script)
        await sending
        if deciding is not None:
            await deciding
        if repairing is not None:
            over.append(True)
            await repairing
        if script.deletes:
            await self._delete(run, script)
        self._promises.finished.add(script.name)

    async def repeat(self, call: Callable[[], Awaitable[Any]]) -> Any:
        """Call until there is a reply."""
        while True:
            try:
                return await call()
            except StoreUnavailableError:
                self._coverage.hit("call repeated")
                await asyncio.sleep(0.2)

    # ── what clients do ─────────────────────────────────────────────────────────────────

    async def _start(self, script: Script) -> str:
        sent_at = asyncio.get_running_loop().time()
        run: str = await self.repeat(lambda: self._submit(script))
        if script.name in self._promises.started:
            self._coverage.hit("start repeated")
        self._promises.started.setdefault(script.name, run)
        self._acknowledge("create", run, 1, sent_at)
        if script.in_two_steps:
            await self._begin(run, script)
        return run

    async def _submit(self, script: Script) -> str:
        if script.tag is not None:
            return await start_by_name(
                self._app,
                self._tenant,
                script.workflow,
                script.tag,
                script.input,
                script.key,
                self._shelf,
                self._coverage,
            )
        if script.in_two_steps:
            return await self._create(script)
        return await self._app.start(script.workflow, script.input, idempotency_key=script.key)

    async def _begin(self, run: str, script: Script) -> None:
        """Start a run that was only created."""
        entries = self._translator(script).new_run(run, tenant="", input=b"null").entries
        start = Start(entries or (), input=msgspec.json.encode(script.input))
        store = self._app.store
        await self._change("Start", run, lambda: store.change_run(self._tenant, run, start))

    def _translator(self, script: Script) -> Translator:
        return self._programs.keep(script.workflow.digest, script.workflow.plan).translator

    async def _create(self, script: Script) -> str:
        """Create a run that is not started yet."""
        store = self._app.store
        await store.put_blob(script.workflow.data, tenant=self._tenant)
        new = self._translator(script).new_run(
            self._ids.run_id(), tenant=self._tenant, input=b"{}", idempotency_key=script.key
        )
        (answer,) = await store.create_runs([msgspec.structs.replace(new, entries=None)])
        if isinstance(answer, RunConflictError):
            raise answer
        return answer.run

    def _acknowledge(self, what: str, run: str, seq: int, sent_at: float) -> None:
        now = asyncio.get_running_loop().time()
        self._promises.made.append(Promise(what, run, seq, sent_at, now))

    async def _change(self, what: str, run: str, call: Callable[[], Awaitable[Run]]) -> bool:
        """Change a run. Returns whether that was possible."""
        sent_at = asyncio.get_running_loop().time()
        try:
            row = await self.repeat(call)
        except (RunConflictError, RunNotFoundError) as error:
            if what == "Cancel" and getattr(error, "status", "") == "COMPLETED":
                self._coverage.hit("race completion won")
            return False
        self._coverage.hit(f"change {what}")
        if what == "Cancel":
            self._coverage.hit("race cancel won")
        self._acknowledge(what, run, row.seq, sent_at)
        return True

    async def _send(self, run: str, script: Script) -> None:
        """Send the signals. A client that starts again sends them again."""
        for number, (delay, name, times) in enumerate(script.signals):
            await asyncio.sleep(delay)
            for _ in range(times):
                data: Json = {"v": number, "odd": False}
                await self.send(run, name, f"signal-{number}", data)

    async def send(self, run: str, name: str, id: str, data: Json) -> None:
        """Send a signal, again and again until there is a reply."""
        try:
            await self.repeat(lambda: self._app.signal(run, name, data, idempotency_key=id))
        except (RunConflictError, RunNotFoundError):
            self._coverage.hit("signal refused")
            return
        if (run, id) in self._promises.signals:
            self._coverage.hit("signal sent again")
        self._promises.signals.append((run, id))

    async def decide(
        self, id: str, decision: Verdict, by: str, draw: Callable[[dict[str, Any]], Json]
    ) -> None:
        """Decide an approval, again and again until there is a reply. `draw` makes data that fits
        a form."""
        try:
            asked = await self.repeat(lambda: self._app.approvals.show(id))
            data = None if asked.form is None else draw(asked.form)
            await self.repeat(
                lambda: self._app.approvals.decide(
                    id, decision, by=by, data=data, groups=asked.approvers
                )
            )
        except (RunConflictError, RunNotFoundError, NotAnApproverError, InputError):
            self._coverage.hit("decision refused")
            return
        except ApprovalNotFoundError:
            # A rollback of the store has lost the question.
            self._coverage.hit("question lost")
            return
        self._coverage.hit("decision made")
        self._promises.decisions.append((asked.run_id, id, decision, by))

    async def _ask_people(self, run: str, script: Script) -> None:
        """Let people decide what a run asks, two of them at the same moment."""
        loop = asyncio.get_running_loop()
        chance = random.Random(f"people {script.name}")
        for _ in range(ROUNDS):
            await asyncio.sleep(chance.choice((0.1, 0.5, 1.5)))
            try:
                pending = await self.repeat(lambda: self._app.approvals.list(run))
            except RunNotFoundError:
                return
            voting = [
                loop.create_task(
                    self.decide(one.id, chance.choice(VERDICTS), person, lambda form: None)
                )
                for one in pending
                for person in chance.sample(PEOPLE, 2)
            ]
            for vote in voting:
                await vote

    async def _repair(self, run: str, script: Script, over: list[bool]) -> None:
        repairer = Repairer(self._app, self._tenant, self._coverage, self._change, self.repeat)
        await repairer.repair(run, script.name, lambda: bool(over))

    async def _cancel(self, run: str, script: Script) -> None:
        await self._change("Cancel", run, lambda: self._app.cancel(run, reason="client"))

    async def _pause(self, run: str, script: Script) -> None:
        await self._change("Pause", run, lambda: self._app.runs.pause(run))

    async def _resume(self, run: str, script: Script) -> None:
        await self._change("Resume", run, lambda: self._app.runs.resume(run))

    async def _retry(self, run: str, script: Script) -> None:
        await self._change("RetryRun", run, lambda: self._app.runs.retry(run))

    async def _rollback(self, run: str, script: Script) -> None:
        """Undo a run that is over: twice at once, and at most one call may succeed."""
        loop = asyncio.get_running_loop()

        def call() -> Awaitable[Run]:
            return self._app.runs.rollback(run)

        rivals = [loop.create_task(self._change("Rollback", run, call)) for _ in range(2)]
        for rival in rivals:
            try:
                made = await rival
            except StoreError:
                made = False  # A rollback of the store has lost its plan.
            self._coverage.hit("rollback made" if made else "rollback refused")
        await self._watch(run, script)

    async def _delete(self, run: str, script: Script) -> None:
        """Delete a run. The store refuses unless it is over. What was seen of it stays true."""
        store = self._app.store
        count = await self.repeat(lambda: store.delete_runs(self._tenant, [run]))
        self._coverage.hit("run deleted" if count else "delete refused")

    async def _look(self, run: str, script: Script) -> None:
        try:
            result = await self.repeat(lambda: self._app.runs.show(run))
        except (RunNotFoundError, StoreError):
            return
        if result.status in TERMINAL:
            self._see(result)

    async def _resolve(self, run: str, script: Script) -> None:
        """Look for a timer and fire it early: twice at once, and only one call may succeed."""
        store = self._app.store
        keys: list[Key] = []
        for _ in range(LOOKS):
            waiting = await self.repeat(lambda: store.list_waiting(self._tenant, "timer"))
            keys = [token.key for token in waiting if token.run == run][:1]
            if keys:
                break
            await asyncio.sleep(0.3)
        loop = asyncio.get_running_loop()
        rivals = [loop.create_task(self._hurry(key)) for key in keys for _ in range(2)]
        for rival in rivals:
            self._coverage.hit("resolve won" if await rival else "resolve lost")

    async def _hurry(self, key: Key) -> bool:
        store = self._app.store
        won: bool = await self.repeat(
            # Data that looks like a timeout. It is not one.
            lambda: store.resolve(self._tenant, key, TIMED_OUT, by="client")
        )
        return won

    async def _patch(self, run: str, script: Script) -> None:
        """Continue with another plan. Repeat the deliveries of settled nodes."""
        store, revised = self._app.store, script.revised
        loaded = self._programs.keep(revised.digest, revised.plan)
        try:
            await self.repeat(lambda: store.put_blob(revised.data, run=run, tenant=self._tenant))
        except RunNotFoundError:
            return
        for look in range(2 * LOOKS):
            snapshot = await self.repeat(lambda: store.read_snapshot(self._tenant, run))
            if snapshot is None or snapshot.run.status in TERMINAL:
                return
            if look < LOOKS and not any(t.state == "leased" for t in snapshot.tokens):
                # More interesting while a handler still uses the old plan.
                await asyncio.sleep(0.05)
                continue
            change = NewPlan(revised.digest, _sent_again(loaded, snapshot))
            if await self._change("NewPlan", run, self._changing(run, change, snapshot.run.seq)):
                return

    def _changing(self, run: str, change: Change, seq: int) -> Callable[[], Awaitable[Run]]:
        return lambda: self._app.store.change_run(self._tenant, run, change, seq)

    async def _watch(self, run: str, script: Script) -> str:
        """Wait for the end of a run, and record it."""
        while True:
            try:
                result = await self._app.wait(run, timeout=PATIENCE)
            except (RunTimeoutError, StoreUnavailableError):
                await asyncio.sleep(0.2)
                if script.in_two_steps:
                    # A rollback of the store may have lost the start.
                    await self._begin(run, script)
                continue
            except (RunNotFoundError, StoreError):
                return ""
            self._see(result)
            return str(result.status)

    def _see(self, result: Any) -> None:
        output = msgspec.json.encode(result.output)
        self._promises.seen.append(Seen(result.run_id, result.status, result.seq, output))


def _sent_again(loaded: Loaded, snapshot: Snapshot) -> tuple[tuple[str, str, Delivery], ...]:
    """The deliveries of settled nodes. A patch that repeats them must change nothing."""
    again: list[tuple[str, str, Delivery]] = []
    for token in snapshot.tokens:
        node = loaded.program.nodes[token.node]
        if token.state == "done" and node.loop is None:
            sends = loaded.program.sends(node, decode(token.scope), ())
            again += [(token.node, token.scope, d) for d in loaded.translator.deliveries(sends)]
    return tuple(again)
