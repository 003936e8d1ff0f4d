"""What requests carry: the values of records, by the names of their fields.

The records in `exchange` and `changes` are the one declaration. From their fields and types this
module derives, once at import, which values a request holds, in which order, and the functions that
write them. `script.py` gives the scripts the same names. A field that is added to a delivery or an
item is part of both at once. A record says more here only where its field does not travel
unchanged, or where a script needs a value that Lua could not compute.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias, get_args, get_origin

import msgspec
from msgspec.structs import FieldInfo

from minuet.events import COUNTED
from minuet.store.changes import (
    Cancel,
    NewPlan,
    NewRun,
    Pause,
    Repair,
    ReportStall,
    Resume,
    RetryRun,
    Rollback,
    SendSignal,
    Start,
)
from minuet.store.exchange import (
    Delivery,
    Done,
    Exchange,
    Failed,
    HandIn,
    Held,
    NewStep,
    Released,
    Retried,
    Slot,
    Take,
    Waiting,
)
from minuet.store.fields import compiled, is_optional, sort_of
from minuet.store.identifiers import slot_key
from minuet.store.lenient import plain_type
from minuet.store.records import Read
from minuet.store.redis.packing import as_json, opaque, pack
from minuet.store.rules.leases import lease_length
from minuet.store.rules.shared import fingerprint

#: A value that a record carries beside its fields, or in place of one, by its name.
Extra: TypeAlias = Mapping[str, Callable[[Any], Any]]

#: The values of a record, and then of what is given with it.
Write: TypeAlias = Callable[..., tuple[Any, ...]]


class Message:
    """The values of one kind of record, or of several that stand in each other's place.

    Of several kinds, a name is at the same place in all that have it; names that no kind has
    together may share a place. So no message is longer than its longest kind needs.
    """

    def __init__(
        self,
        kinds: Mapping[type[msgspec.Struct], Extra],
        *,
        given: Sequence[str] = (),
        common: Sequence[str] = (),
        without: Collection[str] = (),
    ) -> None:
        self._given = given
        names = {}
        for kind, extra in kinds.items():
            tag = ("type",) if kind.__struct_config__.tag else ()
            own = (name for name in kind.__struct_fields__ if name not in without)
            names[kind] = tuple(dict.fromkeys((*tag, *common, *given, *own, *extra)))
        #: Where each value is, from 1 on.
        self.places = _places(list(names.values()))
        #: How many values there are.
        self.length = max(self.places.values())
        #: By kind: the function that writes one.
        self.write = {kind: self._writer(kind, names[kind], kinds[kind]) for kind in kinds}

    def _writer(self, kind: type[msgspec.Struct], names: Sequence[str], extra: Extra) -> Write:
        """As `store.fields` does: a loop over the fields would cost ten times as much."""
        fields = {field.name: field for field in msgspec.structs.fields(kind)}
        space: dict[str, Any] = {"as_json": as_json, "opaque": opaque, "pack": pack}
        space |= {f"extra_{name}": function for name, function in extra.items()}
        values = ["None"] * self.length
        for name in names:
            if name == "type":
                value = repr(kind.__struct_config__.tag)
            elif name in self._given:
                value = name
            elif name in extra:
                value = f"extra_{name}(record)"
            else:
                value = _written(fields[name], space)
            values[self.places[name] - 1] = value
        arguments = ", ".join(["record", *self._given])
        source = f"def write({arguments}):\n    return ({', '.join(values)},)\n"
        return compiled("write", source, space)


def _places(kinds: Sequence[Sequence[str]]) -> dict[str, int]:
    places: dict[str, int] = {}
    for names in kinds:
        for name in names:
            if name not in places:
                beside = {other for kind in kinds if name in kind for other in kind}
                taken = {places[other] for other in beside if other in places}
                places[name] = next(at for at in range(1, len(taken) + 2) if at not in taken)
    return places


def _written(field: FieldInfo, space: dict[str, Any]) -> str:
    """The expression for a field of the record."""
    value = f"record.{field.name}"
    kind = plain_type(field)
    sort = sort_of(field)
    if sort == "list":
        element = get_args(kind)[0]
        if element is Delivery:
            space["write_delivery"] = write_delivery
            written = f"[write_delivery(d) for d in {value}]"
        elif is_optional(field):
            return value
        else:
            # A table for nothing would cost a server more than nil.
            return f"{f'opaque(pack({value}))' if element is Read else value} if {value} else None"
    elif sort == "object" or get_origin(kind) is list:
        written = f"as_json({value})"
    elif kind is bytes:
        written = f"opaque({value})"
    else:
        return value
    return f"None if {value} is None else {written}" if is_optional(field) else written


# ── what is sent ────────────────────────────────────────────────────────────────────────────


def _fragment(d: Delivery) -> msgspec.Raw:
    """A delivery in the form of an event."""
    return as_json((d.node, d.scope, d.live + (COUNTED if d.window else 0), d.need, d.total))


DELIVERY = Message({Delivery: {"fragment": _fragment}})
write_delivery = DELIVERY.write[Delivery]

# The event keeps the bytes of an output as they came; readers of the output get it without white
# space. So a script must know where it begins, and how long it is.
_DONE: Extra = {
    "lead": lambda item: len(item.output) - len(item.output.lstrip()),
    "size": lambda item: len(item.output.strip()),
    "fingerprint": lambda item: fingerprint(item.node, item.error) if item.dead_letter else None,
}


def _run_error(failed: Failed | Repair) -> msgspec.Raw:
    return as_json({**failed.error, "node": failed.node, "scope": failed.scope})


_FAILED: Extra = {
    # The run's own error says where it happened.
    "run_error": _run_error,
    "fingerprint": lambda item: fingerprint(item.node, item.error),
}

#: What a worker hands in. `flaw`: True: it is too large. A list: it names these blobs, which may be
#: lost. `deliveries` is how many deliveries follow.
ITEM = Message(
    {
        Done: _DONE,
        Retried: {},
        Failed: _FAILED,
        Waiting: {},
        Released: {},
        Slot: {"key": slot_key},
    },
    common=HandIn.__struct_fields__,
    given=("flaw", "deliveries"),
)


@lru_cache(1024)
def _queues(names: tuple[str, ...]) -> msgspec.Raw:
    """Queues that a worker takes from, once each: a standing part (`request.lua`)."""
    return opaque(pack(list(dict.fromkeys(names))))


@lru_cache(1024)
def _lengths(by_queue: tuple[tuple[str, int], ...]) -> msgspec.Raw | None:
    """Lengths of leases by queue, also a standing part."""
    return opaque(pack({name: lease_length(ms) for name, ms in by_queue})) if by_queue else None


#: A call of a worker. `hand_in` is how many items follow.
EXCHANGE = Message(
    {
        Exchange: {
            "lease_ms": lambda request: lease_length(request.lease_ms),
            "lease_ms_by_queue": lambda request: _lengths(tuple(request.lease_ms_by_queue.items())),
            "take": lambda request: [(_queues(take.queues), take.limit) for take in request.take],
        }
    },
    given=("now_ms", "session_ms", "strict", "hand_in"),
)

#: A run to create, and where its blobs were kept aside (nil: nowhere) and how many.
NEW_RUN = Message({NewRun: {}}, given=("stage", "staged"), without=("blobs",))


def _by_source(change: NewPlan) -> list[Any]:
    return [(source, scope, write_delivery(d)) for source, scope, d in change.deliveries]


#: A change of a run from outside.
CHANGE = Message(
    {
        Start: {},
        Cancel: {},
        Pause: {},
        Resume: {},
        RetryRun: {},
        NewPlan: {"deliveries": _by_source},
        SendSignal: {},
        Rollback: {},
        ReportStall: {},
        # The run's own error says where it happened.
        Repair: {"run_error": _run_error},
    }
)

#: A step to record.
NEW_STEP = Message({NewStep: {}})

#: By the word that scripts have for them: what they read into variables.
VALUES = {"exchange": EXCHANGE, "item": ITEM, "delivery": DELIVERY, "change": CHANGE}

#: The same of what scripts keep as arrays: where each value is in one.
ARRAYS = {
    "new": NEW_RUN.places,
    "step": NEW_STEP.places,
    **{
        word: {name: at for at, name in enumerate(kind.__struct_fields__, 1)}
        for word, kind in {"held": Held, "take": Take, "read": Read}.items()
    },
}
