"""How long a run is kept after its end: one rule and one option for every store.

A run that is over stays until it is deleted, or until a sweep finds that it ended longer ago
than `?retention_s=` in the URL of its store says. Without the option a sweep deletes nothing,
except on Redis, which keeps ended runs for a week. `minuet.app.retention` deletes on request.
"""

from __future__ import annotations

from minuet.errors import ConfigError

#: The option of a store's URL.
OPTION = "retention_s"

#: Ended runs that one sweep deletes at most, so that it delays nothing.
DELETED_PER_SWEEP = 100


def retention_ms(text: str | None, default: int | None = None) -> int | None:
    """The option's value in milliseconds; None: until it is deleted. `default` counts when
    the URL does not have the option."""
    if text is None:
        return default
    if not text.isdecimal():
        raise ConfigError(f"{OPTION} of a store is a number of seconds, not {text!r}")
    return int(text) * 1000 or None


def split_retention(url: str) -> tuple[str, int | None]:
    """A URL that can have this option alone, without it, and its value."""
    head, mark, text = url.rpartition(f"?{OPTION}=")
    return (head, retention_ms(text)) if mark else (url, None)
