"""A tree of runs, three levels deep, while its workers and servers are killed: each node instance
has one child run, and every end reaches its relatives."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections import Counter
from collections.abc import AsyncIterator
from functools import partial
from math import prod
from pathlib import Path
from random import Random
from typing import Any

import pytest
import redis.asyncio
from tests.fault import workload
from tests.fleet.nemesis import SECONDS_MAX, Fleet
from tools.services import Postgres, Redis, Server, redis_programs

from minuet.app.app import App
from minuet.store.changes import Cancel
from minuet.store.families import child_id
from minuet.types import TERMINAL

SEED = int(os.environ.get("MINUET_TEST_SEED", "1"))

#: How many things happen; without it, everything that can happen to the store happens once.
BLOWS = int(os.environ.get("MINUET_TEST_BLOWS", "0"))

#: Child runs of a run, level by level. `make faults` has a thousand of them.
WIDTHS = (10, 10, 10) if "MINUET_TEST_BLOWS" in os.environ else (3, 3, 3)

#: By hand, and not by the facade, which tells the children at once.
CANCEL = Cancel("not wanted")

#: The small trees have as long as any other test.
LIMIT_S = 1800 if "MINUET_TEST_BLOWS" in os.environ else 300

KINDS = ("sqlite", "postgres", "redis", "logged")


class Servers:
    """The servers of one kind of store, as one."""

    def __init__(self, *servers: Server) -> None:
        self._servers = servers

    def start(self) -> None:
        for server in self._servers:
            server.start()

    def kill(self) -> None:
        for server in self._servers:
            server.kill()


class FamilyFleet(Fleet):
    """Workers on a store of some kind."""

    async def deploy(self, documents: list[dict[str, Any]]) -> None:
        for document in documents:
            await self._insist(partial(_deploy, document))

    async def empty_redis(self) -> None:
        """Redis loses everything; its record has it."""
        client = redis.asyncio.Redis.from_url(self.url.partition("?")[0])
        await client.flushall()
        await client.aclose()


async def _deploy(document: dict[str, Any], app: App) -> None:
    await app.workflows.deploy(document)


def blows_on(kind: str) -> list[str]:
    """What can happen on this kind of store."""
    found = ["kill_worker", "stop_worker"]
    found += ["kill_server"] if kind != "sqlite" else []
    return found + (["empty_redis"] if kind == "logged" else [])


def make(kind: str, folder: Path) -> tuple[str, Any]:
    """A store's URL, and its servers once they have started."""
    if kind == "sqlite":
        return f"sqlite:///{folder}/runs.db", Servers()
    program = redis_programs().get("redis", "")
    hot = Redis(folder / "redis", program=program, appendfsync="always")
    database = Postgres(folder / "postgres")
    used: dict[str, tuple[Server, ...]] = {
        "postgres": (database,),
        "redis": (hot,),
        "logged": (hot, database),
    }
    running = Servers(*used[kind])
    running.start()
    urls = {"postgres": database.url, "redis": hot.url}
    return urls.get(kind) or f"{hot.url}?record={database.url}", running


@pytest.fixture(params=KINDS)
async def fleet(
    request: pytest.FixtureRequest, tmp_path: Path, root: Path
) -> AsyncIterator[FamilyFleet]:
    folder = Path(tempfile.mkdtemp(prefix="minuet-"))
    os.chmod(folder, 0o755)
    url, servers = make(request.param, folder)
    fleet = FamilyFleet(url, servers, tmp_path, root, SEED)
    fleet.launch()
    yield fleet
    await fleet.end()
    servers.kill()


