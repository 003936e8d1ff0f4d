"""Blobs: contents that documents and inputs name by their references."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Path, Query
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from minuet.api import replies
from minuet.api.answers import JsonAnswer
from minuet.api.context import Here
from minuet.api.describing import describes
from minuet.errors import InputError

router = APIRouter(tags=["blobs"])

BINARY = "application/octet-stream"

Reference = Annotated[
    str,
    Path(
        description="`cas://sha256:…`, or only its `sha256:…`.",
        examples=["sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"],
    ),
]
CONTENT = {
    "requestBody": {
        "required": True,
        "content": {BINARY: {"schema": {"type": "string", "format": "binary"}}},
    }
}


@router.put(
    "/blobs", **describes(replies.BlobReference, status=201, errors=(413,)), openapi_extra=CONTENT
)
async def put_blob(request: Request, facade: Here) -> Response:
    """Store a content, and get its reference. Equal contents have the same one."""
    return JsonAnswer(await facade.blobs.put(_pieces(request)), 201)


@router.put(
    "/blobs/{ref:path}",
    **describes(replies.BlobReference, status=201, errors=(413,)),
    openapi_extra=CONTENT,
)
async def put_named_blob(request: Request, facade: Here, ref: Reference) -> Response:
    """Store a content whose reference the client has computed; 422 if it is another one."""
    stored = await facade.blobs.put(_pieces(request))
    if stored["cas_ref"] != _whole(ref):
        problem = f"body: its reference is {stored['cas_ref']}, not {_whole(ref)}"
        raise InputError([problem], argument="body")
    return JsonAnswer(stored, 201)


@router.get("/blobs/{ref:path}", **describes(bytes, media=BINARY, errors=(404,)))
async def get_blob(
    facade: Here,
    ref: Reference,
    run_id: Annotated[
        str | None, Query(description="Also find blobs of this run, and of those above it.")
    ] = None,
) -> Response:
    """The bytes of a blob."""
    pieces = facade.blobs.read(_whole(ref), run_id=run_id)
    # A blob that is not there is known with the first piece.
    first = await anext(pieces, b"")
    return StreamingResponse(_rest(first, pieces), media_type=BINARY)


async def _rest(first: bytes, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for piece in pieces:
        yield piece


async def _pieces(request: Request) -> AsyncIterator[bytes]:
    async for piece in request.stream():
        if piece:
            yield piece


def _whole(ref: str) -> str:
    return ref if "://" in ref else f"cas://{ref}"
