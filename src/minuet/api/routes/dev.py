"""What only `minuet dev` has, for those on the same machine."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from minuet.api import replies
from minuet.api.answers import JsonAnswer
from minuet.api.context import All
from minuet.api.describing import describes
from minuet.api.errors import ForbiddenError, NotFoundError
from minuet.api.local import is_loopback
from minuet.api.permissions import call_of
from minuet.app import shapes

router = APIRouter(tags=["dev"])


@router.get("/dev", **describes(replies.Dev))
async def get_dev(shared: All) -> Response:
    """Whether this is a development server, and its sample if it has one."""
    sample = None if shared.sample is None else shapes.sample(shared.sample.view())
    return JsonAnswer({"is_dev": shared.is_dev, "sample": sample})


@router.post("/dev/kill-worker", **describes(replies.Killed, errors=(404,)))
async def kill_worker(request: Request, shared: All) -> Response:
    """Kill the worker process of the sample, with SIGKILL. Another one takes up what it held when
    its lease ends."""
    if shared.sample is None:
        raise NotFoundError("this server has no sample: `minuet dev` without files has one")
    if not is_loopback(call_of(request.scope).address):
        raise ForbiddenError("only somebody on the same machine may kill its processes")
    return JsonAnswer({"pid": shared.sample.kill()})
