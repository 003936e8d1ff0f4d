"""What callers ask for, packed for the scripts: `messages.py` says what each part carries."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import msgspec

from minuet.store.blob import blobs_of
from minuet.store.changes import Change, NewRun
from minuet.store.exchange import Delivery, Done, Exchange, Item, NewStep, Waiting
from minuet.store.identifiers import are_long, is_long
from minuet.store.records import PAYLOAD_BYTES_MAX
from minuet.store.redis import messages
from minuet.store.redis.packing import pack, pack_values

_write_exchange = messages.EXCHANGE.write[Exchange]
_write_item = messages.ITEM.write
_write_delivery = messages.DELIVERY.write[Delivery]
_write_new_run = messages.NEW_RUN.write[NewRun]
_write_new_step = messages.NEW_STEP.write[NewStep]
_write_change = messages.CHANGE.write


def exchange(request: Exchange, now_ms: int | None, session_ms: int, *, strict: bool) -> bytes:
    """An exchange for `exchange.lua`: values one after the other, not in arrays."""
    values = [*_write_exchange(request, now_ms, session_ms, strict, len(request.hand_in))]
    for item in request.hand_in:
        flaw = _flaw_of(item)
        if flaw is True:
            item = _emptied(item)
        deliveries = item.deliveries if isinstance(item, Done) else ()
        values += _write_item[type(item)](item, flaw, len(deliveries))
        values += map(_packed_delivery, deliveries)
    return pack_values(values)


def _flaw_of(item: Item) -> bool | list[str] | None:
    """What may keep an item from being applied: True: it is too large. A list: it names these
    blobs."""
    if isinstance(item, Done):
        output = item.output
        if len(output) > PAYLOAD_BYTES_MAX or are_long(item.deliveries):
            return True
        return blobs_of(item.node, output) or None
    return isinstance(item, Waiting) and is_long(item.key)


def _emptied(item: Item) -> Item:
    """An item that is too large, without what makes it so: it will be refused."""
    if isinstance(item, Done):
        return msgspec.structs.replace(item, output=b"", deliveries=())
    return msgspec.structs.replace(item, key="")


@lru_cache(4096)
def _packed_delivery(delivery: Delivery) -> msgspec.Raw:
    """The values of a delivery; the same ones are sent for all runs of a plan."""
    return msgspec.Raw(pack_values(_write_delivery(delivery)))


def create_runs(
    runs: Sequence[NewRun], staged: Sequence[tuple[str | None, int]], now_ms: int | None
) -> bytes:
    """New runs for `create_runs.lua`, and where the blobs of each were kept aside."""
    pairs = zip(runs, staged, strict=True)
    return pack((now_ms, [_write_new_run(new, *place) for new, place in pairs]))


def record_steps(tenant: str, steps: Sequence[NewStep], now_ms: int | None) -> bytes:
    """Steps for `record_steps.lua`."""
    return pack((now_ms, tenant, [_write_new_step(new) for new in steps]))


def change_run(
    tenant: str, run: str, change: Change, expected_seq: int | None, now_ms: int | None
) -> bytes:
    """A change for `change_run.lua`."""
    return pack((now_ms, tenant, run, expected_seq, *_write_change[type(change)](change)))
