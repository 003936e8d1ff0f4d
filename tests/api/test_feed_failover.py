"""Watchers of all runs, across the death of a server."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from typing import Any

import httpx2
import pytest
from tests import servers

from minuet.app.app import App

from .test_feed import STREAM, Watcher, count_of, numbers
from .test_runs import SHORT
from .test_server_command import Spawn, read_event, spawn

__all__ = ["spawn"]

STORES: dict[str, Callable[[], str]] = {
    "postgres": servers.postgres_url,
    "redis": servers.redis_url,
}


async def watch(watcher: Watcher | None, client: httpx2.AsyncClient, url: str) -> Any:
    headers = {**STREAM, **({"Last-Event-ID": watcher.position} if watcher else {})}
    request = client.build_request("GET", f"{url}/api/v1/events", headers=headers)
    answer = await client.send(request, stream=True)
    assert answer.status_code == 200, await answer.aread()
    made = Watcher(answer)
    await made.next()
    return made


@pytest.mark.parametrize("store", STORES)
async def test_a_watcher_sees_every_event_once_across_the_death_of_its_server(
    spawn: Spawn, store: str
) -> None:
    url = STORES[store]()
    children = [spawn("server", "--store", url, "--port", "0", "--json") for _ in range(2)]
    first, second = [read_event(child, "started")["url"] for child in children]
    expected: dict[str, list[int]] = {}

    async with App(url) as app, httpx2.AsyncClient(timeout=60) as client:

        async def work(count: int) -> None:
            runs = [await app.start(SHORT) for _ in range(count)]
            for run in runs:
                await run.wait()
                row = await app.runs.get(run.id)
                expected[run.id] = list(range(1, row.seq + 1))

        watcher = await watch(None, client, first)
        await work(3)
        # It dies in the middle of what the watcher reads.
        await watcher.until_count(5)
        children[0].kill()
        await work(3)
        with contextlib.suppress(httpx2.HTTPError):
            await watcher.rest()
        seen = list(watcher.seen)
        watcher = await watch(watcher, client, second)
        await work(2)
        await watcher.until_count(count_of(expected) - len(seen))
        seen += watcher.seen
        # And nothing comes after it.
        position = watcher.position
        answer = await client.get(f"{second}/api/v1/events", params={"after": position})
        await watcher.answer.aclose()

    assert numbers(seen) == expected
    assert json.loads(answer.content)["items"] == []
