"""Parameters that several routes have."""

from __future__ import annotations

from typing import Annotated

from fastapi import Header, Path, Query

RunId = Annotated[
    str, Path(description="Id of a run.", examples=["019a8f3e5c7b7d10a4b2c6d8e0f21436"])
]
NodeName = Annotated[
    str,
    Path(description="Id of a node; `check[2]` is its third iteration.", examples=["check"]),
]
Limit = Annotated[int, Query(ge=1, le=1_000, description="At most this many items.")]
Cursor = Annotated[str | None, Query(description="`next` of the previous page.")]
IfMatch = Annotated[
    str | None,
    Header(
        description="Do it only if this is still the number of the run's last event.",
        examples=['"12"'],
    ),
]
