"""Rows as the scripts keep them, turned into records.

Rows that change with every node have a form of their own, which is quick to make in Lua. Others are
packed as their values one after the other: with the head of an array before them they are one
MessagePack array. Strings hold whatever bytes they were given: those that are payloads are
taken out as they are.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from minuet.store.lenient import (
    DAMAGE,
    READS,
    UNREADABLE_READS,
    error_of,
    struct_of,
    tags_of,
)
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
    WorkerEntry,
    WorkerRecord,
)

#: What changes of a run, as it is stored: numbers, strings, where the rest begins, and columns that
#: most runs do not have.
RUN_COLUMNS = (
    *("started_ms", "counter", "seq", "generation"),
    *("tenant", "workflow", "plan", "status"),
    "tail",
    # Whether an instance in a loop or a map has an output: `scoped`.
    *("deadline_ms", "scoped", "dead_letters", "ended_ms", "error"),
)
RUN_NUMBERS, _RUN_STRINGS = struct.Struct(">dIII"), 4

#: The same of a token. The event that holds its source's output is 0 when it is to be looked up.
TOKEN_COLUMNS = (
    *("due_ms", "taken_ms", "hop", "attempt", "delivery", "event", "source_event"),
    *("state", "outcome", "lease", "session", "queue", "source"),
    "tail",
    *("skip", "source_scope", "reads", "joined", "lane", "expiry", "cursor"),
    *("wait", "wait_key", "resolution", "slot", "slot_limit", "lost"),
)
TOKEN_NUMBERS, _TOKEN_STRINGS = struct.Struct(">ddIIIII"), 6

#: A time that there is not.
NEVER = -(2**53)


class _RunTail(msgspec.Struct, array_like=True, gc=False):
    deadline_ms: int | None = None
    scoped: bool | None = None
    dead_letters: int | None = None
    ended_ms: int | None = None
    error: str | None = None


class _RunOrigin(msgspec.Struct, array_like=True, gc=False):
    """What never changes of a run."""

    workflow: str
    plan: str
    created_ms: int
    tags: str
    idempotency_key: str | None
    parent: str | None


_NOTHING = msgspec.Raw(b"\xc0")

#: A packed string, and in it what `UNREADABLE_READS` is.
_PACKED_UNREADABLE = msgspec.Raw(b"\xa4\x91\x92\xa0\xa0")


class _TokenTail(msgspec.Struct, array_like=True, gc=False):
    skip: bool | None = None
    source_scope: str | None = None
    reads: msgspec.Raw = _NOTHING
    joined: bool | None = None
    lane: str | None = None
    expiry: int | None = None
    cursor: int | None = None
    wait: str | None = None
    wait_key: str | None = None
    resolution: msgspec.Raw = _NOTHING
    slot: str | None = None
    slot_limit: int | None = None
    lost: tuple[str, ...] | None = None


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


_decode_run_tail = msgspec.msgpack.Decoder(_RunTail).decode
_decode_origin = msgspec.msgpack.Decoder(_RunOrigin).decode
_decode_token_tail = msgspec.msgpack.Decoder(_TokenTail).decode
_decode_join = msgspec.msgpack.Decoder(_JoinRow).decode
_decode_arrival = msgspec.msgpack.Decoder(_ArrivalRow).decode
_decode_letter = msgspec.msgpack.Decoder(list[Any]).decode
_decode_reads = msgspec.msgpack.Decoder(tuple[Read, ...]).decode


def _head(count: int) -> bytes:
    """The head of an array of so many values."""
    return b"\xdc" + count.to_bytes(2, "big")


_ORIGIN, _JOIN, _ARRIVAL, _RUN_TAIL, _TOKEN_TAIL = (
    _head(len(row.__struct_fields__))
    for row in (_RunOrigin, _JoinRow, _ArrivalRow, _RunTail, _TokenTail)
)
_OLD_TOKEN_TAIL = _head(12)
_LETTER = _head(11)

#: How long the head of a string is, by its first byte; shorter strings have a head of one byte.
_HEADS = {0xD9: 2, 0xDA: 3, 0xDB: 5}


def _payload(raw: msgspec.Raw) -> bytes | None:
    """The bytes of a packed string; b"" for what is not a string, which only damage can be."""
    data = bytes(raw)
    if data == b"\xc0":
        return None
    first = data[0]
    return data[_HEADS.get(first, 1) :] if 0xA0 <= first <= 0xBF or first in _HEADS else b""


def struct_row(numbers: struct.Struct, values: Sequence[int], strings: Sequence[str]) -> bytes:
    """The numbers and strings of a row, as Lua makes them."""
    row = [numbers.pack(*values)]
    for string in strings:
        data = string.encode()
        row += (len(data).to_bytes(4, "big"), data)
    return b"".join(row)


def _columns(data: bytes, numbers: struct.Struct, strings: int) -> tuple[Any, list[Any], bytes]:
    """The numbers, the strings and the tail of a row."""
    at, found = numbers.size, []
    for _ in range(strings):
        length = int.from_bytes(data[at : at + 4], "big")
        at += 4 + length
        found.append(data[at - length : at].decode())
    return numbers.unpack_from(data), found, data[at:]


def _time(ms: float) -> int | None:
    return None if ms == NEVER else int(ms)


def run_of(reply: Sequence[Any]) -> Run:
    """A run, from its name and its three fields."""
    name, row_data, origin_data, input = reply
    numbers, strings, tail = _columns(row_data, RUN_NUMBERS, _RUN_STRINGS)
    started_ms, counter, seq, generation = numbers
    tenant, workflow, plan, status = strings
    row = _run_tail(tail) if tail else _RunTail()
    origin = _origin(origin_data)
    return Run(
        run=name.decode(),
        tenant=tenant,
        workflow=workflow,
        plan=plan,
        status=status,
        counter=counter,
        seq=seq,
        generation=generation,
        input=input or b"",
        tags=tags_of(origin.tags),
        idempotency_key=origin.idempotency_key,
        created_ms=origin.created_ms,
        started_ms=_time(started_ms),
        ended_ms=row.ended_ms,
        deadline_ms=row.deadline_ms,
        error=None if row.error is None else error_of(row.error),
        dead_letters=row.dead_letters or 0,
        parent=origin.parent,
    )


def headers_of(values: Sequence[Any]) -> Iterator[RunHeader]:
    """What a worker must know of runs, as `grant.lua` tells it: six values for each."""
    rest = iter(values)
    for name, plan, generation, deadline_ms, origin_data, input in zip(*[rest] * 6, strict=True):
        origin = _origin(origin_data)
        yield RunHeader(
            name.decode(),
            origin.workflow,
            plan.decode(),
            input or b"",
            generation,
            origin.created_ms,
            deadline_ms,
            {} if origin.tags == "{}" else tags_of(origin.tags),
        )


def token_of(tenant: str, run: str, node: str, scope: str, data: bytes) -> Token:
    """A token, from its row."""
    try:
        numbers, strings, tail = _columns(data, TOKEN_NUMBERS, _TOKEN_STRINGS)
    except DAMAGE:
        # Nobody takes it: `lua/rows.lua` does not see it.
        return Token(run, node, scope, tenant, "", reads=UNREADABLE_READS, lane="pause")
    due_ms, taken_ms, hop, attempt, delivery, event, _ = numbers
    state, outcome, lease, session, queue, source = strings
    row = _token_tail(tail) if tail else _TokenTail()
    reads = _payload(row.reads)
    resolution = _payload(row.resolution)
    return Token(
        run,
        node,
        scope,
        tenant,
        queue,
        state,
        outcome,
        row.skip or False,
        _time(due_ms),
        hop,
        attempt,
        row.expiry or 0,
        delivery,
        lease,
        session,
        int(taken_ms),
        source,
        row.source_scope or "",
        () if reads is None else _reads(reads),
        row.cursor or 0,
        row.wait or "",
        row.wait_key or "",
        resolution,
        event,
        row.lane or "",
        row.slot or "",
        row.slot_limit or 0,
        row.lost or (),
    )


def _token_tail(tail: bytes) -> _TokenTail:
    try:
        return _decode_token_tail(_TOKEN_TAIL + tail)
    except msgspec.DecodeError:
        pass
    try:
        # As it was before layout 3: without its last column.
        return _decode_token_tail(_OLD_TOKEN_TAIL + tail)
    except msgspec.DecodeError:
        row = struct_of(_TokenTail, _values(len(_TokenTail.__struct_fields__), tail))
        row.reads, row.resolution = _PACKED_UNREADABLE, _NOTHING
        return row


def _run_tail(tail: bytes) -> _RunTail:
    try:
        return _decode_run_tail(_RUN_TAIL + tail)
    except msgspec.DecodeError:
        return struct_of(_RunTail, _values(len(_RunTail.__struct_fields__), tail))


def _origin(data: bytes) -> _RunOrigin:
    try:
        return _decode_origin(_ORIGIN + data)
    except DAMAGE:
        return struct_of(_RunOrigin, _values(len(_RunOrigin.__struct_fields__), data))


def _reads(data: bytes) -> tuple[Read, ...]:
    try:
        return _decode_reads(data)
    except DAMAGE:
        return UNREADABLE_READS


def _values(count: int, data: Any) -> list[Any]:
    """The first values of a damaged row, as many as can be read."""
    for length in range(count, 0, -1):
        try:
            return _decode_letter(_head(length) + data)
        except DAMAGE:
            continue
    return []


def grants_of(values: Sequence[Any], lease: str, taken_ms: int) -> Iterator[Grant]:
    """Tokens taken, as `grant.lua` tells them: fourteen values and their outputs for each."""
    at = 0
    sent: list[Output] = []
    while at < len(values):
        run, node, scope, skip, attempt, expiry, delivery, hop, cursor, resolution, slot = values[
            at : at + 11
        ]
        first, oversize = at + 14, values[at + 13]
        middle = first + 3 * values[at + 11]
        at = middle + 3 * values[at + 12]
        inputs = _outputs(values, first, middle, sent)
        if len(inputs) > 1:
            inputs = tuple(sorted(inputs, key=lambda output: (output.node, output.scope)))
        # As `grant.lua` says that what the token reads cannot be read.
        damaged = READS if oversize < 0 else ""
        yield Grant(
            run.decode(),
            node.decode(),
            scope.decode(),
            lease,
            skip == 1,
            attempt,
            expiry,
            delivery,
            hop,
            taken_ms,
            cursor,
            resolution,
            slot.decode(),
            inputs,
            _outputs(values, middle, at, sent),
            max(oversize, 0),
            damaged,
        )


def _outputs(values: Sequence[Any], first: int, end: int, sent: list[Output]) -> tuple[Output, ...]:
    """Outputs, from node, scope and data of each; `sent` are those of the answer so far."""
    found = []
    for i in range(first, end, 3):
        data = values[i + 2]
        if isinstance(data, int):
            # The same as an earlier one, counted from 1.
            output = sent[data - 1]
        else:
            output = Output(values[i].decode(), values[i + 1].decode(), data)
            sent.append(output)
        found.append(output)
    return tuple(found)


#: Before an event in its record: when it was, and where in the record its output is.
RECORD = struct.Struct(">dII")


def event_of(run: str, seq: int, data: bytes) -> EventRecord:
    """An event, from its record."""
    if len(data) < RECORD.size:
        return EventRecord(run, seq, 0, data)
    at_ms, _, _ = RECORD.unpack_from(data)
    return EventRecord(run, seq, int(at_ms), data[RECORD.size :])


def dead_letter_of(run: str, data: bytes) -> DeadLetter:
    """A dead letter, from its row."""
    node, scope, generation, tenant, queue, reason, error, *rest = _decode_letter(_LETTER + data)
    error = error_of(error)
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
