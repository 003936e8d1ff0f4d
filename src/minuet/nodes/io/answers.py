"""What an answer means: success, an error that may pass, or one that will not; and its body.

A status that was not expected is an error. These may pass: 408, 425, 429 and 5xx. The service may
say when to come again (`Retry-After`); that counts, up to RETRY_AFTER_S_MAX.
"""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Iterable
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import msgspec

from minuet.errors import ServiceError, ServiceRefusedError, ServiceUnavailableError
from minuet.types import Json

if TYPE_CHECKING:
    from minuet.nodes.io.incoming import Answer

#: Longest time that a service can ask a node to wait.
RETRY_AFTER_S_MAX = 3600.0

#: Part of the body of an answer that is kept with an error.
CUT_BYTES = 1_000

#: Statuses that may pass, beside 5xx.
PASSING = frozenset({408, 425, 429})

#: One status, all that begin with a digit, or from one to another.
_STATUS = re.compile(r"[1-5]xx|(?P<first>[1-5][0-9]{2})(-(?P<last>[1-5][0-9]{2}))?")

_TEXT_TYPES = frozenset(
    {"application/xml", "application/javascript", "application/x-www-form-urlencoded"}
    | {"application/yaml", "application/x-ndjson", "application/graphql", "image/svg+xml"}
)


def read_statuses(expected: Any) -> tuple[range, ...]:
    """The statuses that a number, `2xx`, `200-204` or a list of these means; ValueError if it
    means none."""
    entries = expected if isinstance(expected, list) else [expected]
    return tuple(map(_read_status, entries))


def _read_status(entry: Any) -> range:
    text = str(entry).lower()
    found = _STATUS.fullmatch(text)
    if found is None:
        raise ValueError(text)
    if text.endswith("xx"):
        return range(int(text[0]) * 100, int(text[0]) * 100 + 100)
    statuses = range(int(found["first"]), int(found["last"] or found["first"]) + 1)
    if not statuses:
        raise ValueError(text)
    return statuses


def is_expected(status: int, expected: Iterable[range]) -> bool:
    """Whether a status is among those that mean success."""
    return any(status in one for one in expected)


async def error_of(answer: Answer) -> ServiceError:
    """The error that an answer with an unexpected status means."""
    start = await answer.read_start(CUT_BYTES)
    return status_error(answer, start.decode("utf-8", "replace"))


def status_error(answer: Answer, body: str, said: str = "") -> ServiceError:
    """The error of a status; `said` is the service's own explanation, if it is known."""
    status = answer.status
    try:
        name = f" {HTTPStatus(status).phrase}"
    except ValueError:
        name = ""
    message = f"{answer.url} answered {status}{name}{': ' if said else ''}{said}"
    details: dict[str, Any] = {"status": status, "url": answer.url, "body": body[:CUT_BYTES]}
    code = f"http-{status}"
    if status in PASSING or 500 <= status < 600:
        after = retry_after_s(answer.header("retry-after"), time.time())
        return ServiceUnavailableError(message, code=code, details=details, after=after)
    return ServiceRefusedError(message, code=code, details=details)


def retry_after_s(text: str, now_s: float) -> float | None:
    """Seconds until a service wants to be called again: a number, or a date. None if it does not
    say, or says what cannot be read."""
    # Not needed to read documents, and slow to import.
    from email.utils import parsedate_to_datetime

    text = text.strip()
    if text.isascii() and text.isdecimal():
        return min(float(text[:12]), RETRY_AFTER_S_MAX)
    try:
        wanted_s = parsedate_to_datetime(text).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None
    return min(max(wanted_s - now_s, 0.0), RETRY_AFTER_S_MAX)


def read_body(answer: Answer, body: bytes) -> Json:
    """A body as JSON: decoded if it is JSON, a string if it is text, else an object with its
    base64; null if it is empty."""
    if not body:
        return None
    kind, _, parameters = answer.header("content-type").partition(";")
    kind = kind.strip().lower()
    if kind == "application/json" or kind.endswith("+json"):
        return _read_json(answer, body)
    if kind.startswith("text/") or kind in _TEXT_TYPES or kind.endswith("+xml"):
        return _read_text(body, _charset(parameters))
    if not kind:
        try:
            return body.decode()
        except UnicodeDecodeError:
            pass
    return {"base64": base64.b64encode(body).decode(), "content_type": kind, "size": len(body)}


def _read_json(answer: Answer, body: bytes) -> Json:
    try:
        return msgspec.json.decode(body.removeprefix(b"\xef\xbb\xbf"))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ServiceRefusedError(
            f"the answer of {answer.url} is not the JSON that it claims to be: {error}",
            code="invalid-answer",
            details={
                "status": answer.status,
                "url": answer.url,
                "body": body[:CUT_BYTES].decode("utf-8", "replace"),
            },
        ) from None


def _read_text(body: bytes, charset: str) -> str:
    try:
        return body.decode(charset, "replace")
    except LookupError:
        return body.decode("utf-8", "replace")


def _charset(parameters: str) -> str:
    for parameter in parameters.split(";"):
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset":
            return value.strip().strip("\"'") or "utf-8"
    return "utf-8"
