"""The page that a link to an approval opens: plain HTML without scripts.

Opening it decides nothing, since programs that check mail open links as well; its form does. The
link is part of its address, so no other site learns the address.
"""

from __future__ import annotations

import base64
import hashlib
import html
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from starlette.datastructures import Headers
from starlette.responses import HTMLResponse, Response
from starlette.types import Scope

from minuet.api.answers import answer_problem
from minuet.api.forms import WHOLE, draw_fields, fields_of
from minuet.app import shapes
from minuet.app.approvals import Approval
from minuet.errors import AlreadyDecidedError, MinuetError
from minuet.outcomes import outcome_of

STYLE = (Path(__file__).parent / "pages.css").read_text()

_HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()

HEADERS = {
    "Content-Security-Policy": f"default-src 'none'; style-src 'sha256-{_HASH}'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    # The form needs its origin; other sites get nothing.
    "Referrer-Policy": "same-origin",
}

#: Characters of a payload that are shown, and how deep it is shown as names and values.
SHOWN_MAX = 20_000
DEPTH_MAX = 3
ENTRIES_MAX = 50

_MARK = (
    '<svg width="22" height="22" viewBox="0 0 32 32" aria-hidden="true">'
    '<rect width="32" height="32" rx="7" class="mark"/>'
    '<path d="M9 21.5 16 11l7 10.5" class="line"/>'
    '<circle cx="9" cy="21.5" r="3.2" class="dot"/><circle cx="16" cy="11" r="3.2" class="dot"/>'
    '<circle cx="23" cy="21.5" r="3.2" class="dot"/></svg>'
)

_AT_TIMEOUT = {
    "approve": "it counts as approved",
    "reject": "it counts as not approved",
    "fail": "the node fails",
    "reassign": "others are asked instead",
}
_DONE = {"approve": "approved", "reject": "rejected", "timeout": "did not answer in time"}
_REQUIRED = re.compile(r'"([^"]+)" is a required property')


def approval_page(
    found: Approval,
    by: str,
    *,
    given: Mapping[str, str] | None = None,
    problems: Iterable[str] = (),
) -> HTMLResponse:
    """What is asked, and the form for a decision; again with what somebody has filled in, and what
    is wrong with it."""
    wrong = list(problems)
    parts = [_head(found)]
    if found.payload is not None:
        parts.append(_payload(found.payload))
    if found.status == "pending":
        parts += [_about(found), _form(found, by, given, wrong)]
    else:
        parts.append(_verdict(found))
    return _page(found.title or "Approval", parts, 422 if wrong else 200)


def decided_page(found: Approval) -> HTMLResponse:
    """What came of a decision."""
    return _page("Decision", ["<h1>Thank you</h1>", _verdict(found)])


def answer_error(error: MinuetError, scope: Scope) -> Response:
    """A problem; a page for people who have opened a link."""
    path: str = scope["path"]
    if path.endswith("/decide") and "text/html" in Headers(scope=scope).get("accept", ""):
        return problem_page(error)
    return answer_problem(error, path)


def problem_page(error: MinuetError) -> HTMLResponse:
    """An error, for people."""
    outcome = outcome_of(error)
    if isinstance(error, AlreadyDecidedError) and error.approval.status != "pending":
        kind = "Your decision came second and did not count. There is nothing left to do."
        parts = ["<h1>Somebody was faster</h1>", f"<p>{kind}</p>", _verdict(error.approval)]
        return _page("Somebody was faster", parts, outcome.http_status)
    parts = [f"<h1>{_text(outcome.title)}</h1><p>{_text(str(error))}</p>"]
    headers = dict(getattr(error, "headers", {}))
    return _page(outcome.title, parts, outcome.http_status, headers)


# ── what is asked ───────────────────────────────────────────────────────────────────────────


def _head(found: Approval) -> str:
    about = f'<p class="lead">{_text(found.description)}</p>' if found.description else ""
    asked = _moment(shapes.approval(found)["created_at"])
    where = f"{_text(found.workflow)} · asked {asked} · run {_text(found.run_id)}"
    return f'<h1>{_text(found.title or found.id)}</h1>{about}<p class="muted">{where}</p>'


def _payload(value: Any) -> str:
    text = _text(_pretty(value))
    raw = f"<pre>{text}</pre>"
    if not isinstance(value, dict | list):
        return raw
    return (
        f'<section class="payload">{_value(value, 0)}'
        f"<details><summary>JSON</summary>{raw}</details></section>"
    )


def _value(value: Any, depth: int) -> str:
    """A value as people read it."""
    match value:
        case None:
            return '<span class="muted">–</span>'
        case bool():
            return "Yes" if value else "No"
        case dict() | list() if depth >= DEPTH_MAX:
            return f"<code>{_text(_short(value))}</code>"
        case dict():
            rows = [
                f"<div><dt>{_text(_words(name))}</dt><dd>{_value(one, depth + 1)}</dd></div>"
                for name, one in list(value.items())[:ENTRIES_MAX]
            ]
            return f"<dl>{''.join(rows)}</dl>{_left(value)}"
        case list():
            items = (f"<li>{_value(one, depth + 1)}</li>" for one in value[:ENTRIES_MAX])
            return f"<ul>{''.join(items)}</ul>{_left(value)}"
        case _:
            return _text(str(value)[:SHOWN_MAX])


