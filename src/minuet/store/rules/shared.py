"""What all stores do in Python before a row is touched: there is no Lua for it."""

from __future__ import annotations

import hashlib
from typing import Any

from minuet.errors import RunConflictError, StoreError
from minuet.store.identifiers import is_long, shown
from minuet.store.records import (
    Run,
    Snapshot,
)


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
    """Group dead letters that have the same cause: same node, same kind of error."""
    text = f"{node}\n{error.get('code', '')}\n{error.get('type', '')}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]
