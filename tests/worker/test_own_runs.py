"""Whose runs a worker in a program works on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import minuet
from minuet.app.app import App

ONE: dict[str, Any] = {"name": "one", "nodes": [{"id": "n", "handler": "own_runs_step"}]}


@minuet.task
def own_runs_step() -> int:
    return 1


async def status(store: str, run: str) -> str:
    async with App(store, worker=False) as app:
        return (await app.runs.get(run)).status


async def test_a_run_from_start_to_end_leaves_other_runs_alone(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/a.db"
    async with App(store, worker=False) as app:
        left = await app.start(ONE)

    result = await minuet.arun(ONE, store=store)

    assert result.output == {"n": 1}
    assert await status(store, left) == "RUNNING"


async def test_an_app_serves_its_whole_store_unless_it_is_told_otherwise(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/a.db"
    async with App(store, worker=False) as app:
        left = await app.start(ONE)

    async with App(store, own_runs_only=True) as app:
        await app.run(ONE)
        runs = [await app.start(ONE), *await app.start_many(ONE, [None, None])]
        ended = [await app.wait(run) for run in runs]
        (worker,) = await app.fleet.workers()
        why = await app.why(left, "n")
    kept = await status(store, left)
    async with App(store) as app:
        taken = await app.wait(left)

    assert {result.status for result in ended} == {"COMPLETED"}
    assert kept == "RUNNING"
    assert not worker.serves("task:own_runs_step", left)
    assert "no registered worker serves the queue" in why.summary
    assert taken.status == "COMPLETED"


async def test_a_run_that_is_retried_or_triggered_is_ones_own(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/a.db"
    async with App(store, worker=False) as app:
        cancelled = await app.start(ONE)
        await app.cancel(cancelled)
        pending = await app.create(ONE)

    async with App(store, own_runs_only=True) as app:
        await app.retry(cancelled)
        await app.trigger(pending)
        ended = [await app.wait(run) for run in (cancelled, pending)]

    assert [result.status for result in ended] == ["COMPLETED", "COMPLETED"]
