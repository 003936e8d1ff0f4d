"""A whole run as the fields of its hash, and in portions that do not hold a server up.

`rows.py` reads what is written here. The rows of live tokens travel apart from the fields: the
script that puts the run in its place must show them in queues and sets as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import msgspec

from minuet.events import RunCreated, decode_event
from minuet.store.records import LIVE_STATES, EventRecord, Run, Snapshot, Token
from minuet.store.redis.request import as_json, opaque, pack
from minuet.store.redis.rows import NEVER, RECORD, RUN_NUMBERS, TOKEN_NUMBERS, struct_row

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
        #: Where outputs stand that are looked for by their scope.
        self.scoped = [
            f"{token.node}\0{token.scope}"
            for token in rows.tokens
            if token.scope and token.event and not token.skip
        ]
        self.row = _run_row(run, scoped=bool(self.scoped))
        self.live = [(token.node, token.scope, opaque(_token_row(token, joined))) for token in live]
        self.letters = [
            (x.status, f"{run.run}\0{x.node}\0{x.scope}\0{x.generation:08d}", x.at_ms)
            for x in rows.dead_letters
        ]
        self.fields = [
            *_origin(rows),
            *_joins(rows),
            *((f"t{t.node}\0{t.scope}", _token_row(t, joined)) for t in settled),
            *((f"e{event.seq}", _event(event)) for event in rows.events),
            *((f"s{node}\0{scope}\0{name}", value) for node, scope, name, value in rows.steps),
            *_letters(rows),
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


def _text(value: Any) -> msgspec.Raw | None:
    return None if value is None else as_json(value)


def _run_row(run: Run, *, scoped: bool) -> bytes:
    return struct_row(
        RUN_NUMBERS,
        (_time(run.started_ms), run.counter, run.seq, run.generation),
        (run.tenant, run.workflow, run.plan, run.status),
    ) + _row(
        *(run.deadline_ms, scoped or None, run.dead_letters or None, run.ended_ms),
        _text(run.error),
    )


def _time(ms: int | None) -> int:
    return NEVER if ms is None else ms


def _origin(rows: Snapshot) -> Iterator[Field]:
    """What the run was when it was created, and its input then and now."""
    run = rows.run
    workflow, plan, given = run.workflow, run.plan, run.input
    created = decode_event(rows.events[0].data) if rows.events else None
    if isinstance(created, RunCreated):
        workflow, plan, given = created.workflow, created.plan, bytes(created.input)
    key, parent = run.idempotency_key, run.parent
    yield "I", _row(workflow, plan, run.created_ms, as_json(run.tags), key, parent)
    yield "i", run.input
    if given != run.input:
        yield "o", given


def _token_row(t: Token, joined: set[tuple[str, str]]) -> bytes:
    return struct_row(
        TOKEN_NUMBERS,
        # Where the output of its source stands is looked up.
        (_time(t.due_ms), t.taken_ms, t.hop, t.attempt, t.delivery, t.event, 0),
        (t.state, t.outcome, t.lease, t.session, t.queue, t.source),
    ) + _row(
        *(t.skip or None, t.source_scope or None),
        *(opaque(pack(t.reads)) if t.reads else None, (t.node, t.scope) in joined or None),
        *(t.lane or None, t.expiry or None, t.cursor or None),
        # A token that waits has a key, be it empty.
        *(t.wait or None, t.wait_key if t.wait else None),
        None if t.resolution is None else opaque(t.resolution),
        *(t.slot or None, t.slot_limit or None, t.lost or None),
    )


def _joins(rows: Snapshot) -> Iterator[Field]:
    listed: dict[str, int] = {}
    for a in rows.arrivals:
        to = f"{a.node}\0{a.scope}"
        yield f"a{to}\0{a.source}", _row(a.source_scope, a.live, a.late)
        if a.live and not a.late:
            listed[to] = listed.get(to, 0) + 1
            yield f"n{to}\0{listed[to]}", _row(a.source, a.source_scope, 0)
    for j in rows.joins:
        name = f"{j.node}\0{j.scope}"
        counts = (j.need, j.total, j.live, j.skipped, j.fired, j.hop, listed.get(name, 0))
        yield f"j{name}", _row(*counts)


def _letters(rows: Snapshot) -> Iterator[Field]:
    for x in rows.dead_letters:
        yield (
            f"d{x.generation}",
            _row(
                *(x.node, x.scope, x.generation, x.tenant, x.queue, x.reason, as_json(x.error)),
                *(x.fingerprint, x.attempts, x.at_ms, x.status),
            ),
        )


class _Output(msgspec.Struct):
    """The one field of an event that is wanted."""

    output: msgspec.Raw = msgspec.Raw(b"")


_decode_output = msgspec.json.Decoder(_Output).decode


def _event(event: EventRecord) -> bytes:
    """An event's record: when, and from where to where in it the output stands."""
    output = bytes(_decode_output(event.data).output)
    # The first place that holds these bytes will do, whatever stands there.
    first = RECORD.size + event.data.index(output) + 1 if output else 0
    last = first + len(output) - 1 if output else 0
    return RECORD.pack(event.at_ms, first, last) + event.data
