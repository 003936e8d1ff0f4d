"""The outbox: what has to be sent to whom, as cells of the store.

    webhooks/out/RECEIVER/RUN/SEQ.KIND      a notice that has to be sent
    webhooks/gone/RECEIVER/RUN/SEQ.KIND     one that was given up
    webhooks/receiver/RECEIVER              how a receiver does
    webhooks/lease                          who sends

What has to be sent follows from the history: the store notes in the step that writes an event that
it is notable (`Run.notable`), and `pass_on` turns the events into cells before it clears that note.
So a process that dies between the two leaves a note, and the next one writes the same cells again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec

from minuet.bridge.history import HistoryReader
from minuet.bridge.snapshot import read_event
from minuet.errors import DamagedRowError
from minuet.kernel.fold import NumberedEvent
from minuet.store.base import Store
from minuet.store.records import CellChange, Run
from minuet.webhooks.addresses import Addresses
from minuet.webhooks.notices import Notice, find_notices, needs_history
from minuet.webhooks.receivers import Receiver

OUT = "webhooks/out/"
GONE = "webhooks/gone/"
RECEIVER = "webhooks/receiver/"

#: Runs and events that are read at once.
PAGE = 500

#: Longest id of a run that is part of a cell's name unchanged.
_RUN_BYTES_MAX = 300


class Queued(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A notice to a receiver, and how often that was tried."""

    id: str
    tenant: str
    run: str
    seq: int
    kind: str
    at_ms: int
    body: bytes
    attempts: int = 0
    #: When it may be sent next.
    due_ms: int = 0
    error: str = ""


class Standing(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a receiver does."""

    #: Failures of the receiver itself since it last accepted something.
    failures: int = 0
    #: When it may be called next.
    due_ms: int = 0
    error: str = ""
    #: When it last accepted something.
    sent_ms: int | None = None


encode = msgspec.msgpack.Encoder().encode
read_queued = msgspec.msgpack.Decoder(Queued).decode
read_standing = msgspec.msgpack.Decoder(Standing).decode


def cell_name(folder: str, receiver: str, run: str, seq: int, kind: str) -> str:
    """The name of a notice's cell. Those of a run to a receiver come in the order of its events."""
    return f"{folder}{receiver}/{_short(run)}/{seq:010d}.{kind}"


def _short(run: str) -> str:
    """The id of a run, or its hash."""
    if len(run.encode()) <= _RUN_BYTES_MAX:
        return run
    return hashlib.sha256(run.encode()).hexdigest()


def changes_of(notice: Notice, receivers: Sequence[Receiver]) -> list[CellChange]:
    """The cells that have a notice sent to all who want it."""
    queued = Queued(
        id=notice.id,
        tenant=notice.tenant,
        run=notice.run,
        seq=notice.seq,
        kind=notice.kind,
        at_ms=notice.at_ms,
        body=notice.body,
    )
    return [
        CellChange(cell_name(OUT, one.name, notice.run, notice.seq, notice.kind), encode(queued))
        for one in receivers
        if notice.kind in one.kinds
    ]


async def pass_on(
    store: Store, receivers: Sequence[Receiver], addresses: Addresses, since_ms: int
) -> int:
    """Put what is notable into the outbox; how many runs there were. What happened before
    `since_ms` is left out: it would have been given up by now."""
    count, after = 0, ""
    while page := await store.list_notable(after=after, limit=PAGE):
        for run in page:
            await pass_on_run(store, run, receivers, addresses, since_ms)
        count += len(page)
        after = page[-1].run
    return count


async def pass_on_run(
    store: Store, run: Run, receivers: Sequence[Receiver], addresses: Addresses, since_ms: int
) -> None:
    """Put what is notable of a run into the outbox, as far as one page of its events goes."""
    after = run.notable - 1
    records = await store.read_events(run.tenant, run.run, after, PAGE)
    if not records:  # It was deleted, or has lost them.
        return
    upto = records[-1].seq
    window: list[NumberedEvent] = []
    for record in records:
        try:
            window.append((record.seq, record.at_ms, read_event(record)))
        except DamagedRowError:
            continue
    history = window
    if after and needs_history(window):
        history = await HistoryReader(store, run.tenant).history(run.run, 0, upto)
    changes = [
        change
        for notice in find_notices(run, history, after, addresses)
        if notice.at_ms >= since_ms
        for change in changes_of(notice, receivers)
    ]
    if changes:
        await store.write_cells(changes)
    await store.mark_noted(run.tenant, run.run, upto)
