"""One seed: the workflow in the simulated world, and what happened to it.

    a run under faults ──► faults stop ──► the run must end, or wait for somebody

Long waits are skipped: when nothing can happen before a distant moment, the store's clock is
set to it.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import hashlib
import io
import json
import random
from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec

from minuet.app.app import App
from minuet.app.compiling import CompiledWorkflow, compile_child, compile_source
from minuet.approvals import APPROVAL_WAIT, Verdict, id_of
from minuet.errors import RunConflictError, RunNotFoundError
from minuet.events import Event, Place, RunFailed, decode_event
from minuet.ids import SeededIds
from minuet.kernel.program import Program
from minuet.nodes.io.human import HUMAN
from minuet.plan.plan import FLOW, HIDDEN, author_of
from minuet.rehearsal.fields import Shape
from minuet.rehearsal.handlers import Cast, Role, SimulatedSecrets, Start
from minuet.rehearsal.scenario import Scenario, draw_scenario
from minuet.rehearsal.steps import Functions, Repeated, StepCast
from minuet.rehearsal.values import draw_output, draw_schema
from minuet.rehearsal.watch import Turn, limits_met, rule_errors, turns_taken
from minuet.simulation.checker import BrokenRule, Checker
from minuet.simulation.client import Client, Promises, Script
from minuet.simulation.coverage import Coverage
from minuet.simulation.faults import Faults
from minuet.simulation.loop import DeadlockError, SimLoop, StepsExceededError
from minuet.simulation.model import ModelStore, StoreClock
from minuet.simulation.nemesis import Crew, Nemesis
from minuet.simulation.registry import Shelf
from minuet.simulation.server import Server
from minuet.simulation.store import SimStore
from minuet.simulation.streams import Streams
from minuet.simulation.surroundings import errors_logged
from minuet.store.changes import Repair, RepairAction
from minuet.store.records import (
    CHILD_SIGNAL,
    FLOW_WAIT,
    HOLD_WAIT,
    LIVE_STATES,
    SIGNAL_WAIT,
    Key,
    Run,
    Token,
)
from minuet.types import TERMINAL, Json
from minuet.worker.identity import Identity
from minuet.worker.preparing import CRASHES_MAX
from minuet.worker.worker import Worker

#: Seconds with faults, and how much more often they occur than in worlds with many runs.
FAULTS_S = 12.0
HASTE = 5.0

LEASE_S = 3.0

#: Seconds without any event after which a run counts as hanging.
HANG_S = 600.0

#: A world with more steps, or a run with more events, is not simulated to its end. Everything
#: that must hold is checked after each call, so large runs take too long.
STEPS_MAX = 300_000
EVENTS_MAX = 1_000

#: Waits longer than this many milliseconds are skipped, up to this close to their end.
SKIP_MS = 2_000
CLOSE_MS = 500

#: How likely it is that a signal or a decision comes that the run waits for, and after how many
#: seconds; and that the decision is an approval.
SIGNALS_SENT = 0.75
SIGNAL_S = 0.5
APPROVED = 0.6

#: How often somebody retries a node that is held. After that, it is skipped or fails.
HELD_RETRIES_MAX = 2

#: The code of the error with which it fails then.
LET_FAIL = "let_fail"

#: A line of the story: seconds since the start, the store's time, and what happened.
Line: TypeAlias = tuple[float, int, str | Event]


class InnerSetup(msgspec.Struct, frozen=True):
    """What all seeds have in common of a workflow inside another."""

    program: Program
    roles: Mapping[str, Role]
    shapes: Mapping[str, Shape]


class StageSetup(msgspec.Struct, frozen=True):
    """What all seeds have in common."""

    workflow: CompiledWorkflow
    program: Program
    roles: Mapping[str, Role]
    shapes: Mapping[str, Shape]
    without: tuple[str, ...] = ()
    #: Whether each seed draws the run's input.
    draws_input: bool = False
    #: Where handlers print to. None: nowhere.
    printed: Any = None
    #: What is needed of each workflow that is written inside it.
    inner: tuple[InnerSetup, ...] = ()
    #: The durable functions that it can come to.
    functions: Functions = Functions()


class Seen(msgspec.Struct):
    """What happened in one seed."""

    seed: int
    scenario: Scenario
    input: Json
    status: str = ""
    #: The node that failed the run, and its error.
    failed: tuple[str, dict[str, Any]] | None = None
    #: Instances whose handlers were started more than once, and how each start ended.
    repeated: list[tuple[str, list[Start]]] = []
    repeated_steps: list[Repeated] = []
    limits: list[tuple[str, str, str]] = []
    turns: set[Turn] = set()
    rule_errors: dict[Turn, str] = {}
    #: Where the run hangs, or what it waits for.
    hangs: list[str] = []
    waits: list[str] = []
    too_long: bool = False
    broken: BrokenRule | None = None
    story: list[Line] = []
    history: str = ""

    @property
    def end(self) -> str:
        """The run's last status, or why it did not end."""
        if self.broken is not None:
            return "BROKEN"
        if self.too_long:
            return "TOO LONG"
        if self.hangs:
            return "HANGS"
        return "WAITS" if self.waits else self.status


