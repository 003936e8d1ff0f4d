"""Runs over HTTP, beside other engines: `python -m bench.http_peers [--seconds 10] [--only …]`.

Each engine runs as its documentation shows it, as a service that a program in any language calls.
A run has one step, whose result is durable before the run ends:

* starts: how many runs 16 clients start in a second, each sending the next one when it is answered
* end to end: how many runs they see to their end in a second; and at half of that rate, the time
  from the request until the client has seen the end

DBOS and Restate answer a request when the run has ended. With Minuet the client follows the run by
its events, and with Prefect it asks for the state every 50 ms: they have no such request.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import socket
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

from bench.http import CLIENTS, ONE, Client, run_one, server, shown, start_one, worker
from bench.peers.environments import CannotInstall, environment_of
from bench.places import ROOT, open_place
from bench.rates import closed, paced
from minuet.app.app import App

Call = Callable[[Client], Awaitable[None]]

#: The engine, its database, and what it is called in the answer.
SYSTEMS = {
    "minuet sqlite": ("minuet", "sqlite"),
    "minuet postgres": ("minuet", "postgres"),
    "restate": ("restate", ""),
    "dbos sqlite": ("dbos", ""),
    "dbos postgres": ("dbos", "postgres"),
    "prefect sqlite": ("prefect", ""),
    "prefect postgres": ("prefect", "postgres"),
}


def expect(status: int, *good: int) -> None:
    if status not in good:
        raise AssertionError(f"answered {status}")


# ── what a client does ──────────────────────────────────────────────────────────────────────


async def restate_start(client: Client) -> None:
    expect((await client.call("/bench/chain/send", 1, JSON))[0], 200, 202)


async def restate_run(client: Client) -> None:
    expect((await client.call("/bench/chain", 1, JSON))[0], 200)


async def dbos_start(client: Client) -> None:
    expect((await client.call("/start?length=1"))[0], 201)


async def dbos_run(client: Client) -> None:
    expect((await client.call("/run?length=1"))[0], 200)


JSON = "Content-Type: application/json"
POLL_S = 0.05
LISTEN_S = 30.0


class Prefect:
    """Knows the deployment."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._path = ""

    async def _create(self, client: Client) -> str:
        if not self._path:
            name = "/api/deployments/name/chain/bench"
            _, found = await client.call(name, method="GET")
            self._path = f"/api/deployments/{json.loads(found)['id']}/create_flow_run"
        status, found = await client.call(self._path, {"parameters": {"length": 1}}, JSON)
        expect(status, 201)
        run: str = json.loads(found)["id"]
        return run

    async def start(self, client: Client) -> None:
        await self._create(client)

    async def run(self, client: Client) -> None:
        run = await self._create(client)
        while True:
            _, found = await client.call(f"/api/flow_runs/{run}", method="GET")
            kind = json.loads(found)["state_type"]
            if kind == "COMPLETED":
                return
            assert kind in ("SCHEDULED", "PENDING", "RUNNING"), kind
            await asyncio.sleep(POLL_S)


# ── its services ────────────────────────────────────────────────────────────────────────────


@contextlib.contextmanager
def service(engine: str, url: str) -> Iterator[str]:
    """A service of another engine; its address."""
    environment = environment_of(engine)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        made = subprocess.Popen(
            [
                *(environment.python, "-m", f"bench.peers.services.{engine}"),
                *(folder, url, environment.tools),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        )
        assert made.stdout is not None
        try:
            said = made.stdout.readline().strip()
            if not said:
                raise CannotInstall(f"{engine} has not started")
            wait_for(said)
            yield said
        finally:
            made.communicate()


def wait_for(url: str) -> None:
    """Until something listens there."""
    parts = urlsplit(url)
    until = time.monotonic() + LISTEN_S
    while True:
        with contextlib.suppress(OSError):
            socket.create_connection((parts.hostname, parts.port or 80), 1).close()
            return
        if time.monotonic() > until:
            raise CannotInstall(f"nothing answers at {url}")
        time.sleep(0.05)


@contextlib.asynccontextmanager
async def opened(name: str) -> AsyncIterator[tuple[str, Call, Call]]:
    """The address of a system, and how a run of it is started, and seen to its end."""
    engine, kind = SYSTEMS[name]
    with contextlib.ExitStack() as stack:
        place = stack.enter_context(open_place(kind)) if kind else None
        url = "" if place is None else place.url()
        if engine == "minuet":
            async with App(url, worker=False) as app:
                await app.workflows.deploy(ONE)
            where, _ = stack.enter_context(server(url))
            stack.enter_context(worker(url))
            yield where, start_one, run_one
            return
        # Other engines do not know what is behind the name of the database.
        where = stack.enter_context(service(engine, url.partition("?")[0]))
        if engine == "prefect":
            prefect = Prefect(where)
            yield where, prefect.start, prefect.run
        elif engine == "restate":
            yield where, restate_start, restate_run
        else:
            yield where, dbos_start, dbos_run


async def measure(name: str, seconds: float) -> dict[str, Any]:
    async with opened(name) as (url, start, run):
        clients = [Client(url) for _ in range(64)]
        await closed(clients[:CLIENTS], seconds / 5, run)
        full = await closed(clients[:CLIENTS], seconds, run)
        took, wrong = await paced(clients, max(full / 2, 0.5), seconds, run)
        found = {
            "runs_per_s": round(full, 1),
            "end_to_end": {**shown(took), "per_s": round(full / 2, 1), "wrong": wrong},
            # Last: what it starts may still be at work.
            "starts_per_s": round(await closed(clients[:CLIENTS], seconds, start), 1),
        }
        for client in clients:
            client.close()
        return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--only", default=",".join(SYSTEMS), help="such as: minuet sqlite,restate")
    arguments = parser.parse_args()
    for name in arguments.only.split(","):
        try:
            found = asyncio.run(measure(name, arguments.seconds))
        except CannotInstall as error:
            found = {"cannot": str(error)}
        print(json.dumps({name: found}), flush=True)


if __name__ == "__main__":
    main()
