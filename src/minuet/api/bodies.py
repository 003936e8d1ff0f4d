"""Read what a request sends: its body, and the headers that some routes know.

A body is decoded straight into its type (`requests`), which refuses unknown fields. Every problem
is an InputError that says where in the body it is.
"""

from __future__ import annotations

import functools
import re
from typing import Any, TypeVar

import msgspec
from starlette.requests import Request

from minuet.errors import InputError

Body = TypeVar("Body")


@functools.cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)


async def read_body(request: Request, kind: type[Body]) -> Body:
    """The request's body. An empty one stands for an empty object."""
    found: Body = decode_body(await request.body() or b"{}", kind)
    return found


def decode_body(data: bytes, kind: Any) -> Any:
    """JSON as a value of a type; InputError when it is not."""
    try:
        return _decoder(kind).decode(data)
    except msgspec.ValidationError as error:
        raise InputError([f"body: {error}"], argument="body") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError([f"body: not valid JSON: {error}"], argument="body") from None
    except RecursionError:
        raise InputError(["body: nested too deeply"], argument="body") from None


_TAG = re.compile(r'(?:W/)?"?(\d{1,10})"?')


def expected_seq(request: Request) -> int | None:
    """The event number that the client has seen last (`If-Match`); None: it does not say."""
    header = request.headers.get("if-match")
    if header is None or header.strip() == "*":
        return None
    match = _TAG.fullmatch(header.strip())
    if match is None:
        problem = f'If-Match: expected the number of an event, such as "12", got {header!r:.100}'
        raise InputError([problem], argument="If-Match")
    return int(match[1])


_TRACEPARENT = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")


def with_trace(request: Request, tags: dict[str, Any] | None) -> dict[str, Any] | None:
    """The tags of a run that the request starts: the trace of the request is its own, unless the
    tags name another one. A header that is not valid is ignored, as its standard says."""
    given = request.headers.get("traceparent", "")
    if _TRACEPARENT.fullmatch(given) is None or "traceparent" in (tags or {}):
        return tags
    return {**(tags or {}), "traceparent": given}
