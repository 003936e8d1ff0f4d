"""Load on a service: closed, by clients that wait for each answer, and at a rate."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

Client = TypeVar("Client")


async def closed(
    clients: list[Client], seconds: float, call: Callable[[Client], Awaitable[None]]
) -> float:
    """Calls in a second, by clients that each make the next one at once."""
    until, count = time.perf_counter() + seconds, 0

    async def go(client: Client) -> None:
        nonlocal count
        while time.perf_counter() < until:
            await call(client)
            count += 1

    began = time.perf_counter()
    await asyncio.gather(*map(go, clients))
    return count / (time.perf_counter() - began)


async def paced(
    clients: list[Client],
    rate: float,
    seconds: float,
    call: Callable[[Client], Awaitable[None]],
) -> tuple[list[float], int]:
    """Make calls at a rate, whether or not earlier ones are answered. Times from when each was to
    begin, and how many were refused."""
    free = asyncio.Queue[Client]()
    for client in clients:
        free.put_nowait(client)
    took: list[float] = []
    wrong = 0
    began = time.perf_counter()

    async def go(due: float) -> None:
        nonlocal wrong
        client = await free.get()
        try:
            await call(client)
            took.append(time.perf_counter() - due)
        except AssertionError:
            wrong += 1
        finally:
            free.put_nowait(client)

    going = []
    for number in range(int(rate * seconds)):
        due = began + number / rate
        if (ahead := due - time.perf_counter()) > 0:
            await asyncio.sleep(ahead)
        going.append(asyncio.ensure_future(go(due)))
    await asyncio.gather(*going)
    return took, wrong
