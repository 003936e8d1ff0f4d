"""Undo: compensators of completed nodes, on failure, on cancel and by hand, on every store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import minuet
from minuet.app import shapes
from minuet.clock import ManualClock
from minuet.errors import InputError, RunConflictError

from .harness import QUICK_RETRY, node, task, workflow
from .test_children import child

Log = list[tuple[Any, ...]]

UNDO_ON_FAILURE = {"on_failure": {"compensate": True}}


def make_handlers(log: Log) -> dict[str, Callable[..., Any]]:
    """`do` and `undo` note what they were called with; `fail` fails."""

    async def do(what: str, ctx: minuet.Context) -> Any:
        log.append(("do", what))
        return {"id": f"id of {what}"}

    async def undo(what: str, ctx: minuet.Context) -> None:
        log.append(("undo", what))

    async def fail(ctx: minuet.Context) -> None:
        raise minuet.NonRetryable("it is broken")

    return {"do": do, "undo": undo, "fail": fail}


def doing(name: str, *dependencies: str, **fields: Any) -> Any:
    """A node that can be undone."""
    fields = {"config": {"what": name}, "compensator": {"handler": "undo"}, **fields}
    return task(name, *dependencies, handler="do", **fields)


def undone(log: Log) -> list[Any]:
    return [what for kind, what in log if kind == "undo"]


# ── on failure ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.shows("L-02", "L-03", "L-04", "L-07", "A-21")
async def test_a_run_that_fails_is_undone_from_its_last_completed_node_to_its_first(
    scene: Any,
) -> None:
    log: Log = []
    document = workflow(
        doing("a"),
        node("plain", "a"),
        doing("b", "plain"),
        task("fail", "b", compensator={"handler": "undo", "config": {"what": "fail"}}),
        doing("never", "fail"),
        **UNDO_ON_FAILURE,
    )
    async with scene(make_handlers(log)) as s:
        result = await s.run(document)

        assert (result.status, result.compensated) == ("FAILED", "all")
        assert log == [("do", "a"), ("do", "b"), ("undo", "b"), ("undo", "a")]
        found = {name: one.compensation for name, one in result.nodes.items()}
        assert {name for name, one in found.items() if one is not None} == {"a", "b"}
        assert found["a"].status == "COMPLETED"
        assert result.nodes["a"].status == "COMPLETED"
        assert result.error["node"] == "fail"
        kinds = [event["type"] for event in await s.events(result.run_id)]
        assert kinds[-1] == "run.compensated"
        assert kinds.index("run.failed") + 1 == kinds.index("run.compensating")


@pytest.mark.shows("L-09")
async def test_what_orders_an_undo_is_in_the_records_of_the_nodes(scene: Any) -> None:
    log: Log = []
    clock = ManualClock()
    may_end = {name: asyncio.Event() for name in "abc"}

    async def do(what: str) -> Any:
        await may_end[what].wait()
        return {"id": f"id of {what}"}

    document = workflow(*map(doing, "abc"), task("fail", *"abc"), **UNDO_ON_FAILURE)
    async with scene({**make_handlers(log), "do": do}, clock=clock) as s:
        run = await s.app.start(document)
        for name in "cab":
            clock.advance(1_000)
            may_end[name].set()
            while name not in await s.order(run):
                await s.store.wait_for_change(run, (await s.app.runs.get(run)).seq, 20)
        result = await s.end(run)
        nodes = shapes.nodes(result.nodes)

        order = sorted("abc", key=lambda name: nodes[name]["ended_at"], reverse=True)
        assert order == undone(log) == ["b", "a", "c"]
        for name in order:
            assert (nodes[name]["status"], nodes[name]["output"]) == (
                "COMPLETED",
                {"id": f"id of {name}"},
            )
            assert nodes[name]["compensation"]["status"] == "COMPLETED"


@pytest.mark.shows("L-01")
async def test_a_compensator_gets_what_its_node_saw_and_its_output(scene: Any) -> None:
    seen: list[Any] = []

    async def pay(amount: int) -> Any:
        return {"id": "p1", "amount": amount}

    async def refund(payment: str, order: str, amount: int, ctx: minuet.Context) -> None:
        seen.append((payment, order, amount, dict(ctx.inputs), ctx.node_id, ctx.scope))

    async def again(amount: int, output: Any) -> None:
        seen.append((amount, output))

    document = workflow(
        node("price", type="transform", config={"value": {"sum": 5}}),
        task(
            "first",
            "price",
            handler="pay",
            config={"amount": "{{ price.sum }}"},
            compensator={"handler": "again"},
        ),
        task(
            "pay",
            "first",
            config={"amount": 7},
            compensator={
                "handler": "refund",
                "config": {
                    "payment": "{{ output.id }}",
                    "order": "{{ input.order }}",
                    "amount": "{{ pay.output.amount + price.output.sum }}",
                },
            },
        ),
        task("fail", "pay"),
        **UNDO_ON_FAILURE,
    )
    handlers = {**make_handlers([]), "pay": pay, "refund": refund, "again": again}
    async with scene(handlers) as s:
        result = await s.run(document, {"order": "o9"})

        output = {"id": "p1", "amount": 7}
        assert result.compensated == "all"
        assert seen == [
            ("p1", "o9", 12, {"pay": output}, "pay", ()),
            (5, {"id": "p1", "amount": 5}),
        ]


async def test_each_round_of_a_loop_and_each_item_is_undone_once(scene: Any) -> None:
    log: Log = []
    document = workflow(
        doing(
            "round",
            config={"what": "round {{ iteration }}"},
            loop={"condition": "iteration < 2", "max_iterations": 5},
        ),
        doing(
            "each",
            "round",
            config={"what": "item {{ thing }}"},
            foreach={"items": ["x", "y"], "as": "thing", "max_parallel": 1},
            compensator={
                "handler": "undo",
                "config": {"what": "{{ thing }} {{ item_index }} {{ output.id }}"},
            },
        ),
        task("fail", "each"),
        **UNDO_ON_FAILURE,
    )
    async with scene(make_handlers(log)) as s:
        result = await s.run(document)

        assert undone(log) == [
            *("y 1 id of item y", "x 0 id of item x"),
            *("round 2", "round 1", "round 0"),
        ]
        assert result.compensated == "all"
        each = await s.app.runs.instances(result.run_id, "each")
        assert [one.compensation.status for one in each.values()] == ["COMPLETED"] * 2


@pytest.mark.shows("L-05", "L-08")
async def test_a_compensator_that_fails_is_a_dead_letter_and_the_others_still_run(
    scene: Any,
) -> None:
    log: Log = []
    keys: dict[str, set[str]] = {}

    async def undo(what: str, ctx: minuet.Context) -> None:
        log.append(("undo", what))
        keys.setdefault(what, set()).add(ctx.idempotency_key)
        if what != "b":
            raise OSError(f"cannot undo {what}")

    async def do(what: str, ctx: minuet.Context) -> None:
        keys.setdefault(what, set()).add(ctx.idempotency_key)

    retry = {"handler": "undo", "retry": QUICK_RETRY}
    document = workflow(
        doing("a", compensator=retry),
        doing("b", "a"),
        doing("c", "b", compensator={**retry, "retry": 1}),
        task("fail", "c"),
        **UNDO_ON_FAILURE,
    )
    async with scene({**make_handlers([]), "do": do, "undo": undo}) as s:
        result = await s.run(document)
        letters = await s.app.dead_letters.list(run_id=result.run_id)

        assert (result.status, result.compensated) == ("FAILED", "partly")
        assert undone(log) == ["c", "b", *["a"] * 3]
        found = {name: one.compensation for name, one in result.nodes.items()}
        assert [found[name].status for name in "abc"] == ["FAILED", "COMPLETED", "FAILED"]
        assert (found["a"].attempts, found["a"].error["message"]) == (3, "cannot undo a")
        undo_letters = [one for one in letters if one.reason == "max_retries_exceeded"]
        assert [one.node_id for one in undo_letters] == ["c", "a"]
        assert undo_letters[0].id == f"{result.run_id}.1.undo1:c"
        details = await s.app.dead_letters.show(undo_letters[1].id)
        assert details.input is not None
        assert details.input["config"] == {"what": "a"}
        assert [one.type for one in details.history].count("failed") == 3
        assert (await s.app.dead_letters.discard(undo_letters[0].id)).status == "discarded"
        # An attempt has the key of the one before; a compensator has another than its node.
        assert [len(keys[name]) for name in "abc"] == [2, 2, 2]


@pytest.mark.shows("L-08", "A-21")
async def test_a_compensator_has_its_own_time_limit(scene: Any) -> None:
    document = workflow(
        doing("a", compensator={"handler": "hang", "timeout_sec": 0.01, "retry": 1}),
        task("fail", "a"),
        **UNDO_ON_FAILURE,
    )

    async def hang() -> None:
        await asyncio.Event().wait()

    async with scene({**make_handlers([]), "hang": hang}) as s:
        document["nodes"][0]["compensator"]["config"] = {}
        result = await s.run(document)

        assert result.compensated == "partly"
        assert result.nodes["a"].compensation.error["code"] == "timeout"


# ── on cancel, and by hand ──────────────────────────────────────────────────────────────────


@pytest.mark.shows("L-07")
async def test_a_run_that_is_cancelled_is_undone_and_is_cancelled_then(scene: Any) -> None:
    log: Log = []
    document = workflow(
        doing("a"),
        node("wait", "a", type="wait", config={"signal": "never"}),
        on_cancel={"compensate": True},
    )
    async with scene(make_handlers(log)) as s:
        run_id = await s.app.start(document)
        await s.until(run_id, lambda run: run.seq >= 4)
        await s.app.cancel(run_id, reason="enough")
        result = await s.end(run_id)

        assert (result.status, result.compensated) == ("CANCELLED", "all")
        assert result.error["code"] == "enough"
        assert undone(log) == ["a"]


@pytest.mark.shows("L-06", "Q-11")
async def test_a_completed_run_is_undone_by_hand_once(scene: Any) -> None:
    log: Log = []
    document = workflow(doing("a"), doing("b", "a"), output="{{ b.output.id }}")
    async with scene(make_handlers(log)) as s:
        run_id = (await s.run(document)).run_id

        changed = await s.app.runs.rollback(run_id)
        result = await s.end(run_id)

        assert changed.status == "COMPENSATING"
        assert (result.status, result.compensated) == ("COMPLETED", "all")
        assert result.output == "id of b"
        assert undone(log) == ["b", "a"]
        with pytest.raises(RunConflictError, match="nothing to undo"):
            await s.app.runs.rollback(run_id)


@pytest.mark.shows("L-06")
async def test_an_undo_can_stop_at_a_node_and_go_on_later(scene: Any) -> None:
    log: Log = []
    document = workflow(doing("a"), doing("b", "a"), doing("c", "b"))
    async with scene(make_handlers(log)) as s:
        run_id = (await s.run(document)).run_id
        with pytest.raises(InputError, match="has not completed"):
            await s.app.runs.rollback(run_id, to="d")

        await s.app.runs.rollback(run_id, to="b")
        first = await s.end(run_id)
        assert (undone(log), first.compensated) == (["c"], "partly")

        await s.app.runs.rollback(run_id)
        second = await s.end(run_id)
        assert (undone(log), second.compensated) == (["c", "b", "a"], "all")


async def test_what_could_not_be_undone_is_tried_again_by_the_next_undo(scene: Any) -> None:
    log: Log = []
    keys: list[str] = []

    async def undo(what: str, ctx: minuet.Context) -> None:
        log.append(("undo", what))
        if what == "a":
            keys.append(ctx.idempotency_key)
            if len(keys) == 1:
                raise minuet.NonRetryable("not now")

    document = workflow(doing("a"), doing("b", "a"), task("fail", "b"), **UNDO_ON_FAILURE)
    async with scene({**make_handlers([]), "undo": undo}) as s:
        first = await s.run(document)
        letters = await s.app.dead_letters.list(run_id=first.run_id, node_id="a")
        (retried,) = [one async for one in s.app.dead_letters.retry([letters[0].id])]
        assert retried.is_retried
        second = await s.end(first.run_id)

        assert (first.compensated, second.compensated) == ("partly", "all")
        assert undone(log) == ["b", "a", "a"]
        assert len(set(keys)) == 1


async def test_a_run_that_was_undone_is_not_retried_by_accident(scene: Any) -> None:
    log: Log = []
    document = workflow(doing("a"), task("fail", "a"), **UNDO_ON_FAILURE)
    async with scene(make_handlers(log)) as s:
        run_id = (await s.run(document)).run_id

        with pytest.raises(RunConflictError, match=r"was undone \(a\): retry it with --undone"):
            await s.app.runs.retry(run_id)


async def test_a_run_that_was_undone_is_started_over_once_with_keys_of_its_own(
    scene: Any,
) -> None:
    keys: list[str] = []
    fails = [True]

    async def do(what: str, ctx: minuet.Context) -> None:
        keys.append(ctx.idempotency_key)

    async def fail(ctx: minuet.Context) -> str:
        if fails.pop() if fails else False:
            raise minuet.NonRetryable("it is broken")
        return f"sent to {ctx.input['to']}"

    document = workflow(doing("a"), task("fail", "a"), **UNDO_ON_FAILURE)
    async with scene({**make_handlers([]), "do": do, "fail": fail}) as s:
        run_id = (await s.run(document, {"to": "x" * 100_000}, tags={"by": "me"})).run_id

        first = await s.app.runs.retry(run_id, undone=True)
        again = await s.app.runs.retry(run_id, undone=True)
        result = await s.end(first.run)

        assert again.run == first.run != run_id
        assert first.tags == {"by": "me", "started_over": run_id}
        assert (result.status, result.output["fail"][:9]) == ("COMPLETED", "sent to x")
        assert len(set(keys)) == 2
        assert (await s.app.runs.show(run_id)).status == "FAILED"


async def test_a_run_that_is_undone_partly_is_not_started_over(scene: Any) -> None:
    async def undo(what: str) -> None:
        raise minuet.NonRetryable("cannot")

    document = workflow(doing("a"), task("fail", "a"), **UNDO_ON_FAILURE)
    async with scene({**make_handlers([]), "undo": undo}) as s:
        run_id = (await s.run(document)).run_id

        with pytest.raises(RunConflictError, match=r"not undone completely \(a is left\)"):
            await s.app.runs.retry(run_id, undone=True)


async def test_a_run_in_which_nothing_was_undone_is_retried_as_any_other(scene: Any) -> None:
    document = workflow(
        node("plain"), task("fail", "plain"), doing("never", "fail"), **UNDO_ON_FAILURE
    )
    async with scene(make_handlers([])) as s:
        run_id = (await s.run(document)).run_id

        assert (await s.app.runs.retry(run_id)).generation == 2
        assert (await s.end(run_id)).status == "FAILED"


# ── child runs ──────────────────────────────────────────────────────────────────────────────


async def test_a_child_run_is_undone_by_its_own_compensators(scene: Any) -> None:
    log: Log = []
    inner = workflow(doing("in1"), doing("in2", "in1"), name="inner")
    document = workflow(
        doing("a"), child("c", inner, "a"), doing("b", "c"), task("fail", "b"), **UNDO_ON_FAILURE
    )
    async with scene(make_handlers(log)) as s:
        result = await s.run(document)

        assert (result.status, result.compensated) == ("FAILED", "all")
        assert undone(log) == ["b", "in2", "in1", "a"]
        (row,) = [
            row for run in s.store.runs if (row := await s.app.runs.get(run)).parent is not None
        ]
        inside = await s.app.runs.show(row.run)
        assert (inside.status, inside.compensated) == ("COMPLETED", "all")


async def test_what_a_child_run_did_before_it_failed_or_was_cut_off_is_undone(scene: Any) -> None:
    log: Log = []
    failing = workflow(doing("in1"), task("fail", "in1"), name="inner")
    waiting = workflow(
        doing("in2"), node("w", "in2", type="wait", config={"signal": "never"}), name="waiting"
    )
    document = workflow(child("c", failing), child("d", waiting), **UNDO_ON_FAILURE)
    started = asyncio.Event()

    async def do(what: str) -> None:
        log.append(("do", what))
        if what == "in2":
            started.set()
        else:
            await started.wait()

    async with scene({**make_handlers(log), "do": do}) as s:
        result = await s.run(document)

        assert (result.status, result.compensated) == ("FAILED", "all")
        assert sorted(undone(log)) == ["in1", "in2"]


async def test_a_child_run_that_is_undone_partly_leaves_its_parent_undone_partly(
    scene: Any,
) -> None:
    async def undo(what: str) -> None:
        if what == "in1":
            raise minuet.NonRetryable("cannot")

    inner = workflow(doing("in1"), doing("in2", "in1"), name="inner")
    document = workflow(doing("a"), child("c", inner, "a"), task("fail", "c"), **UNDO_ON_FAILURE)
    async with scene({**make_handlers([]), "undo": undo}) as s:
        result = await s.run(document)

        assert result.compensated == "partly"
        compensation = result.nodes["c"].compensation
        assert (compensation.status, compensation.error["code"]) == (
            "FAILED",
            "child_partly_undone",
        )


# ── races ───────────────────────────────────────────────────────────────────────────────────


async def test_of_many_undos_at_once_one_is_made(scene: Any) -> None:
    log: Log = []
    document = workflow(doing("a"), doing("b", "a"))
    async with scene(make_handlers(log)) as s:
        run_id = (await s.run(document)).run_id

        answers = await asyncio.gather(
            *(s.app.runs.rollback(run_id) for _ in range(5)), return_exceptions=True
        )
        result = await s.end(run_id)

        assert sum(not isinstance(one, RunConflictError) for one in answers) == 1
        assert (undone(log), result.compensated) == (["b", "a"], "all")


async def test_a_long_undo_goes_on_in_several_lists(
    scene: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("minuet.kernel.undo.LISTED_MAX", 3)
    log: Log = []
    document = workflow(
        doing("each", config={"what": "{{ item }}"}, foreach={"items": list("abcdefgh")}),
        task("fail", "each"),
        **UNDO_ON_FAILURE,
    )
    async with scene(make_handlers(log)) as s:
        result = await s.run(document)

        assert sorted(undone(log)) == list("abcdefgh")
        completed = [
            event["scope"]
            for event in await s.events(result.run_id, "node.completed")
            if event["node"] in ("each$item", "each$undo")
        ]
        assert [scope[:2] for scope in completed[8:]] == completed[:8][::-1]
        assert result.compensated == "all"
