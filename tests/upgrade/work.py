"""Runs in every state that a store can hold: how each is left, and how it ends.

An earlier version starts them and leaves them (`make.py`), this version goes on with them
(`test_upgrade.py`). So this module uses only what both have. While a store is being made, `hold`
does not return and `mend` fails.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

import minuet
from minuet.events import event_type

#: In the environment: a store is being made.
MAKING = "MINUET_UPGRADE_MAKING"

#: A tenant besides the usual one. Nobody works for it while the store is being made.
OTHER_TENANT = "other"

#: What a worker must offer for the node with placement constraints.
CAPABILITIES = {"gpu": 1}

#: More than fits into an event, so it is kept as a blob.
LARGE = "large " * 20_000


def is_making() -> bool:
    return MAKING in os.environ


@minuet.task
async def up_hold(ctx: minuet.Context, value: Any = None) -> Any:
    """Return who did its step, and its argument. While the store is made: do the step, and hang."""
    who = await ctx.step("who", lambda: "earlier" if is_making() else "now")
    if is_making():
        await asyncio.Event().wait()
    return [who, value]


@minuet.task
async def up_hold_third(iteration: int, ctx: minuet.Context) -> int:
    if iteration == 2 and is_making():
        await asyncio.Event().wait()
    return iteration


@minuet.task
def up_double(number: int) -> int:
    return number * 2


@minuet.task
def up_large() -> str:
    return LARGE


@minuet.task
def up_length(text: str) -> int:
    return len(text)


@minuet.task
def up_refuse() -> None:
    raise minuet.NonRetryable("refused")


@minuet.task
def up_mend(ctx: minuet.Context) -> int:
    """Works at the second attempt."""
    if ctx.attempt == 1:
        raise RuntimeError("not yet")
    return ctx.attempt


def plain_events(history: Iterable[tuple[int, int, Any]]) -> list[dict[str, Any]]:
    """Events with all their fields, as JSON: what they say, however a command shows it."""
    return [
        {
            **{name: _plain(getattr(event, name)) for name in event.__struct_fields__},
            "seq": seq,
            "at_ms": at_ms,
            "type": event_type(event),
        }
        for seq, at_ms, event in history
    ]


def _plain(value: Any) -> Any:
    if isinstance(value, msgspec.Raw):
        return json.loads(bytes(value)) if bytes(value) else None
    return json.loads(json.dumps(value))


class Left(NamedTuple):
    """A live token that a run is left with."""

    node: str
    #: ready, leased or waiting.
    state: str
    #: Why a ready one is not handed out: "", "pause" or "slot".
    lane: str = ""


class Case(NamedTuple):
    """A run: its document, how it is left and how it ends."""

    name: str
    nodes: list[dict[str, Any]]
    input: Any = None
    #: What it is left with; nothing: it is over, or PENDING.
    left: tuple[Left, ...] = ()
    #: What is done to it before it is left.
    change: str = ""
    tenant: str = "default"
    queue: str | None = None
    limits: dict[str, Any] | None = None
    idempotency_key: str | None = None
    #: How it ends.
    status: str = "COMPLETED"
    output: Any = None

    @property
    def document(self) -> dict[str, Any]:
        defaults = {"defaults": {"queue": self.queue}} if self.queue else {}
        limits = {"limits": self.limits} if self.limits else {}
        return {"name": self.name, "nodes": self.nodes, **defaults, **limits}


def _node(id: str, handler: str, *dependencies: str, **fields: Any) -> dict[str, Any]:
    return {"id": id, "handler": handler, "dependencies": list(dependencies), **fields}


def _transform(id: str, value: Any, *dependencies: str, **fields: Any) -> dict[str, Any]:
    node = {"id": id, "type": "transform", "config": {"value": value}}
    return {**node, "dependencies": list(dependencies), **fields}


_HOLD = [_node("hold", "up_hold")]
_MEETING = [
    _node("double", "up_double", config={"number": "{{ input.n }}"}),
    _node("hold", "up_hold", config={"value": "{{ input.n }}"}),
    _transform("meet", ["{{ double.output }}", "{{ hold.output }}"], "double", "hold"),
]
_FIRST = [
    _node("double", "up_double", config={"number": "{{ input.n }}"}),
    _node("hold", "up_hold", config={"value": "{{ input.n }}"}),
]
_LOOP = [
    _node("begin", "up_double", config={"number": 1}),
    _node(
        "round",
        "up_hold_third",
        "begin",
        config={"iteration": "{{ iteration }}"},
        loop={"while": "output < 4", "loop_back_to": "round", "max_iterations": 9},
    ),
    _transform("end", "{{ round.output }}", "round"),
]
_SLOT = [_node("hold", "up_hold", concurrency={"key": "one", "limit": 1})]
_ALL_SORTS = [
    _node("double", "up_double", config={"number": "{{ input.n }}"}),
    _node("refused", "up_refuse", on_error="continue"),
    {
        "id": "choose",
        "type": "decision",
        "dependencies": ["double", "refused"],
        "branch": {
            "rules": [{"when": "output.double > 10", "next_nodes": ["much"]}],
            "default": ["little"],
        },
    },
    _transform("much", "much"),
    _transform("little", "little"),
    _node(
        "round",
        "up_double",
        "much",
        "little",
        config={"number": "{{ iteration }}"},
        loop={"while": "output < 4", "loop_back_to": "round", "max_iterations": 9},
    ),
    _transform("end", ["{{ double.output }}", "{{ round.output }}"], "round"),
]

#: The order in which they are started; those of one slot come in their order.
CASES = (
    # Over.
    Case("completed", _ALL_SORTS, {"n": 7}, output={"end": [14, 4]}),
    Case("keyed", _ALL_SORTS, {"n": 1}, idempotency_key="ended", output={"end": [2, 4]}),
    Case("failed", [_node("refused", "up_refuse")], status="FAILED"),
    Case("failed-twice", [_node("refused", "up_refuse")], change="retry", status="FAILED"),
    Case("cancelled", _HOLD, change="cancel", status="CANCELLED"),
    Case(
        "withdrawn",
        [*_FIRST, _transform("meet", 1, "double", "hold", join="any", join_rest="cancel")],
        {"n": 2},
        output={"meet": 1},
    ),
    # Not started.
    Case("pending", _MEETING, change="create", output={"meet": [6, ["now", 3]]}),
    # In the hands of a worker that dies.
    Case(
        "leased",
        _HOLD,
        left=(Left("hold", "leased"),),
        idempotency_key="open",
        output={"hold": ["earlier", None]},
    ),
    Case(
        "joining",
        _MEETING,
        {"n": 4},
        left=(Left("hold", "leased"),),
        output={"meet": [8, ["earlier", 4]]},
    ),
    Case(
        "joined-by-one",
        [*_FIRST, _transform("meet", "{{ double.output }}", "double", "hold", join="any")],
        {"n": 2},
        left=(Left("hold", "leased"),),
        output={"meet": 4},
    ),
    Case(
        "joined-by-each",
        [*_FIRST, _transform("meet", 1, "double", "hold", join="each")],
        {"n": 2},
        left=(Left("hold", "leased"),),
        output={"meet": 1},
    ),
    Case(
        "deadline",
        _HOLD,
        limits={"deadline_s": 60},
        left=(Left("hold", "leased"),),
        status="CANCELLED",
    ),
    Case("looping", _LOOP, left=(Left("round", "leased"),), output={"end": 4}),
    Case(
        "large",
        [
            _node("large", "up_large"),
            _node("hold", "up_hold", "large", config={"value": "{{ input.text }}"}),
            _node("length", "up_length", "hold", config={"text": "{{ large.output }}"}),
        ],
        {"text": LARGE},
        left=(Left("hold", "leased"),),
        output={"length": len(LARGE)},
    ),
    # Waiting.
    Case(
        "delayed",
        [
            _node(
                "mend",
                "up_mend",
                retry={"max_attempts": 3, "backoff_ms": 60_000, "jitter": False},
            )
        ],
        left=(Left("mend", "ready"),),
        output={"mend": 2},
    ),
    Case(
        "timer",
        [{"id": "wait", "type": "wait", "config": {"seconds": 60}}, _transform("end", 1, "wait")],
        left=(Left("wait", "waiting"),),
        output={"end": 1},
    ),
    Case(
        "distant-timer",
        [
            {"id": "wait", "type": "wait", "config": {"until": "2200-01-01T00:00:00Z"}},
            _node("double", "up_double", config={"number": 4}),
            _transform("meet", "{{ double.output }}", "wait", "double"),
        ],
        left=(Left("wait", "waiting"),),
        output={"meet": 8},
    ),
    Case("slot-held", _SLOT, left=(Left("hold", "leased"),), output={"hold": ["earlier", None]}),
    Case(
        "slot-second", _SLOT, left=(Left("hold", "ready", "slot"),), output={"hold": ["now", None]}
    ),
    Case(
        "slot-third", _SLOT, left=(Left("hold", "ready", "slot"),), output={"hold": ["now", None]}
    ),
    Case(
        "placed",
        [
            _node(
                "double",
                "up_double",
                config={"number": 5},
                placement_constraints={"requires_capabilities": CAPABILITIES},
            )
        ],
        left=(Left("double", "ready"),),
        output={"double": 10},
    ),
    # A queue that nobody serves.
    Case(
        "ready",
        [
            _node("one", "up_double", config={"number": 1}),
            _node("two", "up_double", config={"number": 2}),
        ],
        queue="later",
        left=(Left("one", "ready"), Left("two", "ready")),
        output={"one": 2, "two": 4},
    ),
    Case(
        "paused",
        [_node("one", "up_double", config={"number": 1})],
        queue="later",
        change="pause",
        left=(Left("one", "ready", "pause"),),
        output={"one": 2},
    ),
    Case(
        "paused-leased",
        _MEETING,
        {"n": 5},
        change="pause",
        left=(Left("hold", "leased"),),
        output={"meet": [10, ["earlier", 5]]},
    ),
    # Another tenant.
    Case(
        "tenant",
        _MEETING,
        {"n": 6},
        tenant=OTHER_TENANT,
        idempotency_key="open",
        left=(Left("double", "ready"), Left("hold", "ready")),
        output={"meet": [12, ["now", 6]]},
    ),
    Case(
        "tenant-cancelled",
        _MEETING,
        {"n": 6},
        tenant=OTHER_TENANT,
        change="cancel",
        status="CANCELLED",
    ),
    # Its first worker dies as well, so that one lease has expired. It is started before the others.
    Case("crashed", _HOLD, left=(Left("hold", "leased"),), output={"hold": ["earlier", None]}),
)

BY_NAME = {case.name: case for case in CASES}
