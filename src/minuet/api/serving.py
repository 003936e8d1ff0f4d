"""Run the API on a socket, until it is stopped."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator

import uvicorn

from minuet.api.application import Api
from minuet.api.connections import ConnectionLimits, Held, protocol_for
from minuet.api.local import is_loopback
from minuet.errors import ConfigError

#: How long requests that are being answered may take when the server stops.
GRACE_S = 10

#: Connections that wait to be accepted.
BACKLOG = 2048


def bind(host: str, port: int) -> socket.socket:
    """A socket at this address; port 0 is any free one. ConfigError if it cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Named as TCP, or asyncio leaves Nagle's algorithm on: each answer would wait 40 ms.
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host.strip("[]"), port))
    except OSError as error:
        made.close()
        raise ConfigError(
            f"port {port} of {host} cannot be used: {error.strerror or error}; choose another one "
            "with --port, or stop what uses it"
        ) from None
    return made


def url_of(sock: socket.socket, host: str) -> str:
    """Where the server is reached."""
    name = f"[{host.strip('[]')}]" if ":" in host else host
    if not is_loopback(host) and name in ("0.0.0.0", "[::]"):
        name = socket.gethostname()
    return f"http://{name}:{sock.getsockname()[1]}"


class _Server(uvicorn.Server):
    """Says when it accepts requests, and leaves signals to its process."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.is_ready = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.is_ready.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextlib.asynccontextmanager
async def serving(
    api: Api,
    sock: socket.socket,
    limits: ConnectionLimits | None = None,
    held: Held | None = None,
) -> AsyncIterator[None]:
    """Serve while the block lasts. Then no request is taken any more, those that wait are ended,
    and the others are answered."""
    limits = limits or ConnectionLimits(body_bytes=api.shared.limits.body_bytes)
    config = uvicorn.Config(
        api,
        http=protocol_for(limits, held or Held()),
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        ws="none",
        backlog=BACKLOG,
        timeout_graceful_shutdown=GRACE_S,
    )
    server = _Server(config)
    task = asyncio.get_running_loop().create_task(server.serve([sock]))
    try:
        await server.is_ready.wait()
        api.begin()
        yield
    finally:
        api.begin_closing()
        server.should_exit = True
        await task
        await api.close()