def levels() -> list[dict[str, Any]]:
    """The workflows of a tree, the innermost first. Each counts the runs at its end."""
    leaf = {"id": "work", "handler": f"{workload.MODULE}:fast"}
    made = [{"name": "level-3", "nodes": [leaf], "output": 1}]
    for depth in range(len(WIDTHS) - 1, -1, -1):
        nodes: list[dict[str, Any]] = [
            {"id": f"c{n}", "type": "workflow", "config": {"workflow": f"level-{depth + 1}"}}
            for n in range(WIDTHS[depth])
        ]
        names = [node["id"] for node in nodes]
        added = " + ".join(f"output.{name}" for name in names)
        total = {"expression": f"1 + {added}"}
        nodes.append({"id": "sum", "type": "transform", "config": total, "dependencies": names})
        made.append({"name": f"level-{depth}", "nodes": nodes, "output": "{{ sum.output }}"})
    return made


def count_runs() -> int:
    """How many runs the tree has."""
    return 1 + sum(prod(WIDTHS[:depth]) for depth in range(1, len(WIDTHS) + 1))


async def is_reported(app: App) -> None:
    """Wait until every end has reached the relatives of its run, for as long as that goes on."""
    seen: set[tuple[str, int]] = set()
    loop, end = asyncio.get_running_loop(), 0.0
    while rows := await app.store.list_unreported():
        stands = {(row.run, row.seq) for row in rows}
        if stands != seen:
            seen, end = stands, loop.time() + SECONDS_MAX
        assert loop.time() < end, f"not reported: {sorted(stands)}"
        await asyncio.sleep(0.05)


async def all_runs(app: App) -> list[Any]:
    """All runs of the store, a page at a time."""
    rows = page = await app.runs.list(limit=1000)
    while len(page) == 1000:
        page = await app.runs.list(limit=1000, before=page[-1].run)
        rows = [*rows, *page]
    return rows


@pytest.mark.slow
@pytest.mark.timeout(LIMIT_S)
async def test_a_tree_of_runs_is_struck_and_every_end_reaches_its_relatives(
    fleet: FamilyFleet, request: pytest.FixtureRequest
) -> None:
    kind = request.node.callspec.params["fleet"]
    chance = Random(SEED)
    kinds = blows_on(kind)
    blows = (kinds * BLOWS)[:BLOWS] or kinds
    await fleet.deploy(levels())

    await fleet.start_runs("level-0", 1)  # type: ignore[arg-type]
    # Only the innermost runs have handlers, and the last of these has to be struck too.
    most = max(2, 2 * prod(WIDTHS) // len(blows))
    for blow in blows:
        await fleet.progress(more=chance.randrange(1, most))
        await fleet.happen(blow)
    await fleet.all_over()

    async with App(fleet.url, worker=False) as app:
        (root,) = fleet.runs
        result = await app.runs.wait(root, timeout=60)
        assert result.status == "COMPLETED", result.error
        assert result.output == count_runs()
        await is_reported(app)
        rows = await all_runs(app)
        assert len(rows) == count_runs()
        assert {row.status for row in rows} == {"COMPLETED"}
        instances = Counter((row.parent, row.parent_node, row.parent_scope) for row in rows)
        assert set(instances.values()) == {1}
        for row in rows:
            if row.parent is not None:
                assert row.run == child_id((row.parent, row.parent_node, row.parent_scope))
        assert {run: wrong async for run, wrong in app.doctor.examine() if wrong} == {}


@pytest.mark.slow
@pytest.mark.timeout(LIMIT_S)
async def test_a_cancel_goes_down_a_tree_of_runs_that_is_struck(
    fleet: FamilyFleet, request: pytest.FixtureRequest
) -> None:
    kind = request.node.callspec.params["fleet"]
    await fleet.deploy(levels())
    await fleet.start_runs("level-0", 1)  # type: ignore[arg-type]
    await fleet.progress(more=3)

    (root,) = fleet.runs
    await fleet._insist(lambda app: app.store.change_run("default", str(root), CANCEL))
    for blow in blows_on(kind):
        await fleet.happen(blow)
    await fleet.all_over()

    async with App(fleet.url, worker=False) as app:
        await is_reported(app)
        rows = await all_runs(app)
        assert all(row.status in TERMINAL for row in rows)
        assert (await app.runs.get(root)).status == "CANCELLED"
        assert {run: wrong async for run, wrong in app.doctor.examine() if wrong} == {}
