"""A network between a client and a server that loses what it is told to lose."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from urllib.parse import urlsplit


class Lossy:
    """Passes on what comes, or loses answers after the server has got the request."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._host, self._port = str(parts.hostname), parts.port or 80
        #: How many answers are lost from now on: the server has done what it was asked.
        self.lose = 0
        #: After how many bytes of an answer the connection breaks; None: never.
        self.cut_after: int | None = None
        #: How long everything takes, in each direction.
        self.delay_s = 0.0
        self.connections = 0
        self.url = ""

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        there, to = await asyncio.open_connection(self._host, self._port)
        asking = asyncio.ensure_future(self._pipe(reader, to))
        passed = 0
        try:
            while piece := await there.read(65_536):
                await asyncio.sleep(self.delay_s)
                if self.lose:
                    self.lose -= 1
                    return
                if self.cut_after is not None and passed + len(piece) > self.cut_after:
                    writer.write(piece[: self.cut_after - passed])
                    await writer.drain()
                    return
                passed += len(piece)
                writer.write(piece)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            asking.cancel()
            for one in (writer, to):
                one.close()

    async def _pipe(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while piece := await reader.read(65_536):
                await asyncio.sleep(self.delay_s)
                writer.write(piece)
                await writer.drain()


@contextlib.asynccontextmanager
async def lossy(url: str) -> AsyncIterator[Lossy]:
    """A network in front of a server."""
    made = Lossy(url)
    server = await asyncio.start_server(made._serve, "127.0.0.1", 0)
    made.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        yield made
