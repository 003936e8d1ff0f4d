"""One world: a store, workers, clients, a nemesis, and a judge. A seed decides all of it.

    faults ──► heal ──► everything must end ──► judge

`run.simulate` builds the world that a `Config` describes, runs it, and returns its outcome.
The same config gives the same history, byte for byte, in any interpreter.
"""

from __future__ import annotations

import asyncio
import collections
import hashlib
from typing import Any

import msgspec

from minuet.app.compiling import CompiledWorkflow, compile_child, compile_source
from minuet.bridge.rebuild import rebuild
from minuet.bridge.snapshot import plan_of
from minuet.errors import RunConflictError
from minuet.kernel.program import Program
from minuet.nodes.handler import Handlers
from minuet.simulation.agents import Agents, draw_document
from minuet.simulation.approvals import add_approvals
from minuet.simulation.callers import Callers
from minuet.simulation.checker import BrokenRule, Checker
from minuet.simulation.client import Script, draw_actions, draw_signals
from minuet.simulation.config import Config, Outcome
from minuet.simulation.contents import Contents
from minuet.simulation.coverage import Coverage
from minuet.simulation.documents import HANDLERS, SIGNALS, add_children, draw_workflow, limit_bytes
from minuet.simulation.faults import Faults, draw_faults
from minuet.simulation.fleet import FIRST, HEARTBEAT_MS, Foreman, Placing, draw_identity
from minuet.simulation.functions import Functions
from minuet.simulation.handlers import Outside
from minuet.simulation.intruder import Intruder
from minuet.simulation.judge import determined_results, judge
from minuet.simulation.logged import LogModel, LogServer
from minuet.simulation.loop import Process, SimLoop
from minuet.simulation.model import StoreClock
from minuet.simulation.nemesis import Crew, Nemesis
from minuet.simulation.opening import Opening
from minuet.simulation.parts import REAL, Parts
from minuet.simulation.profiles import PROFILES
from minuet.simulation.programs import Tree
from minuet.simulation.registry import TAGS, Shelf, revise, variants
from minuet.simulation.repairs import add_holds
from minuet.simulation.server import Server, apply
from minuet.simulation.stalls import watch_stalls
from minuet.simulation.store import SimStore
from minuet.simulation.streams import Streams
from minuet.simulation.undo import add_undo
from minuet.simulation.webhooks import Hooks
from minuet.store.changes import Resume, SendSignal
from minuet.store.records import DEFAULT_TENANT, FLOW_WAIT, LIVE_STATES, Key, Run, Snapshot
from minuet.types import TERMINAL
from minuet.webhooks.outbox import OUT
from minuet.worker.worker import Worker

#: Seconds with faults, and seconds in which everything must end afterwards.
FAULTS_S = 12.0
LIVENESS_S = 300.0

#: A run with many waits may take longer, as long as there is a new event within so many seconds.
QUIET_S = 30.0

#: The tenants.
TENANTS = (DEFAULT_TENANT, "second", "third")

#: How many lines of the trace are kept.
TRACE_LINES = 400


class BrokenError(Exception):
    """Carries a broken rule out of the world."""

    def __init__(self, broken: BrokenRule) -> None:
        self.broken = broken
        super().__init__(str(broken))


