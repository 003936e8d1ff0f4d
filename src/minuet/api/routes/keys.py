"""API keys: who may call this server."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path
from starlette.requests import Request
from starlette.responses import Response

from minuet.api import replies, requests
from minuet.api.answers import JsonAnswer, answer_page
from minuet.api.bodies import read_body
from minuet.api.context import Here, Who
from minuet.api.describing import describes
from minuet.app import shapes

router = APIRouter(tags=["keys"])


@router.post(
    "/keys",
    **describes(
        replies.NewKey,
        status=201,
        body=requests.CreateKey,
        example={"name": "ada", "roles": ["approver"], "groups": ["finance"]},
    ),
)
async def create_key(request: Request, facade: Here, who: Who) -> Response:
    """Create an API key of this tenant. The answer has the key, which is never shown again."""
    asked = await read_body(request, requests.CreateKey)
    made = await facade.keys.create(
        asked.name,
        asked.roles,
        groups=asked.groups,
        trusted=asked.trusted,
        expires_seconds=asked.expires_seconds,
        by=who.name or who.shown,
    )
    return JsonAnswer(shapes.new_key(made), 201)


@router.get("/whoami", **describes(replies.Sender))
async def who_am_i(facade: Here, who: Who) -> Response:
    """Who you are according to what you have sent, and what you may do."""
    return JsonAnswer(
        {
            "name": who.name or None,
            "tenant": facade.tenant,
            "roles": sorted(who.roles),
            "groups": list(who.groups),
            "trusted": who.is_trusted,
        }
    )


@router.get("/keys", **describes(replies.Key, page=True))
async def list_keys(facade: Here) -> Response:
    """The API keys of this tenant, the newest first; also those that have ended."""
    return answer_page(map(shapes.key, await facade.keys.list()), None)


@router.delete("/keys/{id}", **describes(replies.Key, errors=(404,)))
async def revoke_key(
    facade: Here,
    id: Annotated[str, Path(description="Id of an API key.", examples=["k3b5x2qpa7ho"])],
) -> Response:
    """Revoke an API key. It opens nothing any more a few seconds later."""
    return JsonAnswer(shapes.key(await facade.keys.revoke(id)))
