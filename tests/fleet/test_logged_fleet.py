"""Four worker processes on Redis with a record in PostgreSQL, under load, while workers and both
servers are killed and Redis loses some or all of what it had: nothing that was acknowledged is
lost, and no handler is ever started on an input that is not durable."""

from __future__ import annotations

import asyncio
import collections
import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random

import pytest
import redis.asyncio
from tests import folding
from tests.events import read_events
from tests.fault import workload
from tests.fault.outcome import final_state, undisturbed
from tests.fleet.nemesis import Fleet
from tools.services import Postgres, Redis

from minuet.app.app import App

SEED = int(os.environ.get("MINUET_TEST_SEED", "1"))

#: How many things happen; `make faults` has more happen.
BLOWS = int(os.environ.get("MINUET_TEST_BLOWS", "10"))

PAIRS = 6


class PairFleet(Fleet):
    """Workers on a pair of servers."""

    def __init__(self, hot: Redis, record: Postgres, folder: Path, root: Path) -> None:
        super().__init__(f"{hot.url}?record={record.url}", hot, folder, root, SEED)
        self._hot, self._record = hot, record

    def _environment(self) -> dict[str, str]:
        # Who compares all events after each call waits until they are durable, and would never
        # get to the gate before they are.
        return {name: value for name, value in os.environ.items() if name != folding.FOLDER}

    async def kill_redis_and_its_disk(self) -> None:
        self._hot.kill()
        shutil.rmtree(self._hot.folder)
        await asyncio.to_thread(self._hot.start)

    async def kill_redis_for_a_stale_one(self) -> None:
        """Another server takes its place, which has not heard of the last things."""
        stale = self._hot.folder.with_name("stale")
        shutil.copytree(self._hot.folder, stale)
        await self.progress(more=20)
        self._hot.kill()
        shutil.rmtree(self._hot.folder)
        stale.rename(self._hot.folder)
        await asyncio.to_thread(self._hot.start)

    async def kill_nothing_but_empty_redis(self) -> None:
        client = redis.asyncio.Redis.from_url(self._hot.url)
        await client.flushall()
        await client.aclose()

    async def kill_record(self) -> None:
        self._record.kill()
        await asyncio.to_thread(self._record.start)

    async def kill_both(self) -> None:
        self._hot.kill()
        self._record.kill()
        await asyncio.to_thread(self._hot.start)
        await asyncio.to_thread(self._record.start)


#: What Redis keeps on disk; `make faults` also has it keep nothing.
KEEPS = ("everysec", "no") if "MINUET_TEST_BLOWS" in os.environ else ("everysec",)


@pytest.fixture(params=KEEPS)
async def fleet(
    request: pytest.FixtureRequest, tmp_path: Path, root: Path
) -> AsyncIterator[PairFleet]:
    folder = Path(tempfile.mkdtemp(prefix="minuet-"))
    os.chmod(folder, 0o755)
    settings = {"appendfsync": "everysec"} if request.param == "everysec" else {"appendonly": "no"}
    hot, record = Redis(folder / "hot", **settings), Postgres(folder / "record")
    hot.start()
    record.start()
    fleet = PairFleet(hot, record, tmp_path, root)
    fleet.launch()
    yield fleet
    await fleet.end()
    hot.kill()
    record.kill()
    shutil.rmtree(folder)


@pytest.mark.slow
@pytest.mark.shows("P-01", "P-02", "P-08", "P-13", "P-38")
async def test_whatever_redis_loses_nothing_acknowledged_is_lost(fleet: PairFleet) -> None:
    document = workload.small()
    expected = final_state(await asyncio.to_thread(undisturbed, document))
    kinds = [name for name in dir(fleet) if name.split("_")[0] in ("kill", "drain", "stop")]
    chance = Random(SEED)
    blows = kinds + [chance.choice(kinds) for _ in range(BLOWS - len(kinds))]
    chance.shuffle(blows)

    await fleet.start_runs(document, 6)
    await fleet.start_runs(workload.witnessed(PAIRS), 6)
    for blow in blows:
        await fleet.progress(more=chance.randrange(5, 40))
        await fleet.happen(blow)
        await fleet.start_runs(document, 2)
        await fleet.start_runs(workload.witnessed(PAIRS), 2)
    await fleet.all_over()

    assert set(fleet.happened) == set(kinds)
    async with App(fleet.url, worker=False) as app:
        found = {run_id: wrong async for run_id, wrong in app.doctor.examine()}
        assert not any(found.values()), found
        assert set(found) == set(fleet.runs), "an acknowledged run is lost, or one too many"
        for run_id in fleet.runs:
            result = await app.runs.show(run_id)
            assert result.status == "COMPLETED"
            if result.workflow != "witnessed":
                assert final_state(result) == expected
            completed = collections.Counter(
                (e["node"], e.get("scope", ""))
                for e in await read_events(app, run_id)
                if e["type"] == "node.completed"
            )
            assert set(completed.values()) == {1}
        await check_witnesses(app, fleet)


async def check_witnesses(app: App, fleet: PairFleet) -> None:
    """Whatever a witness was started with, however often, is what the record says."""
    seen = workload.read_inputs(fleet.ledger)
    assert len({(run, node) for run, node, *_ in seen}) == PAIRS * sum(
        [run.workflow == "witnessed" for run in await app.runs.list(limit=1000)]
    )
    keys: dict[tuple[str, str], set[str]] = {}
    for run_id, node, _, key, inputs in seen:
        result = await app.runs.show(run_id)
        assert result.nodes[node].output == inputs, "started on an input that was not durable"
        keys.setdefault((run_id, node), set()).add(key)
    assert all(len(found) == 1 for found in keys.values())
