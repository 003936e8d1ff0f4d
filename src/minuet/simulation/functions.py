"""Durable functions in a world: their steps, and what must hold for their journals.

The journal of an instance must be enough. Replayed without a worker, it leads to what the instance
waits for, to each step that is started, and to its end, and nothing in it is left over.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import random
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any

import msgspec

from minuet.app.compiling import compile_source
from minuet.bridge.reporting import PARENT_ENDED
from minuet.bridge.values import encode
from minuet.errors import ReplayError, Retryable
from minuet.events import (
    Event,
    NodeCompleted,
    NodeFailed,
    NodeRetried,
    NodeWaiting,
    SignalReceived,
    StepRecorded,
    decode_event,
)
from minuet.functions.flow import Flow
from minuet.functions.instance import Call, FunctionInstance
from minuet.functions.journal import (
    Backoff,
    Entry,
    Epoch,
    Journal,
    decode_backoffs,
    decode_entries,
    is_entry,
)
from minuet.kernel.fold import NumberedEvent, State
from minuet.kernel.program import Program
from minuet.nodes.context import Context
from minuet.nodes.handler import AnyTask, Task
from minuet.simulation.coverage import Coverage
from minuet.simulation.faults import Faults
from minuet.simulation.loop import die
from minuet.simulation.model import ModelStore
from minuet.simulation.programs import (
    DOCUMENTS,
    TASKS,
    ProgramMaker,
    Tree,
    kinds_in,
    make_function,
)
from minuet.simulation.rules import Found
from minuet.simulation.streams import Streams
from minuet.store.families import child_id
from minuet.store.records import CHILD_SIGNAL, FLOW_WAIT, EventRecord, Key
from minuet.types import TERMINAL

#: What ends a node from outside of its function, whatever the code has come to.
OUTSIDE = {
    *("timeout", "crash_loop", "no_plan", "invalid-output", "no_handler", "store-unusable"),
}


class _ReplayHost:
    """There is no worker: a replay gets everything from the journal."""

    def now_ms(self) -> int:
        return 0

    def encode(self, value: Any, what: str) -> bytes:
        return encode(value)[0]

    def random(self) -> float:
        return 0.0

    def uuid(self) -> str:
        return ""


class _Replay(FunctionInstance):
    """A function on a journal that is complete."""

    def __init__(self, journal: Journal) -> None:
        super().__init__(journal, _ReplayHost(), "the simulated program")
        self.problems: list[str] = []

    def _give(self, call: Call, entry: Entry, value: Any = None) -> None:
        if call.handle is not None and entry.at_ms < call.due_ms:
            self.problems.append(f"{call.label} was over {call.due_ms - entry.at_ms} ms early")
        super()._give(call, entry, value)


class Replayed(msgspec.Struct):
    """What a journal leads to."""

    #: What it has asked for, and what it waits for, by key; the earliest time of that.
    asked: dict[str, Call] = {}
    waiting: dict[str, Call] = {}
    due_ms: int | None = None
    is_over: bool = False
    result: Any = None
    error: BaseException | None = None
    problems: list[str] = []


class Functions:
    """The durable functions of a world."""

    def __init__(
        self,
        model: ModelStore,
        programs: dict[str, Program],
        streams: Streams,
        faults: Callable[[], Faults],
        coverage: Coverage,
        lease_s: float,
        broken: Callable[[str, str, str], None],
    ) -> None:
        self._model = model
        self._programs = programs
        self._streams = streams
        self._faults = faults
        self._coverage = coverage
        self._lease_s = lease_s
        self._broken = broken
        #: The events of a run that are durable. None: a rollback has lost some.
        self.durable: Callable[[str], Sequence[EventRecord] | None] = lambda run: (
            None if model.timeline else model.events(run)
        )
        self.function = make_function(self._tasks())
        #: Starts of steps, by instance and step: their idempotency keys.
        self._starts: dict[tuple[Key, str], list[str]] = {}
        #: Effects at a receiver that deduplicates, by idempotency key.
        self._effects: dict[str, tuple[Key, str]] = {}
        workflows = [self.function, *DOCUMENTS]
        for compiled in map(compile_source, workflows):
            programs[compiled.digest] = Program(compiled.plan, compiled.digest)

    # ── documents ───────────────────────────────────────────────────────────────────────

    def draw_tree(self, chance: random.Random) -> Tree:
        """Draw a program."""
        tree = ProgramMaker(chance, chance.choice((1, 3, 6, 10, 16))).make()
        for kind in sorted(kinds_in(tree)):
            self._coverage.hit(f"function with {kind}")
        return tree

    def add(self, document: dict[str, Any]) -> None:
        """Make functions of some nodes of a document.

        Drawn from a separate stream, so that other draws do not depend on it.
        """
        chance = random.Random(f"functions {document['nodes']}")
        for node in document["nodes"]:
            if node.get("type") not in ("noop", "transform") or chance.random() < 0.4:
                continue
            if {"loop", "branch"} & node.keys():
                continue
            node.pop("config", None)
            tree = ProgramMaker(chance, chance.choice((1, 2, 4)), levels=1).make()
            node |= {"type": "flow", "handler": self.function.name, "config": {"tree": tree}}
            node["retry"] = {"max_attempts": chance.choice((1, 1, 2, 3)), "backoff_ms": 50}
            if chance.random() < 0.1:
                node["timeout_seconds"] = chance.choice((0.5, 5))
            if chance.random() < 0.4:
                node["on_error"] = "continue"
            self._coverage.hit("construct function node")

    # ── tasks ───────────────────────────────────────────────────────────────────────────

    def _tasks(self) -> dict[str, AnyTask]:
        retries = {"failing": 0, "unsteady": 2}
        made: dict[str, AnyTask] = {"sync": Task(self._sync, name="sync")}
        for name in TASKS.keys() - made.keys():
            function = self._noted(getattr(self, f"_{name}"))
            made[name] = Task(function, name=name, retries=retries.get(name))
        return made

    def _noted(self, work: Callable[[random.Random, Context, int], Any]) -> Callable[..., Any]:
        """A task whose start and effect are noted."""

        async def run(x: int, ctx: Context) -> Any:
            chance = self._begin(ctx, x)
            await asyncio.sleep(chance.expovariate(20))
            value = await work(chance, ctx, x)
            self._leave_effect(ctx)
            return value

        return run

    def _sync(self, x: int, ctx: Context) -> Any:
        self._begin(ctx, x)
        self._leave_effect(ctx)
        return x % 1000

    async def _even(self, chance: random.Random, ctx: Context, x: int) -> Any:
        return 2 * x % 1000

    async def _random(self, chance: random.Random, ctx: Context, x: int) -> Any:
        return chance.randrange(1000)

    async def _slow(self, chance: random.Random, ctx: Context, x: int) -> Any:
        strength = self._faults().of("slow")
        if strength and chance.random() < 0.3 + 0.5 * strength:
            await asyncio.sleep(self._lease_s * (0.3 + 2.5 * chance.random()))
        return x % 7

    async def _unsteady(self, chance: random.Random, ctx: Context, x: int) -> Any:
        if chance.random() < 0.5:
            self._leave_effect(ctx)
        if chance.random() < 0.6:
            if chance.random() < 0.3:
                raise Retryable("unsteady", after=chance.choice((1.5, 4)))
            raise RuntimeError("unsteady")
        return x % 11

    async def _failing(self, chance: random.Random, ctx: Context, x: int) -> Any:
        if chance.random() < 0.7:
            raise ValueError("failing", x)
        return x % 13

    async def _dying(self, chance: random.Random, ctx: Context, x: int) -> Any:
        if chance.random() < 0.5 * self._faults().of("crash"):
            self._coverage.hit("fault crash")
            await die()
        return x % 17

    def _begin(self, ctx: Context, x: int) -> random.Random:
        """Note the start of a step. Returns the random stream of this very start."""
        key = (ctx.run_id, ctx.token_node, ctx.scope_text)
        step = ctx.step_name
        starts = self._starts.setdefault((key, step), [])
        starts.append(ctx.idempotency_key)
        if len(starts) > 1:
            self._coverage.hit("function step started again")
        for message in self._start_rules(key, step, ctx, x):
            self._broken("journal", message, ctx.run_id)
        return self._streams.make(f"step/{'/'.join(key)}/{step}/{len(starts)}")

    def _leave_effect(self, ctx: Context) -> None:
        key = (ctx.run_id, ctx.token_node, ctx.scope_text)
        self._effects.setdefault(ctx.idempotency_key, (key, ctx.step_name))

    # ── rules ───────────────────────────────────────────────────────────────────────────

    def _start_rules(self, key: Key, step: str, ctx: Context, x: int) -> Iterator[str]:
        """A step is started only if what is durable of the journal leads to it."""
        token, run, durable = self._model.token(key), self._model.run(key[0]), None
        if token is not None and run is not None and token.state == "leased":
            durable = self.durable(key[0]) if token.lease == ctx.lease_id else None
        if token is None or run is None or durable is None:
            return  # It is no longer the worker's, and comes to nothing.
        found = [decode_event(record.data) for record in durable]
        steps = {
            event.name: bytes(event.value)
            for event in found
            if isinstance(event, StepRecorded) and (event.node, event.scope) == key[1:]
        }
        epoch = (run.generation, token.attempt)
        entries = decode_entries(key[0], [steps[name] for name in steps if is_entry(name)])
        backoff = decode_backoffs(key[0], steps, epoch).get(step)
        if backoff is not None and ctx.attempt <= backoff.attempt:
            yield f"{key[1:]}: attempt {backoff.attempt} of {step!r} was followed by {ctx.attempt}"
        program = self._programs.get(run.plan)
        if program is None:
            return
        arguments = self._arguments(program, key[1], run.input)
        if arguments is None:
            return
        replayed = self._replay(key, entries, epoch, arguments)
        call = replayed.asked.get(step)
        if call is None:
            yield f"{key[1:]}: step {step!r} was started, and its journal does not lead to it"
            yield from replayed.problems
        elif msgspec.json.decode(call.input) != {"x": x}:
            yield f"{key[1:]}: step {step!r} was started with {x}, not with {call.input.decode()}"

    def event_rules(
        self, run: str, program: Program, state: State, history: list[NumberedEvent], event: Event
    ) -> Iterator[Found]:
        """What must hold after an event was folded into `state`."""
        node = program.nodes.get(getattr(event, "node", ""))
        if node is None or node.type not in ("flow", "agent"):
            return
        if isinstance(event, StepRecorded) and is_entry(event.name):
            for message in _gaps(state, event):
                yield "journal", f"{(event.node, event.scope)}: {message}", run
        durable = self.durable(run)
        if durable is None or self._model.events(run)[: len(durable)] != list(durable):
            return  # What a worker has in its hands, the store has lost.
        if not isinstance(
            event, StepRecorded | NodeCompleted | NodeFailed | NodeRetried | NodeWaiting
        ):
            return
        if node.type != "flow":
            return
        for message in self._messages(run, program, state, history, event):
            yield "journal", f"{(event.node, event.scope)}: {message}", run

    def _messages(
        self, run: str, program: Program, state: State, history: list[NumberedEvent], event: Any
    ) -> Iterator[str]:
        place = (event.node, event.scope)
        if isinstance(event, StepRecorded):
            if is_entry(event.name):
                yield from self._recorded(state, history, event)
            return
        error = getattr(event, "error", None)
        code = "" if error is None else str(error.get("code"))
        if code in OUTSIDE or code.startswith("exceeded_"):
            return
        arguments = self._arguments(program, event.node, state.input)
        # What somebody has set need not follow from its journal.
        if arguments is None or state.tokens[place].given or state.tokens[place].edited:
            return
        steps = {key[2]: value for key, value in state.steps.items() if key[:2] == place}
        entries = decode_entries(run, [steps[name] for name in steps if is_entry(name)])
        attempt = getattr(event, "attempt", state.tokens[place].attempt)
        key, epoch = (run, *place), (state.generation, attempt)
        replayed = self._replay(key, entries, epoch, arguments)
        yield from replayed.problems
        is_newest = len(history) == len(self._model.events(run))
        yield from self._left(key, replayed, None if is_newest else history[-1][1])
        if isinstance(event, NodeWaiting):
            yield from self._waits(key, replayed, event, decode_backoffs(run, steps, epoch))
        else:
            self._coverage.hit("function ended")
            last = entries[-1] if entries else None
            is_old = last is not None and last.epoch < (state.generation, attempt)
            if event.error is not None and last is not None and last.error is not None and is_old:
                yield f"{last.key} failed it again, and was not executed again"
            yield from _ends(replayed, event)

    def _recorded(
        self, state: State, history: list[NumberedEvent], event: StepRecorded
    ) -> Iterator[str]:
        entry = msgspec.json.decode(event.value, type=Entry)
        self._coverage.hit(f"function got {entry.kind}")
        if entry.epoch != (1, 1):
            self._coverage.hit("function tried again")
        token = state.tokens[event.node, event.scope]
        if token.state not in ("ready", "leased"):
            yield f"{entry.key} was recorded when it was {token.state}"
        if event.name != entry.key:
            yield f"{entry.key} was recorded as {event.name}"
        if entry.kind == "signal":
            _, _, received = history[event.signal - 1]
            if not isinstance(received, SignalReceived) or received.name != entry.name:
                yield f"{entry.key} received event {event.signal}, which is not such a signal"
            elif msgspec.json.decode(received.data) != msgspec.json.decode(entry.output):
                yield f"{entry.key} received other data than was sent"

    def _left(self, key: Key, replayed: Replayed, at_ms: int | None) -> Iterator[str]:
        """No child run goes on that the function does not wait for. After a failover, a history is
        read again from its start; `at_ms` is then the time of the event that was reached, and child
        runs that were started later do not count."""
        waits = {} if replayed.is_over else replayed.waiting
        awaited = {call.number for call in waits.values() if call.kind == "child"}
        for number in count(1):
            child = self._model.run(child_id(key, number))
            if child is None:
                return
            # A client can retry one that was cancelled.
            is_later = at_ms is not None and child.created_ms > at_ms
            if child.generation == 1 and number not in awaited and not is_later:
                if child.status not in TERMINAL:
                    yield f"it no longer waits for its child run {child.run}, which is open"
                elif str((child.error or {}).get("code")) == PARENT_ENDED:
                    self._coverage.hit("function child cancelled")

    def _waits(
        self, key: Key, replayed: Replayed, event: NodeWaiting, backoffs: dict[str, Backoff]
    ) -> Iterator[str]:
        self._coverage.hit("function waited")
        if replayed.is_over or event.kind != FLOW_WAIT:
            yield "it waits, and its journal leads to its end"
            return
        names = set()
        times = [] if replayed.due_ms is None else [replayed.due_ms]
        for call in replayed.waiting.values():
            if call.kind == "signal":
                names.add(call.name)
            elif call.kind == "child":
                names.add(f"{CHILD_SIGNAL}{child_id(key, call.number)}")
            elif call.kind == "step" and call.key in backoffs:
                self._coverage.hit("function step tried later")
                times.append(backoffs[call.key].due_ms)
            elif call.kind == "step":
                yield f"it waits, and its step {call.label!r} was not done"
        awaited = set(msgspec.json.decode(event.key)) if event.key else set()
        # A token cannot name very many.
        if len(names) < 20 and awaited != names:
            yield f"it waits for {sorted(awaited)}, and its journal leads to {sorted(names)}"
        due_ms = min(times, default=None)
        if len(names) < 20 and event.due_ms != due_ms:
            yield f"it waits until {event.due_ms}, and its journal leads to {due_ms}"

    def _arguments(self, program: Program, name: str, input: bytes | None) -> dict[str, Any] | None:
        """What the function was called with; None: that is kept elsewhere."""
        node = program.nodes.get(name)
        if node is None or node.config_ref is not None or b"$blob" in (input or b""):
            return None
        given = msgspec.json.decode(input) if input else None
        return self.function.bind(node.config or {}, given)

    def _replay(
        self, key: Key, entries: list[Entry], epoch: Epoch, arguments: dict[str, Any]
    ) -> Replayed:
        journal = Journal(entries, epoch)
        if journal.dropped:
            self._coverage.hit("function error dropped")
        instance = _Replay(journal)
        flow = Flow(instance, run_id=key[0], workflow="", node_id=key[1], tags={})
        found = Replayed(problems=instance.problems)
        with _off_task():
            instance.begin(functools.partial(self.function.function, flow, **arguments))
            try:
                instance.turn()
            except ReplayError as error:
                found.problems.append(f"its journal cannot be replayed: {error}")
            else:
                _look(instance, found)
            finally:
                instance.close()
        return found

    # ── the end ─────────────────────────────────────────────────────────────────────────

    def judge(self, deleted: set[str]) -> None:
        """Check at the end what the outside world has seen of the steps."""
        owners: dict[str, tuple[Key, str]] = {}
        for step, keys in self._starts.items():
            instance, name = step
            if len(set(keys)) != 1:
                self._broken("I30", f"{instance[1:]}, step {name}: several keys", instance[0])
            if owners.setdefault(keys[0], step) != step:
                self._broken("I30", f"{instance[1:]}, step {name}: shared key", instance[0])
        for run in self._model.runs():
            if run.run not in deleted:
                self._judge_effects(run.run)

    def _judge_effects(self, run: str) -> None:
        for record in self._model.events(run):
            event = decode_event(record.data)
            if not isinstance(event, StepRecorded):
                continue
            key = (run, event.node, event.scope)
            step = event.name.partition("~")[0]
            node = self._programs[self._plan(run)].nodes.get(event.node)
            if node is None or node.type != "flow" or step[0] == "$":
                continue
            entry = msgspec.json.decode(event.value, type=Entry)
            keys = self._starts.get((key, step), [""])
            if entry.error is None and self._effects.get(keys[0]) != (key, step):
                self._broken("I29", f"{key[1:]}, step {step!r}: it left no effect", run)

    def _plan(self, run: str) -> str:
        row = self._model.run(run)
        assert row is not None
        return row.plan


def _look(instance: FunctionInstance, found: Replayed) -> None:
    """See what a function has come to."""
    for entry in instance.journal.unsaved:
        found.problems.append(f"{entry.key} is not in its journal")
    found.due_ms = min((call.due_ms for call in instance.timers()), default=None)
    found.asked = {call.key: call for call in instance._asked}
    found.waiting = dict(instance.waiting)
    found.is_over = instance.is_over
    if instance.is_over:
        try:
            found.result = instance.result()
        except (Exception, asyncio.CancelledError) as error:
            found.error = error


def _gaps(state: State, event: StepRecorded) -> Iterator[str]:
    """An entry follows the one before it, also in a store that has lost some."""
    place = (event.node, event.scope)
    number = msgspec.json.decode(event.value, type=Entry).n
    entries = (value for key, value in state.steps.items() if key[:2] == place and is_entry(key[2]))
    if number > 1 and all(msgspec.json.decode(one, type=Entry).n != number - 1 for one in entries):
        yield f"{event.name} was recorded as entry {number}, and there is no entry {number - 1}"


def _ends(replayed: Replayed, event: NodeCompleted | NodeFailed | NodeRetried) -> Iterator[str]:
    """A function ends as its journal says."""
    error = event.error
    if not replayed.is_over:
        asked = sorted(replayed.waiting)
        yield f"it ended with {error}, and its journal leads to {asked}"
    elif error is None:
        output = bytes(event.output) if isinstance(event, NodeCompleted) else b""
        if replayed.error is not None:
            yield f"it returned, and its journal leads to {replayed.error!r}"
        elif b"$blob" not in output and msgspec.json.decode(output) != replayed.result:
            yield f"it returned {output.decode()}, and its journal leads to {replayed.result}"
    elif replayed.error is None:
        yield f"it ended with {error}, and its journal leads to {replayed.result}"
    elif type(replayed.error).__name__ not in str(error.get("type")):
        yield f"it ended with {error}, and its journal leads to {replayed.error!r}"


@contextlib.contextmanager
def _off_task() -> Iterator[None]:
    """While the code of a function runs, which has a loop and tasks of its own, no task of the
    world's loop may be the current one."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        task = None
    if task is None:
        yield
        return
    loop = task.get_loop()
    asyncio.tasks._leave_task(loop, task)
    try:
        yield
    finally:
        asyncio.tasks._enter_task(loop, task)
