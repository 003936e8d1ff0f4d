"""Durable functions on every store: steps, waits, failures, and going on after a crash."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

import minuet
from minuet.clock import ManualClock
from minuet.errors import FunctionError

#: How often each task has run, in the test at hand.
RAN: Counter[str] = Counter()

#: What `unlucky` does, by its argument.
MISFORTUNE: dict[str, Callable[[], Coroutine[Any, Any, Any]]] = {}


@pytest.fixture(autouse=True)
def forgotten() -> None:
    RAN.clear()
    MISFORTUNE.clear()


class Declined(Exception):
    """A card was declined."""

    def __init__(self, amount: int) -> None:
        super().__init__(f"{amount} is too much", amount)
        self.amount = amount


@dataclass
class Parcel:
    weight: Decimal
    sent: datetime | None = None


@minuet.task
async def f_double(n: int) -> int:
    RAN["double"] += 1
    return 2 * n


@minuet.task(retries=0)
async def f_charge(amount: int) -> str:
    RAN["charge"] += 1
    if amount > 100:
        raise Declined(amount)
    return f"paid {amount}"


@minuet.task
def f_pack(weight: Decimal, ctx: minuet.Context) -> Parcel:
    RAN["pack"] += 1
    return Parcel(weight)


@minuet.task(retries=2)
async def f_unlucky(name: str) -> str:
    RAN[name] += 1
    await MISFORTUNE[name]()
    return name


@minuet.task
async def f_keys(ctx: minuet.Context) -> list[Any]:
    return [ctx.idempotency_key, ctx.attempt, ctx.run_id]


async def test_the_result_of_a_function_is_the_output_of_its_run(scene: Any) -> None:
    @minuet.workflow(name="f-sums")
    async def sums(ctx: minuet.Flow, numbers: list[int], start: int = 1) -> dict[str, int]:
        total = start
        for number in numbers:
            total += await f_double(number)
        return {"total": total}

    async with scene() as s:
        result = await s.run(sums, {"numbers": [1, 2, 3]})
        assert (result.status, result.output) == ("COMPLETED", {"total": 13})
        names = [event["name"] for event in await s.events(result.run_id, "step.recorded")]
        assert names == ["f_double", "f_double#2", "f_double#3"]
        assert RAN["double"] == 3


async def test_steps_side_by_side_share_a_call_to_the_store(scene: Any) -> None:
    @minuet.workflow(name="f-gather")
    async def gathered(ctx: minuet.Flow) -> list[int]:
        return await asyncio.gather(*(f_double(n) for n in range(5)))

    async with scene() as s:
        assert (await s.run(gathered)).output == [0, 2, 4, 6, 8]


async def test_values_keep_their_types(scene: Any) -> None:
    @minuet.workflow(name="f-types")
    async def typed(ctx: minuet.Flow, weight: Decimal) -> Parcel:
        parcel = await f_pack.step(weight)  # type: ignore[call-arg]
        assert isinstance(parcel, Parcel)
        assert isinstance(parcel.weight, Decimal)
        await ctx.sleep(0.01)
        return Parcel(parcel.weight + 1, ctx.now())

    async with scene() as s:
        output = (await s.run(typed, {"weight": "1.5"})).output
        assert output["weight"] == "2.5"
        assert datetime.fromisoformat(output["sent"]).tzinfo is not None
        assert RAN["pack"] == 1


async def test_an_exception_of_a_task_arrives_with_its_class(scene: Any) -> None:
    @minuet.workflow(name="f-caught")
    async def caught(ctx: minuet.Flow) -> list[Any]:
        try:
            await f_charge(500)
        except Declined as error:
            await ctx.sleep(0.01)
            return [error.amount, list(error.args), await f_charge(50)]
        return []

    async with scene() as s:
        result = await s.run(caught)
        assert result.output == [500, ["500 is too much", 500], "paid 50"]
        assert RAN["charge"] == 2


async def test_an_exception_that_is_not_caught_fails_the_run(scene: Any) -> None:
    @minuet.workflow(name="f-uncaught")
    async def uncaught(ctx: minuet.Flow) -> None:
        await f_charge(500)

    async with scene() as s:
        result = await s.run(uncaught)
        assert result.status == "FAILED"
        assert result.error["type"].endswith("Declined")


async def test_a_retry_of_the_run_executes_the_failed_step_again(scene: Any) -> None:
    fails = [True]

    async def fail() -> None:
        if fails[0]:
            raise minuet.NonRetryable("not now")

    MISFORTUNE["later"] = fail

    @minuet.workflow(name="f-retried")
    async def retried(ctx: minuet.Flow) -> list[Any]:
        return [await f_double(4), await f_unlucky("later")]

    async with scene() as s:
        run = await s.app.start(retried)
        assert (await s.end(run)).status == "FAILED"
        fails[0] = False
        await s.app.runs.retry(run)
        assert (await s.end(run)).output == [8, "later"]
        assert (RAN["double"], RAN["later"]) == (1, 2)


async def test_a_step_is_tried_as_often_as_its_task_says(scene: Any) -> None:
    async def fail() -> None:
        if RAN["thrice"] < 3:
            raise minuet.Retryable("again", after=0)

    MISFORTUNE["thrice"] = fail

    @minuet.workflow(name="f-thrice")
    async def thrice(ctx: minuet.Flow) -> str:
        return await f_unlucky("thrice")

    async with scene() as s:
        result = await s.run(thrice)
        assert result.output == "thrice"
        (event,) = await s.events(result.run_id, "step.recorded")
        assert event["value"]["attempts"] == 3


async def test_a_sleep_holds_no_worker(scene: Any) -> None:
    clock = ManualClock()

    @minuet.workflow(name="f-sleep")
    async def sleeper(ctx: minuet.Flow) -> list[Any]:
        before = ctx.now()
        await ctx.sleep(days=3)
        return [(ctx.now() - before) >= timedelta(days=3), await f_double(1)]

    async with scene(clock=clock) as s:
        run = await s.app.start(sleeper)
        await s.until(run, lambda row: row.seq >= 4)
        await s.idle()
        clock.advance(3 * 24 * 3_600_000)
        await s.store.sweep()
        assert (await s.end(run)).output == [True, 2]


async def test_a_function_is_cancelled_while_it_sleeps(scene: Any) -> None:
    @minuet.workflow(name="f-cancelled")
    async def endless(ctx: minuet.Flow) -> None:
        await ctx.sleep(days=1)

    async with scene() as s:
        run = await s.app.start(endless)
        await s.until(run, lambda row: row.seq >= 4)
        await s.app.runs.cancel(run)
        assert (await s.end(run)).status == "CANCELLED"


async def test_each_step_has_an_idempotency_key_of_its_own(scene: Any) -> None:
    @minuet.workflow(name="f-keys")
    async def keys(ctx: minuet.Flow) -> list[Any]:
        return [await f_keys(), await f_keys()]  # type: ignore[call-arg]

    async with scene() as s:
        result = await s.run(keys)
        first, second = result.output
        assert first[0] != second[0]
        assert first[1:] == [1, result.run_id]


async def test_a_sync_task_must_be_awaited_as_a_step(scene: Any) -> None:
    @minuet.workflow(name="f-sync")
    async def wrong(ctx: minuet.Flow) -> Any:
        return f_pack(Decimal(1))  # type: ignore[call-arg]

    async with scene() as s:
        result = await s.run(wrong)
        assert result.status == "FAILED"
        assert "await f_pack.step(…)" in result.error["message"]


async def test_a_function_cannot_do_io_itself(scene: Any) -> None:
    @minuet.workflow(name="f-io")
    async def wrong(ctx: minuet.Flow) -> Any:
        return await asyncio.to_thread(print)

    async with scene() as s:
        result = await s.run(wrong)
        assert result.error["code"] == "function-error"
        assert "put this into a task" in result.error["message"]


async def test_a_function_that_waits_for_nothing_fails(scene: Any) -> None:
    @minuet.workflow(name="f-stuck")
    async def stuck(ctx: minuet.Flow) -> None:
        await asyncio.Event().wait()

    async with scene() as s:
        result = await s.run(stuck)
        assert "waits for something that cannot come" in result.error["message"]


async def test_wrong_input_is_refused_at_the_start(scene: Any) -> None:
    @minuet.workflow(name="f-input")
    async def strict(ctx: minuet.Flow, order_id: int) -> None: ...

    async with scene() as s:
        with pytest.raises(minuet.InputError, match="order_id"):
            await s.app.start(strict, {"order": 7})


async def test_a_function_cannot_be_called_directly() -> None:
    @minuet.workflow(name="f-direct")
    async def direct(ctx: minuet.Flow) -> None: ...

    with pytest.raises(FunctionError, match=r"minuet\.run"):
        direct()


async def test_a_timeout_cancels_a_step(scene: Any) -> None:
    async def slow() -> None:
        await asyncio.Event().wait()

    MISFORTUNE["slow"] = slow

    @minuet.workflow(name="f-timeout")
    async def impatient(ctx: minuet.Flow) -> Any:
        try:
            async with asyncio.timeout(0.05):
                await f_unlucky("slow")
        except TimeoutError:
            return await f_double(5)

    async with scene() as s:
        assert (await s.run(impatient)).output == 10


async def test_a_function_in_a_graph_gets_its_arguments_from_its_config(scene: Any) -> None:
    @minuet.workflow(name="f-node")
    async def doubled(ctx: minuet.Flow, n: int) -> int:
        return await f_double(n)

    document = {
        "name": "graph",
        "nodes": [
            {"id": "a", "type": "transform", "config": {"value": 21}},
            {
                "id": "b",
                "type": "flow",
                "handler": "f-node",
                "config": {"n": "{{ a.output }}"},
                "dependencies": ["a"],
            },
            {
                "id": "c",
                "type": "transform",
                "config": {"value": "{{ b.output }}"},
                "dependencies": ["b"],
            },
        ],
    }
    async with scene() as s:
        result = await s.run(document)
        assert result.output == {"c": 42}


# ── signals and child runs ──────────────────────────────────────────────────────────────


async def test_a_function_waits_for_a_signal(scene: Any) -> None:
    @minuet.workflow(name="f-signal")
    async def paid(ctx: minuet.Flow) -> list[Any]:
        first = await ctx.signal("paid")
        return [first, await f_double(1), await ctx.signal("paid", type=Parcel)]

    async with scene() as s:
        run = await s.app.start(paid)
        await s.until(run, lambda row: row.seq >= 3)
        await s.app.signal(run, "paid", {"amount": 5})
        await s.app.signal(run, "paid", {"weight": "2"})
        result = await s.end(run)
        assert result.output == [{"amount": 5}, 2, {"weight": "2", "sent": None}]
        assert RAN["double"] == 1


async def test_a_signal_that_comes_before_the_function_waits_is_not_lost(scene: Any) -> None:
    @minuet.workflow(name="f-early")
    async def early(ctx: minuet.Flow) -> Any:
        await f_double(1)
        return await ctx.signal("paid", timeout=3600)

    async with scene() as s:
        run = await s.app.runs.create(early)
        await run.signal("paid", "early")
        await s.app.runs.trigger(run)
        assert (await s.end(run)).output == "early"


async def test_the_first_of_two_signals_wins(scene: Any) -> None:
    @minuet.workflow(name="f-race")
    async def race(ctx: minuet.Flow) -> list[Any]:
        waiting = {
            asyncio.create_task(ctx.signal(name), name=name) for name in ("approved", "rejected")
        }
        done, others = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for other in others:
            other.cancel()
        return sorted((task.get_name(), task.result()) for task in done)

    async with scene() as s:
        run = await s.app.start(race)
        await s.until(run, lambda row: row.seq >= 3)
        await s.app.signal(run, "rejected", "too dear")
        assert (await s.end(run)).output == [["rejected", "too dear"]]


async def test_a_signal_that_does_not_come_in_time(scene: Any) -> None:
    clock = ManualClock()

    @minuet.workflow(name="f-late")
    async def late(ctx: minuet.Flow) -> str:
        try:
            await ctx.signal("paid", timeout=60)
        except minuet.SignalTimeoutError:
            return "late"
        return "paid"

    async with scene(clock=clock) as s:
        run = await s.app.start(late)
        await s.until(run, lambda row: row.seq >= 4)
        await s.idle()
        clock.advance(61_000)
        await s.store.sweep()
        assert (await s.end(run)).output == "late"


async def test_a_signal_reaches_a_function_while_a_step_of_it_runs(scene: Any) -> None:
    async def endless() -> None:
        await asyncio.Event().wait()

    MISFORTUNE["endless"] = endless

    @minuet.workflow(name="f-interrupted")
    async def interrupted(ctx: minuet.Flow) -> Any:
        work = asyncio.create_task(f_unlucky("endless"))
        stop = asyncio.create_task(ctx.signal("stop"))
        await asyncio.wait({work, stop}, return_when=asyncio.FIRST_COMPLETED)
        work.cancel()
        return await stop

    async with scene() as s:
        run = await s.app.start(interrupted)
        async with asyncio.timeout(30):
            while not RAN["endless"]:
                await s.store.wait_for_change(run, 2, 20)
        await s.app.signal(run, "stop", "enough")
        assert (await s.end(run)).output == "enough"


@minuet.workflow(name="f-inner")
async def inner(ctx: minuet.Flow, n: int) -> Parcel:
    if n < 0:
        await f_charge(500)
    return Parcel(Decimal(await f_double(n)))


async def test_child_runs_side_by_side(scene: Any) -> None:
    @minuet.workflow(name="f-parents")
    async def parents(ctx: minuet.Flow) -> Decimal:
        parcels = await asyncio.gather(*(ctx.start(inner, n) for n in range(3)))
        return sum((parcel.weight for parcel in parcels), Decimal(0))

    async with scene() as s:
        run = await s.app.start(parents)
        result = await s.end(run)
        assert result.output == "6"
        assert RAN["double"] == 3
        assert (await s.app.runs.get(run)).children == 3


async def test_a_failed_child_run_raises_in_its_parent(scene: Any) -> None:
    @minuet.workflow(name="f-brave")
    async def brave(ctx: minuet.Flow) -> list[Any]:
        try:
            await ctx.start(inner, n=-1)
        except minuet.ChildFailedError as error:
            return [error.status, (await ctx.start(inner, 4)).weight]
        return []

    async with scene() as s:
        assert (await s.run(brave)).output == ["FAILED", "8"]


async def test_a_cancelled_function_cancels_its_child_runs(scene: Any) -> None:
    @minuet.workflow(name="f-sleeping-child")
    async def sleeping(ctx: minuet.Flow) -> None:
        await ctx.sleep(days=1)

    @minuet.workflow(name="f-cancelling")
    async def parent(ctx: minuet.Flow) -> None:
        await asyncio.gather(ctx.start(sleeping), ctx.start(sleeping))

    async with scene() as s:
        run = await s.app.start(parent)
        await s.until(run, lambda row: row.children == 2)
        await s.app.runs.cancel(run)
        await s.end(run)
        children = (await s.app.runs.tree(run)).children
        assert len(children) == 2
        for child in children:
            assert (await s.end(child.run_id)).status == "CANCELLED"


async def test_any_workflow_can_be_a_child_run(scene: Any) -> None:
    document = {
        "name": "adder",
        "output": "{{ sum.output }}",
        "nodes": [{"id": "sum", "type": "transform", "config": {"value": "{{ input.a }}"}}],
    }

    @minuet.workflow(name="f-any")
    async def any_workflow(ctx: minuet.Flow) -> Any:
        return [await ctx.start(document, {"a": 5}), await ctx.start("deployed-adder", {"a": 6})]

    async with scene() as s:
        await s.app.workflows.deploy({**document, "name": "deployed-adder"})
        assert (await s.run(any_workflow)).output == [5, 6]


# ── large results, and names ────────────────────────────────────────────────────────────


@minuet.task
async def f_large(size: int) -> str:
    RAN["large"] += 1
    return "x" * size


async def test_a_large_result_of_a_step_is_kept_as_a_blob(scene: Any) -> None:
    @minuet.workflow(name="f-large")
    async def large(ctx: minuet.Flow) -> list[int]:
        text = await f_large(3_000_000)
        await ctx.sleep(0.01)
        return [len(text), len(await f_large(100))]

    async with scene() as s:
        result = await s.run(large)
        assert result.output == [3_000_000, 100]
        assert RAN["large"] == 2
        first, *_ = await s.events(result.run_id, "step.recorded")
        assert first["value"]["blob"].startswith("cas://")


async def test_what_a_task_keeps_is_not_taken_for_a_step_of_its_function(scene: Any) -> None:
    @minuet.task(name="f-keeping")
    async def keeping(ctx: minuet.Context) -> str:
        return str(await ctx.step("a/b", lambda: "kept"))

    @minuet.workflow(name="f-names")
    async def names(ctx: minuet.Flow) -> list[Any]:
        def plain(number: int) -> int:
            RAN["plain"] += 1
            return number

        first = [await keeping(), await ctx.step("x/y", plain, 1)]  # type: ignore[call-arg]
        await ctx.sleep(0.01)
        return [*first, await ctx.step("x/y", plain, 2)]

    async with scene() as s:
        assert (await s.run(names)).output == ["kept", 1, 2]
        assert RAN["plain"] == 2


async def test_the_name_of_a_step_must_not_be_reserved(scene: Any) -> None:
    @minuet.workflow(name="f-reserved")
    async def reserved(ctx: minuet.Flow) -> None:
        await ctx.step("$timer", print)

    async with scene() as s:
        assert "does not begin with $" in (await s.run(reserved)).error["message"]


# ── approvals ───────────────────────────────────────────────────────────────────────────────


async def first_asked(s: Any, run: str) -> list[Any]:
    """Wait until a child run asks people."""
    async with asyncio.timeout(30):
        while True:
            row = await s.app.runs.get(run)
            found = await s.app.approvals.list()
            if found:
                return list(found)
            await s.store.wait_for_change(run, row.seq, 20)


@pytest.mark.parametrize("decision", ["approve", "reject"])
async def test_a_function_asks_people_and_gets_what_they_decide(scene: Any, decision: str) -> None:
    @minuet.workflow(name="f-asks")
    async def asks(ctx: minuet.Flow, price: int) -> list[Any]:
        decided = await ctx.approve(
            "Pay {{ price }}?", approvers=["ada"], payload={"price": price}, form={"type": "number"}
        )
        return [decided.decision, decided.approved, decided.comments, decided.data]

    async with scene() as s:
        run = await s.app.start(asks, {"price": 7})
        (asked,) = await first_asked(s, run)
        assert (asked.title, asked.payload) == ("Pay {{ price }}?", {"price": 7})
        await s.app.approvals.decide(asked.id, decision, by="ada", comments="so be it", data=5)

        result = await s.end(run)
        assert result.output == [decision, decision == "approve", "so be it", 5]


async def test_a_function_learns_that_nobody_decided_in_time(scene: Any) -> None:
    @minuet.workflow(name="f-asks-in-vain")
    async def asks(ctx: minuet.Flow) -> list[Any]:
        decided = await ctx.approve("Pay?", timeout=60)
        return [decided.decision, decided.decided_by]

    clock = ManualClock()
    async with scene(clock=clock) as s:
        run = await s.app.start(asks)
        await first_asked(s, run)
        clock.advance(60_000)
        await s.store.sweep()

        assert (await s.end(run)).output == ["timeout", "system"]
