"""Four worker processes on a server, under load, while all of them are killed, stopped, drained
and restarted, and so is the server: nothing that was acknowledged is lost or done twice."""

from __future__ import annotations

import asyncio
import collections
import os
import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from random import Random
from typing import Any

import asyncpg
import pytest
from tests.events import read_events
from tests.fault import workload
from tests.fault.outcome import final_state, undisturbed
from tests.fleet.nemesis import Fleet
from tools.services import Postgres, Redis, redis_programs

from minuet.app.app import App

SEED = int(os.environ.get("MINUET_TEST_SEED", "1"))

#: How many things happen; `make faults` has more happen.
BLOWS = int(os.environ.get("MINUET_TEST_BLOWS", "8"))

SERVERS: dict[str, Callable[[Path], Any]] = {
    "postgres": Postgres,
    # Every answer is on the disk. Redis itself, where it is to be had.
    "redis": lambda folder: Redis(
        folder, program=redis_programs().get("redis", ""), appendfsync="always"
    ),
}


class PostgresFleet(Fleet):
    async def kill_backend(self) -> None:
        """Kill one process of the server, which then restarts all of them."""
        connection = await asyncpg.connect(self.url.partition("?")[0])
        pids = [
            row["pid"]
            for row in await connection.fetch(
                "SELECT pid FROM pg_stat_activity"
                " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
            )
        ]
        connection.terminate()
        if pids:
            os.kill(self._chance.choice(pids), 9)


@pytest.fixture(params=SERVERS)
async def fleet(request: pytest.FixtureRequest, tmp_path: Path, root: Path) -> AsyncIterator[Fleet]:
    folder = Path(tempfile.mkdtemp(prefix="minuet-"))
    os.chmod(folder, 0o755)
    server = SERVERS[request.param](folder / request.param)
    server.start()
    kind = PostgresFleet if request.param == "postgres" else Fleet
    fleet = kind(server.url, server, tmp_path, root, SEED)
    fleet.launch()
    yield fleet
    await fleet.end()
    server.kill()


@pytest.mark.slow
@pytest.mark.shows("I-05", "I-08", "I-24", "I-31", "P-12", "P-37", "P-23")
async def test_a_fleet_and_its_server_are_struck_and_every_run_ends_as_it_should(
    fleet: Fleet,
) -> None:
    document = workload.small()
    expected = final_state(await asyncio.to_thread(undisturbed, document))
    kinds = [name for name in dir(fleet) if name.split("_")[0] in ("kill", "drain", "stop")]
    chance = Random(SEED)
    blows = kinds + [chance.choice(kinds) for _ in range(BLOWS - len(kinds))]
    chance.shuffle(blows)

    await fleet.start_runs(document, 10)
    for blow in blows:
        await fleet.progress(more=chance.randrange(5, 40))
        await fleet.happen(blow)
        await fleet.start_runs(document, 3)
    await fleet.all_over()

    assert set(fleet.happened) == set(kinds)
    async with App(fleet.url, worker=False) as app:
        findings = []
        found = set()
        async for run_id, wrong in app.doctor.examine():
            findings += wrong
            found.add(run_id)
        assert not findings
        assert found == set(fleet.runs), "an acknowledged run is lost, or there is one too many"
        for run_id in fleet.runs:
            assert final_state(await app.runs.show(run_id)) == expected
            events = await read_events(app, run_id)
            completed = collections.Counter(
                (e["node"], e.get("scope", "")) for e in events if e["type"] == "node.completed"
            )
            assert set(completed.values()) == {1}
