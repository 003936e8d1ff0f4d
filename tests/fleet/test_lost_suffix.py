"""Redis that loses the end of its log: what is left is the state after an earlier call, it is
sound, and every run that is left goes on to the end it would have had."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from tests.fault import workload
from tests.fault.outcome import final_state, undisturbed
from tools.services import Redis

from minuet.app.app import App
from minuet.errors import StoreError

SEED = int(os.environ.get("MINUET_TEST_SEED", "1"))

#: How many ends are lost, each from the same log.
CUTS = 8
RUNS = 10
LEASE_MS = 300


@pytest.fixture
def folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="minuet-"))
    yield folder
    shutil.rmtree(folder)


def log_of(folder: Path) -> Path:
    """The file that the server appends to."""
    (log,) = (folder / "appendonlydir").glob("*.incr.aof")
    return log


async def work_until_killed(server: Redis, folder: Path) -> int:
    """Start runs, and kill the server once some of them are well under way. The log's size when
    they had been started: all that comes after it is their work."""
    app = App(
        server.url,
        handlers=[workload],
        lease_seconds=LEASE_MS / 1000,
        drain_seconds=0,
        concurrency=1,
    )
    started = 0
    try:
        async with app:
            await app.start_many(workload.small(), [{"seed": 1}] * RUNS)
            started = log_of(folder).stat().st_size
            while app.worker is None or app.worker.counts.completed < 6 * RUNS:  # noqa: ASYNC110
                await asyncio.sleep(0)
            await asyncio.to_thread(server.kill)
    except StoreError:
        pass  # It is gone, as it was meant to be.
    return started


@pytest.mark.slow
@pytest.mark.shows("P-16")
async def test_whatever_end_of_the_log_is_lost_the_rest_is_sound_and_goes_on(folder: Path) -> None:
    expected = final_state(await asyncio.to_thread(undisturbed, workload.small()))
    server = Redis(folder / "first", appendfsync="everysec")
    await asyncio.to_thread(server.start)
    started = await work_until_killed(server, folder / "first")
    size = log_of(folder / "first").stat().st_size
    chance = Random(SEED)
    part = (size - started) // CUTS
    lengths: set[int] = set()

    for number in range(CUTS):
        copy = folder / f"cut-{number}"
        shutil.copytree(folder / "first", copy)
        os.truncate(log_of(copy), started + part * number + chance.randrange(part))
        left = Redis(copy, appendfsync="everysec")
        await asyncio.to_thread(left.start)
        try:
            async with App(
                left.url, handlers=[workload], lease_seconds=LEASE_MS / 1000, crashes_max=1000
            ) as app:
                runs = await app.runs.list(limit=100)
                async for run_id, findings in app.doctor.examine():
                    assert not findings, run_id
                lengths.add(sum(run.seq for run in runs))
                await app.runs.prepare(await app.runs.list_open())
                for run in runs:
                    await app.wait(run.run, timeout=60)
                    assert final_state(await app.runs.show(run.run)) == expected
                async for run_id, findings in app.doctor.examine():
                    assert not findings, run_id
        finally:
            await asyncio.to_thread(left.kill)
    assert len(lengths) > CUTS // 2, "the cuts did not really lose different ends"
