"""What all shapes are made of."""

from __future__ import annotations

from minuet import moments
from minuet.types import Json

Shape = dict[str, Json]


def moment(at_ms: int | None) -> str | None:
    """A time as programs read it, if there is one."""
    return None if at_ms is None else moments.moment(at_ms)
