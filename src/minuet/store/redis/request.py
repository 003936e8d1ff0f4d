"""What callers ask for, packed for the scripts.

Lua reads MessagePack without its binary type, so payloads travel as strings whose bytes are never
read. JSON that goes into events and rows is written here, once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from minuet.events import COUNTED
from minuet.store.blob import blob_of
from minuet.store.identifiers import are_long, is_long, slot_key
from minuet.store.records import (
    PAYLOAD_BYTES_MAX,
    Cancel,
    Change,
    Delivery,
    Done,
    Exchange,
    Failed,
    Item,
    NewPlan,
    NewRun,
    Pause,
    Released,
    Resume,
    Retried,
    RetryRun,
    SendSignal,
    Slot,
    Start,
    Waiting,
)
from minuet.store.rules.leases import lease_length
from minuet.store.rules.shared import fingerprint


def _plain(value: object) -> str:
    """Text of a subclass of `str`, such as a handle of a run, as text."""
    if isinstance(value, str):
        return str.__str__(value)
    raise TypeError(f"a request cannot hold {type(value).__name__}")


pack = msgspec.msgpack.Encoder(enc_hook=_plain).encode
_json = msgspec.json.Encoder().encode


def opaque(data: bytes) -> msgspec.Raw:
    """Bytes as a string of MessagePack, whatever they are."""
    return msgspec.Raw(b"\xdb" + len(data).to_bytes(4, "big") + data)


def _optional(data: bytes | None) -> msgspec.Raw | None:
    return None if data is None else opaque(data)


def as_json(value: Any) -> msgspec.Raw:
    """A value of ours as JSON."""
    return opaque(_json(value))


def _optional_json(value: Any) -> msgspec.Raw | None:
    return None if value is None else as_json(value)


def _delivery(d: Delivery) -> tuple[Any, ...]:
    return (
        d.node,
        d.scope,
        d.live,
        d.need,
        d.total,
        d.queue,
        opaque(pack(d.reads)) if d.reads else None,
        d.withdraws or None,
        d.window or None,
        # In the form of an event.
        as_json((d.node, d.scope, d.live + (COUNTED if d.window else 0), d.need, d.total)),
    )


def _deliveries(deliveries: Iterable[Delivery]) -> list[tuple[Any, ...]]:
    return [_delivery(d) for d in deliveries]


def exchange(request: Exchange, now_ms: int | None, session_ms: int, *, strict: bool) -> bytes:
    """An exchange for `exchange.lua`: values one after the other, not in arrays."""
    by_queue = request.lease_ms_by_queue
    values = [
        now_ms,
        request.tenant,
        request.session,
        request.seq,
        request.lease,
        lease_length(request.lease_ms),
        {name: lease_length(wanted_ms) for name, wanted_ms in by_queue.items()} or None,
        session_ms,
        strict,
        request.renew,
        [(take.queues, take.limit) for take in request.take],
        request.runs,
        len(request.hand_in),
    ]
    for item in request.hand_in:
        if isinstance(item, Done):
            _add_done(values, item)
        else:
            fields = _item(item)
            values += fields
            values += (None,) * (_ITEM_FIELDS - len(fields))
            values.append(0)
    return _without_head(pack(values), len(values))


#: Values of an item, before the number of its deliveries.
_ITEM_FIELDS = 14


def _without_head(array: bytes, length: int) -> bytes:
    """The values of a packed array."""
    return array[1 if length < 16 else 3 if length < 65536 else 5 :]


def _item(item: Item) -> tuple[Any, ...]:
    name = (item.run, item.node, item.scope, item.lease)
    match item:
        case Retried():
            return ("retry", *name, as_json(item.error), item.delay_ms)
        case Failed():
            # The run's own error says where it happened.
            run_error = {**item.error, "node": item.node, "scope": item.scope}
            return (
                "failed",
                *name,
                as_json(item.error),
                as_json(run_error),
                item.dead_letter,
                fingerprint(item.node, item.error),
            )
        case Waiting():
            payload = opaque(item.data)
            if is_long(item.key):
                return ("waiting", *name, None, None, None, None, None)
            return ("waiting", *name, item.kind, item.key, item.due_ms, item.delay_ms, payload)
        case Released():
            return ("released", *name)
        case Slot():
            return ("slot", *name, slot_key(item), item.limit)
        case Done():
            raise AssertionError("has deliveries: see `_add_done`")


def _add_done(values: list[Any], item: Done) -> None:
    output = item.output
    too_large = len(output) > PAYLOAD_BYTES_MAX or are_long(item.deliveries)
    if too_large:
        output = b""
    deliveries = item.deliveries
    values += (
        *("done", item.run, item.node, item.scope, item.lease),
        item.plan,
        too_large or blob_of(output),
        item.outcome,
        opaque(output),
        # The event keeps the bytes as they came; readers of the output get it without white space.
        len(output) - len(output.lstrip()),
        len(output.strip()),
        None if item.error is None else as_json(item.error),
        None if item.notes is None else as_json(item.notes),
        item.cursor,
        len(deliveries),
    )
    values += map(_packed_delivery, deliveries)


@lru_cache(4096)
def _packed_delivery(delivery: Delivery) -> msgspec.Raw:
    """The values of a delivery; the same ones are sent for all runs of a plan."""
    fields = _delivery(delivery)
    return msgspec.Raw(_without_head(pack(fields), len(fields)))


def create_runs(
    runs: Sequence[NewRun], staged: Sequence[tuple[str | None, int]], now_ms: int | None
) -> bytes:
    """New runs for `create_runs.lua`, and where the blobs of each were kept aside."""
    pairs = zip(runs, staged, strict=True)
    return pack((now_ms, [(*_new_run(new), *place) for new, place in pairs]))


def _new_run(new: NewRun) -> tuple[Any, ...]:
    return (
        new.run,
        new.workflow,
        new.plan,
        new.tenant,
        opaque(new.input),
        None if new.entries is None else _deliveries(new.entries),
        new.deadline_ms,
        new.idempotency_key,
        as_json(new.tags),
        new.parent,
        new.version,
        new.tag,
    )


def change_run(
    tenant: str, run: str, change: Change, expected_seq: int | None, now_ms: int | None
) -> bytes:
    """A change for `change_run.lua`."""
    return pack((now_ms, tenant, run, expected_seq, *_change(change)))


def _change(change: Change) -> tuple[Any, ...]:
    match change:
        case Start():
            deliveries = _deliveries(change.entries)
            return ("start", deliveries, change.deadline_ms, _optional(change.input))
        case Cancel():
            return ("cancel", change.reason, change.by)
        case Pause():
            return ("pause", change.by)
        case Resume():
            return ("resume", change.by)
        case RetryRun():
            return ("retry", change.by, change.deadline_ms, change.parent)
        case NewPlan():
            deliveries_by_source = [(s, scope, _delivery(d)) for s, scope, d in change.deliveries]
            return ("plan", change.plan, deliveries_by_source, change.by)
        case SendSignal():
            return ("signal", change.name, change.id, opaque(change.data), change.by)
