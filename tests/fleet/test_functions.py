"""Durable functions while their workers are killed: every one ends, and each of its steps has one
effect under one key."""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.fleet import functions
from tests.fleet.nemesis import Fleet
from tests.fleet.test_families import KINDS, make

from minuet.app.app import App

SEED = int(os.environ.get("MINUET_TEST_SEED", "1"))

#: How many workers are killed; `make faults` kills more.
BLOWS = int(os.environ.get("MINUET_TEST_BLOWS", "3"))

#: `make faults` runs more of them.
FUNCTIONS = 50 if "MINUET_TEST_BLOWS" in os.environ else 20


@pytest.fixture(params=KINDS)
async def fleet(request: pytest.FixtureRequest, tmp_path: Path, root: Path) -> AsyncIterator[Fleet]:
    folder = Path(tempfile.mkdtemp(prefix="minuet-"))
    os.chmod(folder, 0o755)
    url, servers = make(request.param, folder)
    fleet = Fleet(url, servers, tmp_path, root, SEED)
    fleet.launch()
    yield fleet
    await fleet.end()
    servers.kill()


async def _send(run: str, app: App) -> None:
    await app.signal(run, "go", {"run": run}, idempotency_key="go")


@pytest.mark.slow
async def test_functions_whose_workers_are_killed_end_with_one_effect_a_step(fleet: Fleet) -> None:
    chance = Random(SEED)
    await fleet.start_runs(functions.order.to_dict(), FUNCTIONS)
    early = fleet.runs[: FUNCTIONS // 2]
    for run in early:
        await fleet._insist(partial(_send, run))
    # So many steps come before the signal: the late half cannot get further before it is sent.
    starts = FUNCTIONS * functions.BEFORE_SIGNAL
    for enough in sorted(chance.randrange(1, starts) for _ in range(BLOWS)):
        await fleet.progress(more=max(0, enough - fleet.starts()))
        await fleet.kill_worker()
    for run in fleet.runs[len(early) :]:
        await fleet._insist(partial(_send, run))
    await fleet.all_over()

    effects = functions.read_effects(fleet.ledger)
    # Each step and the child run's step have a key of their own, however often they began.
    assert len(effects) == FUNCTIONS * (functions.STEPS + 1)
    answered = {answer["text"]: key for key, some in effects.items() for answer in some}
    async with App(fleet.url, worker=False) as app:
        used: set[str] = set()
        for run in fleet.runs:
            result = await app.runs.show(run)
            assert result.status == "COMPLETED", result.error
            output: Any = result.output
            assert output["told"] == {"run": run}
            answers = [*output["answers"], output["child"]]
            assert [a["number"] for a in answers] == [*range(functions.STEPS), 100]
            used |= {answered[a["text"]] for a in answers}
        # Every answer that counts came from one execution under its step's key.
        assert used == effects.keys()
        assert {run: wrong async for run, wrong in app.doctor.examine() if wrong} == {}
