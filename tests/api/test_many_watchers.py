"""A thousand watchers of live runs at one server."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.parse import urlsplit

from minuet.api.front import Limits
from minuet.store.memory import MemoryStore

from ..waiting import until
from .conftest import Serve
from .test_runs import WAITING

RUNS = 20
WATCHERS = 1_000

#: Every tenth of them watches all runs.
TAILS = WATCHERS // 10


class CountingStore(MemoryStore):
    """A store that counts how often events are read."""

    reads = 0

    async def read_feed(self, *arguments: Any, **options: Any) -> Any:
        self.reads += 1
        return await super().read_feed(*arguments, **options)

    async def read_events(self, *arguments: Any, **options: Any) -> Any:
        self.reads += 1
        return await super().read_events(*arguments, **options)


class Socket:
    """A client of a stream on a socket of its own, which connects again when it is cut off."""

    def __init__(self, url: str, path: str) -> None:
        self._address = urlsplit(url)
        self._path = path
        self.position = ""
        self.seen: list[tuple[str, int]] = []
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter

    async def connect(self) -> None:
        host, port = self._address.hostname, self._address.port
        # Little room, so that the server meets a client that does not read.
        self._reader, self._writer = await asyncio.open_connection(host, port, limit=4096)
        resumed = f"Last-Event-ID: {self.position}\r\n" if self.position else ""
        self._writer.write(
            f"GET {self._path} HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n"
            f"{resumed}\r\n".encode()
        )
        status = await self._reader.readline()
        assert b" 200 " in status, status
        while b"retry:" not in await self._reader.readline():
            pass

    def cut(self) -> None:
        self._writer.transport.abort()

    async def read(self, count: int) -> None:
        """Read until it has seen as many events."""
        data, position = None, ""
        while len(self.seen) < count:
            line = await self._line()
            if line.startswith("id: "):
                position = line[4:]
            elif line.startswith("data: "):
                data = json.loads(line[6:])
            elif line == "" and position:
                # A client takes the id when the event is complete.
                self.position, position = position, ""
                if data is not None:
                    self.seen.append((data.get("run_id", ""), data["seq"]))
                    data = None

    async def _line(self) -> str:
        parts = []
        while True:
            try:
                line = await self._reader.readuntil(b"\n")
            except asyncio.LimitOverrunError as full:
                parts.append(await self._reader.read(full.consumed))
                continue
            return b"".join([*parts, line]).decode().rstrip("\r\n")


async def test_a_thousand_watchers_see_every_event_in_order_and_cost_one_reader(
    serve: Serve,
) -> None:
    store = CountingStore()
    async with serve(store, limits=Limits(waiting=2 * WATCHERS)) as site:
        tails = [Socket(site.url, "/api/v1/events") for _ in range(TAILS)]
        await asyncio.gather(*(one.connect() for one in tails))
        runs = [await site.start(WAITING, {"number": n}) for n in range(RUNS)]
        of_runs = [
            Socket(site.url, f"/api/v1/runs/{runs[n % RUNS]}/events")
            for n in range(WATCHERS - TAILS)
        ]
        for number in range(0, len(of_runs), 50):
            await asyncio.gather(*(one.connect() for one in of_runs[number : number + 50]))
        watchers = [*of_runs, *tails]

        async def all_watch() -> bool:
            return site.api.shared.feeds.watchers == WATCHERS

        await until(store, all_watch)
        # All have read what was there before they came.
        await asyncio.gather(*(one.read(2) for one in watchers))
        store.reads = 0

        # Every third one is cut off, and something happens before it comes back.
        again = watchers[::3]
        for one in again:
            one.cut()
        for run in runs:
            await site.post(f"/runs/{run}/pause")
            await site.post(f"/runs/{run}/resume")
        for number in range(0, len(again), 50):
            await asyncio.gather(*(one.connect() for one in again[number : number + 50]))
        for run in runs:
            await site.post(f"/runs/{run}/signals/go")
        for run in runs:
            await site.app.wait(run)
        ends = {run: (await site.app.runs.get(run)).seq for run in runs}
        total = sum(ends.values())
        await asyncio.gather(
            *(one.read(ends[runs[n % RUNS]]) for n, one in enumerate(of_runs)),
            *(one.read(total) for one in tails),
        )
        reads = store.reads
        for one in watchers:
            one.cut()

    for number, one in enumerate(of_runs):
        assert [seq for _, seq in one.seen] == list(range(1, ends[runs[number % RUNS]] + 1))
    for one in tails:
        seen: dict[str, list[int]] = {}
        for run, seq in one.seen:
            seen.setdefault(run, []).append(seq)
        assert seen == {run: list(range(1, end + 1)) for run, end in ends.items()}
    # The hub reads each event once, alone or with others. Those who came back found theirs there.
    # `wait` reads the history of a run.
    assert reads <= total + 2 * RUNS < WATCHERS