class World:
    """The world of one seed."""

    def __init__(self, config: Config, parts: Parts = REAL) -> None:
        self.config = config
        self.parts = parts
        self.streams = Streams(config.seed)
        self.coverage = Coverage()
        drawn = draw_faults(self.streams.get("faults"))
        profile = PROFILES[config.store] if config.store else None
        if profile is not None:
            drawn = profile.apply(drawn)
        strong = dict.fromkeys(config.add, 1.0)
        self.faults = Faults({**drawn.strength, **strong}).without(*config.without)
        chance = self.streams.get("world")
        self.lease_s = chance.choice((1.0, 3.0))
        self._workers = _drawn(config.workers, chance.choice((1, 2, 3)))
        self._runs = _drawn(config.runs, chance.choice((1, 1, 2, 3)))
        self._size = _drawn(config.size, chance.choice((1, 3, 5, 8, 14)))
        self.sends_max = chance.choice((1, 2, 3, 2000))
        self.crashes_max = chance.choice((2, 3, 3))
        self.loop = SimLoop(self.streams.get("schedule"), steps_max=config.steps_max)
        self.clock = StoreClock(self.loop.time)
        self.model = parts.store(self.clock, transition=parts.transition)
        self.programs: dict[str, Program] = {}
        #: Large contents, in worlds that keep them outside the store.
        self.contents: Contents | None = None
        drawing = self.streams.get("contents")
        if drawing.random() < 0.5 or "contents" in config.add:
            self.contents = Contents(drawing, lambda: self.server.faults, self.coverage)
        #: The log of a logged store. The model is then its hot half.
        self.log: LogModel | None = None
        if profile is not None and profile.logged:
            self.log = LogModel(StoreClock(self.loop.time))
            self.model.is_half = True
        self.checker = Checker(
            self.model,
            self.programs,
            self.coverage,
            self.fail,
            self.loop.time,
            self.lease_s,
            self._has_blob,
        )
        self.checker.leases.crashes_max = self.crashes_max
        if self.log is not None:
            self.checker.leases.logged = self.log.events
        self._hash = hashlib.blake2b(digest_size=16)
        self._trace: collections.deque[str] = collections.deque(
            maxlen=None if config.trace else TRACE_LINES
        )
        self.server = Server(
            self.loop,
            self.model,
            self.checker,
            self.coverage,
            self.faults,
            self.streams.get("network"),
            self.trace,
        )
        self.log_server = (
            None
            if self.log is None
            else LogServer(self.loop, self.log, self.coverage, self.streams.get("log"), self.trace)
        )
        self.server.kill_before, self.server.kill_after = config.kill_before, config.kill_after
        self.outside = Outside(self.streams, self.faults, self.coverage, self.lease_s)
        self.outside.watch = self._note_start
        tenants = _drawn(config.tenants, self.streams.get("tenants").choice((1, 2, 2, 3)))
        self.tenants = TENANTS[: min(tenants, self._runs)]
        drawn_fleet = self.streams.get("fleet").random() < 0.5
        self.is_fleet = drawn_fleet if config.fleet is None else config.fleet
        drawn_families = self.streams.get("families").random() < 0.3
        self.has_families = drawn_families if config.families is None else config.families
        drawn_registry = self.streams.get("registry").random() < 0.25
        self.has_registry = drawn_registry if config.registry is None else config.registry
        drawn_functions = self.streams.get("functions").random() < 0.35
        self.has_functions = drawn_functions if config.functions is None else config.functions
        drawn_agents = self.streams.get("agents").random() < 0.2
        self.has_agents = drawn_agents if config.agents is None else config.agents
        drawn_letters = self.streams.get("letters").random() < 0.25
        self.has_letters = drawn_letters if config.letters is None else config.letters
        self.functions = Functions(
            self.model,
            self.programs,
            self.streams,
            lambda: self.outside.faults,
            self.coverage,
            self.lease_s,
            lambda *found: self.fail(BrokenRule(*found)),
        )
        if self.log is not None:
            self.functions.durable = self.log.events
        self.agents = Agents(
            self.model,
            self.streams,
            lambda: self.outside.faults,
            self.coverage,
            self.lease_s,
            self.functions.durable,
            lambda key, lease: self.checker.leases.grants.get((key, lease)),
            lambda *found: self.fail(BrokenRule(*found)),
        )
        self.checker.function_rules = lambda *about: (
            *self.functions.event_rules(*about),
            *self.agents.event_rules(*about),
        )
        #: A log is not rolled back.
        self.shelf = Shelf(
            self.log or self.model,
            lambda: self.model.timeline if self.log is None else 0,
            self.fail,
        )
        self._placing = Placing(self.model, self.streams.get("placing"), self.coverage, self.fail)
        if self.is_fleet:
            self.checker.watch_exchange = self._placing.check_exchange
            self.outside.began, self.outside.ended = self._placing.begin, self._placing.end
        self._handlers: dict[str, Handlers] = {}
        self.scripts: list[Script] = []
        for number in range(self._runs):
            self.scripts.append(self._draw_script(number))
        self._opening = Opening(parts, self.server, self.log_server, self.contents, self._rebuilt)
        self.callers = Callers(
            self.loop,
            self.streams,
            self.tenants,
            self.scripts,
            self.shelf,
            self._opening.make,
            self.clock,
            self.coverage,
            self.fail,
        )
        #: Members of the crew and their tenants: several for the first, one for each other tenant.
        self._members = {f"worker{n}": DEFAULT_TENANT for n in range(self._workers)}
        self._members |= {f"{tenant}0": tenant for tenant in self.tenants[1:]}
        self.crew = Crew(self.loop, self._make_worker, self._worker_failed, self._restart_s)
        self.nemesis = Nemesis(
            self.loop,
            self.streams,
            self.faults,
            self.crew,
            self.server,
            self.clock,
            lambda: [p for p in self.callers.clients if p.alive],
            self.coverage,
            self.trace,
            self.lease_s,
            config.haste,
        )
        self.intruder = Intruder(
            self.server,
            self.loop.process("intruder"),
            self.tenants,
            self.streams.get("intruder"),
            self.coverage,
            self.fail,
            self.trace,
        )
        self.foreman = Foreman(
            SimStore(self.server),
            self.loop.process("foreman"),
            self.tenants,
            self.streams.get("foreman"),
            self.coverage,
        )
        #: Those who send webhooks, and those who get them.
        self.hooks: Hooks | None = None
        if config.webhooks:
            self.hooks = Hooks(
                self.loop,
                self._opening.connect,
                StoreClock(self.loop.time),
                self.streams.get("webhooks"),
                self.coverage,
                self.fail,
                (self.log or self.model).events,
                lambda: self.log is None and self.model.timeline > 0,
            )
        threads = self.streams.get("threads")
        self.loop.thread_seconds = lambda: threads.expovariate(20)

    def _has_blob(self, tenant: str, run: str, ref: str) -> bool:
        if self.log is not None and self.log.is_deleted(run):
            # After a rollback the server has the run again for a moment, but not its blobs.
            return True
        stored = (self.log or self.model).find_blob(tenant, run, ref)
        if self.contents is not None:
            return self.contents.has(tenant, run, stored)
        return stored is not None

    def _note_start(self, instance: Key, process: Process) -> None:
        self.checker.leases.note_start(instance, process)
        if self.log is not None:
            lease = self.outside.starts[instance][-1].lease
            self.checker.leases.check_gate(instance, lease)

    # ── building ────────────────────────────────────────────────────────────────────────

    def _draw_script(self, number: int) -> Script:
        chance = self.streams.get("workload")
        adjust = self._adjust
        workflow = draw_workflow(chance, self._size, f"w{number}", self.coverage, adjust)
        tree = self._draw_function()
        if tree is not None:
            workflow = compile_source(self.functions.function)
        elif self.has_agents and self.streams.get("agents").random() < 0.7:
            document = draw_document(self.streams.get("agents"), f"a{number}", self.coverage)
            workflow = compile_source(document)
        if self.scripts and chance.random() < 0.3:
            former = self.scripts[-1]
            workflow, tree = former.workflow, former.input.get("tree")
        revised = revise(workflow, "revised")
        tag = None
        deployed: list[CompiledWorkflow] = []
        if self.has_registry:
            deployed = variants(workflow)
            tag = self.streams.get("registry").choice((None, *TAGS))
        for compiled in (workflow, revised, *deployed):
            self.programs[compiled.digest] = Program(compiled.plan, compiled.digest)
        for child in workflow.children:
            self.coverage.hit("construct child")
            self.programs[child.digest] = Program(child.plan, child.digest)
        actions = draw_actions(chance)
        deleting = self.streams.get("deleting")
        return Script(
            workflow,
            revised,
            {"n": chance.randrange(1000), "key": chance.choice(("a", "b"))}
            | ({} if tree is None else {"tree": tree}),
            # Tenants may have the same keys.
            f"key-{number // len(self.tenants)}",
            chance.choice((0.0, 0.0, 1.0, 4.0)),
            () if self.config.calm_clients else actions,
            chance.choice((0, 1, 2)),
            chance.random() < 0.15 and tag is None,
            self.tenants[number % len(self.tenants)],
            deleting.random() < 0.1 and not self.config.calm_clients,
            deleting.random() < 0.25 and not self.config.calm_clients,
            draw_signals(self.streams.get("signals")),
            tag,
            self.streams.get("undo").choice((0, 1, 2)) if self.config.undo else 0,
            self.config.repairs,
        )

    def _draw_function(self) -> Tree | None:
        """The program of a run that is a durable function; None: it is not."""
        chance = self.streams.get("functions")
        if not self.has_functions or chance.random() < 0.4:
            return None
        self.coverage.hit("construct function")
        return self.functions.draw_tree(chance)

    def _adjust(self, document: dict[str, Any]) -> None:
        """Add what all worlds do not have."""
        if self.has_families:
            add_children(document)
        if self.has_functions:
            self.functions.add(document)
        if self.is_fleet:
            self._placing.add(document)
        if self.config.approvals:
            add_approvals(document)
        if self.config.undo:
            add_undo(document)
        if self.config.volume:
            limit_bytes(document)
        if self.config.repairs:
            add_holds(document)

    def _make_worker(self, name: str) -> Worker:
        chance = self.streams.get("ids")
        skew_ms = 0
        if self.faults.of("skew"):
            skew_ms = self.streams.get("skew").choice((-30_000, -200, 0, 200, 5_000))
            self.coverage.hit("fault skew")
        clock = StoreClock(self.loop.time)
        clock.offset_ms = skew_ms
        member = name.partition(".")[0]
        return self.parts.worker(
            self._opening.connect(name),
            handlers=self._handlers_of(member),
            tenant=self._members[member],
            identity=self._placing.introduce(draw_identity(member, self.streams)),
            heartbeat_ms=HEARTBEAT_MS if self.is_fleet else None,
            concurrency=chance.choice((1, 2, 4)),
            lease_ms=int(self.lease_s * 1000),
            # Handlers that take long, as calls of services do.
            lease_ms_by_queue={"task:fickle": int(self.lease_s * 2000)},
            drain_ms=chance.choice((0, 500, 5_000)),
            crashes_max=self.crashes_max,
            clock=clock,
            ids=self.parts.ids(chance.getrandbits(62), self.model),
            compile_child=compile_child,
            client=self.agents.client,
        )

    def _rebuilt(self, logged: Snapshot) -> Snapshot:
        return rebuild(logged, self.programs[plan_of(logged) or ""], self.clock.now_ms())

    def _handlers_of(self, member: str) -> Handlers:
        """The handlers of a member of the crew. The first member of each tenant has all of them."""
        known = self._handlers.get(member)
        if known is None:
            chance = self.streams.make(f"handlers/{member}")
            lacking = chance.sample(sorted(HANDLERS), chance.choice((0, 0, 1, 4)))
            known = self.outside.handlers(lacking if member not in FIRST else ())
            if member in FIRST or self.streams.make(f"functions/{member}").random() < 0.7:
                known.add_function(self.functions.function)
            self.agents.add_tools(known)
            self._handlers[member] = known
        return known

    def _restart_s(self) -> float:
        return self.streams.get("restarts").choice((0.1, 1.0, 3.0))

    def _worker_failed(self, name: str, error: BaseException) -> None:
        self.fail(BrokenRule("worker", f"{name} ended with {type(error).__name__}: {error}"))

    # ── running ─────────────────────────────────────────────────────────────────────────

    async def run(self) -> None:
        """Cause faults, stop them, and wait for the end of all runs."""
        for member in self._members:
            self.crew.hire(member)
        self.callers.start_clients()
        self.nemesis.begin()
        if self.hooks is not None:
            self.hooks.begin()
        if self.config.stalls:
            watch_stalls(self.loop, self._opening.connect, self.tenants, self.clock, self.coverage)
        if self.log_server is not None and not self.config.calm_clients:
            self.log_server.begin(self.server.lose_everything)
        if not self.config.calm_clients:
            self.intruder.process.spawn(self.intruder.run())
            if self.is_fleet:
                self.foreman.process.spawn(self.foreman.run())
            if self.has_registry:
                for tenant in self.tenants:
                    self.callers.start_deployer(tenant)
            if self.has_letters:
                for tenant in self.tenants:
                    self.callers.start_clerk(tenant)
        while self.loop.time() < FAULTS_S and not self._is_over():  # noqa: ASYNC110
            await asyncio.sleep(0.25)
        self.trace("heal")
        self.nemesis.heal()
        if self.hooks is not None:
            self.hooks.heal()
        if self.log_server is not None:
            self.log_server.heal()
        self.intruder.process.kill()
        self.foreman.process.kill()
        for caller in (*self.callers.deployers, *self.callers.clerks):
            caller.kill()
        self.server.faults = self.outside.faults = self._left_over_faults()
        deadline, known = self.loop.time() + LIVENESS_S, 0
        while not self._is_over():
            if self.loop.time() > deadline:
                events = sum(run.seq for run in self.model.runs())
                if events == known:
                    self.fail(
                        BrokenRule("I37", f"not over long after the faults: {self._unfinished()}")
                    )
                deadline, known = deadline + QUIET_S, events
            await asyncio.sleep(0.25)
            self._resume_paused()
            self._send_awaited()
        if self.log is not None:
            self._bring_back(self.log)
        judge(self)

    def _left_over_faults(self) -> Faults:
        # What a workflow's own code does to its worker is not a fault of the surroundings.
        crash = self.faults.of("crash")
        return Faults({"crash": crash} if crash else {})

    def _is_over(self) -> bool:
        # Nobody repeats a start that was acknowledged and then lost, or the start of a deleted
        # run that a late call created again.
        return (
            self._is_logged()
            and not self.model.unreported()
            and (self.hooks is None or not self._has_unsent())
            and len(self.callers.promises.finished) == len(self.scripts)
            and all(
                run.status in TERMINAL
                or (run.status == "PENDING" and (self.model.timeline or self._was_deleted(run)))
                for run in self.model.runs()
            )
        )

    def _was_deleted(self, run: Run) -> bool:
        """Whether a run was deleted and created again: under its name, or under the one that an
        earlier call for the same key had for it."""
        started = self.callers.promises.started.get(f"{run.tenant} {run.idempotency_key}")
        return run.run in self.deleted or started in self.deleted

    def _has_unsent(self) -> bool:
        """Whether receivers have to get something."""
        return bool(self.model.notable()) or (self.log or self.model).has_cells(OUT)

    def _is_logged(self) -> bool:
        """Whether the log, if there is one, has exactly what has happened."""
        log = self.log
        return log is None or all(
            self.model.events(run.run) == log.events(run.run)
            for run in self.model.runs()
            if not log.is_deleted(run.run)
        )

    @property
    def deleted(self) -> set[str]:
        """Runs that were deleted."""
        return self.checker.deleted | (self.log.deleted if self.log is not None else set())

    def _bring_back(self, log: LogModel) -> None:
        """Put finished runs that the hot half lost back, from the log, to check them."""
        for run in log.runs():
            if self.model.run(run) is None:
                (logged,), _ = apply(log.read_logs([run]))
                apply(self.model.put_run(logged.run.tenant, self._rebuilt(logged), None))
        self.checker.after_call(self.loop.processes[0], None, None)

    def _resume_paused(self) -> None:
        """Resume all paused runs, with a call that cannot fail."""
        for run in self.model.runs():
            if run.status == "PAUSED":
                try:
                    self.model.change_run(run.tenant, run.run, Resume()).send(None)
                except StopIteration:
                    self.checker.after_call(self.loop.processes[0], None, None)
                except RunConflictError:
                    pass

    def _send_awaited(self) -> None:
        """Send functions the signals that they wait for without a limit, with a call that cannot
        fail."""
        for run in self.model.runs():
            waiting = [token for token in self.model.tokens(run.run) if token.wait == FLOW_WAIT]
            for token in waiting if run.status == "RUNNING" else ():
                names = msgspec.json.decode(token.wait_key) if token.wait_key else []
                for name in sorted({*SIGNALS} & {*names}):
                    signal = SendSignal(name, f"last-{run.seq}-{name}", b'{"v": -1}')
                    try:
                        self.model.change_run(run.tenant, run.run, signal).send(None)
                    except StopIteration:
                        self.checker.after_call(self.loop.processes[0], None, None)

    def _unfinished(self) -> str:
        runs = [
            f"run {r.run[-4:]} {r.status} "
            + str(
                [
                    (t.node, t.scope, t.state, t.lane, t.due_ms)
                    for t in self.model.tokens(r.run)
                    if t.state in LIVE_STATES
                ]
            )
            for r in self.model.runs()
            if r.status not in TERMINAL
        ]
        scripts = [s.name for s in self.scripts if s.name not in self.callers.promises.finished]
        return f"{runs} {scripts} now {self.clock.now_ms()}"

    # ── telling ─────────────────────────────────────────────────────────────────────────

    def fail(self, broken: BrokenRule) -> None:
        """A rule is broken: end the world."""
        self.trace(f"BROKEN {broken}")
        self.loop.fail(BrokenError(broken))

    def trace(self, line: str) -> None:
        """Add a line to the history."""
        text = f"{self.loop.time():9.4f} {line}"
        self._hash.update(text.encode())
        self._trace.append(text)

    def outcome(self, broken: BrokenRule | None) -> Outcome:
        """The outcome of the world."""
        for run in self.model.runs():
            for record in self.model.events(run.run):
                self._hash.update(record.data)
            self._hash.update(f"{run.run} {run.status} {run.seq}".encode())
        self._hash.update(str(self.loop.steps).encode())
        return Outcome(
            self.config,
            broken,
            self._hash.hexdigest(),
            self.loop.steps,
            self.server.calls,
            self.loop.time(),
            self.coverage.counts,
            self.faults.strength,
            tuple(self._trace),
            {} if broken is not None else determined_results(self),
        )


def _drawn(given: int | None, drawn: int) -> int:
    return drawn if given is None else given