def _left(value: dict[str, Any] | list[Any]) -> str:
    left = len(value) - ENTRIES_MAX
    return f'<p class="muted">and {left} more</p>' if left > 0 else ""


def _words(name: str) -> str:
    words = name.replace("_", " ").strip()
    return words[:1].upper() + words[1:]


def _short(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 500 else f"{text[:500]}…"


def _about(found: Approval) -> str:
    """What follows, who else decides, and until when."""
    after = {name: ", ".join(nodes) for name, nodes in found.leads_to.items()}
    rows = [
        ("Approve", f"goes on with {after['approve']}" if after["approve"] else "nothing follows"),
        (
            "Reject",
            f"goes on with {after['reject']}" if after["reject"] else "there is no other way",
        ),
        ("Asked", ", ".join(found.approvers) or "anybody"),
    ]
    if found.quorum > 1:
        agreed = len({one.by for one in found.decisions if one.decision == "approve"})
        rows.append(("Approvals", f"{agreed} of {found.quorum}"))
    rows += [
        (one.by, _DONE[one.decision] + (f": {one.comments}" if one.comments else ""))
        for one in found.decisions
    ]
    if found.timeout_ms is not None:
        then = f"; then {_AT_TIMEOUT[found.at_timeout]}" if found.at_timeout else ""
        rows.append(("Until", f"{_moment(shapes.approval(found)['timeout_at'])}{then}"))
    cells = (f"<div><dt>{_text(name)}</dt><dd>{_text(what)}</dd></div>" for name, what in rows)
    return f'<dl class="about">{"".join(cells)}</dl>'


def _moment(text: str) -> str:
    return f"{text[:10]} {text[11:16]} UTC"


# ── deciding ────────────────────────────────────────────────────────────────────────────────


def _form(found: Approval, by: str, given: Mapping[str, str] | None, problems: list[str]) -> str:
    own = {} if given is None else given
    fields = None if found.form is None else fields_of(found.form)
    at_fields = _at_fields(problems)
    body = ""
    if fields is not None:
        body = draw_fields(fields, given, at_fields)
        at_fields = {
            path: what
            for path, what in at_fields.items()
            if path not in {".".join(field.path) for field in fields}
        }
    elif found.form is not None:
        body = (
            f'<div><label for="data">Data (JSON)</label><textarea id="data" name="{WHOLE}" '
            f'rows="6">{_text(own.get(WHOLE, "{}"))}</textarea><details><summary>What it must be'
            f"</summary><pre>{_text(_pretty(found.form))}</pre></details></div>"
        )
    others = "".join(
        f'<p class="problem" role="alert">{_text(f"{path}: " if path else "")}{_text(what)}</p>'
        for path, what in at_fields.items()
    )
    return (
        f'<form method="post">{others}{body}'
        '<div><label for="comments">Comment <i>optional</i></label>'
        '<textarea id="comments" name="comments" rows="2" maxlength="10000">'
        f"{_text(own.get('comments', ''))}</textarea></div>"
        f'<p class="muted">You decide as <strong>{_text(by)}</strong>.</p>'
        '<div class="bar"><button name="decision" value="approve" class="go">Approve</button>'
        '<button name="decision" value="reject" class="no">Reject</button></div></form>'
    )


def _at_fields(problems: list[str]) -> dict[str, str]:
    """What is wrong, by the paths of fields; "": with all of it."""
    found: dict[str, str] = {}
    for problem in problems:
        where, _, what = problem.partition(": ")
        path = "" if where in (WHOLE, "body") else re.sub(r"\[\d+\].*$", "", where)
        missing = _REQUIRED.match(what)
        if missing is not None:
            path = f"{path}.{missing[1]}".lstrip(".")
        found.setdefault(path, "This is needed" if missing else what)
    return found


def _verdict(found: Approval) -> str:
    tone = {"approve": "yes", "reject": "no", "timeout": "no"}.get(found.decision or "", "")
    lines = [f"<p>{_text(_outcome(found))}</p>"]
    lines += [
        f"<p><strong>{_text(one.by)}</strong> {_DONE[one.decision]}</p>"
        + (f"<blockquote>{_text(one.comments)}</blockquote>" if one.comments else "")
        for one in found.decisions
    ]
    return f'<section class="verdict {tone}">{"".join(lines)}</section>'


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
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{_text(title)}</title><style>{STYLE}</style></head>"
        f"<body><header>{_MARK}Minuet</header><main>{body}</main></body></html>"
    )
    return HTMLResponse(text, status, headers={**HEADERS, **(headers or {})})
