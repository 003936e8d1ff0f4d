"""Connections behind the egress guard, and what their errors mean."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from minuet.errors import EgressError, ServiceError, ServiceRefusedError, ServiceUnavailableError
from minuet.nodes.io.egress import Egress, Resolver

if TYPE_CHECKING:
    import httpcore2

#: Time to find, reach and greet a service.
CONNECT_S = 10.0


def guarded_network(egress: Egress, resolver: Resolver) -> httpcore2.AsyncNetworkBackend:
    """The only way to a connection: to an address that the guard has judged.

    The name stays what it was for everything above: TLS checks the certificate against it.
    """
    import httpcore2

    class GuardedNetwork(httpcore2.AsyncNetworkBackend):
        def __init__(self) -> None:
            self._network = httpcore2.AnyIOBackend()

        async def connect_tcp(
            self,
            host: str,
            port: int,
            timeout: float | None = None,
            local_address: str | None = None,
            socket_options: Iterable[Any] | None = None,
        ) -> httpcore2.AsyncNetworkStream:
            loop = asyncio.get_running_loop()
            until = loop.time() + (CONNECT_S if timeout is None else timeout)
            addresses = await self._judged(host, port, until)
            for left in range(len(addresses), 0, -1):
                # Each gets a fair part of the time, so that a dead one does not use it up.
                part_s = max((until - loop.time()) / left, 0.1)
                try:
                    return await self._network.connect_tcp(
                        addresses[-left], port, timeout=part_s, socket_options=socket_options
                    )
                except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
                    if left == 1:
                        raise
            raise httpcore2.ConnectError(f"{host} has no address")

        async def _judged(self, host: str, port: int, until: float) -> list[str]:
            try:
                async with asyncio.timeout_at(until):
                    found = await resolver(host, port)
            except TimeoutError:
                raise httpcore2.ConnectTimeout(f"{host} was not resolved in time") from None
            except (OSError, UnicodeError) as error:
                raise httpcore2.ConnectError(f"{host} cannot be resolved: {error}") from None
            return egress.check(host, port, found)

        async def connect_unix_socket(self, *_: Any, **__: Any) -> httpcore2.AsyncNetworkStream:
            raise EgressError("a Unix socket", 0, "a Unix socket", "local")

        async def sleep(self, seconds: float) -> None:
            await asyncio.sleep(seconds)

    return GuardedNetwork()


@contextlib.contextmanager
def network_errors(shown: str) -> Any:
    """Turn errors of the network into errors that say whether to try again."""
    import httpcore2

    details = {"url": shown}
    try:
        yield
    except EgressError as error:
        error.details = details
        raise
    except ServiceError:
        raise
    except httpcore2.LocalProtocolError as error:
        raise ServiceRefusedError(
            f"the request to {shown} cannot be sent: {error}",
            code="invalid-request",
            details=details,
        ) from None
    except httpcore2.TimeoutException as error:
        what = "was not reached" if isinstance(error, httpcore2.ConnectTimeout) else "was silent"
        raise ServiceUnavailableError(
            f"{shown} {what} for too long", code="service-timeout", details=details
        ) from None
    except (httpcore2.NetworkError, httpcore2.ProtocolError) as error:
        raise ServiceUnavailableError(
            f"{shown} could not be called: {str(error) or type(error).__name__}",
            code="service-unreachable",
            details=details,
        ) from None
