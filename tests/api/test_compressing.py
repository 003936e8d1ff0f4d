"""Large answers are compressed for clients that understand it; nothing else is."""

from __future__ import annotations

import gzip
from typing import Any

import pytest

from .conftest import Serve, Site
from .test_runs import SHORT, WAITING

GZIP = {"accept-encoding": "br, gzip;q=0.8"}
PLAIN = {"accept-encoding": "identity"}

MANY: dict[str, Any] = {
    "name": "many",
    "nodes": [{"id": f"n{number}", "type": "noop"} for number in range(40)],
}


async def raw(site: Site, path: str, headers: dict[str, str]) -> tuple[Any, bytes]:
    async with site.client.stream("GET", path, headers=headers) as answer:
        return answer.headers, b"".join([piece async for piece in answer.aiter_raw()])


async def test_a_large_answer_is_compressed_and_says_so(serve: Serve) -> None:
    async with serve() as site:
        run = await site.start(MANY)
        await site.app.wait(run)
        headers, packed = await raw(site, f"/runs/{run}/events", GZIP)
        plain_headers, plain = await raw(site, f"/runs/{run}/events", PLAIN)

    assert (headers["content-encoding"], headers["vary"]) == ("gzip", "Accept-Encoding")
    assert gzip.decompress(packed) == plain
    assert int(headers["content-length"]) == len(packed) < len(plain) / 5
    assert "content-encoding" not in plain_headers


@pytest.mark.parametrize("encoding", ["", "br", "gzip;q=0", "identity"])
async def test_who_does_not_understand_it_gets_it_plain(serve: Serve, encoding: str) -> None:
    async with serve() as site:
        headers, _ = await raw(site, "/node-types", {"accept-encoding": encoding})

    assert "content-encoding" not in headers


async def test_a_short_answer_and_an_answer_to_a_change_stay_as_they_are(serve: Serve) -> None:
    async with serve() as site:
        headers, _ = await raw(site, "/health/live", GZIP)
        started = await site.client.post("/runs", json={"document": MANY}, headers=GZIP)

    assert "content-encoding" not in headers
    assert len(started.content) > 2_000
    assert "content-encoding" not in started.headers


async def test_a_stream_is_not_compressed(serve: Serve) -> None:
    async with serve() as site:
        run = await site.start(SHORT)
        await site.app.wait(run)
        accept = {"accept": "text/event-stream", **GZIP}
        headers, data = await raw(site, f"/runs/{run}/events", accept)

    assert "content-encoding" not in headers
    assert b"event: run.completed" in data


async def test_events_come_in_pages_that_fit_together(serve: Serve) -> None:
    async with serve() as site:
        run = await site.start(MANY)
        await site.app.wait(run)
        whole = await site.get(f"/runs/{run}/events?limit=10000")
        parts: list[Any] = []
        cursor = ""
        while True:
            page = await site.get(f"/runs/{run}/events?limit=7{cursor}")
            parts += page["items"]
            if page["next"] is None:
                break
            cursor = f"&cursor={page['next']}"
        waiting = await site.start(WAITING, {"number": 1})
        beyond = await site.get(f"/runs/{waiting}/events?after=1000")

    assert parts == whole["items"]
    assert len(parts) > 40
    assert whole["next"] is None
    assert (beyond["items"], beyond["next"]) == ([], None)
