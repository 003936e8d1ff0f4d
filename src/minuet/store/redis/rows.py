"""Rows as the scripts keep them, turned into records.

Rows that change with every node have a form of their own, which is quick to make in Lua. Others are
packed as their values one after the other: with the head of an array before them they are one
MessagePack array. Strings hold any bytes: those that are payloads are
taken out unchanged.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from minuet.store.exchange import Grant, Output, RunHeader
from minuet.store.fields import builder
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
    Join,
    LetterPlace,
    Read,
    Run,
    Signal,
    Snapshot,
    Token,
    WorkerEntry,
    WorkerRecord,
    WorkflowVersion,
)
from minuet.store.redis.columns import (
    ARRIVAL,
    DEAD_LETTER,
    FIELDS,
    JOIN,
    NEVER,
    ORIGIN,
    RUN,
    SIGNAL,
    TOKEN,
    VERSION,
    Column,
    Layout,
)
from minuet.store.reply import resolution_of

#: Packed nil.
_NOTHING = msgspec.Raw(b"\xc0")

#: A packed string, and in it what `UNREADABLE_READS` is.
_PACKED_UNREADABLE = msgspec.Raw(b"\xa4\x91\x92\xa0\xa0")

_TYPES = {"boolean": bool, "number": int, "string": str, "table": tuple[str, ...]}


class _Packed:
    """Rows, or tails of rows, that are packed values one after the other."""

    def __init__(self, layout: Layout) -> None:
        self.row: Any = msgspec.defstruct(
            f"{layout.letter}_row",
            [_wire(layout, number, column) for number, column in enumerate(layout.tail)],
            array_like=True,
            gc=False,
        )
        self._decode = msgspec.msgpack.Decoder(self.row).decode
        count = len(layout.tail)
        self._head = _head(count)
        #: Rows of earlier versions have fewer columns.
        self._earlier = [_head(n) for n in range(count - 1, layout.least - 1, -1)]

    def decode(self, data: bytes) -> Any:
        """The row; what it lacks is nil."""
        try:
            return self._decode(self._head + data)
        except msgspec.DecodeError:
            for head in self._earlier:
                try:
                    return self._decode(head + data)
                except msgspec.DecodeError:
                    continue
            raise

    def rescue(self, data: bytes) -> Any:
        """What can be read of a damaged row."""
        return struct_of(self.row, _values(len(self.row.__struct_fields__), data))


def _wire(layout: Layout, number: int, column: Column) -> tuple[str, Any] | tuple[str, Any, Any]:
    """The field of a packed row: nil where it may be missing, or is the default."""
    if column.form in ("payload", "reads"):
        return (column.name, msgspec.Raw, _NOTHING)
    kind: Any = _TYPES[column.kind]
    if layout.has_struct or number >= layout.least:
        return (column.name, kind | None, None)
    return (column.name, kind | None if column.name in layout.optional else kind)


def _head(count: int) -> bytes:
    """The head of an array of this many values."""
    return b"\xdc" + count.to_bytes(2, "big")


_ORIGIN, _RUN_TAIL, _TOKEN_TAIL, _JOIN, _ARRIVAL, _LETTER, _VERSION, _SIGNAL = map(
    _Packed, (ORIGIN, RUN, TOKEN, JOIN, ARRIVAL, DEAD_LETTER, VERSION, SIGNAL)
)
_decode_values = msgspec.msgpack.Decoder(list[Any]).decode
_decode_reads = msgspec.msgpack.Decoder(tuple[Read, ...]).decode

#: How long the head of a string is, by its first byte; shorter strings have a head of one byte.
_HEADS = {0xD9: 2, 0xDA: 3, 0xDB: 5}


def _payload(raw: msgspec.Raw) -> bytes | None:
    """The bytes of a packed string; b"" for what is not a string, which only damage can be."""
    data = bytes(raw)
    if data == b"\xc0":
        return None
    first = data[0]
    return data[_HEADS.get(first, 1) :] if 0xA0 <= first <= 0xBF or first in _HEADS else b""


def columns_of(layout: Layout, data: bytes) -> tuple[dict[str, Any], bytes]:
    """The numbers and the strings of a row by name, and its tail."""
    found: dict[str, Any] = dict(zip(layout.numbers, layout.struct.unpack_from(data), strict=True))
    for name, code in layout.numbers.items():
        if code == "d":
            found[name] = None if found[name] == NEVER else int(found[name])
    at = layout.struct.size
    for name in layout.strings:
        length = int.from_bytes(data[at : at + 4], "big")
        at += 4 + length
        found[name] = data[at - length : at].decode()
    return found, data[at:]


def _fields(layout: Layout, row: Any) -> dict[str, Any]:
    """The fields of a record that a packed row holds; nil is their default."""
    fields: dict[str, Any] = {}
    for name, _, form, default, is_field in layout.tail:
        if not is_field:
            continue
        value = getattr(row, name)
        if form in ("payload", "reads"):
            value = _payload(value)
        if value is None:
            value = default
        elif form == "reads":
            value = _reads(value)
        elif form == "json":
            value = _OBJECTS[name](value)
        fields[name] = value
    return fields


#: Objects that are kept as JSON.
_OBJECTS = {"tags": tags_of, "error": error_of}

#: The fields of a run whose row has no tail, as almost every new one.
_WITHOUT_TAIL = _fields(RUN, _RUN_TAIL.row())


def run_of(reply: Sequence[Any]) -> Run:
    """A run, from its name and its three fields."""
    name, data, origin_data, input = reply
    fields, tail = columns_of(RUN, data)
    rest = _run_tail(tail) if tail else _WITHOUT_TAIL
    # What it was at its creation comes first: its plan may be another one by now.
    fields = {**_fields(ORIGIN, _origin(origin_data)), **fields, **rest}
    return Run(run=name.decode(), input=input or b"", **fields)


def _run_tail(tail: bytes) -> dict[str, Any]:
    try:
        return _fields(RUN, _RUN_TAIL.decode(tail))
    except msgspec.DecodeError:
        return _fields(RUN, _RUN_TAIL.rescue(tail))


def _origin(data: bytes) -> Any:
    try:
        return _ORIGIN.decode(data)
    except DAMAGE:
        return _ORIGIN.rescue(data)


def headers_of(values: Sequence[Any]) -> Iterator[RunHeader]:
    """What a worker must know of runs, as `grant.lua` returns it: seven values for each."""
    rest = iter(values)
    for name, plan, generation, deadline_ms, origin_data, input, output_bytes in zip(
        *[rest] * 7, strict=True
    ):
        origin = _origin(origin_data)
        yield RunHeader(
            run=name.decode(),
            workflow=origin.workflow,
            plan=plan.decode(),
            input=input or b"",
            generation=generation,
            created_ms=origin.created_ms,
            deadline_ms=deadline_ms,
            tags={} if origin.tags == "{}" else tags_of(origin.tags),
            output_bytes=output_bytes,
        )


def token_of(tenant: str, run: str, node: str, scope: str, data: bytes) -> Token:
    """A token, from its row."""
    try:
        fields, tail = columns_of(TOKEN, data)
    except DAMAGE:
        # It is never taken: `lua/rows.lua` does not see it.
        return Token(run, node, scope, tenant, "", reads=UNREADABLE_READS, lane="pause")
    del fields["source_event"]
    row = _token_tail(tail) if tail else _TOKEN_TAIL.row()
    return Token(run=run, node=node, scope=scope, tenant=tenant, **fields, **_fields(TOKEN, row))


def _token_tail(tail: bytes) -> Any:
    try:
        return _TOKEN_TAIL.decode(tail)
    except msgspec.DecodeError:
        row = _TOKEN_TAIL.rescue(tail)
        row.reads, row.resolution = _PACKED_UNREADABLE, _NOTHING
        return row


def _reads(data: bytes) -> tuple[Read, ...]:
    try:
        return _decode_reads(data)
    except DAMAGE:
        return UNREADABLE_READS


def _values(count: int, data: Any) -> list[Any]:
    """The first values of a damaged row, as many as can be read."""
    for length in range(count, 0, -1):
        try:
            return _decode_values(_head(length) + data)
        except DAMAGE:
            continue
    return []


#: Makes a grant: what `grant.lua` returns, in its order, and what the call itself says.
_grant = builder(
    Grant,
    given=(
        *("run", "node", "scope", "skip", "attempt", "expiry", "delivery", "hop", "cursor"),
        *("resolution", "timed_out", "slot", "given", "edited", "lease", "taken_ms"),
        *("inputs", "reads", "oversize", "damaged"),
    ),
)


def grants_of(values: Sequence[Any], lease: str, taken_ms: int) -> Iterator[Grant]:
    """Tokens taken, as `grant.lua` returns them: fourteen values and their outputs for each."""
    at = 0
    sent: list[Output] = []
    while at < len(values):
        first = at + 14
        run, node, scope, skip, attempt, expiry, delivery = values[at : at + 7]
        hop, cursor, resolution, slot, input_count, read_count, oversize = values[at + 7 : first]
        middle = first + 4 * input_count
        at = middle + 4 * read_count
        inputs = _outputs(values, first, middle, sent) if input_count else ()
        if input_count > 1:
            inputs = tuple(sorted(inputs, key=lambda output: (output.node, output.scope)))
        given, edited, timed_out, damaged = 0, 0, False, ""
        if skip.__class__ is list:
            skip, given, edited = skip
        if resolution is not None:
            resolution, timed_out = resolution_of(resolution)
        if oversize < 0:
            # As `grant.lua` says that what the token reads cannot be read.
            oversize, damaged = 0, READS
        yield _grant(
            run.decode(),
            node.decode(),
            scope.decode(),
            skip == 1,
            attempt,
            expiry,
            delivery,
            hop,
            cursor,
            resolution,
            timed_out,
            slot.decode(),
            given,
            edited,
            lease,
            taken_ms,
            inputs,
            _read_outputs(values, middle, at, sent) if read_count else (),
            oversize,
            damaged,
        )


#: As `grant.lua` marks the node of an instance that failed.
_FAILED = b"!"


def _read_outputs(
    values: Sequence[Any], first: int, end: int, sent: list[Output]
) -> tuple[Output, ...]:
    """The same of outputs that are read: with their events, and whether their instances failed."""
    found = _outputs(values, first, end, sent)
    return tuple(
        Output(
            *(output.node, output.scope, output.data),
            failed=values[first + 4 * i].startswith(_FAILED),
            event=values[first + 4 * i + 2],
        )
        for i, output in enumerate(found)
    )


def _outputs(values: Sequence[Any], first: int, end: int, sent: list[Output]) -> tuple[Output, ...]:
    """Outputs, from node, scope, event and data of each; `sent` are those of the answer so far."""
    found = []
    for i in range(first, end, 4):
        node, scope, _, data = values[i : i + 4]
        if isinstance(data, int):
            # The same as an earlier one, counted from 1.
            output = sent[data - 1]
        else:
            output = Output(node.removeprefix(_FAILED).decode(), scope.decode(), data)
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


def letter_member(place: LetterPlace) -> str:
    """The name of a dead letter in sorted sets."""
    _, run, node, scope, generation = place
    return f"{run}\0{node}\0{scope}\0{generation:08d}"


def dead_letter_of(run: str, data: bytes) -> DeadLetter:
    """A dead letter, from its row."""
    return DeadLetter(run=run, **_fields(DEAD_LETTER, _LETTER.decode(data)))


def version_of(tenant: str, answer: Sequence[Any]) -> WorkflowVersion:
    """A version of a workflow, from its name, its number and its row."""
    name, number, data = answer
    fields = _fields(VERSION, _VERSION.decode(data))
    return WorkflowVersion(tenant=tenant, name=name.decode(), version=number, **fields)


def snapshot_of(tenant: str, run: str, fields: dict[bytes, bytes]) -> Snapshot:
    """Everything about a run, from all fields of its hash."""
    by_kind: dict[str, list[tuple[list[str], bytes]]] = {}
    for field, value in fields.items():
        name = field.decode()
        by_kind.setdefault(name[0], []).append((name[1:].split("\0", 2), value))

    def rows(kind: str) -> list[tuple[list[str], bytes]]:
        return sorted(by_kind.get(FIELDS[kind], ()))

    def stored(kind: str) -> bytes:
        return fields[FIELDS[kind].encode()]

    letters = [dead_letter_of(run, data) for _, data in rows("dead_letter")]
    return Snapshot(
        run=run_of((run.encode(), stored("run"), stored("origin"), stored("input"))),
        tokens=tuple(token_of(tenant, run, n, s, data) for (n, s), data in rows("token")),
        joins=tuple(_join(run, n, s, data) for (n, s), data in rows("join")),
        arrivals=tuple(_arrival(run, n, s, source, d) for (n, s, source), d in rows("arrival")),
        events=tuple(
            event_of(run, seq, data)
            for seq, data in sorted((int(seq), data) for (seq,), data in by_kind[FIELDS["event"]])
        ),
        steps=tuple((n, s, name, value) for (n, s, name), value in rows("step")),
        dead_letters=tuple(sorted(letters, key=lambda x: (x.node, x.scope, x.generation))),
        signals=tuple(signal_of(run, id, data) for (id,), data in rows("signal")),
    )


def _join(run: str, node: str, scope: str, data: bytes) -> Join:
    return Join(run=run, node=node, scope=scope, **_fields(JOIN, _JOIN.decode(data)))


def signal_of(run: str, id: str, data: bytes) -> Signal:
    return Signal(run=run, id=id, **_fields(SIGNAL, _SIGNAL.decode(data)))


def _arrival(run: str, node: str, scope: str, source: str, data: bytes) -> Arrival:
    fields = _fields(ARRIVAL, _ARRIVAL.decode(data))
    return Arrival(run=run, node=node, scope=scope, source=source, **fields)


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
