"""A whole run as the fields of its hash, and in portions that do not hold a server up.

`rows.py` reads what is written here. The rows of live tokens travel apart from the fields: the
script that puts the run in its place must show them in queues and sets as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import msgspec

from minuet.events import RunCreated, SignalReceived, decode_event
from minuet.store.families import awaited_children
from minuet.store.records import LIVE_STATES, EventRecord, Snapshot, Token
from minuet.store.redis.columns import (
    ARRIVAL,
    DEAD_LETTER,
    FIELDS,
    JOIN,
    LISTED,
    NEVER,
    ORIGIN,
    RUN,
    SIGNAL,
    TOKEN,
    Column,
    Layout,
)
from minuet.store.redis.packing import as_json, opaque, pack
from minuet.store.redis.rows import RECORD, letter_member
from minuet.types import UNDO

#: A field of a hash and its value.
Field: TypeAlias = tuple[str, bytes]

#: As much as one call writes: fields, and bytes.
FIELDS_MAX = 2_000
BYTES_MAX = 1 << 20


class WholeRun:
    """What a script needs to put a run in its place."""

    def __init__(self, rows: Snapshot) -> None:
        run = rows.run
        joined = {(join.node, join.scope) for join in rows.joins}
        live = [token for token in rows.tokens if token.state in LIVE_STATES]
        settled = [token for token in rows.tokens if token.state not in LIVE_STATES]
        #: Places of outputs that are searched by their scope.
        self.scoped = [
            f"{token.node}\0{token.scope}"
            for token in rows.tokens
            if token.scope and token.event and not token.skip
        ]
        self.row = _struct_row(RUN, run, scoped=bool(self.scoped) or None)
        self.live = [(token.node, token.scope, opaque(_token_row(token, joined))) for token in live]
        self.letters = [
            (letter.status, letter_member(letter.place), letter.at_ms)
            for letter in rows.dead_letters
        ]
        self.kept = [(signal.id, signal.seq) for signal in rows.signals if not signal.node]
        self.awaited = awaited_children(rows)
        self.fields = [
            *_origin(rows),
            *_joins(rows),
            *((f"{FIELDS['token']}{t.node}\0{t.scope}", _token_row(t, joined)) for t in settled),
            *((f"{FIELDS['event']}{event.seq}", _event(event)) for event in rows.events),
            *((f"{FIELDS['step']}{n}\0{s}\0{name}", value) for n, s, name, value in rows.steps),
            *_letters(rows),
            *((f"{FIELDS['signal']}{s.id}", _packed_row(SIGNAL, s)) for s in rows.signals),
        ]

    def portions(self) -> Iterator[list[Field]]:
        """The fields, as many at a time as one call writes."""
        portion: list[Field] = []
        size = 0
        for field in self.fields:
            size += len(field[1])
            portion.append(field)
            if len(portion) >= FIELDS_MAX or size >= BYTES_MAX:
                yield portion
                portion, size = [], 0
        yield portion


def packed(fields: list[Field]) -> list[Any]:
    """Fields and values one after the other, as a script takes them."""
    return [part for name, value in fields for part in (name, opaque(value))]


def _row(*values: Any) -> bytes:
    """Values one after the other, as Lua packs them."""
    return b"".join(map(pack, values))


def _struct_row(layout: Layout, record: Any, **extra: Any) -> bytes:
    """A row of a run or a token. What only Redis keeps of it is given apart."""
    values = [_number(record, extra, name) for name in layout.numbers]
    row = [layout.struct.pack(*values)]
    for name in layout.strings:
        data = getattr(record, name).encode()
        row += (len(data).to_bytes(4, "big"), data)
    return b"".join(row) + _packed_row(layout, record, **extra)


def _number(record: Any, extra: dict[str, Any], name: str) -> int:
    value = extra[name] if name in extra else getattr(record, name)
    return NEVER if value is None else value


def _packed_row(layout: Layout, record: Any, **extra: Any) -> bytes:
    """A packed row, or the tail of one, in which nil stands for the default."""
    return _row(*(_wire(layout, column, record, extra) for column in layout.tail))


def _wire(layout: Layout, column: Column, record: Any, extra: dict[str, Any]) -> Any:
    value = extra[column.name] if column.name in extra else getattr(record, column.name)
    if value is None or (layout.has_struct and value == column.default):
        return None
    match column.form:
        case "payload":
            return opaque(value)
        case "reads":
            return opaque(pack(value))
        case "json":
            return as_json(value)
    return value


def _origin(rows: Snapshot) -> Iterator[Field]:
    """What the run was when it was created, and its input then and now."""
    run = rows.run
    workflow, plan, given = run.workflow, run.plan, run.input
    created = decode_event(rows.events[0].data) if rows.events else None
    if isinstance(created, RunCreated):
        workflow, plan, given = created.workflow, created.plan, bytes(created.input)
    yield FIELDS["origin"], _packed_row(ORIGIN, run, workflow=workflow, plan=plan)
    yield FIELDS["input"], run.input
    if given != run.input:
        yield FIELDS["first_input"], given


def _token_row(token: Token, joined: set[tuple[str, str]]) -> bytes:
    # Where the output of its source is, is looked up.
    is_joined = (token.node, token.scope) in joined or None
    return _struct_row(TOKEN, token, source_event=0, joined=is_joined)


def _joins(rows: Snapshot) -> Iterator[Field]:
    listed: dict[str, int] = {}
    for a in rows.arrivals:
        to = f"{a.node}\0{a.scope}"
        yield f"{FIELDS['arrival']}{to}\0{a.source}", _packed_row(ARRIVAL, a)
        if a.live and not a.late:
            listed[to] = listed.get(to, 0) + 1
            yield f"{FIELDS['listed']}{to}\0{listed[to]}", _packed_row(LISTED, a, event=0)
    for j in rows.joins:
        name = f"{j.node}\0{j.scope}"
        yield f"{FIELDS['join']}{name}", _packed_row(JOIN, j, listed=listed.get(name, 0))


def _letters(rows: Snapshot) -> Iterator[Field]:
    for letter in rows.dead_letters:
        name = f"{FIELDS['dead_letter']}{letter.generation}"
        if letter.held or letter.node.endswith(UNDO):
            name += f"\0{letter.node}\0{letter.scope}"
        yield name, _packed_row(DEAD_LETTER, letter)


class _Values(msgspec.Struct):
    """The fields of an event that are wanted."""

    type: str
    output: msgspec.Raw = msgspec.Raw(b"")
    data: msgspec.Raw = msgspec.Raw(b"")


_decode_values = msgspec.json.Decoder(_Values).decode
_SIGNAL_RECEIVED = str(SignalReceived.__struct_config__.tag)


def _event(event: EventRecord) -> bytes:
    """An event's record: when, and the place of the output in it, or of a signal's data."""
    values = _decode_values(event.data)
    output = bytes(values.data if values.type == _SIGNAL_RECEIVED else values.output)
    # Any place that holds these bytes will do.
    first = RECORD.size + event.data.index(output) + 1 if output else 0
    last = first + len(output) - 1 if output else 0
    return RECORD.pack(event.at_ms, first, last) + event.data
