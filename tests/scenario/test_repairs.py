"""Repair a run: skip a node, set its output, take it back; what is done is not done again."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from typing import Any

import pytest

from minuet import Context
from minuet.clock import ManualClock
from minuet.errors import InputError, RunConflictError, RunError

from .harness import node, task, workflow


def boom(**_: Any) -> None:
    raise ValueError("broken")


def value(name: str, *dependencies: str, **fields: Any) -> dict[str, Any]:
    """A node that shows what another one gave."""
    return node(name, *dependencies, type="transform", **fields)


# ── a failed node ───────────────────────────────────────────────────────────────────────


async def test_a_run_that_failed_goes_on_without_the_node(scene: Any) -> None:
    document = workflow(
        task("a", handler="boom"),
        node("b"),
        node("after", "a"),
        node("join", "a", "b"),
    )
    async with scene({"boom": boom}) as s:
        run = await s.app.start(document)
        assert (await s.end(run)).status == "FAILED"

        changed = await s.app.runs.skip(run, "a", by="ann", why="not needed today")
        result = await s.end(run)

        assert (changed.generation, result.status) == (2, "COMPLETED")
        statuses = {name: one.status for name, one in result.nodes.items()}
        assert statuses == {
            "a": "SKIPPED",
            "after": "SKIPPED",
            "b": "COMPLETED",
            "join": "COMPLETED",
        }
        (event,) = await s.events(run, "node.repaired")
        assert (event["by"], event["why"]) == ("ann", "not needed today")
        why = await s.app.runs.explain(run, "a")
        assert why.summary == "'a' was skipped by ann: not needed today"


async def test_an_output_that_is_set_is_routed_as_if_the_node_had_returned_it(scene: Any) -> None:
    branch = {
        "rules": [{"when": "output.amount > 100", "next_nodes": ["large"]}],
        "default": ["small"],
    }
    document = workflow(
        task("a", handler="boom", branch=branch),
        value("large", "a", config={"value": "{{ a.output.amount }}"}),
        node("small", "a"),
    )
    async with scene({"boom": boom}) as s:
        run = await s.app.start(document)
        assert (await s.end(run)).status == "FAILED"

        await s.app.runs.set_output(run, "a", {"amount": 500}, by="ann", why="from the paper file")
        result = await s.end(run)

        assert result.output == {"large": 500}
        assert result.nodes["small"].status == "SKIPPED"
        assert result.nodes["a"].output == {"amount": 500}
        why = await s.app.runs.explain(run, "a")
        assert "output that was set by ann: from the paper file" in why.summary


async def test_an_output_that_is_set_decides_a_loop(scene: Any) -> None:
    calls: list[int] = []

    def work(n: int) -> dict[str, Any]:
        calls.append(n)
        if n == 1:
            raise ValueError("broken")
        return {"again": n < 2}

    loop = {"while": "output.again", "max_iterations": 5}
    document = workflow(task("a", handler="work", config={"n": "{{ iteration }}"}, loop=loop))
    async with scene({"work": work}) as s:
        run = await s.app.start(document)
        assert (await s.end(run)).status == "FAILED"

        await s.app.runs.set_output(run, "a", {"again": True}, why="go on")
        result = await s.end(run)

        assert (result.status, calls) == ("COMPLETED", [0, 1, 2])
        assert result.nodes["a"].output == {"again": False}


async def test_a_large_output_that_is_set_arrives_whole(scene: Any) -> None:
    document = workflow(
        task("a", handler="boom"), value("size", "a", config={"expression": "size(ctx.a.output)"})
    )
    async with scene({"boom": boom}) as s:
        run = await s.app.start(document)
        assert (await s.end(run)).status == "FAILED"

        await s.app.runs.set_output(run, "a", "x" * 200_000, why="large")

        assert (await s.end(run)).output == {"size": 200_000}


async def test_an_item_of_a_foreach_gets_an_output(scene: Any) -> None:
    def half(item: int) -> float:
        if item % 2:
            raise ValueError("odd")
        return item / 2

    each = {"items": [2, 3, 4], "max_parallel": 1}
    document = workflow(task("a", handler="half", config={"item": "{{ item }}"}, foreach=each))
    async with scene({"half": half}) as s:
        run = await s.app.start(document)
        assert (await s.end(run)).status == "FAILED"
        with pytest.raises(RunConflictError, match="an item of a foreach"):
            await s.app.runs.skip(run, "a[1]", why="odd")

        await s.app.runs.set_output(run, "a[1]", 1.5, why="by hand")

        assert (await s.end(run)).output == {"a": [1.0, 1.5, 2.0]}


# ── a node that waits or hangs ──────────────────────────────────────────────────────────


async def test_a_node_that_waits_is_skipped(scene: Any) -> None:
    wait = node("w", type="wait", config={"signal": "paid"})
    async with scene() as s:
        run = await s.app.start(workflow(wait, node("after", "w")))
        await s.until(run, lambda row: row.seq == 3)

        await s.app.runs.skip(run, "w", why="paid in cash")

        result = await s.end(run)
        assert result.status == "COMPLETED"
        assert result.nodes["after"].status == "SKIPPED"


async def test_the_approval_of_a_node_that_is_decided_by_hand_is_cancelled(scene: Any) -> None:
    ask = node("gate", type="human", human_config={"approvers": ["ann"]})
    async with scene() as s:
        run = await s.app.start(workflow(ask))
        await s.until(run, lambda row: row.seq == 3)

        await s.app.runs.set_output(run, "gate", {"decision": "approve"}, why="by telephone")
        assert (await s.end(run)).status == "COMPLETED"

        (asked,) = await s.app.approvals.list(run_id=run, status=None)
        assert asked.status == "cancelled"
        assert await s.app.approvals.list(status="pending") == []


async def test_a_node_whose_queue_nobody_serves_gets_an_output(scene: Any) -> None:
    placement = {"requires_capabilities": {"gpu": 8}}
    document = workflow(task("a", handler="boom", placement=placement), node("after", "a"))
    async with scene({"boom": boom}) as s:
        run = await s.app.start(document)

        await s.app.runs.set_output(run, "a", 1, why="nobody can")

        assert (await s.end(run)).status == "COMPLETED"


async def test_a_child_run_of_a_node_that_is_skipped_ends(scene: Any) -> None:
    child = {"name": "child", "nodes": [node("w", type="wait", config={"signal": "never"})]}
    document = workflow(node("c", type="workflow", config={"workflow": "child"}))
    async with scene() as s:
        await s.app.workflows.deploy(child)
        run = await s.app.start(document)
        await s.until(run, lambda row: row.seq == 3)
        (below,) = (await s.app.runs.tree(run)).children

        await s.app.runs.skip(run, "c", why="not needed")

        assert (await s.end(run)).status == "COMPLETED"
        assert (await s.end(below.run_id)).status == "CANCELLED"


async def test_a_worker_that_hangs_loses_the_node(scene: Any) -> None:
    stuck, calls = asyncio.Event(), Counter[str]()

    async def work(name: str) -> int:
        calls[name] += 1
        if calls[name] == 1:
            stuck.set()
            try:
                await asyncio.sleep(3600)
            finally:
                calls["cancelled"] += 1
        return calls[name]

    async with scene({"work": work}, lease_seconds=0.5) as s:
        run = await s.app.start(workflow(task("a", handler="work", config={"name": "a"})))
        await stuck.wait()

        await s.app.runs.take_back(run, "a", by="ann", why="it hangs")
        result = await s.end(run)

        assert (result.output, result.nodes["a"].attempts) == ({"a": 2}, 1)
        assert calls["cancelled"] == 1
        (event,) = await s.events(run, "node.repaired")
        assert (event["action"], event["by"], event["why"]) == ("take_back", "ann", "it hangs")
        assert event["lease"]


# ── what is refused ─────────────────────────────────────────────────────────────────────


async def test_what_cannot_be_changed_is_refused_with_its_reason(scene: Any) -> None:
    wait = node("w", "a", type="wait", config={"signal": "never"})
    each = node("each", type="wait", config={"signal": "x"}, foreach={"items": [1, 2]})
    async with scene() as s:
        runs = s.app.runs
        run = await s.app.start(workflow(node("a"), wait, node("b", "w"), each))
        await s.until(run, lambda row: row.seq == 7)

        with pytest.raises(RunConflictError, match="node a has completed"):
            await runs.skip(run, "a", why="x")
        with pytest.raises(RunConflictError, match="has not reached node 'b'"):
            await runs.set_output(run, "b", 1, why="x")
        with pytest.raises(RunError, match="no node 'c'"):
            await runs.skip(run, "c", why="x")
        with pytest.raises(RunConflictError, match=r"name one of each\[0\], each\[1\]"):
            await runs.set_output(run, "each", 1, why="x")
        with pytest.raises(RunConflictError, match="no worker holds it"):
            await runs.take_back(run, "w")
        with pytest.raises(InputError):
            await runs.set_output(run, "w", object(), why="x")
        await s.app.cancel(run)
        with pytest.raises(RunConflictError, match="is CANCELLED"):
            await runs.skip(run, "w", why="x")


# ── a large run ─────────────────────────────────────────────────────────────────────────


@pytest.mark.shows("K-11", "K-12")
async def test_of_a_hundred_nodes_only_what_was_not_done_runs_again(scene: Any) -> None:
    calls, broken = Counter[int](), [True]

    def work(number: int) -> int:
        calls[number] += 1
        if number == 60 and broken:
            raise ValueError("broken")
        return number

    nodes = [
        node("n30", "n29", type="human", human_config={"approvers": ["ann"]})
        if number == 30
        else task(f"n{number}", *before, handler="work", config={"number": number})
        for number in range(1, 101)
        for before in [[f"n{number - 1}"] if number > 1 else []]
    ]
    async with scene({"work": work}) as s:
        run = await s.app.start(workflow(*nodes))
        await s.until(run, lambda row: row.seq >= 32)
        (asked,) = await s.app.approvals.list(run_id=run)
        await s.app.approvals.approve(asked.id, by="ann")
        assert (await s.end(run)).nodes["n60"].status == "FAILED"

        broken.clear()
        await s.app.runs.retry(run)
        result = await s.end(run)

        assert result.status == "COMPLETED"
        assert calls == Counter({n: 1 + (n == 60) for n in range(1, 101) if n != 30})
        assert all(result.nodes[f"n{n}"].output == n for n in range(1, 101) if n != 30)
        (still,) = await s.app.approvals.list(run_id=run, status=None)
        assert (still.status, len(still.decisions)) == ("decided", 1)
        assert await s.count(run, "node.waiting") == 1


# ── held nodes ──────────────────────────────────────────────────────────────────────────


class Shop:
    """Handlers that fail while something is broken, and remember what they were called with."""

    def __init__(self) -> None:
        self.is_broken = True
        self.calls: list[tuple[str, int, str]] = []

    def charge(self, to: str, ctx: Context) -> str:
        self.calls.append((to, ctx.attempt, ctx.idempotency_key))
        if self.is_broken and to != "b":
            raise ValueError(f"no account {to}")
        return f"charged {to}"


HELD = workflow(
    task("charge", config={"to": "{{ input }}"}),
    value("after", "charge", config={"value": "{{ charge.output }}"}),
    node("beside"),
    on_dlq="hold",
)


async def hold(s: Any) -> tuple[str, Any]:
    """A run with a held node, and its dead letter."""
    run = await s.app.start(HELD, "a")
    await s.until(run, lambda row: row.dead_letters == 1 and row.counter == 1)
    (letter,) = await s.app.dead_letters.list()
    return run, letter


@pytest.mark.shows("J-22")
async def test_a_held_node_waits_until_its_dead_letter_is_retried(scene: Any) -> None:
    shop = Shop()
    async with scene({"charge": shop.charge}) as s:
        run, letter = await hold(s)

        assert (letter.id, letter.held) == (f"{run}.1.charge", True)
        shown = await s.app.runs.show(run)
        assert (shown.status, shown.nodes["beside"].status) == ("RUNNING", "COMPLETED")
        assert shown.nodes["charge"].status == "WAITING"
        assert shown.nodes["charge"].error["message"] == "no account a"
        why = await s.app.runs.explain(run, "after")
        assert "is held until somebody decides" in why.summary

        shop.is_broken = False
        (one,) = [one async for one in s.app.dead_letters.retry([letter.id], by="ann")]
        result = await s.end(run)

        assert (one.is_retried, result.output["after"]) == (True, "charged a")
        assert (await s.app.runs.get(run)).generation == 1
        (first, _, key), (second, attempt, same) = shop.calls
        assert (first, second, attempt, key) == ("a", "a", 1, same)
        (settled,) = await s.app.dead_letters.list(status="reprocessed")
        assert settled.settled_ms is not None


@pytest.mark.parametrize("is_held", [True, False])
async def test_an_edited_dead_letter_is_retried_with_its_new_config(
    scene: Any, is_held: bool
) -> None:
    shop = Shop()
    document = {**HELD, "on_dlq": "hold" if is_held else "fail"}
    async with scene({"charge": shop.charge}) as s:
        run = await s.app.start(document, "a")
        await s.until(run, lambda row: row.dead_letters == 1)
        (letter,) = await s.app.dead_letters.list()

        await s.app.dead_letters.edit(letter.id, {"to": "{{ 'b' }}"}, by="ann", why="a typo")
        with pytest.raises(InputError):
            await s.app.dead_letters.edit(letter.id, ["b"])
        details = await s.app.dead_letters.show(letter.id)
        assert details.input["config"] == {"to": "b"}
        async for one in s.app.dead_letters.retry([letter.id]):
            assert one.is_retried
        result = await s.end(run)

        assert result.output["after"] == "charged b"
        assert [(to, attempt) for to, attempt, _ in shop.calls] == [("a", 1), ("b", 1)]
        assert len({key for _, _, key in shop.calls}) == 1
        (event,) = await s.events(run, "node.edited")
        assert (event["config"], event["by"], event["why"]) == (
            {"to": "{{ 'b' }}"},
            "ann",
            "a typo",
        )


@pytest.mark.parametrize("decision", ["skip", "output", "discard", "cancel"])
async def test_a_held_node_is_decided_in_other_ways(scene: Any, decision: str) -> None:
    shop = Shop()
    async with scene({"charge": shop.charge}) as s:
        run, letter = await hold(s)
        match decision:
            case "skip":
                await s.app.runs.skip(run, "charge", why="free")
            case "output":
                await s.app.runs.set_output(run, "charge", "by hand", why="paid")
            case "discard":
                await s.app.dead_letters.discard(letter.id, by="ann", why="hopeless")
            case "cancel":
                await s.app.cancel(run)
        result = await s.end(run)

        found = await s.app.dead_letters.get(letter.id)
        if decision == "discard":
            assert (result.status, result.error["node"]) == ("FAILED", "charge")
            assert (found.status, found.why) == ("discarded", "hopeless")
        elif decision == "cancel":
            # It can still be retried: with its run.
            assert (result.status, found.status) == ("CANCELLED", "pending")
            shop.is_broken = False
            async for one in s.app.dead_letters.retry([letter.id]):
                assert one.is_retried
            assert (await s.end(run)).output["after"] == "charged a"
        else:
            assert (result.status, found.status) == ("COMPLETED", "reprocessed")
        assert len(shop.calls) == (2 if decision == "cancel" else 1)


async def test_a_node_says_itself_whether_it_is_held(scene: Any) -> None:
    items = {"items": ["a", "b"], "max_parallel": 2}
    document = workflow(
        task("charge", config={"to": "{{ item }}"}, foreach=items, on_dlq="hold"),
        task("last", "charge", handler="charge", config={"to": "x"}),
    )
    async with scene({"charge": Shop().charge}) as s:
        run = await s.app.start(document)
        await s.until(run, lambda row: row.dead_letters == 1 and row.counter == 1)
        (letter,) = await s.app.dead_letters.list()
        assert letter.id == f"{run}.1.charge[0]"

        await s.app.runs.set_output(run, "charge[0]", "by hand", why="paid")
        result = await s.end(run)

        assert (result.status, result.error["node"]) == ("FAILED", "last")
        assert result.nodes["charge"].output == ["by hand", "charged b"]


# ── stalled runs ────────────────────────────────────────────────────────────────────────


@pytest.mark.shows("D-39", "S-30", "T-13")
async def test_a_run_that_waits_for_nobody_is_reported_once(
    scene: Any, caplog: pytest.LogCaptureFixture
) -> None:
    clock = ManualClock()
    placement = {"requires_capabilities": {"gpu": 8}}
    stuck = workflow(task("a", handler="boom", placement=placement))
    waits = workflow(node("w", type="wait", config={"signal": "never"}))
    async with scene({"boom": boom}, clock=clock) as s:
        run = await s.app.start(stuck)
        other = await s.app.start(waits)
        await s.until(other, lambda row: row.seq == 3)
        watch, rival = (s.app.runs._behind.stall_watch() for _ in range(2))

        clock.advance(299_000)
        assert (await s.app.runs.stalled(), await watch.look()) == ([], 0)
        clock.advance(1_000)
        (stall,) = await s.app.runs.stalled()
        assert (stall.run.run, stall.explain()) == (
            run,
            "no worker takes 'a' in the queue 'task:boom'",
        )
        assert sum(await asyncio.gather(watch.look(), rival.look())) == 1
        assert [await one.look() for one in (watch, rival)] == [0, 0]
        (line,) = [one.getMessage() for one in caplog.records if "stalled" in one.getMessage()]
        assert f"run {run} of example appears stalled" in line
        assert "'a' in the queue 'task:boom'" in line
        (event,) = await s.events(run, "run.stalled")
        assert (event["why"], event["since_ms"]) == (stall.explain(), stall.since_ms)
        assert [one.since_ms for one in await s.app.runs.stalled()] == [stall.since_ms]

        await s.app.runs.skip(run, "a", why="nobody has a gpu")
        assert (await s.end(run)).status == "COMPLETED"
        assert await s.app.runs.stalled() == []


# ── cancelled runs ──────────────────────────────────────────────────────────────────────


@pytest.mark.shows("K-20")
async def test_a_cancelled_run_waits_for_no_handler(scene: Any) -> None:
    begun, release = threading.Event(), threading.Event()

    def deaf() -> str:
        begun.set()
        release.wait(60)
        return "too late"

    async with scene({"deaf": deaf, "quick": lambda: 1}) as s:
        run = await s.app.start(workflow(task("a", handler="deaf")))
        await asyncio.to_thread(begun.wait, 30)

        try:
            cancelled = await s.app.cancel(run)

            # Nothing of it is left, although its handler does not listen.
            assert (cancelled.status, cancelled.counter) == ("CANCELLED", 0)
            assert await s.app.runs.held(run) == {}
            assert (await s.run(workflow(task("b", handler="quick")))).output == {"b": 1}
        finally:
            release.set()
        await s.idle()
        result = await s.app.runs.show(run)
        assert (result.status, result.nodes["a"].status) == ("CANCELLED", "CANCELLED")
        assert result.nodes["a"].output is None
