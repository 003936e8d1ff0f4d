"""Durable functions and the store: what a worker must not overlook when it takes one up again.

Each of these faults was found by the simulation first.
"""

from __future__ import annotations

from typing import Any, cast

import msgspec
import pytest

import minuet
from minuet.app.compiling import compile_source
from minuet.bridge.rebuild import rebuild
from minuet.clock import ManualClock
from minuet.errors import FunctionError
from minuet.functions.journal import Entry
from minuet.kernel.program import Program
from minuet.nodes.context import Context
from minuet.nodes.masking import NO_MASK
from minuet.store.changes import SendSignal
from minuet.store.exchange import Grant, NewStep
from minuet.store.memory import MemoryStore
from minuet.types import TERMINAL
from minuet.worker.flow_journal import FlowJournal, Restart, parts_of
from minuet.worker.recording import StepRecorder

from ..scenario.harness import PATIENCE, open_scene
from ..store.conftest import World


def new_step(name: str, signal: int = 0) -> NewStep:
    return NewStep("run", "node", "", "lease", name, b"1", signal)


def entry(n: int, name: str, kind: Any = "step") -> Entry:
    return Entry(n=n, kind=kind, at_ms=0, name=name, output=msgspec.Raw(b"1"))


@pytest.fixture
def world() -> World:
    clock = ManualClock()
    return World(MemoryStore(clock), clock)


class HeldContext:
    """As much of a context as a journal needs: whose it is, and under which lease."""

    mask = NO_MASK
    generation = attempt = 1

    def __init__(self, grant: Grant) -> None:
        self.run_id, self.token_node, self.scope_text = grant.run, grant.node, grant.scope
        self.lease_id = grant.lease


def journal_of(world: World, grant: Grant, *, is_new: bool) -> FlowJournal:
    context = cast(Context, HeldContext(grant))
    return FlowJournal(world.store, "a", StepRecorder(world.store, "a"), context, is_new=is_new)


# ── a signal that went to another instance ──────────────────────────────────────────────────


def test_a_part_ends_with_the_step_that_receives_a_signal() -> None:
    steps = [new_step("a"), new_step("b", 4), new_step("c", 5), new_step("d")]

    parts = [[step.name for step in part] for part in parts_of(steps)]

    assert parts == [["a", "b"], ["c"], ["d"]]
    assert list(parts_of([])) == []


async def test_nothing_that_follows_from_a_signal_of_another_is_kept(world: World) -> None:
    run = await world.start("a")
    grant = await world.take_one()
    await world.change(run, SendSignal("paid", "1", b"1"))
    signal = (await world.run(run)).seq
    await world.record(grant, "$signal:other", signal=signal)

    got = [entry(1, "before"), entry(2, "paid", "signal"), entry(3, "after")]
    with pytest.raises(Restart):
        await journal_of(world, grant, is_new=False).keep(got, {"$signal:paid": signal})

    kept = await world.store.read_steps("a", (run, "a", ""))
    assert sorted(kept) == ["$signal:other", "before"]


# ── a token that was put back ───────────────────────────────────────────────────────────────


async def test_a_token_that_is_made_from_its_history_counts_as_handed_out(world: World) -> None:
    run = await world.start("a")
    grant = await world.take_one()
    await world.record(grant, "charge")
    stored = await world.snapshot(run)
    assert stored is not None
    lost = msgspec.structs.replace(stored, tokens=())
    compiled = compile_source({"name": "w", "nodes": [{"id": "a", "type": "noop"}]})

    (token,) = rebuild(lost, Program(compiled.plan, "p"), 0).tokens

    # Else the next worker would take its journal for empty, without reading it.
    assert token.delivery >= 1


async def test_a_journal_that_was_not_read_and_is_not_empty_is_read_again(world: World) -> None:
    await world.start("a")
    grant = await world.take_one()
    await world.record(grant, "charge", b'{"another":"value"}')

    with pytest.raises(Restart):
        await journal_of(world, grant, is_new=True).keep([entry(1, "charge")], {})
    with pytest.raises(FunctionError, match="two steps are kept under one name"):
        await journal_of(world, grant, is_new=False).keep([entry(1, "charge")], {})


# ── child runs that had ended already ───────────────────────────────────────────────────────


@pytest.mark.parametrize("answer", ["well", "badly"])
async def test_a_child_run_that_ended_while_its_function_was_over_is_not_awaited(
    answer: str,
) -> None:
    @minuet.workflow(name="wf-child")
    async def child(ctx: minuet.Flow) -> str:
        if await ctx.signal("end") == "badly":
            raise ValueError("badly")
        return "well"

    @minuet.workflow(name="wf-parent")
    async def parent(ctx: minuet.Flow) -> str:
        try:
            return await ctx.start(child)
        except minuet.ChildFailedError:
            return "badly"

    async with open_scene("memory://") as s:
        run = await s.app.start(parent)
        await s.until(run, lambda row: row.children == 1)
        await s.app.runs.cancel(run)
        (found,) = (await s.app.runs.tree(run)).children
        assert (await s.app.wait(found.run_id)).status == "CANCELLED"
        # The child run goes on without its parent, which gets no signal of its end.
        await s.app.runs.retry(found.run_id)
        await s.app.signal(found.run_id, "end", answer)
        await s.until(found.run_id, lambda row: row.status in TERMINAL and not row.unreported)

        await s.app.runs.retry(run)

        assert (await s.app.wait(run, timeout=PATIENCE)).output == answer
