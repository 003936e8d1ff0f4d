"""Durable functions in a rehearsal: their code runs; their steps are stubs, or the user's tasks.

What a stub returns is drawn from the annotation of its task, per step, so every attempt returns
the same. A trouble is drawn per start.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import msgspec

from minuet.errors import HandlerError, NonRetryable
from minuet.nodes.context import Context
from minuet.nodes.flowing import DurableFunction
from minuet.nodes.handler import AnyTask, Handlers
from minuet.nodes.spec import Effects
from minuet.nodes.stand_in import StepStandIn
from minuet.rehearsal.handlers import SECONDS, Start, annotated_result
from minuet.rehearsal.scenario import Scenario
from minuet.rehearsal.values import draw_schema
from minuet.simulation.loop import current_process, die
from minuet.simulation.streams import Streams
from minuet.types import Json


class Functions(msgspec.Struct, frozen=True):
    """The durable functions of a workflow, and where their tasks are found."""

    functions: tuple[DurableFunction, ...] = ()
    tasks: Handlers | None = None
    #: Whether the tasks themselves run.
    are_real: bool = False

    def find_task(self, name: str) -> AnyTask | None:
        """The task of a step, if it is known."""
        try:
            return None if self.tasks is None else self.tasks.find(name)
        except HandlerError:
            return None


class Repeated(msgspec.Struct, frozen=True):
    """A step that was started more than once."""

    node: str
    step: str
    effects: Effects | None
    starts: list[Start]


class StepCast(Mapping[str, StepStandIn]):
    """The steps of one seed: a stand-in for each name."""

    def __init__(
        self,
        functions: Functions,
        streams: Streams,
        scenario: Scenario,
        lease_s: float,
        note: Callable[[str], None],
    ) -> None:
        self._functions = functions
        self._streams = streams
        self._scenario = scenario
        self._lease_s = lease_s
        self._note = note
        #: By node, scope, name and key of the step.
        self._starts: dict[tuple[str, str, str, str], list[Start]] = {}
        #: Switched off when the faults stop.
        self.deaths = scenario.deaths

    def __getitem__(self, name: str) -> StepStandIn:
        return partial(self._stand_in, name)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0

    def _stand_in(
        self, name: str, arguments: Mapping[str, Any], ctx: Context
    ) -> Callable[[], Any] | None:
        starts = self._starts.setdefault((ctx.node_id, ctx.scope_text, name, ctx.step_name), [])
        # How it ends is not known of a task itself.
        start = Start(ctx.attempt)
        starts.append(start)
        self._note(f"{current_process().name} starts {ctx.step_name} of {ctx.node_id}")
        return None if self._functions.are_real else partial(self._play, name, ctx, start, starts)

    async def _play(self, name: str, ctx: Context, start: Start, starts: list[Start]) -> Json:
        which = f"{ctx.node_id}/{ctx.scope_text}/{ctx.step_name}"
        chance = self._streams.make(f"step/{which}/{len(starts)}")
        task = self._functions.find_task(name)
        try:
            await asyncio.sleep(chance.expovariate(1 / SECONDS))
            if self._scenario.victim == ctx.node_id and self._is_victim(name):
                await self._fail(ctx)
            elif self._scenario.passing and ctx.attempt == 1 and chance.random() < 0.5:
                await self._stumble(chance, task, ctx, is_first=len(starts) == 1)
        except BaseException as error:
            start.ended = "raised" if isinstance(error, Exception) else "stopped"
            raise
        schema = annotated_result(task) if task is not None else None
        value = (
            None if schema is None else draw_schema(self._streams.make(f"value/{which}"), schema)
        )
        start.ended = "returned"
        if len(starts) < 3 and chance.random() < self.deaths:
            self._note(f"{current_process().name} dies after {ctx.step_name} has returned")
            await die()
        return value

    def _is_victim(self, name: str) -> bool:
        """Whether the steps of this name fail in this seed. Which names there are is not known."""
        return random.Random(f"{self._streams.seed}/victim/{name}").random() < 0.5

    async def _fail(self, ctx: Context) -> None:
        """Fail, as at every start."""
        if self._scenario.way == "crash":
            self._note(f"{ctx.step_name} kills {current_process().name}")
            await die()
        if self._scenario.way == "again":
            raise ConnectionError("simulated: it fails at each attempt")
        raise NonRetryable("simulated: it fails permanently")

    async def _stumble(
        self, chance: random.Random, task: AnyTask | None, ctx: Context, *, is_first: bool
    ) -> None:
        """Have a temporary trouble."""
        trouble = chance.choice(self._scenario.passing)
        if trouble == "retry" and (task is None or task.retries != 0):
            raise ConnectionError("simulated: it fails at the first attempt")
        if trouble == "slow":
            limit = self._lease_s if task is None or task.timeout is None else task.timeout
            await asyncio.sleep(limit * 1.5 + 0.1)
        elif trouble == "crash" and is_first:
            self._note(f"{ctx.step_name} kills {current_process().name}")
            await die()

    def repeated(self) -> list[Repeated]:
        """The steps that were started more than once."""
        found = []
        for (node, _, name, key), starts in self._starts.items():
            if len(starts) > 1:
                task = self._functions.find_task(name)
                # Copied, because steps that are still running are stopped with the world.
                ends = [Start(start.attempt, start.ended) for start in starts]
                effects = None if task is None else task.effects
                found.append(Repeated(node, key, effects, ends))
        return found
