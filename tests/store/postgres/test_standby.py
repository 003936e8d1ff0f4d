"""A standby that is only read."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.standby import FAST, Standby
from tests.waiting import PATIENCE
from tools.services import Postgres

from minuet.errors import PositionError, StoreError
from minuet.store.changes import NewRun
from minuet.store.exchange import Delivery
from minuet.store.postgres import PostgresStore
from minuet.store.postgres.standby import PostgresReader

pytest.importorskip("asyncpg")


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[Postgres, Standby]]:
    """A server, and a standby that follows it."""
    folder = Path(tempfile.mkdtemp(prefix="minuet-"))
    os.chmod(folder, 0o755)
    primary = Postgres(folder / "primary", **FAST)
    standby = Standby(folder / "standby", primary, **FAST)
    started: list[Any] = []
    try:
        for server in (primary, standby):
            server.start()
            started.append(server)
        yield primary, standby
    finally:
        for server in started:
            server.kill()
        shutil.rmtree(folder)


def new(name: str) -> NewRun:
    entry = Delivery("a", "", live=True, need=1, total=1, queue="q")
    return NewRun(run=name, workflow="w", plan="p", entries=(entry,))


@pytest.mark.shows("P-39")
async def test_a_standby_answers_reads_and_has_the_same_feed(pair: Any) -> None:
    primary, standby = pair
    writing = PostgresStore(primary.url)
    await writing.open()
    await writing.create_runs([new("first")])
    position = (await writing.read_feed(None)).position
    await writing.create_runs([new("second")])
    reading = PostgresReader(standby.url)
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                await reading.open()
                break
            except StoreError:  # The schema has not arrived.
                await asyncio.sleep(0.05)
        found: list[tuple[str, int]] = []
        after = position
        while len(found) < 2:
            page = await reading.read_feed(after, wait_ms=1_000)
            found += [(entry.event.run, entry.event.seq) for entry in page.entries]
            after = page.position
        await reading.measure()
        with pytest.raises(StoreError):
            await reading.create_runs([new("third")])

        assert found == [("second", 1), ("second", 2)]
        assert [run.run for run in await reading.list_runs("default")] == ["second", "first"]
        assert len(await reading.read_events("default", "first")) == 2
        assert reading.age_ms is not None
        assert reading.age_ms < 60_000
        # What the standby says is true at the primary as well.
        assert (await writing.read_feed(after)).entries == ()

        await writing.close()
        primary.kill()
        assert [run.run for run in await reading.list_runs("default")] == ["second", "first"]
        await reading.close()

        # Who takes over may lack what was seen: numbers of transactions would be used again.
        await standby.promote()
        promoted = PostgresStore(standby.url)
        await promoted.open()
        with pytest.raises(PositionError):
            await promoted.read_feed(after)
        await promoted.close()
