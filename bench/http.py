"""What the HTTP API costs: `python -m bench.http [--stores sqlite,postgres] [--hold 60]`.

For each store, a server and a worker run as processes of their own, as users start them, and this
process is the client:

* starts: `POST /api/v1/runs` by 16 clients that send the next one when they have an answer; the CPU
  of the server
* alone: one client, beside the same start without HTTP in this process
* end to end: runs of one node, from the request until the client has seen the end, at half of the
  rate at which they can be completed
* steady: so many starts in a second, for a while; how many were not answered with 201
* workers: nodes in a second by one worker that uses the store, and by one over HTTP
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bench.peers.processes import processor_s
from bench.places import open_place
from bench.rates import closed, paced
from minuet.app.app import App

ROOT = Path(__file__).resolve().parent.parent
CLIENTS = 16
ONE = {"name": "one", "nodes": [{"id": "n", "handler": "step"}]}
LENGTH = 10
CHAIN = {
    "name": "chain",
    "nodes": [
        {"id": f"n{i}", "handler": "step", "dependencies": [f"n{i - 1}"] if i else []}
        for i in range(LENGTH)
    ],
}


class Client:
    """One connection that is kept, with as little of its own as possible: it shares the cores with
    what is measured."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._address = (parts.hostname or "", parts.port or 0)
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def call(
        self, path: str, body: Any = None, *headers: str, method: str = "POST"
    ) -> tuple[int, bytes]:
        """Status and body of an answer."""
        if self._streams is None or self._streams[0].at_eof():
            self._streams = await asyncio.open_connection(*self._address)
        reader, writer = self._streams
        data = b"" if body is None else json.dumps(body).encode()
        lines = [f"{method} {path} HTTP/1.1", "Host: localhost", *headers]
        lines.append(f"Content-Length: {len(data)}")
        writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + data)
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        status = int(head.split(b" ", 2)[1])
        if b"transfer-encoding: chunked" in head:
            found = b""
            while size := int(await reader.readline(), 16):
                found += (await reader.readexactly(size + 2))[:-2]
            await reader.readline()
            return status, found
        length = int(head.split(b"content-length: ", 1)[1].split(b"\r\n", 1)[0])
        return status, await reader.readexactly(length)

    async def start(self, workflow: str) -> tuple[int, str]:
        """Start a run; status and id."""
        status, body = await self.call("/api/v1/runs", {"workflow": workflow, "inputs": {"a": 1}})
        return status, json.loads(body)["run_id"] if status == 201 else ""

    async def wait(self, run: str) -> None:
        """Until the run is over, as its stream of events says."""
        await self.call(f"/runs/{run}/events", None, "Accept: text/event-stream", method="GET")

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()


@contextlib.contextmanager
def process(*arguments: str, store: str) -> Iterator[subprocess.Popen[str]]:
    made = subprocess.Popen(
        [sys.executable, *arguments],
        stdout=subprocess.PIPE,
        text=True,
        cwd=tempfile.mkdtemp(),
        env={**os.environ, "MINUET_STORE": store, "PYTHONPATH": str(ROOT)},
    )
    try:
        yield made
    finally:
        made.terminate()
        made.communicate()


@contextlib.contextmanager
def server(store: str) -> Iterator[tuple[str, int]]:
    """A server: its URL and its process."""
    with process("-m", "minuet", "server", "--port", "0", "--json", store=store) as made:
        assert made.stdout is not None
        yield json.loads(made.stdout.readline())["url"], made.pid


@contextlib.contextmanager
def worker(store: str) -> Iterator[None]:
    """A worker that uses the store, once it works."""
    command = ("-m", "minuet", "worker", "--handlers", "bench.case", "--json")
    with process(*command, store=store) as made:
        assert made.stdout is not None
        made.stdout.readline()
        yield


@contextlib.contextmanager
def remote_worker(url: str) -> Iterator[None]:
    """A worker over HTTP."""
    with process("-m", "bench.http", "--work", url, store="") as made:
        assert made.stdout is not None
        made.stdout.readline()
        yield


async def work(url: str) -> None:
    """Be a worker over HTTP whose handlers do nothing."""
    client = Client(url)
    asked = {"executors": ["step"], "concurrency": 64}
    made = json.loads((await client.call("/api/v1/workers", asked))[1])
    print("ready", flush=True)
    done: list[dict[str, Any]] = []
    for seq in itertools.count(1):
        body = {"seq": seq, "done": done, "take": 64, "wait_ms": 20_000}
        _, data = await client.call(f"/api/v1/workers/{made['worker_id']}/exchange", body)
        done = [{"task": one["task"], "result": {"i": 1}} for one in json.loads(data)["tasks"]]


