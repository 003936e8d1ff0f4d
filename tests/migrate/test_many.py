"""Many runs, moved twice by processes that are killed on the way, end as if nothing had happened.

`MINUET_TEST_MIGRATED` is how many runs there are; every twentieth of them (and ten more) is open.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests import servers
from tests.migrate.work import Kept, fill, finish

from minuet.app.move.mover import AT_ONCE
from minuet.app.stores import opened
from minuet.store.base import Store

#: In `make test` and in `make faults`.
RUNS = int(os.environ.get("MINUET_TEST_MIGRATED", "300"))
OPEN = RUNS // 20 + (15 if RUNS < 1000 else 0)

#: Longest wait for anything here.
SECONDS_MAX = 60 + RUNS

_log = logging.getLogger(__name__)


def start(source: str, target: str) -> subprocess.Popen[str]:
    """A process that moves all runs."""
    command = [
        sys.executable,
        "-m",
        "minuet",
        "migrate",
        "--from",
        source,
        "--to",
        target,
        "--json",
    ]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


async def run_ids(store: Store) -> list[str]:
    """All runs, in the order in which they are moved."""
    found: list[str] = []
    while page := await store.list_runs("default", before=found[-1] if found else None):
        found += [run.run for run in page]
    return found


async def move(source: str, target: str, runs: list[str]) -> dict[str, Any]:
    """Move runs; the process is killed among those that are open and among those that are over."""
    for number in (OPEN // 2, OPEN + (RUNS - OPEN) // 2):
        child = start(source, target)
        try:
            async with opened(target) as store, asyncio.timeout(SECONDS_MAX):
                while await store.read_run("default", runs[number]) is None:
                    assert child.poll() is None, child.communicate()
                    await store.wait_for_change(runs[number], 0, 1000)
        finally:
            child.kill()
            child.communicate()
        assert child.returncode == -9
    child = start(source, target)
    out, err = await asyncio.to_thread(child.communicate, timeout=SECONDS_MAX)
    assert child.returncode == 0, err
    report: dict[str, Any] = json.loads(out)
    return report


@asynccontextmanager
async def taken_care_of(url: str) -> AsyncIterator[Kept]:
    """A store; there are too many runs to compare each step of each with its events."""
    async with opened(url) as store:
        yield Kept(store, is_compared=True)


@pytest.mark.slow
@pytest.mark.timeout(0 if RUNS > 1000 else 300)
async def test_runs_that_were_moved_twice_end_as_if_they_had_stayed(tmp_path: Path) -> None:
    single, other = f"sqlite:///{tmp_path / 'single.db'}", f"sqlite:///{tmp_path / 'other.db'}"
    postgres, redis = servers.postgres_url(), servers.redis_url()
    async with taken_care_of(other) as store:
        await fill(store, finished=RUNS - OPEN, open=OPEN)
        stayed = await finish(store)
    async with taken_care_of(single) as store:
        await fill(store, finished=RUNS - OPEN, open=OPEN)
        runs = await run_ids(store._store)

    for source, target in ((single, postgres), (postgres, redis)):
        began = time.monotonic()
        report = await move(source, target, runs)
        took = time.monotonic() - began
        _log.info("%d runs to %s in %.1f s: %s", RUNS, target.partition(":")[0], took, report)
        assert report["problems"] == []
        assert report["runs"] == RUNS
        assert report["already_there"] >= OPEN + (RUNS - OPEN) // 2 - AT_ONCE
        # Those on their way when the process was killed were delivered, and nothing else is left.
        async with opened(source) as store:
            assert await store.list_runs("default", statuses=("RUNNING", "PAUSED")) == []
            assert await store.list_queues() == []
        async with opened(target) as store:
            assert await run_ids(store) == runs
            assert len(await store.list_runs("default", statuses=("RUNNING",), limit=RUNS)) == OPEN

    async with taken_care_of(redis) as store:
        moved = await finish(store)
    assert len(moved) == RUNS
    assert moved == stayed
