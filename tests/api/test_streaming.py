"""Server-sent events: gapless, in order, resumable, and one reader for many watchers."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest

import minuet
from minuet.api.front import Limits
from minuet.app import log_feeds, logs
from minuet.worker import log_keeping

from ..waiting import until, until_waiting
from .conftest import Serve, Site
from .test_runs import SHORT, WAITING

STREAM = {"Accept": "text/event-stream"}


class Watcher:
    """A client of a stream, which reads when it is told to."""

    def __init__(self, answer: httpx2.Response) -> None:
        self.answer = answer
        self._lines = answer.aiter_lines()
        self.seen: list[dict[str, Any]] = []
        self.comments: list[str] = []

    async def next(self) -> dict[str, Any] | None:
        """The next event; None: the stream has ended."""
        fields: dict[str, str] = {}
        async for line in self._lines:
            if line.startswith(":"):
                self.comments.append(line)
                return {}
            if line:
                name, _, value = line.partition(": ")
                fields[name] = value
            elif "data" in fields:
                event: dict[str, Any] = json.loads(fields["data"])
                assert fields["id"] == str(event["seq"])
                assert fields["event"] == event["type"]
                self.seen.append(event)
                return event
        return None

    async def until_seq(self, seq: int) -> None:
        while not self.seen or self.seen[-1]["seq"] < seq:
            assert await self.next() is not None

    async def rest(self) -> list[dict[str, Any]]:
        while await self.next() is not None:
            pass
        return self.seen


@asynccontextmanager
async def watch(
    site: Site, run: str, query: str = "", *, seen: int | None = None
) -> AsyncIterator[Watcher]:
    """Watch a run; `seen` is the event that was seen last."""
    headers = STREAM if seen is None else {**STREAM, "Last-Event-ID": str(seen)}
    path = f"/runs/{run}/events{query}"
    async with site.client.stream("GET", path, headers=headers) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield Watcher(answer)


async def test_a_watcher_gets_every_event_until_the_run_is_over(serve: Serve) -> None:
    async with serve() as site:
        run = await site.start(WAITING, {"number": 2})
        async with watch(site, run) as watcher:
            await watcher.until_seq(3)
            await site.post(f"/runs/{run}/signals/go")
            seen = await watcher.rest()
        stored = (await site.get(f"/runs/{run}/events"))["items"]

    assert seen == stored
    assert seen[-1]["type"] == "run.completed"
    assert [event["cause"] for event in seen][:2] == [None, 1]


async def test_a_watcher_that_comes_back_misses_nothing(serve: Serve) -> None:
    async with serve() as site:
        run = await site.start(WAITING, {"number": 2})
        async with watch(site, run) as watcher:
            await watcher.until_seq(2)
            first = list(watcher.seen)
        await site.post(f"/runs/{run}/signals/go")
        await site.app.wait(run)
        async with watch(site, run, seen=first[-1]["seq"]) as watcher:
            rest = await watcher.rest()
        stored = (await site.get(f"/runs/{run}/events"))["items"]
        async with watch(site, run, "?after=2") as watcher:
            again = await watcher.rest()

    assert first + rest == stored
    assert again == stored[2:]


async def test_who_has_seen_everything_of_a_run_that_is_over_is_told_so(serve: Serve) -> None:
    async with serve() as site:
        run = await site.start(SHORT)
        await site.app.wait(run)
        seq = (await site.get(f"/runs/{run}"))["seq"]
        done = await site.client.get(
            f"/runs/{run}/events", headers={**STREAM, "Last-Event-ID": str(seq)}
        )
        wrong = await site.get(f"/runs/{run}/events", 422, headers={**STREAM, "Last-Event-ID": "x"})
        unknown = await site.get("/runs/nothing/events", 404, headers=STREAM)

    assert (done.status_code, done.content) == (204, b"")
    assert "Last-Event-ID" in wrong["detail"]
    assert unknown["code"] == "run-not-found"


@pytest.mark.parametrize("kept", [1_000, 2])
async def test_many_watchers_share_one_reader_of_the_store(serve: Serve, kept: int) -> None:
    async with serve(limits=Limits(kept_events=kept)) as site:
        run = await site.start(WAITING, {"number": 2})
        await until_waiting(site.app.store, "signal")
        feeds = site.api.shared.feeds
        async with watch(site, run) as one, watch(site, run) as two, watch(site, run) as three:
            await asyncio.gather(one.until_seq(3), two.until_seq(1))
            at_once = (len(feeds), feeds.watchers)
            await site.post(f"/runs/{run}/signals/go")
            # The third one has read nothing so far.
            seen = [await watcher.rest() for watcher in (one, two, three)]
        stored = (await site.get(f"/runs/{run}/events"))["items"]

        async def nobody() -> bool:
            return len(feeds) == 0

        await until(site.app.store, nobody)

    assert at_once == (1, 3)
    assert seen == [stored, stored, stored]


async def test_a_stream_that_is_silent_says_that_it_is_there(serve: Serve) -> None:
    async with serve(limits=Limits(keep_alive_s=0.01)) as site:
        run = await site.start(WAITING, {"number": 2})
        async with watch(site, run) as watcher:
            while not watcher.comments:
                await watcher.next()

    assert watcher.comments == [": still here"]


async def test_more_watchers_than_the_limit_are_asked_to_wait(serve: Serve) -> None:
    async with serve(limits=Limits(waiting=1)) as site:
        run = await site.start(WAITING, {"number": 2})
        async with watch(site, run) as watcher:
            await watcher.next()
            refused = await site.get(f"/runs/{run}/events", 429, headers=STREAM)

    assert refused["code"] == "too-many-requests"


async def test_a_server_that_stops_ends_its_streams(serve: Serve) -> None:
    async with serve() as site:
        run = await site.start(WAITING, {"number": 2})
        async with watch(site, run) as watcher:
            await watcher.next()
            site.api.begin_closing()
            seen = await watcher.rest()

    assert seen
    assert seen[-1]["type"] != "run.completed"


async def test_the_events_of_every_store_are_streamed(serve: Serve, store_url: str) -> None:
    async with serve(store_url) as site:
        run = await site.start(WAITING, {"number": 2})
        async with watch(site, run) as watcher:
            await watcher.until_seq(2)
            await site.post(f"/runs/{run}/signals/go")
            seen = await watcher.rest()
        stored = (await site.get(f"/runs/{run}/events"))["items"]

    assert seen == stored


@minuet.task
async def stream_talk(ctx: minuet.Context) -> None:
    ctx.log.info("first")
    await GATES["talk"].wait()
    ctx.log.warning("last")


#: An event belongs to the loop of its test.
GATES: dict[str, asyncio.Event] = {}
TALK = {
    "name": "talk",
    "nodes": [{"id": "talk", "handler": "stream_talk"}, {"id": "quiet", "type": "noop"}],
}


async def test_lines_are_streamed_and_none_is_missed(serve: Serve) -> None:
    """A line that comes again has its id; the last id says that there are no more."""
    GATES["talk"] = asyncio.Event()
    async with serve(handlers=sys.modules[__name__]) as site:
        run = await site.start(TALK)
        path = f"/runs/{run}/logs"
        async with site.client.stream("GET", f"{path}?node=talk", headers=STREAM) as answer:
            begun = await read_lines(answer, 1)
        GATES["talk"].set()
        seen = {**STREAM, "Last-Event-ID": begun[-1][0]}
        async with site.client.stream("GET", path, headers=seen) as answer:
            rest = await read_lines(answer)
        over = {**STREAM, "Last-Event-ID": rest[-1][0]}
        done = await site.client.get(path, headers=over)
        quiet = await site.client.get(f"{path}?node=quiet", headers=STREAM)
        unknown = await site.get(f"{path}?node=nobody", 404, headers=STREAM)
        wrong = await site.get(path, 422, headers={**STREAM, "Last-Event-ID": "x"})
        kept = (await site.get(path))["items"]
        watchers = site.api.shared.feeds.watchers

    lines = dict(begun + rest)
    assert [line["text"] for line in lines.values() if line] == ["first", "last"]
    assert [line for line in lines.values() if line] == kept
    assert (begun[0][0], rest[-1][1]) == (rest[0][0], None)
    assert (done.status_code, quiet.text.count("data:")) == (204, 0)
    assert (unknown["code"], "last-event-id" in wrong["detail"].lower()) == ("node-not-found", True)
    assert watchers == 0


async def test_many_who_watch_lines_share_one_look_at_the_store(serve: Serve) -> None:
    GATES["talk"] = asyncio.Event()
    async with serve(handlers=sys.modules[__name__]) as site, contextlib.AsyncExitStack() as stack:
        run = await site.start(TALK)
        feeds = site.api.shared.feeds
        answers = []
        for query in ("", "?node=talk", "?node=quiet", "?node=talk", ""):
            opened = site.client.stream("GET", f"/runs/{run}/logs{query}", headers=STREAM)
            answers.append(await stack.enter_async_context(opened))

        async def all_watch() -> bool:
            return feeds.watchers == len(answers)

        await until(site.app.store, all_watch)
        shared = [feed.watchers for feed in feeds._log_feeds.values()]
        GATES["talk"].set()
        lines = [dict(await read_lines(one)) for one in answers]
        await stack.aclose()

    texts = [[line["text"] for line in one.values() if line] for one in lines]
    assert shared == [5]
    assert texts == [["first", "last"], ["first", "last"], [], ["first", "last"], ["first", "last"]]
    assert (feeds.watchers, len(feeds._log_feeds)) == (0, 0)


@minuet.task
async def stream_count(ctx: minuet.Context) -> None:
    for number in range(5):
        ctx.log.info("%d", number)
        await COUNTS[0].get()


COUNTS: list[asyncio.Queue[None]] = []
COUNTING = {"name": "counting", "nodes": [{"id": "count", "handler": "stream_count"}]}


async def test_a_slow_watcher_of_lines_reads_what_is_not_kept_for_it(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_feeds, "KEPT_MAX", 1)
    monkeypatch.setattr(logs, "POLL_MS", 10)
    monkeypatch.setattr(log_keeping, "COLLECT_S", 0.001)
    COUNTS[:] = [asyncio.Queue()]
    seen: list[str] = []
    async with serve(handlers=sys.modules[__name__]) as site:
        run, runs = await site.start(COUNTING), site.app.runs
        log = await logs.open_log(runs, run)
        with site.api.shared.feeds.watch_logs(site.app.tenant, runs, run, log) as watch:
            seen += [line.text for _, line in await watch.next(10) or ()]
            for _ in range(4):
                ends = watch.feed.end
                COUNTS[0].put_nowait(None)

                async def is_found(ends: int = ends) -> bool:
                    return watch.feed.end > ends

                await until(site.app.store, is_found)
            dropped = watch.feed.first
            COUNTS[0].put_nowait(None)
            while (lines := await watch.next(10)) is not None:
                seen += [line.text for _, line in lines]

    assert dropped >= 3
    assert seen == ["0", "1", "2", "3", "4"]


async def read_lines(answer: httpx2.Response, count: int = 0) -> list[tuple[str, Any]]:
    """So many lines with their ids, or all until the stream ends, and ids without a line."""
    found: list[tuple[str, Any]] = []
    fields: dict[str, str] = {}
    async for text in answer.aiter_lines():
        if text:
            name, _, value = text.partition(": ")
            fields[name] = value
            continue
        if "id" in fields:
            found.append((fields["id"], json.loads(fields.get("data", "null"))))
        fields = {}
        if count and len(found) == count:
            break
    return found
