"""The events of all runs of a tenant: as a stream, and as pages."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2

from minuet.api.front import Limits
from minuet.errors import PositionError

from .conftest import Serve, Site
from .test_runs import SHORT, WAITING

STREAM = {"Accept": "text/event-stream"}


class Watcher:
    """A client of the stream, which reads when it is told to."""

    def __init__(self, answer: httpx2.Response) -> None:
        self.answer = answer
        self._lines = answer.aiter_lines()
        self.seen: list[dict[str, Any]] = []
        #: What it would send as `Last-Event-ID`.
        self.position = ""
        self.comments: list[str] = []
        self.retry = ""
        #: Whether the server has said that it stops.
        self.is_stopped = False

    async def next(self) -> dict[str, Any] | None:
        """The next event, or a comment or position as nothing; None: the stream has ended."""
        fields: dict[str, str] = {}
        async for line in self._lines:
            if line.startswith(":"):
                self.comments.append(line)
            elif line:
                name, _, value = line.partition(": ")
                fields[name] = value
            else:
                self.position = fields.get("id", self.position)
                self.retry = fields.get("retry", self.retry)
                if "data" not in fields:
                    self.is_stopped = self.is_stopped or fields.get("event") == "stop"
                    return {}
                event: dict[str, Any] = json.loads(fields["data"])
                event["event"] = fields["event"]
                self.seen.append(event)
                return event
        return None

    async def until_count(self, count: int) -> None:
        while len(self.seen) < count:
            assert await self.next() is not None

    async def rest(self) -> None:
        while await self.next() is not None:
            pass


@asynccontextmanager
async def watch(
    site: Site, query: str = "", *, position: str | None = None
) -> AsyncIterator[Watcher]:
    headers = STREAM if position is None else {**STREAM, "Last-Event-ID": position}
    async with site.client.stream("GET", f"/api/v1/events{query}", headers=headers) as answer:
        assert answer.status_code == 200, await answer.aread()
        watcher = Watcher(answer)
        await watcher.next()
        yield watcher


def numbers(seen: list[dict[str, Any]]) -> dict[str, list[int]]:
    """The numbers of the events of each run, in the order in which they came."""
    found: dict[str, list[int]] = {}
    for event in seen:
        found.setdefault(event["run_id"], []).append(event["seq"])
    return found


async def finish(site: Site, count: int, document: dict[str, Any] = SHORT) -> dict[str, list[int]]:
    """Runs that are over, with the numbers of their events."""
    runs = [await site.start(document) for _ in range(count)]
    for run in runs:
        await site.app.wait(run)
    return {run: list(range(1, (await site.app.runs.get(run)).seq + 1)) for run in runs}


def count_of(expected: dict[str, list[int]]) -> int:
    return sum(map(len, expected.values()))


async def test_a_watcher_gets_the_events_of_all_runs(serve: Serve, store_url: str) -> None:
    async with serve(store_url) as site:
        await finish(site, 1)
        async with watch(site) as watcher:
            expected = await finish(site, 3)
            await watcher.until_count(count_of(expected))
        (run, *_) = expected
        stored = (await site.get(f"/runs/{run}/events"))["items"]

    assert numbers(watcher.seen) == expected
    seen = [event for event in watcher.seen if event["run_id"] == run]
    assert [event["event"] for event in seen] == [event["type"] for event in stored]
    for event, other in zip(seen, stored, strict=True):
        assert {**event, "cause": other["cause"]} == {
            **other,
            "run_id": run,
            "workflow": SHORT["name"],
            "event": other["type"],
        }


async def test_a_watcher_that_comes_back_misses_nothing_and_gets_nothing_twice(
    serve: Serve, store_url: str
) -> None:
    async with serve(store_url) as site:
        async with watch(site) as watcher:
            expected = await finish(site, 2)
            seen: list[dict[str, Any]] = []
            while len(seen) < 3:
                await watcher.until_count(1)
                seen.append(watcher.seen.pop(0))
            position = watcher.position
        expected |= await finish(site, 2)
        total = count_of(expected)
        async with watch(site, position=position) as watcher:
            await watcher.until_count(total - 3)
            seen += watcher.seen

    assert numbers(seen) == expected


async def test_every_position_can_be_resumed(serve: Serve) -> None:
    async with serve() as site:
        async with watch(site) as watcher:
            expected = await finish(site, 2)
            positions: list[str] = []
            for _ in range(count_of(expected)):
                await watcher.until_count(len(positions) + 1)
                positions.append(watcher.position)
        whole = watcher.seen
        for kept in (len(whole), 2):
            site.api.shared.feeds.hub._kept_max = kept
            for place, position in enumerate(positions[:-1], 1):
                async with watch(site, position=position) as watcher:
                    await watcher.until_count(len(whole) - place)
                assert watcher.seen == whole[place:]


async def test_filters_choose_by_workflow_type_and_status(serve: Serve) -> None:
    other = {**SHORT, "name": "other"}
    async with (
        serve() as site,
        watch(site, "?workflow=other") as by_workflow,
        watch(site, "?type=run.started&type=run.completed") as by_type,
        watch(site, "?status=COMPLETED&workflow=other") as by_status,
    ):
        await finish(site, 2)
        expected = await finish(site, 1, other)
        (run,) = expected
        await by_workflow.until_count(count_of(expected))
        await by_type.until_count(6)
        await by_status.until_count(1)

    assert numbers(by_workflow.seen) == expected
    assert {event["type"] for event in by_type.seen} == {"run.started", "run.completed"}
    assert [(event["run_id"], event["type"]) for event in by_status.seen] == [
        (run, "run.completed")
    ]


async def test_a_slow_watcher_reads_from_the_store_what_the_others_have_got(serve: Serve) -> None:
    async with (
        serve(limits=Limits(kept_events=3)) as site,
        watch(site) as fast,
        watch(site) as slow,
    ):
        expected = await finish(site, 5)
        await fast.until_count(count_of(expected))
        expected |= await finish(site, 2)
        await asyncio.gather(
            fast.until_count(count_of(expected)), slow.until_count(count_of(expected))
        )

    assert numbers(fast.seen) == expected
    assert numbers(slow.seen) == expected


async def test_a_silent_stream_says_that_it_is_there_and_where_it_is(serve: Serve) -> None:
    async with serve(limits=Limits(keep_alive_s=0.01)) as site:
        async with watch(site, "?type=nothing") as watcher:
            first = watcher.position
            await finish(site, 1)
            while not watcher.comments or watcher.position == first:
                await watcher.next()
        async with watch(site, position=watcher.position) as again:
            expected = await finish(site, 1)
            await again.until_count(count_of(expected))

    assert watcher.comments[-1] == ": still here"
    assert numbers(again.seen) == expected


async def test_a_server_that_stops_ends_the_stream_with_a_hint(serve: Serve) -> None:
    async with serve() as site, watch(site) as watcher:
        site.api.begin_closing()
        await watcher.rest()

    assert watcher.comments == [": the server stops; connect again"]
    assert (watcher.is_stopped, watcher.retry) == (True, "500")
    assert watcher.seen == []


async def test_an_unknown_position_is_gone(serve: Serve) -> None:
    async with serve() as site:
        refused = await site.get("/events", 410, headers={**STREAM, "Last-Event-ID": "x"})
        page = await site.get("/events?after=x", 410)
        assert site.api.shared.feeds.watchers == 0

    assert refused["code"] == page["code"] == "position-lost"


async def test_a_store_that_has_lost_events_says_so(serve: Serve) -> None:
    async with serve() as site, watch(site) as watcher:
        await watcher.until_count(0)
        site.app.store._feed.begin_again()  # type: ignore[attr-defined]
        await watcher.until_count(1)
        expected = await finish(site, 1)
        await watcher.until_count(1 + count_of(expected))

    assert watcher.seen[0] == {"code": PositionError.code, "event": "reset"}
    assert numbers(watcher.seen[1:]) == expected


async def test_nothing_of_another_tenant_is_seen(serve: Serve) -> None:
    async with serve() as site, watch(site) as watcher:
        other = site.app.for_tenant("other")
        await other.runs.wait((await other.runs.start(SHORT)).id)
        expected = await finish(site, 1)
        await watcher.until_count(count_of(expected))
        page = await site.get(f"/events?after={watcher.position}")

    assert numbers(watcher.seen) == expected
    assert page["items"] == []


async def test_pages_go_on_from_each_other_and_wait(serve: Serve) -> None:
    async with serve() as site:
        begin = await site.get("/events")
        expected = await finish(site, 2)
        seen: list[dict[str, Any]] = []
        position = begin["next"]
        while len(seen) < count_of(expected):
            page = await site.get("/events", params={"after": position, "limit": 3})
            seen += page["items"]
            position = page["next"]
        waiting = asyncio.create_task(
            site.get("/events", params={"after": position, "wait_ms": 30_000})
        )
        run = await site.start(WAITING, {"number": 2})
        (first, *_) = (await waiting)["items"]

    assert begin["items"] == []
    assert numbers(seen) == expected
    assert (first["run_id"], first["seq"]) == (run, 1)


async def test_a_page_that_waits_ends_when_the_server_stops(serve: Serve) -> None:
    async with serve() as site:
        position = (await site.get("/events"))["next"]
        waiting = asyncio.create_task(
            site.get("/events", params={"after": position, "wait_ms": 30_000})
        )
        await asyncio.sleep(0.05)
        site.api.begin_closing()
        assert (await waiting)["next"] == position
