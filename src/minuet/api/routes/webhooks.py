"""Webhooks: who is sent them, and how that goes."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path
from starlette.requests import Request
from starlette.responses import Response

from minuet.api import replies, requests
from minuet.api.answers import JsonAnswer, answer_page
from minuet.api.bodies import read_body
from minuet.api.context import Here
from minuet.api.describing import describes
from minuet.app import shapes

router = APIRouter(tags=["webhooks"])


@router.get("/webhooks", **describes(replies.WebhookReceiver, page=True))
async def list_webhooks(facade: Here) -> Response:
    """The receivers of webhooks, and how they do."""
    return answer_page(map(shapes.webhook_receiver, await facade.webhooks.list()), None)


@router.post("/webhooks/{name}/test", **describes(replies.WebhookTested, body=requests.Nothing))
async def test_webhook(
    request: Request, facade: Here, name: Annotated[str, Path(description="Name of a receiver.")]
) -> Response:
    """Send a receiver a webhook of the type `test`; why it was not accepted, if it was not."""
    await read_body(request, requests.Nothing)
    error = await facade.webhooks.test(name)
    return JsonAnswer({"name": name, "accepted": error is None, "error": error})
