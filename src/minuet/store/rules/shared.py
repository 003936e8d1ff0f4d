"""What all stores do in Python before a row is touched: there is no Lua for it."""

from __future__ import annotations

import hashlib
import re
from typing import Any

from minuet.errors import RunConflictError, StoreError
from minuet.events import RunCreated
from minuet.store.fields import builder
from minuet.store.identifiers import is_long, shown
from minuet.store.records import Run, Snapshot

#: The first event of a run, of its row and its input.
run_created = builder(RunCreated, Run, given=("input",))

#: As much of a message as counts for its fingerprint.
MESSAGE_LENGTH_MAX = 1_000

#: Paths below the folders of temporary files, on every system.
_TEMPORARY = re.compile(
    r"""(?:/private)?/(?:tmp|var/tmp|var/folders|dev/shm)/[^\s'"`,;:)]*"""
    r"""|[A-Za-z]:[\\/](?:[^\s'"`,;:)]*[\\/])?Te?mp[\\/][^\s'"`,;:)]*"""
)

_WORD = re.compile(r"[\w-]+")

#: Words that are not words: with a digit in them, or long and in hex. Numbers, ids, addresses.
_VARIABLE = re.compile(r".*\d|[0-9a-fA-F]{8,}$")

#: Several of them: 1.5, 10:30:00, 127.0.0.1.
_NUMBERS = re.compile(r"[-+]?#(?:[.:,+-]+#)+|[-+]#")


def check_rows(rows: Snapshot) -> None:
    """Refuse rows that do not belong to their run: they would land in another tenant's queue."""
    name, tenant = rows.run.run, rows.run.tenant
    owned = {(token.run, token.tenant) for token in rows.tokens}
    owned |= {(letter.run, letter.tenant) for letter in rows.dead_letters}
    runs = {join.run for join in rows.joins} | {arrival.run for arrival in rows.arrivals}
    runs |= {event.run for event in rows.events} | {signal.run for signal in rows.signals}
    if not owned <= {(name, tenant)} or not runs <= {name}:
        raise StoreError(f"run {name}: there are rows of another run or tenant among its own")
    long = [t.slot or t.wait_key for t in rows.tokens if is_long(t.slot) or is_long(t.wait_key)]
    long += filter(is_long, (name, tenant, rows.run.idempotency_key or ""))
    if long:
        raise StoreError(f"run {shown(name)}: the name {shown(long[0])!r} is too long to be kept")


def key_conflict(run: Run, owner: str | None) -> RunConflictError:
    """Why a run cannot be put: another run has its idempotency key."""
    return RunConflictError(
        run.run, f"its idempotency key {run.idempotency_key!r} belongs to run {owner}"
    )


def fingerprint(node: str, error: dict[str, Any]) -> str:
    """Group dead letters that have the same cause: same node, same kind of error, same words.

    Where in the code an error was raised does not count: lines move with every release.
    """
    words = (error.get("code", ""), error.get("type", ""), _steady(error.get("message")))
    text = "\n".join((node, *map(str, words)))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _steady(message: Any) -> str:
    """A message without what differs each time: numbers, times, ids, addresses, temporary files."""
    if not isinstance(message, str):
        return ""
    text = _TEMPORARY.sub("#", message[:MESSAGE_LENGTH_MAX])
    text = _WORD.sub(lambda word: "#" if _VARIABLE.match(word[0]) else word[0], text)
    return " ".join(_NUMBERS.sub("#", text).split())
