"""The page that a link to an approval opens: plain HTML without scripts.

Opening it decides nothing, since programs that check mail open links as well; its form does. The
link is part of its address, so no other site learns the address.
"""

from __future__ import annotations

import base64
import hashlib
import html
from typing import Any

import msgspec
from starlette.datastructures import Headers
from starlette.responses import HTMLResponse, Response
from starlette.types import Scope

from minuet.api.answers import answer_problem
from minuet.app.approvals import Approval
from minuet.errors import MinuetError
from minuet.outcomes import outcome_of

STYLE = """\
body{font:16px/1.5 system-ui,sans-serif;max-width:42rem;margin:3rem auto;padding:0 1rem;
color:#1b1b1f;background:#fff}
h1{font-size:1.5rem}pre{background:#f3f3f6;padding:1rem;overflow:auto;white-space:pre-wrap}
textarea{width:100%;box-sizing:border-box;font:inherit}label{display:block;margin:1rem 0 .25rem}
button{font:inherit;padding:.5rem 1.5rem;margin:1rem 1rem 0 0;cursor:pointer}
"""

_HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()

HEADERS = {
    "Content-Security-Policy": f"default-src 'none'; style-src 'sha256-{_HASH}'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    # The form needs its origin; other sites get nothing.
    "Referrer-Policy": "same-origin",
}

#: Characters of a payload that are shown.
SHOWN_MAX = 20_000


def approval_page(found: Approval, by: str) -> HTMLResponse:
    """What is asked, and the form for a decision."""
    parts = [f"<h1>{_text(found.title or found.id)}</h1>"]
    if found.description:
        parts.append(f"<p>{_text(found.description)}</p>")
    parts.append(f"<p>{_text(found.workflow)}, run {_text(found.run_id)}</p>")
    if found.payload is not None:
        parts.append(f"<pre>{_text(_pretty(found.payload))}</pre>")
    if found.status == "pending":
        parts.append(_form(found, by))
    else:
        parts.append(f"<p>{_text(_outcome(found))}</p>")
    return _page(found.title or "Approval", parts)


def decided_page(found: Approval) -> HTMLResponse:
    """What came of a decision."""
    return _page("Decision", [f"<h1>Thank you</h1><p>{_text(_outcome(found))}</p>"])


def answer_error(error: MinuetError, scope: Scope) -> Response:
    """A problem; a page for people who have opened a link."""
    path: str = scope["path"]
    if path.endswith("/decide") and "text/html" in Headers(scope=scope).get("accept", ""):
        return problem_page(error)
    return answer_problem(error, path)


def problem_page(error: MinuetError) -> HTMLResponse:
    """An error, for people."""
    outcome = outcome_of(error)
    parts = [f"<h1>{_text(outcome.title)}</h1><p>{_text(str(error))}</p>"]
    headers = dict(getattr(error, "headers", {}))
    return _page(outcome.title, parts, outcome.http_status, headers)


def _form(found: Approval, by: str) -> str:
    data = ""
    if found.form is not None:
        data = (
            '<label for="data">Data (JSON)</label>'
            '<textarea id="data" name="data" rows="6">{}</textarea>'
            f"<pre>{_text(_pretty(found.form))}</pre>"
        )
    return (
        '<form method="post">'
        f"<p>You decide as <strong>{_text(by)}</strong>.</p>"
        '<label for="comments">Comments</label>'
        '<textarea id="comments" name="comments" rows="3" maxlength="10000"></textarea>'
        f"{data}"
        '<button name="decision" value="approve">Approve</button>'
        '<button name="decision" value="reject">Reject</button>'
        "</form>"
    )


def _outcome(found: Approval) -> str:
    if found.decision is None:
        more = " More people have to decide." if found.status == "pending" else ""
        return f"It is {found.status}.{more}"
    return f"The decision is: {found.decision}."


def _pretty(value: Any) -> str:
    text = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}…"


def _text(text: str) -> str:
    return html.escape(text, quote=True)


def _page(
    title: str, parts: list[str], status: int = 200, headers: dict[str, str] | None = None
) -> HTMLResponse:
    body = "\n".join(parts)
    text = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{_text(title)}</title><style>{STYLE}</style></head><body>{body}</body></html>"
    )
    return HTMLResponse(text, status, headers={**HEADERS, **(headers or {})})
