"""A link that can be cut: it stands between a store and its server and passes bytes on.

    proxy = await Proxy.to(port)      # connect to 127.0.0.1:proxy.port instead
    proxy.cut_reply(after=2)          # the third reply from now is lost, and its connection
    proxy.hold()                      # nothing passes any more, and nobody hears why
    proxy.pass_on()
    proxy.move(other_port)            # connections are cut, new ones lead there

A reply that is lost on its way is the case that matters: the server has done what was asked,
and whoever asked cannot know.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import Self

HOST = "127.0.0.1"


class Proxy:
    """Passes connections on to a port of this machine."""

    def __init__(self, upstream: int) -> None:
        self._upstream = upstream
        self._server: asyncio.Server
        self._pipes: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        #: Replies that still pass before one is cut; None: all do.
        self._left: int | None = None
        self._open = asyncio.Event()
        self._open.set()
        #: How many replies were lost.
        self.cuts = 0

    @classmethod
    async def to(cls, upstream: int) -> Self:
        proxy = cls(upstream)
        proxy._server = await asyncio.start_server(proxy._accept, HOST, 0)
        return proxy

    @property
    def port(self) -> int:
        return int(self._server.sockets[0].getsockname()[1])

    def cut_reply(self, after: int = 0) -> None:
        """Lose one reply, once so many have passed."""
        self._left = after

    def hold(self) -> None:
        """Pass nothing on in either direction, and keep all connections."""
        self._open.clear()

    def pass_on(self) -> None:
        """Be an ordinary link again. What was held arrives late."""
        self._left = None
        self._open.set()

    def move(self, upstream: int) -> None:
        """Lead to another port from now on, as a name does that follows the master."""
        self._upstream = upstream
        self.reset()

    def reset(self) -> None:
        """Cut every connection."""
        for writer in list(self._writers):
            _reset(writer)

    async def close(self) -> None:
        self._server.close()
        self._open.set()
        self.reset()
        for pipe in self._pipes:
            pipe.cancel()
        await asyncio.gather(*self._pipes, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            server_reader, server_writer = await asyncio.open_connection(HOST, self._upstream)
        except OSError:
            _reset(writer)
            return
        ends = (writer, server_writer)
        self._writers.update(ends)
        loop = asyncio.get_running_loop()
        pipes = (
            loop.create_task(self._pass(reader, server_writer, ends, is_reply=False)),
            loop.create_task(self._pass(server_reader, writer, ends, is_reply=True)),
        )
        self._pipes.update(pipes)
        for pipe in pipes:
            pipe.add_done_callback(self._pipes.discard)

    async def _pass(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        ends: tuple[asyncio.StreamWriter, asyncio.StreamWriter],
        *,
        is_reply: bool,
    ) -> None:
        try:
            while data := await reader.read(1 << 16):
                await self._open.wait()
                if is_reply and self._is_cut():
                    break
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            for end in ends:
                self._writers.discard(end)
                _reset(end)

    def _is_cut(self) -> bool:
        if self._left is None:
            return False
        if self._left > 0:
            self._left -= 1
            return False
        self._left = None
        self.cuts += 1
        return True


def _reset(writer: asyncio.StreamWriter) -> None:
    """End a connection the hard way: whoever waits at its other end hears of it at once."""
    connection = writer.get_extra_info("socket")
    if connection is not None:
        try:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        except OSError:
            pass
    writer.transport.abort()
