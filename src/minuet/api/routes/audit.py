"""The audit log: who has changed what over HTTP."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from minuet.api import replies
from minuet.api.answers import answer_page
from minuet.api.context import Here
from minuet.api.describing import describes
from minuet.api.parameters import Cursor, Limit
from minuet.app import shapes

router = APIRouter(tags=["keys"])


@router.get("/audit", **describes(replies.AuditEntry, page=True))
async def list_audit(facade: Here, limit: Limit = 100, cursor: Cursor = None) -> Response:
    """Who has changed what, and from where, the newest first. Who has started a run is in the run
    (`submitted_by`)."""
    found = await facade.audit.list(limit=limit + 1, after=cursor)
    page = found[:limit]
    return answer_page(map(shapes.audit_entry, page), page[-1].id if len(found) > limit else None)
