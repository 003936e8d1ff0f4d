"""A server that redrives dead letters is killed before and after every call to its store: another
one goes on, and each dead letter is retried once."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from tests.fault.conftest import ROOT
from tests.fault.processes import Nursery, until

from minuet.app.app import App
from minuet.app.redrives import SILENT_MS
from minuet.app.redriving import Redriver
from minuet.clock import ManualClock
from minuet.nodes.handler import Task
from minuet.store.sqlite import SqliteStore

from ..folding import Findings
from ..waiting import until as until_in_store
from .test_routes import BORDERS_MAX, DIED, connect, is_up

LETTERS = 3


@pytest.fixture(autouse=True)
def processes_have_compared() -> None:
    """A server that is killed has compared nothing. The doctor does."""


@pytest.fixture(scope="module")
def servers(histories: Findings) -> Iterator[Nursery]:
    with Nursery(ROOT, "tests.fault.serving") as nursery:
        yield nursery


async def prepare(db: Path) -> list[str]:
    """A store with dead letters; their ids."""

    def fail() -> None:
        raise ValueError("no ink")

    async with App(SqliteStore(db)) as app:
        app.handlers.add(Task(fail, name="redrives.fail"))
        node = {"id": "f", "handler": "redrives.fail", "retry": {"max_attempts": 1}}
        document = {"name": "fails", "dlq_policy": "all", "nodes": [node]}
        runs = await app.start_many(document, [None] * LETTERS)
        for run in runs:
            await app.runs.wait_ended(run)
        return await app.dead_letters.ids(node_id="f")


def redrive(db: Path, sock: Path, servers: Nursery, ids: list[str], dies_at: int) -> bool:
    """Have a server redrive them until it dies; False: it was done before."""
    server = servers.start("serve", db=str(db), path=str(sock), dies_at=dies_at)
    until(lambda: is_up(sock), "the server answers")
    try:
        with connect(sock) as client:
            client.post("/api/v1/dlq/redrives", json={"ids": ids}).raise_for_status()
            while client.get("/api/v1/dlq/redrives").json()["items"][0]["state"] == "running":
                pass
    except httpx2.TransportError:
        assert server.wait() == DIED
        return True
    server.kill()
    return False


async def go_on(db: Path, border: int) -> None:
    """Have another server go on, and look at what there is then."""
    clock = ManualClock()
    async with App(SqliteStore(db), worker=False) as app:
        redriver = Redriver(app, clock)
        await redriver.look()
        clock.advance(SILENT_MS)
        await redriver.look()

        async def is_over() -> bool:
            return all(one.state == "done" for one in await app.dead_letters.redrives())

        await until_in_store(app.store, is_over)
        redrives = await app.dead_letters.redrives()
        runs = await app.runs.list()
        events = [event["type"] for run in runs for event in await app.events(run.run)]
        findings = [one async for _, found in app.doctor.examine() for one in found]
        left = await app.store.list_cells("redrive-ids/")
        pending = await app.dead_letters.ids(node_id="f")
        await redriver.close()
    assert findings == []
    assert left == []
    if not redrives:
        # It died before it was kept, and nobody got an answer.
        assert ("run.retried" in events, len(pending)) == (False, LETTERS)
        return
    (found,) = redrives
    assert (found.total, found.retried, found.refused) == (LETTERS, LETTERS, 0), border
    assert {run.generation for run in runs} == {2}
    assert (events.count("run.retried"), pending) == (LETTERS, [])


# The client's library leaves its socket unclosed if the server dies at a certain moment.
@pytest.mark.filterwarnings(
    "ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"
)
@pytest.mark.slow
def test_a_redrive_survives_its_server(servers: Nursery, tmp_path: Path) -> None:
    original = tmp_path / "original.db"
    ids = asyncio.run(prepare(original))
    died = 0
    for border in range(BORDERS_MAX):
        folder = tmp_path / str(border)
        folder.mkdir()
        db = folder / "runs.db"
        shutil.copy(original, db)
        has_died = redrive(db, folder / "s", servers, ids, border)
        asyncio.run(go_on(db, border))
        if not has_died:
            break
        died += 1
    # Before and after each of: keep it, retry three, end it.
    assert died >= 2 * (LETTERS + 2)
