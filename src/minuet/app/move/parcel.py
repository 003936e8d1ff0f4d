"""A run on its way to another store: what travels, and the mark that it leaves behind.

A run that moves is closed where it was (CANCELLED, "moved to …"). From then on it can be opened
elsewhere. All of it was put into a blob just before, and the last event names the blob. So any
process that finds the mark can deliver the run, however often that was tried before.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator

import msgspec

from minuet.bridge.reporting import MOVED
from minuet.bridge.snapshot import read_event
from minuet.errors import StoreUnusableError
from minuet.events import RunCancelled, RunPaused, RunResumed, encode_event
from minuet.store.base import Store
from minuet.store.changes import Cancel, Pause
from minuet.store.records import EventRecord, Run, Snapshot, Token
from minuet.types import OPEN

#: The `by` of a pause that prepares a move.
MOVER = "minuet migrate"

#: A reference to a blob anywhere in some bytes; JSON may have escaped its slashes.
_REF = re.compile(rb"cas:\\?/\\?/sha256:([0-9a-f]{64})")

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Snapshot).decode


def moved_to(run: Run) -> str | None:
    """The store to which a run was moved from here; None: it is here."""
    code = str((run.error or {}).get("code", "")) if run.status == "CANCELLED" else ""
    return code.removeprefix(MOVED) if code.startswith(MOVED) else None


async def moved_store(store: Store, tenant: str) -> str | None:
    """The store to which a tenant's open runs were moved from here; None: some are still open here,
    or the last one that ended was not moved."""
    if await store.list_runs(tenant, statuses=OPEN, limit=1):
        return None
    newest = await store.list_runs(tenant, statuses=("CANCELLED",), limit=1)
    return moved_to(newest[0]) if newest else None


def pause() -> Pause:
    """The change that stops new work in a run before it is moved."""
    return Pause(MOVER)


async def close(store: Store, snapshot: Snapshot, parcel: Snapshot, to: str) -> None:
    """Close a run that has not changed since `snapshot`, and leave all of it with the mark.

    RunConflictError: it has changed.
    """
    run = snapshot.run
    ref = await store.put_blob(_encode(parcel), run=run.run, tenant=run.tenant)
    await store.change_run(run.tenant, run.run, Cancel(MOVED + to, by=ref, undo=False), run.seq)


async def read_parcel(store: Store, run: Run) -> Snapshot:
    """The rows that were left with the mark of a run that was moved."""
    (last,) = await store.read_events(run.tenant, run.run, run.seq - 1, 1)
    event = read_event(last)
    ref = event.by if isinstance(event, RunCancelled) else ""
    data = await store.get_blob(ref, run=run.run, tenant=run.tenant)
    if data is None:
        raise StoreUnusableError(f"run {run.run}: the copy that the move left ({ref}) is missing")
    return _decode(data)


def wrap(snapshot: Snapshot, now_ms: int) -> Snapshot:
    """A run's rows for another store: no worker holds its tokens; it is not paused to move."""
    run = copy.copy(snapshot.run)
    records = snapshot.events
    if is_paused_to_move(snapshot):
        run.status, run.seq = "RUNNING", run.seq + 1
        resumed = EventRecord(run.run, run.seq, now_ms, encode_event(RunResumed(MOVER)))
        records = (*records, resumed)
    return Snapshot(
        run=run,
        tokens=tuple(_wrap_token(token, run, now_ms) for token in snapshot.tokens),
        joins=snapshot.joins,
        arrivals=snapshot.arrivals,
        events=records,
        steps=snapshot.steps,
        dead_letters=snapshot.dead_letters,
        signals=snapshot.signals,
    )


def _wrap_token(stored: Token, run: Run, now_ms: int) -> Token:
    token = copy.copy(stored)
    if token.state == "leased":
        token.state, token.due_ms, token.lease = "ready", now_ms, ""
    if token.state == "ready":
        # Slots are counted where the token is: it asks for its own again.
        token.slot, token.slot_limit = "", 0
        token.lane = "pause" if run.status == "PAUSED" else ""
    return token


def is_paused_to_move(snapshot: Snapshot) -> bool:
    """Whether a run was paused to be moved, and not by a user."""
    if snapshot.run.status != "PAUSED":
        return False
    for record in reversed(snapshot.events):
        event = read_event(record)
        if isinstance(event, RunPaused):
            return event.by == MOVER
    return False


def is_held(snapshot: Snapshot) -> bool:
    """Whether a worker holds one of its tokens."""
    return any(token.state == "leased" for token in snapshot.tokens)


def refs_of(rows: Snapshot) -> Iterator[str]:
    """The blobs that a run names: its plans, its input, outputs, steps, signals, resolutions."""
    yield rows.run.plan
    yield from refs_in(rows.run.input)
    for record in rows.events:
        yield from refs_in(record.data)


def refs_in(data: bytes) -> Iterator[str]:
    """The blobs that some bytes name."""
    for match in _REF.finditer(data):
        yield "cas://sha256:" + match[1].decode()
