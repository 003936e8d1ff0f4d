"""What all answers are made of."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

Moment = Annotated[
    str,
    Meta(
        description="RFC 3339 in UTC with milliseconds.",
        examples=["2026-11-17T08:56:40.123Z"],
        extra_json_schema={"format": "date-time"},
    ),
]
RunId = Annotated[str, Meta(examples=["019a8f3e5c7b7d10a4b2c6d8e0f21436"])]


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all answers."""
