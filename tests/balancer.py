"""A small balancer, as people put one before servers.

    balancer = await Balancer.to([first_port, second_port])
    balancer.url                      # new connections go round among the servers that are ready
    balancer.sticky_url               # all of them lead to one server, as long as it is ready

It asks each server for `/health/ready`, again and again. One that does not answer 200 gets no new
connections, and those that it has are cut.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Self

HOST = "127.0.0.1"

#: How often servers are asked, and how long they may take to answer.
PACE_S = 0.05
PATIENCE_S = 5.0


class Balancer:
    """Passes connections on to servers that are ready."""

    def __init__(self, ports: list[int]) -> None:
        self._ports = ports
        self._ready: set[int] = set()
        self._turn = 0
        #: How many connections each server has got.
        self.passed = dict.fromkeys(ports, 0)
        self._pipes: dict[asyncio.Task[None], int] = {}

    @classmethod
    async def to(cls, ports: list[int]) -> Self:
        made = cls(ports)
        made._servers = [
            await asyncio.start_server(lambda r, w: made._accept(r, w, made._next()), HOST, 0),
            await asyncio.start_server(lambda r, w: made._accept(r, w, made._same()), HOST, 0),
        ]
        made.url, made.sticky_url = (
            f"http://{HOST}:{one.sockets[0].getsockname()[1]}" for one in made._servers
        )
        await asyncio.gather(*map(made._look, ports))
        made._looking = [asyncio.ensure_future(made._keep_looking(port)) for port in ports]
        return made

    _servers: list[asyncio.Server]
    _looking: list[asyncio.Task[None]]
    url: str
    sticky_url: str

    async def close(self) -> None:
        for server in self._servers:
            server.close()
        tasks = [*self._looking, *self._pipes]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _next(self) -> int | None:
        ready = sorted(self._ready)
        self._turn += 1
        return ready[self._turn % len(ready)] if ready else None

    def _same(self) -> int | None:
        return min(self._ready, default=None)

    async def _keep_looking(self, port: int) -> None:
        while True:
            await self._look(port)
            await asyncio.sleep(PACE_S)

    async def _look(self, port: int) -> None:
        if await _is_ready(port):
            self._ready.add(port)
        elif port in self._ready:
            self._ready.discard(port)
            for task, where in list(self._pipes.items()):
                if where == port:
                    task.cancel()

    async def _accept(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int | None
    ) -> None:
        task = asyncio.current_task()
        assert task is not None
        with contextlib.closing(writer), contextlib.suppress(OSError, asyncio.CancelledError):
            if port is None:
                return
            there, to = await asyncio.open_connection(HOST, port)
            self.passed[port] += 1
            self._pipes[task] = port
            try:
                with contextlib.closing(to):
                    ways = [asyncio.ensure_future(_pipe(reader, to))]
                    ways.append(asyncio.ensure_future(_pipe(there, writer)))
                    try:
                        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
                    finally:
                        for way in ways:
                            way.cancel()
            finally:
                del self._pipes[task]


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()


async def _is_ready(port: int) -> bool:
    try:
        async with asyncio.timeout(PATIENCE_S):
            reader, writer = await asyncio.open_connection(HOST, port)
            with contextlib.closing(writer):
                writer.write(b"GET /health/ready HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
                return (await reader.readline()).split(b" ")[1:2] == [b"200"]
    except (OSError, TimeoutError):
        return False
