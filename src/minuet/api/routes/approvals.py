"""Approvals: what people are asked, and their decisions."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from urllib.parse import parse_qsl

import msgspec
from fastapi import APIRouter, Path, Query
from starlette.requests import Request
from starlette.responses import Response

from minuet.api import replies, requests
from minuet.api.answers import JsonAnswer, answer_page
from minuet.api.bodies import decode_body, read_body
from minuet.api.context import Here, Who
from minuet.api.describing import describes
from minuet.api.errors import NotFoundError, UnauthenticatedError
from minuet.api.forms import FIELDS_MAX, WHOLE, fields_of, read_fields
from minuet.api.identity import Identity
from minuet.api.pages import approval_page, decided_page
from minuet.api.parameters import Cursor, Limit
from minuet.app import shapes
from minuet.app.acting import recorded_by
from minuet.app.app import Facade
from minuet.app.approvals import Approval, ApprovalStatus
from minuet.app.links import Link
from minuet.errors import InputError

router = APIRouter(tags=["approvals"])

#: Who decides, if nobody says.
ANONYMOUS = "anonymous"

#: How the page of a link sends a decision.
FORM = "application/x-www-form-urlencoded"

LinkText = Annotated[str, Query(description="The link that was sent, in place of an API key.")]
ApprovalId = Annotated[
    str,
    Path(
        description="Id of an approval: the run, and the node that asks.",
        examples=["019a8f3e5c7b7d10a4b2c6d8e0f21436:approve"],
    ),
]


@router.get("/approvals", **describes(replies.Approval, page=True, errors=(404,)))
async def list_approvals(
    facade: Here,
    run_id: Annotated[str | None, Query(description="Only those of this run.")] = None,
    status: Annotated[
        Literal[ApprovalStatus, "all"],
        Query(description="Only those with this status."),
    ] = "pending",
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Response:
    """Approvals: those that wait the longest first, others from the newest run on."""
    wanted = None if status == "all" else status
    found = await facade.approvals.list(run_id, status=wanted, limit=limit + 1, after=cursor)
    page = found[:limit]
    return answer_page(map(shapes.approval, page), page[-1].id if len(found) > limit else None)


@router.get("/approvals/{id}", **describes(replies.Approval, errors=(404,)))
async def get_approval(facade: Here, id: ApprovalId) -> Response:
    """An approval."""
    return JsonAnswer(shapes.approval(await facade.approvals.show(id)))


@router.get(
    "/approvals/{id}/decide",
    **describes(str, media="text/html; charset=utf-8", errors=(404,)),
)
async def show_decision(facade: Here, who: Who, id: ApprovalId, link: LinkText = "") -> Response:
    """The page of a link to an approval, for people: what is asked, and a form for the decision.
    Opening it decides nothing."""
    if who.link is None:
        raise NotFoundError("the page of an approval is opened with the link that was sent")
    return approval_page(await _asked(facade, who.link), who.name)


@router.post(
    "/approvals/{id}/decide",
    **describes(
        replies.Decided,
        body=requests.Decide,
        errors=(404, 409),
        example={"decision": "approve", "comments": "Looks right.", "decided_by": "ada"},
    ),
)
async def decide_approval(
    request: Request, facade: Here, who: Who, id: ApprovalId, link: LinkText = ""
) -> Response:
    """Decide. The first decision wins; later ones are answered 409, with the approval as it stands.

    The same decision again, by the same person, changes nothing and is answered 200. Who decides
    is known from the API key; only a trusted one may send `decided_by` and `groups`.
    """
    if who.link is not None:
        asked = await _asked(facade, who.link)
        if request.headers.get("content-type", "").startswith(FORM):
            return await _decide_by_form(request, facade, who, asked)
    body = await read_body(request, requests.Decide)
    decision, found = await _decide(facade, who, id, body)
    is_decided = found.decision is not None
    answer = {
        "approval_id": found.id,
        "status": "resumed" if is_decided else "pending",
        "next_nodes": found.leads_to[decision] if is_decided else [],
    }
    return JsonAnswer(answer)


async def _decide(
    facade: Facade, who: Identity, id: str, asked: requests.Decide
) -> tuple[Literal["approve", "reject"], Approval]:
    decision: Literal["approve", "reject"]
    decision = "approve" if asked.decision in ("approve", "approved") else "reject"
    found = await facade.approvals.decide(
        id,
        decision,
        by=recorded_by(asked.decided_by or "") or ANONYMOUS,
        comments=asked.comments,
        data=asked.data,
        groups=[*who.groups, *(asked.groups if who.is_trusted else ())],
    )
    return decision, found


async def _decide_by_form(
    request: Request, facade: Facade, who: Identity, asked: Approval
) -> Response:
    """A decision that the page of a link has sent: a page says what came of it."""
    fields = await _read_form(request)
    try:
        _, found = await _decide(facade, who, asked.id, _to_decision(fields, asked))
    except InputError as error:
        if error.argument != "data":
            raise
        return approval_page(asked, who.name, given=fields, problems=error.problems)
    return decided_page(found)


async def _asked(facade: Facade, link: Link) -> Approval:
    """The approval that a link is for. The link of an earlier question is not valid for it."""
    found = await facade.approvals.show(link.approval)
    if found.created_ms != link.asked_ms:
        raise UnauthenticatedError("the link is for an earlier question")
    return found


async def _read_form(request: Request) -> dict[str, str]:
    """The fields of a form."""
    try:
        text = (await request.body()).decode()
        return dict(parse_qsl(text, True, strict_parsing=True, max_num_fields=FIELDS_MAX + 10))
    except ValueError as error:
        raise InputError([f"body: {error}"], argument="body") from None


def _to_decision(fields: dict[str, str], asked: Approval) -> requests.Decide:
    given: dict[str, Any] = {
        name: fields[name] for name in ("decision", "comments") if name in fields
    }
    known = None if asked.form is None else fields_of(asked.form)
    if WHOLE in fields or known is None:
        text = fields.get(WHOLE, "").strip()
        try:
            given["data"] = decode_body(text.encode(), Any) if text else None
        except InputError as error:
            raise InputError(error.problems, argument="data") from None
    else:
        given["data"] = read_fields(known, fields)
    try:
        return msgspec.convert(given, requests.Decide)
    except msgspec.ValidationError as error:
        raise InputError([f"body: {error}"], argument="body") from None
