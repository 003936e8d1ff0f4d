"""Webhooks: who is sent them, and how that goes."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path
from starlette.requests import Request
from starlette.responses import Response

from minuet.api import replies, requests
from minuet.api.answers import JsonAnswer, answer_page
from minuet.api.bodies import read_body
from minuet.api.context import All, Here, Shared
from minuet.api.describing import describes
from minuet.api.errors import ForbiddenError
from minuet.app import shapes
from minuet.app.app import Facade

router = APIRouter(tags=["webhooks"])


@router.get("/webhooks", **describes(replies.WebhookReceiver, page=True))
async def list_webhooks(shared: All, facade: Here) -> Response:
    """The receivers of webhooks, and how they do."""
    _check_own(shared, facade)
    return answer_page(map(shapes.webhook_receiver, await facade.webhooks.list()), None)


@router.post("/webhooks/{name}/test", **describes(replies.WebhookTested, body=requests.Nothing))
async def test_webhook(
    request: Request,
    shared: All,
    facade: Here,
    name: Annotated[str, Path(description="Name of a receiver.")],
) -> Response:
    """Send a receiver a webhook of the type `test`; why it was not accepted, if it was not."""
    _check_own(shared, facade)
    await read_body(request, requests.Nothing)
    error = await facade.webhooks.test(name)
    return JsonAnswer({"name": name, "accepted": error is None, "error": error})


def _check_own(shared: Shared, facade: Facade) -> None:
    """Receivers get the webhooks of all tenants: only those of the server's own may see them."""
    if facade.tenant != shared.app.tenant:
        raise ForbiddenError(f"webhooks are for the tenant {shared.app.tenant}")
