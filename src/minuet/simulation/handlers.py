"""What the nodes do, and what the outside world sees of it.

Handlers sleep, fail, kill their process, record steps and leave effects. `Outside` is everything
that a rollback of the store cannot undo: which handlers were started with which input and key, and
the effects at a receiver that detects repetitions by the idempotency key.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import random
from collections.abc import Callable, Collection
from typing import Any

import msgspec

from minuet.errors import NonRetryable, Retryable
from minuet.nodes.context import Context
from minuet.nodes.handler import Handlers, Task
from minuet.simulation.contents import DAMAGED
from minuet.simulation.coverage import Coverage
from minuet.simulation.documents import HANDLERS
from minuet.simulation.faults import Faults
from minuet.simulation.loop import Process, current_process, die
from minuet.simulation.streams import Streams
from minuet.store.records import Key

#: More than an event stores inline.
LONG = "x" * 70_000

_encoder = msgspec.json.Encoder(order="sorted")


class Start(msgspec.Struct, frozen=True):
    """A handler was started."""

    key: str
    inputs: bytes
    attempt: int
    lease: str


class Outside:
    """The world that handlers act on."""

    def __init__(self, streams: Streams, faults: Faults, coverage: Coverage, lease_s: float):
        self.faults = faults
        self.starts: dict[Key, list[Start]] = {}
        #: Effects at a receiver that deduplicates: idempotency key → its owner.
        self.sink: dict[str, Key] = {}
        #: What `ctx.step` returned in each attempt.
        self.steps: dict[tuple[Key, str], list[Any]] = {}
        #: Starts that left an effect, by instance.
        self.effects: dict[Key, int] = {}
        #: Instances that were given a content that came out damaged.
        self.damaged: set[Key] = set()
        self._streams = streams
        self._coverage = coverage
        self._lease_s = lease_s
        #: Called with each start.
        self.watch: Callable[[Key, Process], None] = lambda instance, process: None
        #: Called when a handler starts and when it has ended, with any outcome.
        self.began: Callable[[Key, Process], None] = lambda instance, process: None
        self.ended: Callable[[Key, Process], None] = lambda instance, process: None

    def handlers(self, without: Collection[str] = ()) -> Handlers:
        """The handlers as a worker expects them. Not every worker has all of them."""
        made = Handlers()
        for name in HANDLERS:
            if name not in without:
                made.add(Task(self._told(getattr(self, name)), name=name))
        return made

    def _told(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A handler whose start and end are reported."""
        if not inspect.iscoroutinefunction(function):
            # It takes no time, so that no other handler runs at the same time.
            return function

        async def run(ctx: Context, x: Any = None) -> Any:
            instance, process = _instance(ctx), current_process()
            self.began(instance, process)
            try:
                return await function(ctx, x)
            finally:
                self.ended(instance, process)

        return run

    # ── handlers ────────────────────────────────────────────────────────────────────────

    async def steady(self, ctx: Context, x: Any = None) -> Any:
        """Return the same output for the same inputs."""
        await asyncio.sleep(_moment(self._begin(ctx, x)))
        self._leave_effect(ctx)
        return _value(ctx)

    async def fickle(self, ctx: Context, x: Any = None) -> Any:
        """Return a different output each time, like a language model, and sometimes a long one."""
        chance = self._begin(ctx, x)
        await asyncio.sleep(_moment(chance))
        self._leave_effect(ctx)
        output = _output(ctx, chance.randrange(1000))
        return {**output, "text": LONG} if chance.random() < 0.3 else output

    async def stepwise(self, ctx: Context, x: Any = None) -> Any:
        """Record two steps."""
        chance = self._begin(ctx, x)
        total = 0
        for name in ("first", "second"):
            mine = chance.randrange(1_000_000)
            kept = await ctx.step(name, lambda mine=mine: mine)
            if kept != mine:
                self._coverage.hit("step reused")
            instance = _instance(ctx)
            self.steps.setdefault((instance, name), []).append(kept)
            await asyncio.sleep(_moment(chance))
            total += kept
        self._leave_effect(ctx)
        return _output(ctx, total % 1000)

    async def slow(self, ctx: Context, x: Any = None) -> Any:
        """Take longer than a lease, perhaps."""
        chance = self._begin(ctx, x)
        strength = self.faults.of("slow")
        if strength and chance.random() < 0.3 + 0.5 * strength:
            self._coverage.hit("fault slow")
            await asyncio.sleep(self._lease_s * (0.3 + 2.5 * chance.random()))
        self._leave_effect(ctx)
        return _value(ctx)

    async def flaky(self, ctx: Context, x: Any = None) -> Any:
        """Fail, sometimes after the effect. The next attempt may succeed."""
        chance = self._begin(ctx, x)
        await asyncio.sleep(_moment(chance))
        if chance.random() < 0.5:
            self._leave_effect(ctx)
        if self._fails(chance):
            if chance.random() < 0.3:
                raise Retryable("later", after=chance.choice((0.0, 0.2, 1.0)))
            raise RuntimeError("flaky")
        self._leave_effect(ctx)
        return _value(ctx)

    async def broken(self, ctx: Context, x: Any = None) -> Any:
        """Fail permanently."""
        chance = self._begin(ctx, x)
        await asyncio.sleep(_moment(chance))
        if self._fails(chance):
            raise chance.choice((ValueError, NonRetryable))("broken")
        self._leave_effect(ctx)
        return _value(ctx)

    async def crashing(self, ctx: Context, x: Any = None) -> Any:
        """Kill the process now and then, before or after the effect."""
        chance = self._begin(ctx, x)
        await asyncio.sleep(_moment(chance))
        late = chance.random() < 0.5
        if late:
            self._leave_effect(ctx)
        if chance.random() < 0.5 * self.faults.of("crash"):
            await self._die()
        self._leave_effect(ctx)
        return _value(ctx)

    async def poison(self, ctx: Context, x: Any = None) -> Any:
        """Kill the process each time."""
        await asyncio.sleep(_moment(self._begin(ctx, x)))
        if self.faults.of("crash"):
            await self._die()
        self._leave_effect(ctx)
        return _value(ctx)

    async def large(self, ctx: Context, x: Any = None) -> Any:
        """Return more than some limits allow, and sometimes more than an event stores inline."""
        chance = self._begin(ctx, x)
        self._leave_effect(ctx)
        return {**_value(ctx), "text": chance.choice(("x" * 200, LONG))}

    def threaded(self, ctx: Context, x: Any = None) -> Any:
        """A sync handler: it runs in a thread, which cannot be stopped."""
        self._begin(ctx, x)
        self._leave_effect(ctx)
        return _value(ctx)

    # ── what is seen of them ────────────────────────────────────────────────────────────

    def _begin(self, ctx: Context, x: Any) -> random.Random:
        """Record the start. Returns the random stream of this very start."""
        instance = _instance(ctx)
        starts = self.starts.setdefault(instance, [])
        inputs = _encoder.encode([dict(ctx.inputs), x])
        if DAMAGED in inputs:
            self.damaged.add(instance)
        digest = hashlib.sha256(inputs).digest()[:8]
        starts.append(Start(ctx.idempotency_key, digest, ctx.attempt, ctx.lease_id))
        self.watch(instance, current_process())
        return self._streams.make(f"handler/{'/'.join(instance)}/{len(starts)}")

    def _leave_effect(self, ctx: Context) -> None:
        instance = _instance(ctx)
        self.sink.setdefault(ctx.idempotency_key, instance)
        self.effects[instance] = self.effects.get(instance, 0) + 1

    def _fails(self, chance: random.Random) -> bool:
        strength = self.faults.of("fail")
        if strength and chance.random() < 0.3 + 0.4 * strength:
            self._coverage.hit("fault fail")
            return True
        return False

    async def _die(self) -> None:
        self._coverage.hit("fault crash")
        await die()


def _instance(ctx: Context) -> Key:
    return (ctx.run_id, ctx.token_node, ctx.scope_text)


def _moment(chance: random.Random) -> float:
    """How long a handler usually takes."""
    return chance.expovariate(20)


def _value(ctx: Context) -> dict[str, Any]:
    """An output that depends only on the node, its scope and its inputs."""
    text = _encoder.encode([ctx.node_id, ctx.scope_text, dict(ctx.inputs), ctx.input])
    return _output(ctx, int(hashlib.sha256(text).hexdigest()[:8], 16) % 1000)


def _output(ctx: Context, number: int) -> dict[str, Any]:
    return {"v": number, "odd": number % 2 == 1, "round": ctx.scope[-1] if ctx.scope else 0}
