"""Whose runs a worker in a program works on, and in which store."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

import minuet
from minuet.app.app import App
from minuet.cli.main import main
from minuet.errors import ConfigError

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
        (worker,) = await app.workers.list()
        why = await app.runs.explain(left, "n")
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
        pending = await app.runs.create(ONE)

    async with App(store, own_runs_only=True) as app:
        await app.runs.retry(cancelled)
        await app.runs.trigger(pending)
        ended = [await app.wait(run) for run in (cancelled, pending)]

    assert [result.status for result in ended] == ["COMPLETED", "COMPLETED"]


# ── the store of those who name none ────────────────────────────────────────────────────────

NOOP: dict[str, Any] = {"name": "noop", "nodes": [{"id": "n", "type": "noop"}]}


async def runs_in(store: str) -> list[str]:
    async with App(store, worker=False) as app:
        return [run.run for run in await app.runs.list()]


@pytest.mark.parametrize("chosen", [None, "sqlite:///other.db"])
async def test_programs_and_commands_use_the_same_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chosen: str | None
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("MINUET_STORE", "MINUET_ENV", "POSTGRES_HOST", "REDIS_HOST"):
        monkeypatch.delenv(name, raising=False)
    if chosen is not None:
        monkeypatch.setenv("MINUET_STORE", chosen)
    (tmp_path / "noop.json").write_text(json.dumps(NOOP))

    awaited = await minuet.arun(NOOP)
    blocked = await asyncio.to_thread(minuet.run, NOOP)
    async with App() as app:
        embedded = await app.run(NOOP)
    code = await asyncio.to_thread(main, ["run", "noop.json"])

    name = "minuet.db" if chosen is None else "other.db"
    found = await runs_in(f"sqlite:///{name}")
    assert code == 0
    assert set(found) >= {awaited.run_id, blocked.run_id, embedded.run_id}
    assert len(found) == 4
    assert [name for name in os.listdir(tmp_path) if name.endswith(".db")] == [name]


async def test_memory_is_used_when_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MINUET_STORE", raising=False)

    await minuet.arun(NOOP, store="memory://")
    monkeypatch.setenv("MINUET_STORE", "memory://")
    await minuet.arun(NOOP)

    assert os.listdir(tmp_path) == []


def test_a_program_without_a_store_is_told_of_wrong_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MINUET_STORE", "oracle://x")

    with pytest.raises(ConfigError, match="MINUET_STORE"):
        App()
