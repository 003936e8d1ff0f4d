"""The receivers of webhooks that a client's server knows."""

from __future__ import annotations

import builtins

from minuet.app import reading
from minuet.app.webhooks import WebhookReceiver, Webhooks
from minuet.client.base import Remote, remote
from minuet.client.transport import Transport, path_of


@remote
class RemoteWebhooks(Remote, Webhooks):
    """Who is sent webhooks by the servers and workers of a store."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def list(self) -> builtins.list[WebhookReceiver]:
        """All receivers that the server knows, and how they do."""
        return [reading.read_receiver(one) for one in (await self._get("/webhooks"))["items"]]

    async def test(self, name: str) -> str | None:
        """Have a receiver sent a webhook of the type `test`; why it was not accepted, or None."""
        answer = await self._post(path_of("webhooks", name, "test"))
        error: str | None = answer["error"]
        return error
