"""Rows as the scripts keep them, turned into records.

Lua packs a row as its values one after the other; with the head of an array before them they are
one MessagePack array. Strings hold whatever bytes they were given: those that are payloads are
taken out as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from minuet.store.records import (
    Arrival,
    DeadLetter,
    EventRecord,
    Grant,
    Join,
    Output,
    Read,
    Run,
    RunHeader,
    Snapshot,
    Token,
    TokenOutcome,
    TokenState,
    WorkerEntry,
    WorkerRecord,
)
from minuet.types import RunStatus


class _RunRow(msgspec.Struct, array_like=True, gc=False):
    """What changes of a run."""

    tenant: str
    workflow: str
    plan: str
    status: RunStatus
    counter: int
    seq: int
    generation: int
    started_ms: int | None
    ended_ms: int | None
    deadline_ms: int | None
    error: str | None
    dead_letters: int
    scoped: bool


class _RunOrigin(msgspec.Struct, array_like=True, gc=False):
    """What never changes of a run."""

    workflow: str
    plan: str
    created_ms: int
    tags: str
    idempotency_key: str | None
    parent: str | None


class _TokenRow(msgspec.Struct, array_like=True, gc=False):
    queue: str
    state: TokenState
    outcome: TokenOutcome
    skip: bool
    due_ms: int | None
    hop: int
    attempt: int
    expiry: int
    delivery: int
    lease: str
    session: str
    taken_ms: int
    source: str
    source_scope: str
    reads: msgspec.Raw
    cursor: int
    wait: str
    wait_key: str
    resolution: msgspec.Raw
    event: int
    lane: str
    slot: str
    slot_limit: int
    source_event: int
    joined: bool


class _JoinRow(msgspec.Struct, array_like=True, gc=False):
    need: int
    total: int
    live: int
    skipped: int
    fired: bool
    hop: int
    listed: int


class _ArrivalRow(msgspec.Struct, array_like=True, gc=False):
    source_scope: str
    live: bool
    late: bool


_decode_run = msgspec.msgpack.Decoder(_RunRow).decode
_decode_origin = msgspec.msgpack.Decoder(_RunOrigin).decode
_decode_token = msgspec.msgpack.Decoder(_TokenRow).decode
_decode_join = msgspec.msgpack.Decoder(_JoinRow).decode
_decode_arrival = msgspec.msgpack.Decoder(_ArrivalRow).decode
_decode_letter = msgspec.msgpack.Decoder(list[Any]).decode
_decode_reads = msgspec.msgpack.Decoder(tuple[Read, ...]).decode


def _head(count: int) -> bytes:
    """The head of an array of so many values."""
    return b"\xdc" + count.to_bytes(2, "big")


_RUN, _ORIGIN, _TOKEN, _JOIN, _ARRIVAL = (
    _head(len(row.__struct_fields__))
    for row in (_RunRow, _RunOrigin, _TokenRow, _JoinRow, _ArrivalRow)
)
_LETTER = _head(11)

#: How long the head of a string is, by its first byte; shorter strings have a head of one byte.
_HEADS = {0xD9: 2, 0xDA: 3, 0xDB: 5}


def _payload(raw: msgspec.Raw) -> bytes | None:
    """The bytes of a packed string."""
    data = bytes(raw)
    return None if data == b"\xc0" else data[_HEADS.get(data[0], 1) :]


def run_of(reply: Sequence[Any]) -> Run:
    """A run, from its name and its three fields."""
    name, row_data, origin_data, input = reply
    row, origin = _decode_run(_RUN + row_data), _decode_origin(_ORIGIN + origin_data)
    return Run(
        run=name.decode(),
        tenant=row.tenant,
        workflow=row.workflow,
        plan=row.plan,
        status=row.status,
        counter=row.counter,
        seq=row.seq,
        generation=row.generation,
        input=input,
        tags=msgspec.json.decode(origin.tags),
        idempotency_key=origin.idempotency_key,
        created_ms=origin.created_ms,
        started_ms=row.started_ms,
        ended_ms=row.ended_ms,
        deadline_ms=row.deadline_ms,
        error=None if row.error is None else msgspec.json.decode(row.error),
        dead_letters=row.dead_letters,
        parent=origin.parent,
    )


def header_of(reply: Sequence[Any]) -> RunHeader:
    """What a worker must know of a run, from the same."""
    name, row_data, origin_data, input = reply
    row, origin = _decode_run(_RUN + row_data), _decode_origin(_ORIGIN + origin_data)
    return RunHeader(
        name.decode(),
        row.workflow,
        row.plan,
        input,
        row.generation,
        origin.created_ms,
        row.deadline_ms,
        {} if origin.tags == "{}" else msgspec.json.decode(origin.tags),
    )


def token_of(tenant: str, run: str, node: str, scope: str, data: bytes) -> Token:
    """A token, from its row."""
    row = _decode_token(_TOKEN + data)
    reads = _payload(row.reads)
    return Token(
        run,
        node,
        scope,
        tenant,
        row.queue,
        row.state,
        row.outcome,
        row.skip,
        row.due_ms,
        row.hop,
        row.attempt,
        row.expiry,
        row.delivery,
        row.lease,
        row.session,
        row.taken_ms,
        row.source,
        row.source_scope,
        _decode_reads(reads) if reads else (),
        row.cursor,
        row.wait,
        row.wait_key,
        _payload(row.resolution),
        row.event,
        row.lane,
        row.slot,
        row.slot_limit,
    )


def grant_of(fields: Sequence[Any]) -> Grant:
    """A token taken, as `grant.lua` tells it."""
    run, node, scope, lease, skip = fields[:5]
    attempt, expiry, delivery, hop, taken_ms, cursor, resolution, slot, inputs, reads = fields[5:]
    return Grant(
        run.decode(),
        node.decode(),
        scope.decode(),
        lease.decode(),
        skip == 1,
        attempt,
        expiry,
        delivery,
        hop,
        taken_ms,
        cursor,
        resolution,
        slot.decode(),
        tuple(sorted(_outputs(inputs), key=lambda output: (output.node, output.scope))),
        tuple(_outputs(reads)),
    )


def _outputs(fields: list[bytes]) -> list[Output]:
    """Outputs, from node, scope and data of each."""
    return [
        Output(fields[i].decode(), fields[i + 1].decode(), fields[i + 2])
        for i in range(0, len(fields), 3)
    ]


def event_of(run: str, seq: int, data: bytes) -> EventRecord:
    """An event, from its record: time, where the output begins and ends, JSON."""
    at_ms, _, _, event = data.split(b" ", 3)
    return EventRecord(run, seq, int(at_ms), event)


def dead_letter_of(run: str, data: bytes) -> DeadLetter:
    """A dead letter, from its row."""
    node, scope, generation, tenant, queue, reason, error, *rest = _decode_letter(_LETTER + data)
    error = msgspec.json.decode(error)
    return DeadLetter(run, node, scope, generation, tenant, queue, reason, error, *rest)


def snapshot_of(tenant: str, run: str, fields: dict[bytes, bytes]) -> Snapshot:
    """Everything about a run, from all fields of its hash."""
    by_kind: dict[str, list[tuple[list[str], bytes]]] = {}
    for field, value in fields.items():
        name = field.decode()
        by_kind.setdefault(name[0], []).append((name[1:].split("\0", 2), value))

    def rows(kind: str) -> list[tuple[list[str], bytes]]:
        return sorted(by_kind.get(kind, ()))

    letters = [dead_letter_of(run, data) for _, data in rows("d")]
    return Snapshot(
        run=run_of((run.encode(), fields[b"R"], fields[b"I"], fields[b"i"])),
        tokens=tuple(token_of(tenant, run, n, s, data) for (n, s), data in rows("t")),
        joins=tuple(_join(run, n, s, data) for (n, s), data in rows("j")),
        arrivals=tuple(_arrival(run, n, s, source, d) for (n, s, source), d in rows("a")),
        events=tuple(
            event_of(run, seq, data)
            for seq, data in sorted((int(seq), data) for (seq,), data in by_kind["e"])
        ),
        steps=tuple((n, s, name, value) for (n, s, name), value in rows("s")),
        dead_letters=tuple(sorted(letters, key=lambda x: (x.node, x.scope, x.generation))),
    )


def _join(run: str, node: str, scope: str, data: bytes) -> Join:
    row = _decode_join(_JOIN + data)
    return Join(run, node, scope, row.need, row.total, row.live, row.skipped, row.fired, row.hop)


def _arrival(run: str, node: str, scope: str, source: str, data: bytes) -> Arrival:
    row = _decode_arrival(_ARRIVAL + data)
    return Arrival(run, node, scope, source, row.source_scope, row.live, row.late)


def worker_of(row: Sequence[Any]) -> WorkerEntry:
    """A worker of `list_workers.lua`."""
    registered_ms, heartbeat_ms, silent_ms, draining, record = row
    return WorkerEntry(
        msgspec.json.decode(record, type=WorkerRecord),
        registered_ms,
        heartbeat_ms,
        silent_ms=silent_ms,
        draining=bool(draining),
    )
