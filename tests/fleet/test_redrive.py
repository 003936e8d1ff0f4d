"""Several processes redrive the same dead letters, one after the other or at once: each is retried
once."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests import programs, servers
from tests.scenario.harness import module_of

from minuet.app.app import App

from ..waiting import until

PROCESSES = 3

#: Dead letters; `make faults` has more of them.
LETTERS = 2_000 if "MINUET_TEST_RACES" in os.environ else 30

#: How many each process retries in a second, at most.
PER_SECOND = 100

STORES: dict[str, Callable[[Path], str]] = {
    "sqlite": lambda folder: f"sqlite:///{folder}/letters.db",
    "postgres": lambda folder: servers.postgres_url(),
    "redis": lambda folder: servers.redis_url(),
    "logged": lambda folder: servers.logged_url(),
}


async def _refuse(number: int) -> None:
    raise ValueError(f"no stock for {number}")


async def _fill(app: App, count: int) -> list[str]:
    """Runs that have failed, of one cause."""
    node = {"id": "work", "handler": "redriven", "config": {"number": "{{ input }}"}}
    document = {"name": "redriven", "nodes": [node]}
    runs = await app.start_many(document, list(range(count)))
    for run in runs:
        await app.wait(run, timeout=60)
    return [str(run) for run in runs]


def _call_at_once(command: list[str], root: Path) -> list[list[dict[str, Any]]]:
    children = [programs.start(*command, folder=root) for _ in range(PROCESSES)]
    return [json.loads(child.communicate(timeout=300)[0]) for child in children]


@pytest.mark.slow
@pytest.mark.shows("J-18", "J-22")
@pytest.mark.parametrize("kind", STORES)
async def test_processes_that_redrive_the_same_dead_letters_retry_each_once(
    kind: str, tmp_path: Path, root: Path
) -> None:
    url = STORES[kind](tmp_path)
    async with App(url, handlers=[module_of({"redriven": _refuse})]) as app:
        runs = await _fill(app, LETTERS)
        (group,) = await app.dead_letters.group()
    assert (group.count, group.queues) == (LETTERS, {"task:redriven": LETTERS})
    command = ["-m", "minuet", "dlq", "retry", "--store", url, "--json"]
    command += ["--fingerprint", group.fingerprint, "--per-second", str(PER_SECOND)]

    answers = _call_at_once(command, root)

    retried = Counter(one["run_id"] for some in answers for one in some if one["retried"])
    assert retried == Counter(runs)
    async with App(url, worker=False) as app:
        rows = await app.runs.list(limit=LETTERS)
        assert {(row.status, row.generation) for row in rows} == {("RUNNING", 2)}
        assert await app.dead_letters.list() == []
        letters = await app.dead_letters.list(status="reprocessed", limit=LETTERS + 1)
        assert len(letters) == LETTERS


def _start_server(url: str, root: Path) -> tuple[programs.Program, str]:
    command = ["-m", "minuet", "server", "--store", url, "--port", "0", "--json"]
    server = programs.start(*command, folder=root)
    return server, json.loads(server.stdout.readline())["url"]


@pytest.mark.slow
async def test_another_server_goes_on_with_the_redrive_of_one_that_was_killed(root: Path) -> None:
    """It takes the second one a while to be sure that the first one has ended."""
    url = servers.postgres_url()
    async with App(url, handlers=[module_of({"redriven": _refuse})]) as app:
        runs = await _fill(app, 2)
        ids = await app.dead_letters.ids(node_id="work")
        first, address = _start_server(url, root)
        second, _ = _start_server(url, root)
        try:
            # The second dead letter is due in a minute and a half; for who goes on, at once.
            body = {"ids": ids, "per_second": 0.011}
            httpx2.post(f"{address}/api/v1/dlq/redrives", json=body).raise_for_status()

            async def is_begun() -> bool:
                return [one.retried for one in await app.dead_letters.redrives()] == [1]

            await until(app.store, is_begun)
            first.kill()

            async def is_done() -> bool:
                return [one.state for one in await app.dead_letters.redrives()] == ["done"]

            await until(app.store, is_done)
            (done,) = await app.dead_letters.redrives()
        finally:
            for server in (first, second):
                server.kill()
                server.communicate()
        events = [[one["type"] for one in await app.events(run)] for run in runs]

    assert (done.retried, done.refused) == (2, 0)
    assert [types.count("run.retried") for types in events] == [1, 1]
