"""What the commands show of durable functions: their steps, and what they wait for."""

from __future__ import annotations

import asyncio
import io
import re
from typing import Any

import pytest
from rich.console import Console

import minuet as public
from minuet.cli.progress import LiveProgress

IS_NEW: list[bool] = []


@public.task(name="cf_fetch")
async def fetch(order_id: int) -> dict[str, Any]:
    return {"id": order_id, "text": 200 * "x"}


@public.task(name="cf_charge", retries=1)
async def charge(amount: int, currency: str = "EUR") -> str:
    if amount > 100:
        raise public.Retryable("the card was declined", after=0)
    return f"{amount} {currency}"


@public.workflow(name="cf_invoice")
async def invoice(ctx: public.Flow, amount: int) -> None:
    await ctx.sleep(days=1)


@public.workflow(name="cf_order")
async def order(ctx: public.Flow, amount: int) -> str:
    await (charge(1) if IS_NEW else fetch(7))
    paid = await charge(amount, currency="USD")
    await ctx.signal("paid", timeout=3600)
    await ctx.start(invoice, amount)
    return paid


@public.task(name="cf_busy")
async def busy() -> None:
    raise public.Retryable("come back later", after=3600)


@public.workflow(name="cf_patient")
async def patient(ctx: public.Flow) -> None:
    await busy()


async def perform(url: str, amount: int, *signals: str) -> str:
    """Start an order, and send it signals when it waits; the id of its run when it has stopped."""
    async with public.App(url) as app:
        run = await app.start(order, {"amount": amount})
        for signal in (*signals, ""):
            await until_it_waits(app, run)
            if signal:
                await app.signal(run, signal, {"by": "card"})
        return str(run)


async def until_it_waits(app: Any, run: str) -> None:
    async with asyncio.timeout(30):
        async for _, _, event in app.runs.follow(run):
            found = await app.runs.show(run)
            if found.status == "FAILED":
                return
            wait = found.nodes["cf_order"].waiting_for
            if wait is not None and event.__struct_config__.tag == "node.waiting":
                return


@pytest.fixture(autouse=True)
def former_code() -> None:
    IS_NEW.clear()


