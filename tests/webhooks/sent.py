"""A receiver of webhooks for tests: a real server that verifies what it gets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from tests.services import Asked, Script, Service, reply

import minuet
from minuet.clock import Clock
from minuet.ids import SeededIds
from minuet.nodes.io.client import Client
from minuet.nodes.io.egress import Egress
from minuet.store.base import Store
from minuet.webhooks.notifier import Notifier
from minuet.webhooks.receivers import read_receivers
from minuet.webhooks.sending import Sender, post_with

SECRET = "of the tests"


class Inbox:
    """What a server has accepted, verified."""

    def __init__(self, service: Service, clock: Clock) -> None:
        self._service, self._clock = service, clock
        #: Id, type and content of what was accepted, in this order.
        self.got: list[tuple[str, str, dict[str, Any]]] = []
        #: How the next requests are answered; when it is empty, with 200.
        self.answers: list[Script] = []
        #: How a request is answered whatever else is said; None: not at all.
        self.decide: Callable[[dict[str, Any]], Script | None] = lambda content: None
        service.answer = self._answer

    @property
    def url(self) -> str:
        return self._service.url

    @property
    def asked(self) -> int:
        return len(self._service.asked)

    @property
    def kinds(self) -> list[str]:
        return [kind for _, kind, _ in self.got]

    @property
    def counts(self) -> Counter[str]:
        """How often each id was accepted."""
        return Counter(id for id, _, _ in self.got)

    def _answer(self, asked: Asked) -> Script:
        content = minuet.verify_webhook(
            asked.headers, asked.body, SECRET, now=self._clock.now_ms() // 1000
        )
        script = self.decide(content) or (self.answers.pop(0) if self.answers else reply())
        if isinstance(script, bytes) and script.startswith(b"HTTP/1.1 2"):
            self.got.append((asked.headers["webhook-id"], content["type"], content["data"]))
        return script


def make_notifier(
    store: Store, clock: Clock, *urls: str, seed: int = 0, **options: Any
) -> Notifier:
    """A notifier that may call loopback addresses."""
    post = post_with(Client(Egress(True, ())))
    sender = Sender(post, lambda name: SECRET, clock)
    ids = SeededIds(seed)
    return Notifier(store, read_receivers(urls), sender, clock=clock, ids=ids, **options)


async def send(notifier: Notifier) -> None:
    """Have a notifier do all that it can do now."""
    await notifier.look()
    await notifier.settle()
