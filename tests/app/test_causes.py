"""`RunFailed` has the exception itself as its cause, if it was raised in this process."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any

import pytest

import minuet
from minuet.errors import RunFailed
from minuet.worker.raised import EARLY_MAX, KEPT_MAX, Raised, RaisedHere

from ..scenario.harness import QUICK_RETRY, module_of, task, workflow


class CardDeclined(Exception):
    """Of the user."""


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_the_cause_is_what_the_last_attempt_raised(store_url: str, kind: str) -> None:
    raised: list[CardDeclined] = []

    def pay() -> None:
        raised.append(CardDeclined("no money"))
        raise raised[-1]

    async def pay_later() -> None:
        pay()

    handlers = module_of({"pay": pay if kind == "sync" else pay_later})
    async with minuet.App(store_url, handlers=[handlers]) as app:
        run = await app.start(workflow(task("pay", retry=QUICK_RETRY)))
        with pytest.raises(RunFailed) as failed:
            await run.result()

    assert len(raised) == QUICK_RETRY["max_attempts"] > 1
    assert failed.value.__cause__ is raised[-1]
    assert str(failed.value) == f"run {run} is FAILED at node 'pay': no money"


async def test_it_is_that_of_the_node_which_ended_the_run(store_url: str) -> None:
    def handled() -> None:
        raise ValueError("handled")

    def final() -> None:
        raise CardDeclined("final")

    document = workflow(
        task("handled", on_error="continue", retry=1), task("final", "handled", retry=1)
    )
    handlers = module_of({"handled": handled, "final": final})
    async with minuet.App(store_url, handlers=[handlers]) as app:
        with pytest.raises(RunFailed) as failed:
            await app.run(document)

    assert isinstance(failed.value.__cause__, CardDeclined)


def test_a_script_can_catch_the_cause(tmp_path: Path) -> None:
    def pay(card: int) -> None:
        raise CardDeclined(card)

    document = workflow(task("pay", config={"card": 7}, retry=1))
    with pytest.raises(RunFailed) as failed:
        minuet.run(document, store=f"sqlite:///{tmp_path}/a.db", handlers=[module_of({"pay": pay})])

    cause = failed.value.__cause__
    assert isinstance(cause, CardDeclined)
    assert cause.args == (7,)


async def test_what_another_process_raised_is_no_cause(tmp_path: Path) -> None:
    def pay() -> None:
        raise CardDeclined("elsewhere")

    url = f"sqlite:///{tmp_path}/a.db"
    async with (
        minuet.App(url, worker=False) as here,
        minuet.App(url, handlers=[module_of({"pay": pay})]) as elsewhere,
    ):
        run = await here.start(workflow(task("pay", retry=1)))
        await elsewhere.wait(run)
        with pytest.raises(RunFailed) as failed:
            await run.result()

    assert failed.value.__cause__ is None
    assert failed.value.error["message"] == "elsewhere"


async def test_an_exception_with_a_secret_is_no_cause(monkeypatch: Any) -> None:
    monkeypatch.setenv("CARD_TOKEN", "hush-hush-7")

    def pay(ctx: minuet.Context) -> None:
        raise CardDeclined(f"refused {ctx.secret('CARD_TOKEN')}")

    def refuse(ctx: minuet.Context) -> None:
        ctx.secret("CARD_TOKEN")
        raise CardDeclined("refused")

    handlers = module_of({"pay": pay, "refuse": refuse})
    async with minuet.App("memory://", handlers=[handlers]) as app:
        with pytest.raises(RunFailed) as failed:
            await app.run(workflow(task("pay", secrets=["CARD_TOKEN"], retry=1)))
        assert failed.value.__cause__ is None
        with pytest.raises(RunFailed) as failed:
            await app.run(workflow(task("refuse", secrets=["CARD_TOKEN"], retry=1)))
        assert isinstance(failed.value.__cause__, CardDeclined)


async def test_an_exception_is_kept_while_its_run_is_watched_and_no_longer() -> None:
    alive: weakref.WeakSet[CardDeclined] = weakref.WeakSet()

    async def pay() -> None:
        error = CardDeclined("no")
        alive.add(error)
        raise error

    document = workflow(task("pay", retry=1))
    async with minuet.App("memory://", handlers=[module_of({"pay": pay})]) as app:
        run = await app.start(document)
        await run.wait()
        gc.collect()
        assert len(alive) == 1
        run_id = run.id
        del run
        gc.collect()
        assert len(alive) == 0
        # Who asks later gets what is stored.
        with pytest.raises(RunFailed, match="no") as failed:
            await app.runs.result(run_id)
        assert failed.value.__cause__ is None


def test_what_is_raised_before_the_starter_knows_the_id_is_found() -> None:
    here = RaisedHere()
    error = CardDeclined("early")
    with here.starting():
        here.note("a", {"message": "early"}, error)
        raised = here.of("a")
    here.note("b", {"message": "nobody watches"}, error)

    assert raised.find({"message": "early", "node": "pay"}) is error
    assert raised.find({"message": "other"}) is None
    assert raised.find(None) is None
    assert here.of("b").find({"message": "nobody watches"}) is None


def test_what_is_kept_is_bounded() -> None:
    here, raised = RaisedHere(), Raised()
    errors = [CardDeclined(number) for number in range(EARLY_MAX + 1)]
    with here.starting():
        for number, error in enumerate(errors):
            raised.add({"message": number}, error)
            here.note(str(number), {"message": number}, error)
        assert here.of("0").find({"message": 0}) is None
        assert here.of("1").find({"message": 1}) is errors[1]

    assert raised.find({"message": EARLY_MAX - KEPT_MAX}) is None
    assert raised.find({"message": EARLY_MAX}) is errors[-1]
