"""A replica takes over from a Redis server that is killed under load, behind a name that follows
the master. Redis answers before its replicas know, so the last answers are lost: what is left is a
beginning of every history, sound, and it goes on."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis
from tests.fault import workload
from tests.fault.outcome import final_state, undisturbed
from tests.proxy import Proxy
from tests.servers import KINDS_OF_REDIS
from tools.services import HOST, Redis, redis_programs

from minuet.app.app import App
from minuet.errors import RunNotFoundError
from minuet.store.redis import RedisStore

from .test_failover_postgres import LEASE_MS, SECONDS_MAX, check_all_sound, completed

RUNS = int(os.environ.get("MINUET_TEST_BLOWS", "8"))

_log = logging.getLogger(__name__)


@pytest.fixture(params=KINDS_OF_REDIS)
def start(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., Redis]]:
    """Start a server with these settings."""
    started: list[Redis] = []

    def start_server(**settings: str) -> Redis:
        folder = tmp_path / str(len(started))
        server = Redis(folder, program=redis_programs()[request.param], **settings)
        started.append(server)
        server.start()
        return server

    yield start_server
    for server in started:
        server.kill()


def start_pair(start: Callable[..., Redis]) -> tuple[Redis, Redis]:
    """A master, and a replica that has caught up with it."""
    master = start(repl_diskless_sync_delay="0")
    replica = start(replicaof=f"{HOST} {master.port}")
    with redis.Redis(port=replica.port) as client:
        while client.info("replication")["master_link_status"] != "up":
            pass
    return master, replica


def promote(server: Redis) -> None:
    with redis.Redis(port=server.port) as client:
        client.execute_command("REPLICAOF", "NO", "ONE")


def catch_up(master: Redis, replica: Redis) -> None:
    """Wait until the replica has heard all that was done so far."""
    with redis.Redis(port=master.port) as client:
        wanted = client.info("replication")["master_repl_offset"]
    with redis.Redis(port=replica.port) as client:
        end = time.monotonic() + SECONDS_MAX
        while client.info("replication")["slave_repl_offset"] < wanted:
            assert time.monotonic() < end, "the replica does not follow"


async def history(server: Redis) -> dict[str, list[bytes]]:
    """Everything that happened, by run."""
    store = RedisStore(server.url)
    await store.open()
    runs = await store.list_runs("default", limit=1000)
    found = {run.run: await store.read_events("default", run.run, limit=10_000) for run in runs}
    await store.close()
    return {run: [event.data for event in events] for run, events in found.items()}


@pytest.mark.slow
async def test_what_a_replica_has_is_a_beginning_and_goes_on(start: Callable[..., Redis]) -> None:
    expected = final_state(await asyncio.to_thread(undisturbed, workload.small()))
    master, replica = await asyncio.to_thread(start_pair, start)
    name = await Proxy.to(master.port)
    url = master.url.replace(str(master.port), str(name.port))
    app = App(
        url, handlers=[workload], lease_seconds=LEASE_MS / 1000, crashes_max=1000, concurrency=8
    )
    async with app:
        runs = await app.start_many(workload.small(), [{"seed": 1}] * RUNS)
        await asyncio.to_thread(catch_up, master, replica)
        await completed(app, 2 * RUNS)
        # From here on the replica hears nothing more, and the master goes on answering.
        promote(replica)
        lost = await app.start(workload.small(), {"seed": 1})
        await completed(app, 4 * RUNS)
        before = await history(master)
        await asyncio.to_thread(master.kill)
        kept = await history(replica)
        name.move(replica.port)

        for run in runs:
            await app.wait(run, timeout=SECONDS_MAX)
            assert final_state(await app.runs.show(run)) == expected
        with pytest.raises(RunNotFoundError):
            await app.runs.show(lost)
        await check_all_sound(app)
    await name.close()
    assert set(kept) == set(runs)
    assert all(before[run][: len(events)] == events for run, events in kept.items())
    count = [sum(map(len, events.values())) for events in (kept, before)]
    assert count[0] < count[1], "nothing was lost: the test shows nothing"
    _log.info("%d of %d events were lost", count[1] - count[0], count[1])


async def test_a_replica_that_has_heard_everything_loses_nothing(
    start: Callable[..., Redis],
) -> None:
    master, replica = await asyncio.to_thread(start_pair, start)
    name = await Proxy.to(master.port)
    store = RedisStore(master.url.replace(str(master.port), str(name.port)))
    await store.open()
    refs = [await store.put_blob(bytes([number])) for number in range(20)]
    with redis.Redis(port=master.port) as client:
        assert client.wait(1, 60_000) == 1
    await asyncio.to_thread(master.kill)
    name.move(replica.port)
    promote(replica)

    assert [await store.get_blob(ref) for ref in refs] == [bytes([n]) for n in range(20)]
    assert await store.put_blob(b"after")
    await store.close()
    await name.close()
