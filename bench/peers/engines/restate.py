"""Restate: its server (an npm package), a Python service in two granian processes, HTTP."""

from __future__ import annotations

import asyncio
import json
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import aiohttp
import restate
import uvloop

from bench.peers.harness import Engine, Options, Timed, check
from bench.peers.processes import HOST, Program, answers, free_port, says

bench = restate.Service("bench")


async def step(i: int) -> dict[str, int]:
    return {"i": i}


@bench.handler()
async def chain(ctx: restate.Context, length: int) -> dict[str, int]:
    result = {}
    for i in range(length):
        result = await ctx.run_typed("step", step, i=i)
    return result


@bench.handler()
async def fan(ctx: restate.Context, width: int) -> dict[str, int]:
    await ctx.run_typed("first", step, i=0)
    middle = [ctx.run_typed(f"m{i}", step, i=i) for i in range(width)]
    results = [await one for one in await restate.gather(*middle)]
    return await ctx.run_typed("last", step, i=len(results))


app = restate.app([bench])


@contextmanager
def open_engine(options: Options) -> Iterator[Engine]:
    with (
        open_servers(options) as url,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        session = runner.run(new_session(f"{url}/"))
        try:
            yield client(session, runner)
        finally:
            runner.run(session.close())


@contextmanager
def open_servers(options: Options) -> Iterator[str]:
    """The service and the server; the address of its ingress."""
    ingress, admin, fabric, port = (free_port() for _ in range(4))
    address = ["--host", HOST, "--port", str(port), "--http", "2"]
    workers = ["--workers", "2", "--interface", "asgi", "--loop", "uvloop"]
    service = Program(
        options.path / "service",
        [sys.executable, "-m", "granian", *address, *workers, "bench.peers.engines.restate:app"],
        says("Started worker", 2),
    )
    found = sorted(Path(options.tools).glob("node_modules/@restatedev/*/bin/restate-server"))
    server = Program(
        options.path / "server",
        [str(found[0]), "--base-dir", str(options.path / "data")],
        answers(f"http://{HOST}:{admin}/health"),
        {
            "RESTATE_INGRESS__BIND_ADDRESS": f"{HOST}:{ingress}",
            "RESTATE_ADMIN__BIND_ADDRESS": f"{HOST}:{admin}",
            "RESTATE_BIND_ADDRESS": f"{HOST}:{fabric}",
            "RESTATE_ADVERTISED_ADDRESS": f"http://{HOST}:{fabric}/",
            "RESTATE_AUTO_PROVISION": "true",
            "RESTATE_LOG_FILTER": "warn",
            "RESTATE_DISABLE_TELEMETRY": "true",
            "DO_NOT_TRACK": "1",
        },
    )
    try:
        service.start()
        server.start()
        register(admin, port)
        yield f"http://{HOST}:{ingress}"
    finally:
        server.stop()
        service.stop()


def register(admin: int, port: int) -> None:
    request = urllib.request.Request(
        f"http://{HOST}:{admin}/deployments",
        json.dumps({"uri": f"http://{HOST}:{port}"}).encode(),
        {"content-type": "application/json"},
    )
    urllib.request.urlopen(request, timeout=30).close()


async def new_session(url: str) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(url, connector=aiohttp.TCPConnector(limit=0))


def client(session: aiohttp.ClientSession, runner: asyncio.Runner) -> Timed:
    async def call(handler: str, number: int, expected: int) -> None:
        async with session.post(f"bench/{handler}", json=number) as response:
            check(await response.json(), {"i": expected})

    async def run_chain(length: int) -> None:
        await call("chain", length, length - 1)

    async def run_fan(width: int) -> None:
        await call("fan", width, width)

    return Timed(run_chain, run_fan, runner)