class _BrokenError(Exception):
    def __init__(self, broken: BrokenRule) -> None:
        self.broken = broken
        super().__init__(str(broken))


def rehearse(setup: StageSetup, seed: int, value: Json) -> Seen:
    """Play one seed."""
    stage = Stage(setup, seed, value)
    collecting = gc.isenabled()
    gc.disable()
    before = random.getstate()
    # Handlers that use the module `random` get the same numbers each time.
    random.seed(f"{seed}/handlers")
    try:
        with (
            errors_logged(stage.fail, "minuet.worker"),
            contextlib.redirect_stdout(setup.printed or _Nowhere()),
        ):
            stage.play()
        return stage.seen()
    finally:
        with contextlib.redirect_stdout(_Nowhere()):
            stage.loop.bury()
        random.setstate(before)
        if collecting:
            gc.enable()


class Stage:
    """The world of one seed."""

    def __init__(self, setup: StageSetup, seed: int, value: Json) -> None:
        self._setup = setup
        self._input = value
        self.streams = Streams(seed)
        roles = setup.roles
        stubs = [name for name, role in roles.items() if not role.is_real]
        timed = {name for name in stubs if roles[name].timeout_s is not None}
        if not setup.functions.are_real:
            nodes = setup.program.plan.nodes
            stubs += [author_of(node.id) for node in nodes if node.type == FLOW]
        self.scenario = draw_scenario(self.streams, stubs, timed, setup.without)
        self.loop = SimLoop(self.streams.get("schedule"), steps_max=STEPS_MAX)
        self.clock = StoreClock(self.loop.time)
        self.model = ModelStore(self.clock)
        coverage = Coverage()
        self._programs = programs = {setup.workflow.digest: setup.program}
        programs |= {one.program.digest: one.program for one in setup.inner}
        self.checker = Checker(self.model, programs, coverage, self.fail, self.loop.time, LEASE_S)
        self.server = Server(
            self.loop,
            self.model,
            self.checker,
            coverage,
            self.scenario.faults,
            self.streams.get("network"),
            self._note_call,
        )
        surroundings = (self.streams, self.scenario, LEASE_S, self._note)
        inner = {
            one.program.plan.name: Cast(one.roles, one.program, one.shapes, *surroundings)
            for one in setup.inner
        }
        self.steps = StepCast(setup.functions, *surroundings)
        self.cast = Cast(roles, setup.program, setup.shapes, *surroundings, inner)
        self.crew = Crew(self.loop, self._make_worker, self._worker_failed, lambda: 0.5)
        self.nemesis = Nemesis(
            self.loop,
            self.streams,
            self.scenario.faults,
            self.crew,
            self.server,
            self.clock,
            list,
            coverage,
            self._note,
            LEASE_S,
            HASTE,
        )
        self._coverage = coverage
        self._told = 0
        self._story: list[Line] = []
        self._hash = hashlib.blake2b(digest_size=16)
        self._broken: BrokenRule | None = None
        self._hangs: list[str] = []
        self._waits: list[str] = []
        self._too_long = False
        #: Waits for signals that were seen, and how many signals are on their way.
        self._awaited: set[tuple[Key, int]] = set()
        self._sending = 0

    # ── building ────────────────────────────────────────────────────────────────────────

    def _make_worker(self, name: str) -> Worker:
        clock = StoreClock(self.loop.time)
        if self.scenario.faults.of("skew"):
            clock.offset_ms = self.streams.get("skew").choice((-30_000, -200, 0, 200, 5_000))
        programs = [self._setup.program, *(one.program for one in self._setup.inner)]
        queues = {queue for program in programs for queue in program.queues}
        handlers = self.cast.handlers()
        for function in self._setup.functions.functions:
            handlers.add_function(function)
            # One can start another, and ask people.
            queues |= {node.queue for node in compile_source(function).plan.nodes}
            queues.add(HUMAN.queue)
        handlers.step_stand_ins = self.steps
        return Worker(
            SimStore(self.server),
            handlers=handlers,
            secrets=SimulatedSecrets(),
            queues=tuple(sorted(queues)),
            identity=Identity(name),
            heartbeat_ms=None,
            concurrency=4,
            lease_ms=int(LEASE_S * 1000),
            drain_ms=self.streams.get("drains").choice((0, 5_000)),
            # Give up only on handlers that kill their workers, not on unlucky ones.
            crashes_max=CRASHES_MAX if self.scenario.way == "crash" else 1_000_000,
            clock=clock,
            ids=SeededIds(self.streams.get("ids").getrandbits(62)),
            compile_child=self._compile_child,
        )

    def _compile_child(self, source: Any) -> list[tuple[str, bytes]]:
        """Compile a workflow that a durable function starts, and let everything here know it."""
        compiled = compile_source(source)
        plans = {compiled.digest: compiled.plan}
        plans |= {child.digest: child.plan for child in compiled.children}
        for digest, plan in plans.items():
            self._programs.setdefault(digest, Program(plan, digest))
        return compile_child(source)

    def _worker_failed(self, name: str, error: BaseException) -> None:
        self.fail(BrokenRule("worker", f"{name} ended with {type(error).__name__}: {error}"))

    def _start_client(self) -> None:
        workflow = self._setup.workflow
        script = Script(workflow, workflow, self._input, "rehearsal", 0.0)
        ids = SeededIds(self.streams.get("ids").getrandbits(62))
        app = App(SimStore(self.server), worker=False, clock=self.clock, ids=ids)
        shelf = Shelf(self.server.model, lambda: self.server.model.timeline, self.fail)
        self._client = Client(app, ids, [script], Promises(), shelf, self._coverage)
        self._client_process = self.loop.process("client")
        self._client_process.spawn(self._run_client(app, self._client))

    async def _run_client(self, app: App, client: Client) -> None:
        try:
            await app.open()
            await client.run()
        except Exception as error:
            self.fail(BrokenRule("client", f"it ended with {type(error).__name__}: {error}"))

    def _send_signals(self, waiting: list[Token]) -> None:
        """Send most of the signals that the run waits for, and decide most of what it asks people,
        and what becomes of most nodes that are held. The others never come."""
        for token in waiting:
            wait = (token.key, token.wait_event)
            if token.wait not in (SIGNAL_WAIT, APPROVAL_WAIT, HOLD_WAIT) or wait in self._awaited:
                continue
            self._awaited.add(wait)
            chance = random.Random(f"{self.streams.seed}/{wait}")
            if chance.random() >= SIGNALS_SENT:
                continue
            self._sending += 1
            if token.wait == APPROVAL_WAIT:
                self._client_process.spawn(self._decide(token, chance))
            elif token.wait == HOLD_WAIT:
                self._client_process.spawn(self._repair(token, chance))
            else:
                data = draw_output(chance, self._setup.shapes.get(token.node, Shape()))
                self._client_process.spawn(self._send(token, data, f"{wait}"))

    async def _send(self, token: Token, data: Json, id: str) -> None:
        await asyncio.sleep(SIGNAL_S)
        await self._client.send(token.run, token.wait_key, id, data)
        self._sending -= 1

    async def _decide(self, token: Token, chance: random.Random) -> None:
        await asyncio.sleep(SIGNAL_S)
        # Approvals lead further than rejections.
        decision: Verdict = "approve" if chance.random() < APPROVED else "reject"
        person = f"person-{token.wait_event}"
        await self._client.decide(
            id_of(token.wait_key), decision, person, lambda form: draw_schema(chance, form)
        )
        self._sending -= 1

    async def _repair(self, token: Token, chance: random.Random) -> None:
        """Decide what becomes of a node that failed and is held."""
        await asyncio.sleep(SIGNAL_S)
        retries = sum(key == token.key for key, _ in self._awaited) - 1
        actions: list[RepairAction] = ["fail"]
        if HIDDEN not in token.node:  # The list of a foreach needs all its places.
            actions.append("skip")
        if retries < HELD_RETRIES_MAX:
            actions += ["retry", "retry"]
        action = chance.choice(actions)
        error = {"code": LET_FAIL, "message": "it failed and was held, and somebody let it fail"}
        change = Repair(token.node, token.scope, action, by="somebody", error=error)
        store = SimStore(self.server)
        with contextlib.suppress(RunConflictError, RunNotFoundError):
            await self._client.repeat(lambda: store.change_run(token.tenant, token.run, change))
        self._sending -= 1

    # ── playing ─────────────────────────────────────────────────────────────────────────

    def play(self) -> None:
        """Run the world to its end."""
        self.loop.set_exception_handler(self._unexpected)
        main = self.loop.create_task(self._main(), context=self.loop.outer)
        try:
            self.loop.run_until_complete(main)
        except _BrokenError as error:
            self._broken = error.broken
        except DeadlockError as error:
            self._broken = BrokenRule("deadlock", str(error))
        except StepsExceededError:
            self._too_long = True

    def _unexpected(self, _: Any, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if "never retrieved" in context.get("message", "") and self._has_real_handlers():
            # A task that a handler created and abandoned. That is the handler's business.
            return
        self.fail(BrokenRule("unexpected", f"{context.get('message')}: {error!r}"))

    def _has_real_handlers(self) -> bool:
        return any(role.is_real for role in self._setup.roles.values())

    async def _main(self) -> None:
        for number in range(2):
            self.crew.hire(f"worker{number}")
        self._start_client()
        self.nemesis.begin()
        while self.loop.time() < FAULTS_S and not self._is_over():  # noqa: ASYNC110
            await asyncio.sleep(0.25)
        if self.scenario.faults.strength and not self._is_over():
            self._note("no more faults from here on")
        self.nemesis.heal()
        self.server.faults = Faults()
        self.cast.deaths = self.steps.deaths = 0.0
        seq, since = -1, self.loop.time()
        while not self._is_over():
            run = self._run()
            if run is not None and run.seq != seq:
                seq, since = run.seq, self.loop.time()
            elif self.loop.time() - since > HANG_S:
                self._hangs = [f"{t.node}: {t.state}" for t in self._live()]
                break
            await asyncio.sleep(1.0)
        run = self._run()
        if run is not None and self._broken is None:
            self.checker.check_again(run.run)

    def _run(self) -> Run | None:
        return next((run for run in self.model.runs() if run.parent is None), None)

    def _live(self) -> list[Token]:
        """The live tokens of all runs, except for those that wait for child runs."""
        tokens = [token for run in self.model.runs() for token in self.model.tokens(run.run)]
        return [t for t in tokens if t.state in LIVE_STATES and not _is_for_child(t)]

    def _is_over(self) -> bool:
        """Whether the run is over or waits for somebody. Skips ahead if it waits for a time."""
        run = self._run()
        if run is None:
            return False
        if run.status in TERMINAL:
            return True
        live, now_ms = self._live(), self.clock.now_ms()
        if not live:
            return False  # The end of a child run is on its way up.
        self._send_signals([token for token in live if token.state == "waiting"])
        if self._sending:
            return False
        if any(token.state == "leased" or (token.due_ms or now_ms) <= now_ms for token in live):
            waiting = [token for token in live if token.state == "waiting" and not token.due_ms]
            if waiting and len(waiting) == len(live) and run.deadline_ms is None:
                self._waits = [f"{t.node}: {t.wait} {t.wait_key!r}" for t in waiting]
                return True
            return False
        moments = [token.due_ms for token in live if token.due_ms is not None]
        if run.deadline_ms is not None:
            moments.append(run.deadline_ms)
        ahead_ms = min(moments, default=now_ms) - now_ms
        if ahead_ms > SKIP_MS:
            self._note(f"{(ahead_ms - CLOSE_MS) / 1000:g} s pass without any event")
            self.clock.offset_ms += ahead_ms - CLOSE_MS
        return False

    # ── telling ─────────────────────────────────────────────────────────────────────────

    def fail(self, broken: BrokenRule) -> None:
        """A rule is broken: end the world."""
        self._note(f"BROKEN {broken}")
        self.loop.fail(_BrokenError(broken))

    def _note(self, text: str) -> None:
        self._tell(text)
        self._hash.update(f"{self.loop.time():.6f} {text}\n".encode())

    def _note_call(self, text: str) -> None:
        """A call was made, or the store changed: add new events to the story."""
        self._hash.update(f"{self.loop.time():.6f} {text}\n".encode())
        if text.startswith("store:"):
            self._tell(text)
        run = self._run()
        if run is not None:
            records = self.model.events(run.run)
            for record in records[self._told :]:
                self._hash.update(record.data)
                self._tell(decode_event(record.data))
            self._told = len(records)
            if self._told > EVENTS_MAX:
                self.loop.fail(StepsExceededError(f"{self._told} events"))

    def _tell(self, what: str | Event) -> None:
        self._story.append((self.loop.time(), self.clock.now_ms(), what))

    def seen(self) -> Seen:
        """What happened. Call it before the world is torn down."""
        run = self._run()
        events = [event for _, _, event in self._story if not isinstance(event, str)]
        failed = next((e for e in events if isinstance(e, RunFailed)), None)
        self._hash.update(f"{run.status if run else ''} {self.loop.steps}".encode())
        return Seen(
            seed=self.streams.seed,
            scenario=self.scenario,
            input=self._input,
            status=run.status if run is not None else "PENDING",
            failed=(failed.node, failed.error) if failed is not None else None,
            repeated=self._repeated(),
            repeated_steps=self.steps.repeated(),
            limits=list(limits_met(events)),
            turns=turns_taken(events),
            rule_errors=rule_errors(events),
            hangs=self._hangs,
            waits=self._waits,
            too_long=self._too_long,
            broken=self._broken,
            story=self._story,
            history=self._hash.hexdigest(),
        )

    def _repeated(self) -> list[tuple[str, list[Start]]]:
        found: dict[Place, list[Start]] = self.cast.starts
        return [
            # Copied, because handlers that are still running are stopped with the world.
            (node, [Start(start.attempt, start.ended) for start in starts])
            for (node, _), starts in found.items()
            if len(starts) > 1
        ]


def _is_for_child(token: Token) -> bool:
    """Whether a token waits for nothing but child runs."""
    if token.wait != FLOW_WAIT or token.due_ms is not None:
        return token.wait == "child"
    names = json.loads(token.wait_key)
    return all(name.startswith(CHILD_SIGNAL) for name in names)


class _Nowhere(io.TextIOBase):
    """Discards what is printed."""

    def write(self, text: str) -> int:
        return len(text)
