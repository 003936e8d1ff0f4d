"""The code of a durable function changes between a crash and the replay.

Each change is tried at every point where a crash can come: after each entry of the journal. The run
goes on rightly, without executing again what was kept; or it stops, and says what has changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

import minuet
from minuet.errors import ReplayError
from minuet.nodes.handler import Task

from .stage import Code, perform

CHANGES: dict[str, Callable[[], Change]] = {}


class Stops(NamedTuple):
    """The run stops: its journal goes on with one thing, and the code asks for others."""

    recorded: str
    wanted: tuple[str, ...] = ()
    #: What the message says, too.
    says: str = ""


class Change(NamedTuple):
    """A change of code."""

    before: Code
    after: Code
    #: What the new code comes to, for each number of entries that were kept when it came.
    outcomes: list[Any]
    signals: dict[str, list[Any]] | None = None
    latest_first: bool = False


def change(make: Callable[[], Change]) -> Callable[[], Change]:
    CHANGES[make.__name__] = make
    return make


@Task
async def a(n: int = 1) -> str:
    return f"a{n}"


@Task
async def b(n: int = 1) -> str:
    return f"b{n}"


@Task
async def c(n: int = 1) -> str:
    return f"c{n}"


@Task
async def broken() -> str:
    raise KeyError("broken")


@Task
async def pay(amount: int, to: str = "shop") -> dict[str, Any]:
    return {"amount": amount, "to": to}


# ── steps are added ─────────────────────────────────────────────────────────────────────


async def a_b(ctx: minuet.Flow) -> Any:
    return [await a(), await b()]


async def a_b_c(ctx: minuet.Flow) -> Any:
    return [await a(), await b(), await c()]


@change
def a_step_is_added_at_the_beginning() -> Change:
    async def after(ctx: minuet.Flow) -> Any:
        return [await c(), await a(), await b()]

    stops = Stops("a", ("c",))
    return Change(a_b, after, [["c1", "a1", "b1"], stops, stops])


@change
def a_step_is_added_in_the_middle() -> Change:
    async def after(ctx: minuet.Flow) -> Any:
        return [await a(), await c(), await b()]

    full = ["a1", "c1", "b1"]
    return Change(a_b, after, [full, full, Stops("b", ("c",))])


@change
def a_step_is_added_at_the_end() -> Change:
    full = ["a1", "b1", "c1"]
    return Change(a_b, a_b_c, [full, full, full])


@change
def a_step_is_added_beside_others() -> Change:
    async def before(ctx: minuet.Flow) -> Any:
        return await asyncio.gather(a(), b())

    async def after(ctx: minuet.Flow) -> Any:
        return await asyncio.gather(a(), c(), b())

    full = ["a1", "c1", "b1"]
    return Change(before, after, [full, full, full])


@change
def a_step_of_the_same_name_is_added_beside_others() -> Change:
    async def before(ctx: minuet.Flow) -> Any:
        return await asyncio.gather(a(1), a(2))

    async def after(ctx: minuet.Flow) -> Any:
        return await asyncio.gather(a(0), a(1), a(2))

    stops = Stops("a", ("a",), says='{"n":1} then, {"n":0} now')
    return Change(before, after, [["a0", "a1", "a2"], stops, stops])


@change
def a_step_is_added_to_a_branch() -> Change:
    async def one(n: int) -> Any:
        return [await a(n), await b(n)]

    async def longer(n: int) -> Any:
        return [await a(n), await c(n), await b(n)]

    async def before(ctx: minuet.Flow) -> Any:
        return await asyncio.gather(one(1), one(2))

    async def after(ctx: minuet.Flow) -> Any:
        return await asyncio.gather(one(1), longer(2))

    # Steps in the order: a1, a2, b1, b2.
    full = [["a1", "b1"], ["a2", "c2", "b2"]]
    return Change(before, after, [full, full, full, full, Stops("b #2", ("c",))])


# ── steps are removed, renamed, put in another order ────────────────────────────────────


@change
def the_first_step_is_removed() -> Change:
    async def after(ctx: minuet.Flow) -> Any:
        return [await b(), await c()]

    stops = Stops("a", ("b",))
    return Change(a_b_c, after, [["b1", "c1"], stops, stops, stops])


@change
def a_step_in_the_middle_is_removed() -> Change:
    async def after(ctx: minuet.Flow) -> Any:
        return [await a(), await c()]

    stops = Stops("b", ("c",))
    return Change(a_b_c, after, [["a1", "c1"], ["a1", "c1"], stops, stops])


@change
def the_last_step_is_removed() -> Change:
    full = ["a1", "b1"]
    stops = Stops("c", says="returns after 'b'")
    return Change(a_b_c, a_b, [full, full, full, stops])


@change
def all_steps_are_removed() -> Change:
    async def after(ctx: minuet.Flow) -> Any:
        return "nothing"

    stops = Stops("a", says="returns without asking for anything")
    return Change(a_b, after, ["nothing", stops, stops])


@change
def a_step_is_renamed() -> Change:
    def work() -> str:
        return "done"

    async def before(ctx: minuet.Flow) -> Any:
        return [await ctx.step("charge", work), await a()]

    async def after(ctx: minuet.Flow) -> Any:
        return [await ctx.step("charges", work), await a()]

    stops = Stops("charge", ("charges",), says="Was 'charge' renamed to 'charges'?")
    return Change(before, after, [["done", "a1"], stops, stops])


@change
def steps_change_places() -> Change:
    async def after(ctx: minuet.Flow) -> Any:
        return [await b(), await a()]

    stops = Stops("a", ("b",))
    return Change(a_b, after, [["b1", "a1"], stops, stops])


@change
def steps_of_one_name_change_places() -> Change:
    async def before(ctx: minuet.Flow) -> Any:
        return [await a(1), await a(2)]

    async def after(ctx: minuet.Flow) -> Any:
        return [await a(2), await a(1)]

    stops = Stops("a", ("a",), says='{"n":1} then, {"n":2} now')
    return Change(before, after, [["a2", "a1"], stops, stops])


@change
def a_loop_takes_more_turns() -> Change:
    async def before(ctx: minuet.Flow) -> Any:
        return [await a(n) for n in range(2)]

    async def after(ctx: minuet.Flow) -> Any:
        return [await a(n) for n in range(3)]

    return Change(before, after, [["a0", "a1", "a2"]] * 3)


@change
def a_loop_takes_fewer_turns() -> Change:
    async def before(ctx: minuet.Flow) -> Any:
        return [[await a(n) for n in range(3)], await b()]

    async def after(ctx: minuet.Flow) -> Any:
        return [[await a(n) for n in range(2)], await b()]

    full = [["a0", "a1"], "b1"]
    stops = Stops("a #3", ("b",))
    return Change(before, after, [full, full, full, stops, stops])


@change
def steps_run_side_by_side_now() -> Change:
    async def after(ctx: minuet.Flow) -> Any:
        return await asyncio.gather(a(), b())

    return Change(a_b, after, [["a1", "b1"]] * 3)


@change
def steps_run_one_after_the_other_now() -> Change:
    async def before(ctx: minuet.Flow) -> Any:
        return await asyncio.gather(a(), b())

    return Change(before, a_b, [["a1", "b1"]] * 3)


@change
def steps_that_ended_in_another_order_run_one_after_the_other_now() -> Change:
    async def before(ctx: minuet.Flow) -> Any:
        return await asyncio.gather(a(), b())

    stops = Stops("b", ("a",))
    return Change(before, a_b, [["a1", "b1"], stops, stops], latest_first=True)


# ── arguments and results ───────────────────────────────────────────────────────────────


@change
def an_argument_changes() -> Change:
    async def before(ctx: minuet.Flow) -> Any:
        return [await a(), await pay(5)]

    async def after(ctx: minuet.Flow) -> Any:
        return [await a(), await pay(6)]

    full = ["a1", {"amount": 6, "to": "shop"}]
    stops = Stops("pay", ("pay",), says='{"amount":5} then, {"amount":6} now')
    return Change(before, after, [full, full, stops])


@change
def arguments_are_written_in_another_way() -> Change:
    async def before(ctx: minuet.Flow) -> Any:
        return await pay(5, to="me")

    async def after(ctx: minuet.Flow) -> Any:
        return await pay(to="me", amount=5)

    return Change(before, after, [{"amount": 5, "to": "me"}] * 2)


@change
def a_large_argument_changes() -> Change:
    async def before(ctx: minuet.Flow) -> Any:
        return len((await pay(1, to=20_000 * "x"))["to"])

    async def after(ctx: minuet.Flow) -> Any:
        return len((await pay(1, to=20_000 * "y"))["to"])

    return Change(before, after, [20_000, Stops("pay", ("pay",), says="other arguments")])


@change
def the_type_of_a_result_changes() -> Change:
    def as_text() -> str:
        return "7"

    def as_list() -> list[int]:
        return [7]

    async def before(ctx: minuet.Flow) -> Any:
        return await ctx.step("count", as_text)

    async def after(ctx: minuet.Flow) -> Any:
        try:
            return await ctx.step("count", as_list)
        except Exception:
            return "swallowed"

    return Change(before, after, [[7], Stops("count", ("count",), says="does not fit the type")])


# ── waits ───────────────────────────────────────────────────────────────────────────────


@change
def a_sleep_becomes_longer() -> Change:
    async def before(ctx: minuet.Flow) -> Any:
        begun = await a()
        await ctx.sleep(10)
        return [begun, await b()]

    async def after(ctx: minuet.Flow) -> Any:
        begun = await a()
        await ctx.sleep(days=3)
        return [begun, await b()]

    # A sleep that is over stays over.
    return Change(before, after, [["a1", "b1"]] * 4)


@change
def a_sleep_is_added_before_the_first_step() -> Change:
    async def after(ctx: minuet.Flow) -> Any:
        await ctx.sleep(10)
        return [await a(), await b()]

    stops = Stops("a", ("the start of a timer",))
    return Change(a_b, after, [["a1", "b1"], stops, stops])


@change
def a_sleep_is_added_between_steps() -> Change:
    async def after(ctx: minuet.Flow) -> Any:
        first = await a()
        await ctx.sleep(10)
        return [first, await b()]

    return Change(a_b, after, [["a1", "b1"], ["a1", "b1"], Stops("b", ("sleep",))])


@change
def a_sleep_is_removed() -> Change:
    async def before(ctx: minuet.Flow) -> Any:
        first = await a()
        await ctx.sleep(10)
        return [first, await b()]

    stops = Stops("sleep", ("b",))
    return Change(before, a_b, [["a1", "b1"], ["a1", "b1"], stops, stops])


@change
def a_time_limit_is_added() -> Change:
    async def before(ctx: minuet.Flow) -> Any:
        first = await a()
        await ctx.sleep(10)
        return [first, await b()]

    async def after(ctx: minuet.Flow) -> Any:
        first = await a()
        async with asyncio.timeout(60):
            await ctx.sleep(10)
            return [first, await b()]

    # The time limit is not taken for the sleep that is over.
    return Change(before, after, [["a1", "b1"]] * 4)


@change
def a_time_limit_is_removed() -> Change:
    async def before(ctx: minuet.Flow) -> Any:
        try:
            async with asyncio.timeout(60):
                await ctx.signal("paid")
        except TimeoutError:
            return ["late", await a()]

    async def after(ctx: minuet.Flow) -> Any:
        await ctx.signal("paid")

    return Change(
        before,
        after,
        [
            ["signal paid"],
            Stops("the start of a timer", ("signal paid",)),
            Stops("the start of a timer", ("signal paid",)),
            Stops("the start of a timer", ("signal paid",)),
        ],
    )


@change
def a_signal_is_renamed() -> Change:
    async def before(ctx: minuet.Flow) -> Any:
        return [await a(), await ctx.signal("paid"), await b()]

    async def after(ctx: minuet.Flow) -> Any:
        return [await a(), await ctx.signal("payment"), await b()]

    # Until it has come, the run waits for the other one.
    full = ["a1", 2, "b1"]
    stops = Stops("signal paid", ("signal payment",))
    return Change(before, after, [full, full, stops, stops], {"paid": [1], "payment": [2]})


@change
def a_child_run_is_of_another_workflow() -> Change:
    async def before(ctx: minuet.Flow) -> Any:
        return [await ctx.start("ship", 1), await a()]

    async def after(ctx: minuet.Flow) -> Any:
        return [await ctx.start("send", 1), await a()]

    stops = Stops("child ship", ("child send",))
    return Change(before, after, [[{"child": "send", "input": 1}, "a1"], stops, stops])


@change
def a_child_run_gets_another_input() -> Change:
    async def before(ctx: minuet.Flow) -> Any:
        return [await ctx.start("ship", 1), await a()]

    async def after(ctx: minuet.Flow) -> Any:
        return [await ctx.start("ship", 2), await a()]

    stops = Stops("child ship", ("child ship",), says="1 then, 2 now")
    return Change(before, after, [[{"child": "ship", "input": 2}, "a1"], stops, stops])


# ── the way through the code ────────────────────────────────────────────────────────────


@change
def an_error_is_caught_now() -> Change:
    async def before(ctx: minuet.Flow) -> Any:
        try:
            await broken()
        except ZeroDivisionError:
            return "other"
        except KeyError:
            return [await a()]

    async def after(ctx: minuet.Flow) -> Any:
        try:
            return await broken()
        except KeyError:
            return [await a(), await b()]

    return Change(before, after, [["a1", "b1"]] * 3)


@change
def an_error_is_no_longer_caught() -> Change:
    async def before(ctx: minuet.Flow) -> Any:
        try:
            await broken()
        except KeyError:
            return await a()

    async def after(ctx: minuet.Flow) -> Any:
        return await broken()

    stops = Stops("a", says="raises KeyError (")
    return Change(before, after, [KeyError("broken"), KeyError("broken"), stops])


@change
def the_code_returns_earlier() -> Change:
    async def after(ctx: minuet.Flow) -> Any:
        first = await a()
        if first:
            return [first]
        return [first, await b()]

    stops = Stops("b", says="returns after 'a'")
    return Change(a_b, after, [["a1"], ["a1"], stops])


@change
def the_code_raises_now() -> Change:
    async def after(ctx: minuet.Flow) -> Any:
        await a()
        raise ValueError("no")

    stops = Stops("b", says="raises ValueError (")
    return Change(a_b, after, [ValueError("no"), ValueError("no"), stops])


# ── values that are recorded ────────────────────────────────────────────────────────────


@change
def the_time_is_asked_for() -> Change:
    async def after(ctx: minuet.Flow) -> Any:
        first = await a()
        try:
            ctx.now()
        except Exception:
            return "swallowed"
        return [first, await b()]

    return Change(a_b, after, [["a1", "b1"], ["a1", "b1"], Stops("b", ("now",))])


@change
def a_random_number_is_no_longer_asked_for() -> Change:
    async def before(ctx: minuet.Flow) -> Any:
        first = await a()
        ctx.random()
        return [first, await b()]

    stops = Stops("random", ("b",))
    return Change(before, a_b, [["a1", "b1"], ["a1", "b1"], stops, stops])


@change
def a_uuid_is_asked_for_instead_of_the_time() -> Change:
    async def before(ctx: minuet.Flow) -> Any:
        ctx.now()
        return await a()

    async def after(ctx: minuet.Flow) -> Any:
        results = await asyncio.gather(other(ctx), return_exceptions=True)
        return [*map(str, results), await a()][-1]

    async def other(ctx: minuet.Flow) -> Any:
        return ctx.uuid()

    stops = Stops("now", ("uuid",))
    return Change(before, after, ["a1", stops, stops])


# ── with version() ──────────────────────────────────────────────────────────────────────


@change
def version_guards_a_step_at_the_beginning() -> Change:
    async def after(ctx: minuet.Flow) -> Any:
        first = [await c()] if ctx.version("c first") else []
        return [*first, await a(), await b()]

    return Change(a_b, after, [["c1", "a1", "b1"], ["a1", "b1"], ["a1", "b1"]])


@change
def version_guards_a_step_in_the_middle() -> Change:
    async def after(ctx: minuet.Flow) -> Any:
        found = [await a()]
        if ctx.version("c"):
            found.append(await c())
        return [*found, await b()]

    full = ["a1", "c1", "b1"]
    return Change(a_b, after, [full, full, ["a1", "b1"]])


@change
def version_guards_a_removed_step() -> Change:
    async def after(ctx: minuet.Flow) -> Any:
        first = await a()
        if not ctx.version("without b"):
            await b()
        return [first, await c()]

    return Change(a_b_c, after, [["a1", "c1"]] * 4)


@change
def version_guards_a_changed_argument() -> Change:
    async def before(ctx: minuet.Flow) -> Any:
        return [await a(), (await pay(5))["amount"]]

    async def after(ctx: minuet.Flow) -> Any:
        first = await a()
        return [first, (await pay(6 if ctx.version("dearer") else 5))["amount"]]

    return Change(before, after, [["a1", 6], ["a1", 6], ["a1", 5]])


@change
def version_guards_another_order() -> Change:
    async def after(ctx: minuet.Flow) -> Any:
        if ctx.version("b first"):
            return [await b(), await a()]
        return [await a(), await b()]

    return Change(a_b, after, [["b1", "a1"], ["a1", "b1"], ["a1", "b1"]])


@change
def version_guards_a_sleep() -> Change:
    async def after(ctx: minuet.Flow) -> Any:
        first = await a()
        if ctx.version("rest"):
            await ctx.sleep(10)
        return [first, await b()]

    return Change(a_b, after, [["a1", "b1"]] * 3)


@change
def version_guards_a_renamed_signal() -> Change:
    async def before(ctx: minuet.Flow) -> Any:
        return [await ctx.signal("paid"), await b()]

    async def after(ctx: minuet.Flow) -> Any:
        name = "payment" if ctx.version("payment") else "paid"
        return [await ctx.signal(name), await b()]

    signals = {"paid": [1], "payment": [2]}
    return Change(before, after, [[2, "b1"], [1, "b1"], [1, "b1"]], signals)


@change
def version_guards_a_child_run() -> Change:
    async def before(ctx: minuet.Flow) -> Any:
        return (await ctx.start("ship", 1))["child"]

    async def after(ctx: minuet.Flow) -> Any:
        name = "send" if ctx.version("send") else "ship"
        return (await ctx.start(name, 1))["child"]

    return Change(before, after, ["send", "ship"])


@change
def version_guards_the_body_of_a_loop() -> Change:
    async def before(ctx: minuet.Flow) -> Any:
        return [await a(n) for n in range(3)]

    async def after(ctx: minuet.Flow) -> Any:
        return [await (b(n) if ctx.version("b") else a(n)) for n in range(3)]

    former = ["a0", "a1", "a2"]
    return Change(before, after, [["b0", "b1", "b2"], former, former, former])


@change
def version_guards_a_time() -> Change:
    async def after(ctx: minuet.Flow) -> Any:
        first = await a()
        if ctx.version("timed"):
            ctx.now()
        return [first, await b()]

    return Change(a_b, after, [["a1", "b1"]] * 3)


async def with_version(ctx: minuet.Flow) -> Any:
    first = await a()
    if ctx.version("c"):
        return [first, await c(), await b()]
    return [first, await b()]


@change
def a_version_is_no_longer_asked_for() -> Change:
    async def after(ctx: minuet.Flow) -> Any:
        return [await a(), await c(), await b()]

    return Change(with_version, after, [["a1", "c1", "b1"]] * 5)


@change
def a_version_is_asked_for_earlier() -> Change:
    async def after(ctx: minuet.Flow) -> Any:
        is_new = ctx.version("c")
        first = await a()
        return [first, await c(), await b()] if is_new else [first, await b()]

    full = ["a1", "c1", "b1"]
    # After the first step alone nothing says which way it goes: it keeps the former one.
    return Change(with_version, after, [full, ["a1", "b1"], full, full, full])


@change
def another_version_is_added_before_one() -> Change:
    async def after(ctx: minuet.Flow) -> Any:
        first = await a()
        second = [await pay(1)] if ctx.version("pay") else []
        third = [await c()] if ctx.version("c") else []
        return [first, *second, *third, await b()]

    paid = ["a1", {"amount": 1, "to": "shop"}, "c1", "b1"]
    former = ["a1", "c1", "b1"]
    # Kept: a, the version, c, b.
    return Change(with_version, after, [paid, paid, paid, former, former])


# ── the tests ───────────────────────────────────────────────────────────────────────────


def recorded(made: Change) -> list[Any]:
    _, stage = perform(made.before, signals=made.signals, latest_first=made.latest_first)
    return stage.entries


@pytest.mark.parametrize("name", CHANGES)
def test_the_run_goes_on_rightly_or_stops(name: str) -> None:
    made = CHANGES[name]()
    entries = recorded(made)
    assert len(made.outcomes) == len(entries) + 1, [entry.label for entry in entries]
    for count, outcome in enumerate(made.outcomes):
        kept = entries[:count]
        executed = check(made, kept, outcome)
        again = executed & {entry.key for entry in kept}
        assert not again, f"after {count} entries, {again} were executed again"


def check(made: Change, kept: list[Any], outcome: Any) -> set[str]:
    """Execute the new code on what was kept; what it executed itself."""
    where = f"after {len(kept)} entries"
    if isinstance(outcome, Stops):
        with pytest.raises(ReplayError) as caught:
            perform(made.after, kept, signals=made.signals)
        error, message = caught.value, str(caught.value)
        assert (error.recorded, tuple(error.wanted)) == (outcome.recorded, outcome.wanted), where
        assert outcome.says in message, where
        assert f"{__file__}:" in message, where
        assert f"{outcome.recorded!r}" in message, where
        assert all(f"{label!r}" in message for label in outcome.wanted), where
        return set()
    if isinstance(outcome, Exception):
        with pytest.raises(type(outcome), match=str(outcome)):
            perform(made.after, kept, signals=made.signals)
        return set()
    result, stage = perform(made.after, kept, signals=made.signals)
    assert result == outcome, where
    # What it recorded now is a journal, too: once more the same, and nothing is executed.
    repeated, once_more = perform(made.after, stage.entries, signals=made.signals)
    assert (repeated, once_more.executed) == (result, []), where
    return set(stage.executed)


@pytest.mark.parametrize("name", CHANGES)
def test_code_that_does_not_change_goes_on_from_every_entry(name: str) -> None:
    made = CHANGES[name]()
    result, stage = perform(made.before, signals=made.signals, latest_first=made.latest_first)
    for count in range(len(stage.entries) + 1):
        kept = stage.entries[:count]
        options: dict[str, Any] = {"signals": made.signals, "latest_first": made.latest_first}
        again, rest = perform(made.before, kept, **options)
        assert again == result
        assert [*(e.key for e in kept if e.kind in ("step", "child")), *rest.executed] == (
            stage.executed
        )
