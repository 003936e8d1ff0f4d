"""When and how a node ran, as conditions see it: `ctx.<node>.metadata`."""

from __future__ import annotations

from datetime import UTC, datetime

from minuet.types import Json


def metadata(*, taken_ms: int, completed_ms: int, attempts: int) -> Json:
    """The metadata of an instance that has completed, from what its history says."""
    seconds, ms = divmod(completed_ms, 1000)
    at = f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{ms:03d}Z"
    return {
        "completed_at": at,
        "duration_ms": max(0, completed_ms - taken_ms),
        "attempts": attempts,
    }
