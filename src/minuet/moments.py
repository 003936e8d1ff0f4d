"""How times are written wherever programs read them: `2025-11-17T08:56:40.123Z`."""

from __future__ import annotations

from datetime import UTC, datetime


def moment(at_ms: int) -> str:
    """A time in milliseconds since 1970 as RFC 3339 writes it, in UTC."""
    seconds, ms = divmod(at_ms, 1000)
    return f"{datetime.fromtimestamp(seconds, UTC).isoformat()[:19]}.{ms:03d}Z"