@contextlib.asynccontextmanager
async def clients(url: str, count: int) -> AsyncIterator[list[Client]]:
    made = [Client(url) for _ in range(count)]
    yield made
    for one in made:
        one.close()


def shown(seconds: list[float]) -> dict[str, float]:
    """Median and 99th percentile, in ms."""
    ordered = sorted(seconds)
    return {
        "p50_ms": round(statistics.median(ordered) * 1000, 2),
        "p99_ms": round(ordered[int(len(ordered) * 0.99)] * 1000, 2),
    }


async def start_one(client: Client) -> None:
    status, _ = await client.start("one")
    if status != 201:
        raise AssertionError(f"answered {status}")


async def run_one(client: Client) -> None:
    status, run = await client.start("one")
    if status != 201:
        raise AssertionError(f"answered {status}")
    await client.wait(run)


async def chains(client: Client, count: int) -> float:
    """Nodes in a second."""
    began = time.perf_counter()
    started = [(await client.start("chain"))[1] for _ in range(count)]
    for run in started:
        await client.wait(run)
    return count * LENGTH / (time.perf_counter() - began)


async def measure(store: str, seconds: float, rate: float, hold_s: float) -> dict[str, Any]:
    found: dict[str, Any] = {}
    async with App(store, worker=False) as app:
        for document in (ONE, CHAIN):
            await app.workflows.deploy(document)
        alone = []
        for _ in range(200):
            began = time.perf_counter()
            await app.runs.start("one", {"a": 1})
            alone.append(time.perf_counter() - began)
    with server(store) as (url, pid):
        async with clients(url, CLIENTS) as made:
            await closed(made, 0.5, start_one)
            cpu, began = processor_s(pid), time.perf_counter()
            found["starts_per_s"] = round(await closed(made, seconds, start_one))
            count = found["starts_per_s"] * (time.perf_counter() - began)
            found["server_cpu_ms_per_start"] = round((processor_s(pid) - cpu) / count * 1000, 3)
            over = []
            for _ in range(200):
                began = time.perf_counter()
                await made[0].start("one")
                over.append(time.perf_counter() - began)
            found["alone"] = {"without_http": shown(alone), "http": shown(over)}
            found["added_ms"] = round(
                (statistics.median(over) - statistics.median(alone)) * 1000, 2
            )
        async with clients(url, 200) as made:
            took, wrong = await paced(made, rate, hold_s, start_one)
            found["steady"] = {"per_s": rate, "seconds": hold_s, "wrong": wrong, **shown(took)}
    return found


async def measure_ends(store: str, seconds: float, count: int) -> dict[str, Any]:
    async with App(store, worker=False) as app:
        for document in (ONE, CHAIN):
            await app.workflows.deploy(document)
    with server(store) as (url, _), worker(store):
        async with clients(url, 64) as made:
            await closed(made[:CLIENTS], 0.5, run_one)
            full = await closed(made[:CLIENTS], seconds, run_one)
            took, wrong = await paced(made, full / 2, seconds, run_one)
            native = await chains(made[0], count)
    return {
        "runs_per_s": round(full),
        "wrong": wrong,
        **shown(took),
        "native_nodes_per_s": round(native),
    }


async def measure_remote(store: str, count: int) -> float:
    async with App(store, worker=False) as app:
        await app.workflows.deploy(CHAIN)
    with server(store) as (url, _), remote_worker(url):
        async with clients(url, 1) as made:
            await chains(made[0], count)
            return await chains(made[0], count)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--stores", default="sqlite,postgres")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--rate", type=float, default=1000)
    parser.add_argument("--hold", type=float, default=10, help="seconds of the steady rate")
    parser.add_argument("--chains", type=int, default=100)
    parser.add_argument("--work", metavar="URL", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        asyncio.run(work(arguments.work))
        return
    for kind in arguments.stores.split(","):
        with open_place(kind) as place:
            found = asyncio.run(
                measure(place.url(), arguments.seconds, arguments.rate, arguments.hold)
            )
            found["end_to_end"] = asyncio.run(
                measure_ends(place.url(), arguments.seconds, arguments.chains)
            )
            remote = asyncio.run(measure_remote(place.url(), arguments.chains))
        native = found["end_to_end"]["native_nodes_per_s"]
        found["remote_nodes_per_s"] = round(remote)
        found["remote_of_native"] = round(remote / native, 2)
        print(json.dumps({kind: found}, indent=2), flush=True)


if __name__ == "__main__":
    main()
