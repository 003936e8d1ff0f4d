"""Servers whose disk or memory is full: calls are refused in words, nothing answered is lost, and
work goes on by itself when there is room again."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
import redis
from tests.fault import workload
from tests.fault.outcome import final_state, undisturbed
from tests.servers import KINDS_OF_REDIS
from tests.small_disk import SmallDisk
from tests.standby import FAST
from tools.services import Postgres, Redis, Server, redis_programs

from minuet.app.app import App
from minuet.errors import StoreUnavailableError

from .test_failover_postgres import LEASE_MS, SECONDS_MAX, check_all_sound

#: More than enough to need more room than is left.
STARTS_MAX = 500


@pytest.fixture
def folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="minuet-"))
    os.chmod(folder, 0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def disk(folder: Path) -> Iterator[Callable[..., SmallDisk]]:
    """Mount a small disk."""
    mounted: list[SmallDisk] = []

    def mount(path: Path, size: str, owner: int | None = None) -> SmallDisk:
        mounted.append(SmallDisk(path, size, owner))
        return mounted[-1]

    yield mount
    for disk in mounted:
        disk.remove()


@pytest.fixture
def running() -> Iterator[list[Server]]:
    """Servers that end with the test."""
    servers: list[Server] = []
    yield servers
    for server in servers:
        server.kill()


async def start_until_refused(app: App) -> tuple[list[str], str]:
    """Start runs until there is no more room; those that were acknowledged, and the refusal."""
    started: list[str] = []
    for number in range(STARTS_MAX):
        # Large, each another one, and not to be made smaller by compressing.
        padding = Random(number).randbytes(300_000).hex()
        try:
            started.append(await app.start(workload.small(), {"seed": 1, "padding": padding}))
        except StoreUnavailableError as error:
            return started, str(error)
    raise AssertionError("there was always room")


async def fill_and_go_on(
    url: str, fill: Callable[[], Any], make_room: Callable[[], Any]
) -> tuple[str, int]:
    """Work, run out of room, work again: all that was acknowledged ends as it should."""
    expected = final_state(await asyncio.to_thread(undisturbed, workload.small()))
    async with App(
        url, handlers=[workload], lease_seconds=LEASE_MS / 1000, crashes_max=1000
    ) as app:
        runs = await app.start_many(workload.small(), [{"seed": 1}] * 4)
        await asyncio.to_thread(fill)
        more, refusal = await start_until_refused(app)
        await asyncio.to_thread(make_room)
        for run in runs:
            await app.wait(run, timeout=SECONDS_MAX)
            assert final_state(await app.runs.show(run)) == expected
        for one in more:
            assert (await app.wait(one, timeout=SECONDS_MAX)).status == "COMPLETED"
        last = await app.start(workload.small(), {"seed": 1})
        assert (await app.wait(last, timeout=SECONDS_MAX)).status == "COMPLETED"
        await check_all_sound(app)
    return refusal, len(more)


def start_again(server: Server) -> None:
    """Whether a server survives is its own affair; whoever runs it would start it again."""
    server.kill()
    server.start()


@pytest.mark.slow
async def test_postgresql_without_room_for_data_refuses_and_goes_on(
    folder: Path, disk: Callable[..., SmallDisk], running: list[Server]
) -> None:
    server = Postgres(folder / "server", **FAST)
    small = disk(folder / "server" / "data", "96m", server.user)
    server.start()
    running.append(server)

    refusal, _ = await fill_and_go_on(server.url, small.fill, small.make_room)

    assert "No space left on device" in refusal
    assert f":{server.port}/postgres" in refusal


@pytest.mark.slow
async def test_postgresql_without_room_for_its_log_ends_and_goes_on(
    folder: Path, disk: Callable[..., SmallDisk], running: list[Server]
) -> None:
    # It writes on and on, and does not come to use a part of its log again.
    server = Postgres(folder / "server", **FAST, min_wal_size="2MB", checkpoint_timeout="1h")
    small = disk(folder / "log", "12m", server.user)
    server.initdb_options = ("--wal-segsize=1", f"--waldir={folder / 'log' / 'wal'}")
    server.start()
    running.append(server)

    def make_room() -> None:
        small.make_room()
        start_again(server)

    refusal, count = await fill_and_go_on(server.url, small.fill, make_room)

    assert f":{server.port}/postgres" in refusal
    assert count > 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS_OF_REDIS)
async def test_redis_without_room_for_its_log_refuses_and_goes_on(
    folder: Path, disk: Callable[..., SmallDisk], running: list[Server], kind: str
) -> None:
    small = disk(folder / "server", "8m")
    server = Redis(folder / "server", program=redis_programs()[kind], appendfsync="everysec")
    server.start()
    running.append(server)

    refusal, _ = await fill_and_go_on(server.url, small.fill, small.make_room)

    assert "refuses for now: MISCONF Errors writing to the AOF file" in refusal


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS_OF_REDIS)
async def test_redis_that_syncs_every_answer_ends_without_room_and_goes_on(
    folder: Path, disk: Callable[..., SmallDisk], running: list[Server], kind: str
) -> None:
    small = disk(folder / "server", "8m")
    server = Redis(folder / "server", program=redis_programs()[kind], appendfsync="always")
    server.start()
    running.append(server)

    def make_room() -> None:
        small.make_room()
        start_again(server)

    refusal, _ = await fill_and_go_on(server.url, small.fill, make_room)

    assert f"127.0.0.1:{server.port}, database 0 does not answer" in refusal


@pytest.mark.parametrize("kind", KINDS_OF_REDIS)
async def test_redis_without_memory_refuses_and_goes_on(
    folder: Path, running: list[Server], kind: str
) -> None:
    server = Redis(folder / "server", program=redis_programs()[kind])
    server.start()
    running.append(server)

    def limit(more: int) -> None:
        with redis.Redis(port=server.port) as client:
            used = client.info("memory")["used_memory"]
            client.config_set("maxmemory", used + more if more else 0)

    refusal, _ = await fill_and_go_on(server.url, lambda: limit(100_000), lambda: limit(0))

    assert "refuses for now: " in refusal
    assert "OOM" in refusal or "maxmemory" in refusal
