"""For replicas: rows of the store as they are, packed as MessagePack. Not for other clients: what
they contain may change with each version."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from minuet.api.context import All, Here
from minuet.api.errors import NotFoundError
from minuet.api.parameters import RunId
from minuet.api.streaming import check_room
from minuet.app.hub import Wanted
from minuet.app.keys import KeyCells
from minuet.app.replica.giving import Giver

#: They are not part of the public API.
router = APIRouter(include_in_schema=False)

PACKED = "application/msgpack"

#: Events that are looked through for one answer.
LIMIT = 1_000


@router.get("/replica/changes")
async def get_changes(
    shared: All,
    facade: Here,
    after: str | None = None,
    wait_ms: Annotated[int, Query(ge=0, le=30_000)] = 0,
) -> Response:
    """Which runs have changed after a position."""
    if wait_ms:
        check_room(shared)
    found, position, more = await shared.feeds.read_page(
        Wanted(facade.tenant), after, LIMIT, wait_ms
    )
    runs = [told.entry.event.run for told in found]
    giver = Giver(facade.store, facade.tenant)
    return Response(giver.changes(runs, position, more=more), media_type=PACKED)


@router.get("/replica/runs")
async def get_standings(facade: Here, before: str | None = None) -> Response:
    """How far all runs are, the newest first."""
    return Response(await Giver(facade.store, facade.tenant).standings(before), media_type=PACKED)


@router.get("/replica/runs/{run_id}")
async def get_rows(facade: Here, run_id: RunId) -> Response:
    """All rows of a run."""
    return _packed(await Giver(facade.store, facade.tenant).snapshot(run_id), run_id)


@router.get("/replica/blob")
async def get_stored_blob(facade: Here, ref: str, run: str | None = None) -> Response:
    """A blob, unchanged."""
    return _packed(await Giver(facade.store, facade.tenant).blob(ref, run), ref)


@router.get("/replica/workflows")
async def get_deployments(facade: Here) -> Response:
    """All deployed workflows."""
    return Response(await Giver(facade.store, facade.tenant).deployments(), media_type=PACKED)


@router.get("/replica/keys")
async def get_keys(facade: Here) -> Response:
    """The API keys of the tenant, as hashes."""
    giver = Giver(facade.store, facade.tenant)
    return Response(await giver.keys(KeyCells.of(facade)), media_type=PACKED)


def _packed(data: bytes | None, name: str) -> Response:
    if data is None:
        raise NotFoundError(f"there is no {name!r:.200}")
    return Response(data, media_type=PACKED)
