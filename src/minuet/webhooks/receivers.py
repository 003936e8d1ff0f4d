"""Receivers of webhooks, as a setting names them.

    https://ops.example.com/minuet#name=ops&events=run.failed,dead_letter.*&secret=OPS_SECRET

Several are separated by spaces. What follows the `#` is for Minuet and is not sent: `name`,
`events` (all of them without it; `*` stands for any characters) and `secret`, the name of the
secret with which its webhooks are signed.
"""

from __future__ import annotations

import fnmatch
import hashlib
import re
from collections.abc import Sequence
from urllib.parse import parse_qsl, urlsplit

import msgspec

from minuet.errors import ConfigError

#: What a webhook can tell. Those of approvals have the names that `runs events` shows.
KINDS = (
    "approval.created",
    "approval.reminded",
    "approval.reassigned",
    "approval.decided",
    "dead_letter.created",
    "run.cancelled",
    "run.failed",
    "run.stalled",
)

#: The secret of receivers that name none.
DEFAULT_SECRET = "MINUET_WEBHOOK_SECRET"

_OPTIONS = ("name", "events", "secret")
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")


class Receiver(msgspec.Struct, frozen=True):
    """Who gets webhooks."""

    name: str
    url: str
    kinds: frozenset[str]
    #: The name of the secret.
    secret: str = DEFAULT_SECRET


def read_receivers(entries: Sequence[str]) -> list[Receiver]:
    """The receivers that a setting names; ConfigError says what is wrong with it."""
    found = [_read(entry) for text in entries for entry in text.split()]
    names = [one.name for one in found]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ConfigError(
            f"MINUET_WEBHOOKS: two receivers have the name {twice!r}: add `#name=…` to one of them"
        )
    return found


def _read(entry: str) -> Receiver:
    parts = urlsplit(entry)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"MINUET_WEBHOOKS: {entry!r:.200} is not a URL (http:// or https://)")
    given = dict(parse_qsl(parts.fragment, keep_blank_values=True))
    unknown = [name for name in given if name not in _OPTIONS]
    if unknown:
        raise ConfigError(
            f"MINUET_WEBHOOKS: {unknown[0]!r:.100} is not one of {', '.join(_OPTIONS)}"
        )
    url = parts._replace(fragment="").geturl()
    short = hashlib.sha256(url.encode()).hexdigest()[:8]
    name = given.get("name") or f"{parts.hostname.replace(':', '.')[:50]}-{short}"
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"MINUET_WEBHOOKS: the name {name!r:.100} has other characters than letters, digits, "
            "_, . and -, or more than 64"
        )
    return Receiver(
        name, url, _kinds(given.get("events") or "*"), given.get("secret") or DEFAULT_SECRET
    )


def _kinds(text: str) -> frozenset[str]:
    found: set[str] = set()
    for pattern in text.split(","):
        matching = fnmatch.filter(KINDS, pattern.strip())
        if not matching:
            known = ", ".join(KINDS)
            raise ConfigError(f"MINUET_WEBHOOKS: no event is called {pattern!r:.100}: {known}")
        found.update(matching)
    return frozenset(found)
