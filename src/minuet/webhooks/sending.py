"""Sending one webhook."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Protocol

from minuet.clock import Clock
from minuet.errors import ServiceError
from minuet.nodes.io.client import Client, Request
from minuet.webhooks.outbox import Queued
from minuet.webhooks.receivers import Receiver
from minuet.webhooks.signing import sign

#: How long a receiver may take in all.
CALL_S = 15.0

#: Statuses that say that the receiver cannot take anything now; 500 and above say so as well.
_BUSY = frozenset({408, 425, 429})

#: Answers that lead elsewhere: a webhook is not sent to somebody whom nobody has named.
_REDIRECTS = frozenset(range(300, 400))


class Post(Protocol):
    """Sends a body to a URL; the status of the answer. ServiceError: there was none."""

    async def __call__(self, url: str, headers: Mapping[str, str], body: bytes) -> int: ...


class NotAccepted(Exception):
    """A receiver did not accept a webhook."""

    def __init__(self, message: str, *, is_down: bool) -> None:
        #: It would accept no other one either.
        self.is_down = is_down
        super().__init__(message)


def post_with(client: Client) -> Post:
    """Send with the client of nodes, behind the egress guard."""

    async def post(url: str, headers: Mapping[str, str], body: bytes) -> int:
        request = Request(
            method="POST",
            url=url,
            headers={"content-type": "application/json", **headers},
            content=body,
            silence_s=CALL_S,
            kept=_REDIRECTS,
        )
        async with client.send(request) as answer:
            return answer.status

    return post


class Sender:
    """Signs webhooks and sends them."""

    def __init__(self, post: Post, read_secret: Callable[[str], str], clock: Clock) -> None:
        self._post = post
        self._read_secret = read_secret
        self._clock = clock

    async def send(self, receiver: Receiver, queued: Queued) -> None:
        """Send a webhook; NotAccepted unless the receiver has answered that it has it."""
        try:
            secret = self._read_secret(receiver.secret)
            headers = sign(secret, queued.id, self._clock.now_ms() // 1000, queued.body)
        except Exception as error:
            raise NotAccepted(f"it cannot be signed: {error}", is_down=True) from None
        try:
            async with asyncio.timeout(CALL_S):
                status = await self._post(receiver.url, headers, queued.body)
        except TimeoutError:
            raise NotAccepted(f"no answer within {CALL_S:g} s", is_down=True) from None
        except ServiceError as error:
            raise NotAccepted(str(error), is_down=True) from None
        if not 200 <= status < 300:
            is_down = status >= 500 or status in _BUSY
            raise NotAccepted(f"it answered with status {status}", is_down=is_down)