@pytest.fixture
def url(folder: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("COLUMNS", "80")
    return f"sqlite:///{folder.path}/minuet.db"


def columns(text: str, title: str) -> list[list[str]]:
    """The rows of the table below a title, in columns."""
    below = text.split(f"{title}\n", 1)[1].split("\n\n")[0].splitlines()
    return [re.split(r"  +", line) for line in below[1:]]


def test_a_waiting_function_is_shown_with_its_steps(url: str, minuet: Any) -> None:
    run = asyncio.run(perform(url, 5))

    shown = minuet("runs", "show", run, "--store", url).out

    first, second = columns(shown, "steps of cf_order:")
    assert first[:3] == ["cf_fetch(order_id=7)", "COMPLETED", "1"]
    # How much is cut depends on how long the steps took.
    assert re.fullmatch(r'cf_charge\(.*….*"USD"\)', second[0])
    assert second[-1] == '"5 USD"'
    assert "cf_order waits for the signal 'paid', due at 20" in shown
    assert "(test_functions.py:" in shown
    assert f"Send signal 'paid' with: minuet signal {run} paid" in shown
    assert max(map(len, shown.split("Send signal")[0].splitlines())) <= 80


def test_a_step_that_is_tried_again_later_is_shown(
    url: str, minuet: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def start() -> str:
        async with public.App(url) as app:
            run = await app.start(patient)
            async with asyncio.timeout(30):
                async for _, _, event in run.follow():
                    if event.__struct_config__.tag == "node.waiting":
                        break
            return str(run)

    run = asyncio.run(start())

    shown = " ".join(minuet("runs", "show", run, "--store", url).out.split())
    monkeypatch.setenv("COLUMNS", "200")
    told = minuet("runs", "events", run, "--store", url).out

    assert "cf_patient tries 'cf_busy' again at 20" in shown
    assert ": attempt 1 failed with Retryable (test_functions.py:" in shown
    assert "cf_busy: attempt 1 failed, tried again at 20" in told


def test_a_node_as_json_has_its_steps_and_what_it_waits_for(url: str, minuet: Any) -> None:
    run = asyncio.run(perform(url, 5))

    node = minuet("runs", "show", run, "--store", url, "--json").json["nodes"]["cf_order"]

    fetched, charged = node["steps"]
    assert fetched["output"] == {"id": 7, "text": 200 * "x"}
    assert {key: charged[key] for key in ("name", "kind", "status", "input", "attempts")} == {
        "name": "cf_charge",
        "kind": "step",
        "status": "COMPLETED",
        "input": {"amount": 5, "currency": "USD"},
        "attempts": 1,
    }
    assert charged["started_at"] <= charged["ended_at"]
    assert charged["duration_ms"] >= 0
    limit, signal = node["waiting_for"]["data"]["waits"]
    assert (limit["for"], signal["for"], signal["name"]) == ("timeout", "signal", "paid")
    assert signal["place"].startswith(f"{__file__}:")


def test_a_function_that_waits_for_a_child_run_names_it(url: str, minuet: Any) -> None:
    run = asyncio.run(perform(url, 5, "paid"))

    shown = minuet("runs", "show", run, "--store", url, "--json").json
    (child,) = [child["run_id"] for child in shown["children"]]
    why = minuet("runs", "why", run, "cf_order", "--store", url).out

    assert f"waits for child run {child} of 'cf_invoice' ({__file__}:" in why
    assert "it has 3 steps, the last is 'signal paid'" in why
    of_child = minuet("runs", "why", child, "cf_invoice", "--store", url).out
    assert "'cf_invoice' sleeps until 20" in of_child


def test_why_says_how_to_send_the_signal(url: str, minuet: Any) -> None:
    run = asyncio.run(perform(url, 5))

    why = minuet("runs", "why", run, "cf_order", "--store", url).out

    assert "'cf_order' waits for the signal 'paid'" in why
    assert f"Send it with: minuet signal {run} paid" in why


def test_a_failed_function_says_which_step_failed(url: str, minuet: Any) -> None:
    run = asyncio.run(perform(url, 500))

    shown = minuet("runs", "show", run, "--store", url).out
    why = minuet("runs", "why", run, "cf_order", "--store", url).out

    assert columns(shown, "steps of cf_order:")[1][1:3] == ["FAILED", "2"]
    assert "its step 'cf_charge' (the 2nd) failed after 2 attempts" in why
    assert "the card was declined" in why


def test_changed_code_is_named(url: str, minuet: Any) -> None:
    async def change() -> str:
        run = await perform(url, 5)
        IS_NEW.append(True)
        async with public.App(url) as app:
            await app.signal(run, "paid")
            await app.runs.wait_ended(run)
        return run

    run = asyncio.run(change())

    why = minuet("runs", "why", run, "cf_order", "--store", url).out
    assert "its journal goes on with 'cf_fetch' (entry 1)" in why
    assert f"asks for 'cf_charge' ({__file__}:" in why
    assert "its step" not in why


def test_events_of_a_function_are_readable(url: str, minuet: Any) -> None:
    run = asyncio.run(perform(url, 5, "paid"))

    lines = minuet("runs", "events", run, "--store", url).out

    assert "cf_fetch(order_id=7): {" in lines
    assert "waits for the signal" in lines
    assert "signal paid: {" in lines


def test_a_function_is_shown_as_it_was_after_an_event(url: str, minuet: Any) -> None:
    run = asyncio.run(perform(url, 5, "paid"))

    shown = minuet("runs", "replay", run, "--at", "3", "--store", url).out

    assert [row[0] for row in columns(shown, "steps of cf_order:")] == ["cf_fetch(order_id=7)"]


@pytest.mark.parametrize(("upto", "said"), [(4, "step 2: cf_charge("), (5, "waits for the signal")])
def test_the_live_picture_has_the_last_step_and_the_wait(url: str, upto: int, said: str) -> None:
    async def draw() -> str:
        run = await perform(url, 5)
        async with public.App(url) as app:
            console = Console(file=io.StringIO(), width=120, height=60, force_terminal=False)
            progress = LiveProgress(console)
            progress.begin(await app.runs.watch(run))
            for seq, at_ms, event in await app.runs.history(run, upto=upto):
                progress.add(run, seq, at_ms, event)
            progress.close()
        printed = io.StringIO()
        Console(file=printed, width=120).print(progress.picture())
        return printed.getvalue()

    assert said in asyncio.run(draw())


# ── minuet test, minuet simulate ────────────────────────────────────────────────────────

GREETING = """\
import minuet


@minuet.task
async def greet(name: str) -> str:
    print("the task runs")
    return f"hello {name}"


@minuet.workflow
async def greeting(ctx: minuet.Flow) -> list:
    found = [await greet("a")]
    await ctx.sleep(0.01)
    return [*found, await greet("b")]
"""

DOCUMENT = """\
name: greeting
nodes:
  - {id: greeting, type: flow, handler: greeting}
"""


def test_a_recorded_function_is_tested_against_the_present_code(
    folder: Any, spawn: Any, finish: Any
) -> None:
    folder.write("greeting.yaml", DOCUMENT)
    folder.write("greeting.py", GREETING)
    assert finish(spawn("run", "greeting.yaml")).code == 0
    folder.write("run.json", finish(spawn("runs", "export", "latest")).out)

    same = finish(spawn("test", "run.json", "--handlers", "greeting.py"))
    folder.write("greeting.py", GREETING.replace('greet("b")', 'greet("c")'))
    other = finish(spawn("test", "run.json", "--handlers", "greeting.py"))

    assert (same.code, same.out, same.err) == (0, "run.json: as recorded\n", "")
    assert other.code == 1
    assert "calls 'greet #2' with other arguments" in other.out
    assert '{"name":"b"} then, {"name":"c"} now' in other.out
    assert "greeting.py:14" in other.out
    assert "the task runs" not in other.out + other.err


def test_the_code_of_a_recorded_function_must_be_named(
    folder: Any, spawn: Any, finish: Any
) -> None:
    folder.write("greeting.yaml", DOCUMENT)
    folder.write("greeting.py", GREETING)
    assert finish(spawn("run", "greeting.yaml")).code == 0
    folder.write("run.json", finish(spawn("runs", "export", "latest")).out)

    called = finish(spawn("test", "run.json"))

    assert called.code != 0
    assert "there is no durable function 'greeting'" in called.err
    assert "--handlers" in called.err


# ── simulation ──────────────────────────────────────────────────────────────────────────────

SIMULATED = """
import random
import minuet

@minuet.task(effects="none", retries=5)
async def price(name: str) -> int:
    raise RuntimeError("the task runs")

@minuet.task(effects="idempotent")
def pay(amount: int) -> None:
    raise RuntimeError("the task runs")

@minuet.workflow
async def part(ctx: minuet.Flow, name: str) -> int:
    await ctx.sleep(days=1)
    try:
        return await price(name)
    except Exception:
        return 0

@minuet.workflow
async def sound(ctx: minuet.Flow) -> bool:
    total = await ctx.start(part, "a") + await ctx.start(part, "b")
    if (await ctx.approve("Pay?", payload=total, timeout=60)).approved:
        try:
            await pay.step(total)
        except Exception:
            return False
    return True

@minuet.workflow
async def unsound(ctx: minuet.Flow) -> None:
    await part_of(random.SystemRandom().random())
    await ctx.sleep(days=1)

@minuet.task(effects="none")
async def part_of(number: float) -> int:
    return 1
"""


def test_a_function_is_simulated_with_stubs_of_its_tasks(
    folder: Any, spawn: Any, finish: Any
) -> None:
    folder.write("shop.py", SIMULATED)

    called = finish(spawn("simulate", "shop.py:sound", "--seeds", "15", "--without", "crash"))

    assert called.code == 0, called.out
    assert "sound: 15 seeds (0 to 14): 15 COMPLETED" in called.out
    assert "error" not in called.out.replace("0 errors", "")


ANNOTATED = """
import minuet

@minuet.task(effects="none")
async def terms() -> dict[str, str]: ...

@minuet.task(effects="none")
async def size() -> tuple[int, str]: ...

@minuet.task(effects="none")
async def bare() -> dict: ...

@minuet.workflow
async def all_of_them(ctx: minuet.Flow) -> int:
    number, unit = await size()
    return number + len(unit) + len(await terms()) + len(await bare())
"""


def test_stubs_of_tasks_return_what_their_annotations_allow(
    folder: Any, spawn: Any, finish: Any
) -> None:
    folder.write("shop.py", ANNOTATED)
    calm = [word for fault in ("fail", "crash", "retry", "slow") for word in ("--without", fault)]

    called = finish(spawn("simulate", "shop.py:all_of_them", "--seeds", "5", *calm))

    assert called.code == 0, called.out
    assert "5 seeds (0 to 4): 5 COMPLETED" in called.out


def test_a_simulation_finds_a_function_that_is_not_deterministic(
    folder: Any, spawn: Any, finish: Any
) -> None:
    folder.write("shop.py", SIMULATED)

    called = finish(spawn("simulate", "shop.py:unsound", "--seeds", "5", "--handlers", "shop.py"))

    assert called.code == 1
    assert "ReplayError: the code calls 'part_of' with other arguments" in called.out
    assert "shop.py:33" in called.out
    assert "must come from a step or from ctx" in called.out


def test_a_simulation_needs_the_code_of_a_function(folder: Any, minuet: Any) -> None:
    folder.write("greeting.yaml", DOCUMENT)

    called = minuet("simulate", "greeting.yaml")

    assert called.code == 2
    assert "runs the durable function 'greeting', whose code is needed" in called.err
    assert "--handlers FILE.py" in called.err
