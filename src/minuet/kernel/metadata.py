"""When and how a node ran, as conditions see it: `ctx.<node>.metadata`."""

from __future__ import annotations

from minuet.moments import moment
from minuet.types import Json


def metadata(*, taken_ms: int, completed_ms: int, attempts: int) -> Json:
    """The metadata of an instance that has completed, from what its history says."""
    return {
        "completed_at": moment(completed_ms),
        "duration_ms": max(0, completed_ms - taken_ms),
        "attempts": attempts,
    }
