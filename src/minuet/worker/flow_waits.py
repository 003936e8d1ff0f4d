"""What a durable function waits for when it is left: for its token, and for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from minuet.bridge.values import encode_value
from minuet.errors import FunctionError
from minuet.functions.instance import Call, FunctionInstance
from minuet.functions.journal import Backoff
from minuet.nodes.spec import Wait
from minuet.store.identifiers import NAME_BYTES_MAX
from minuet.store.records import FLOW_WAIT

#: A function that waits for more signals and child runs than its token can name looks for the
#: others this often.
LOOK_MS = 30_000

#: Things that a function waits for which are noted for people when it is left.
WAITS_MAX = 20


def make_wait(
    names: Sequence[str], due_ms: int | None, now_ms: int, described: dict[str, Any]
) -> Wait:
    """What a token is to wait for: the first signal of one of these names, or a time."""
    if not names and due_ms is None:
        raise FunctionError(
            "the function waits for something that cannot come: no step, time, signal or "
            "child run that it waits for is left"
        )
    key = encode_value(names).decode() if names else ""
    if len(key.encode()) > NAME_BYTES_MAX:
        key = _cut(names)
        soon_ms = now_ms + LOOK_MS
        due_ms = soon_ms if due_ms is None else min(due_ms, soon_ms)
    return Wait(FLOW_WAIT, key=key, due_ms=due_ms, data=described)


def describe_waiting(
    instance: FunctionInstance, children: Mapping[str, Call], paused: Mapping[Call, Backoff]
) -> dict[str, Any]:
    """What the code waits for, for people: in the order in which it asked."""
    timers = {call.key for call in instance.timers()}
    runs = {call.key: child for child, call in children.items()}
    waits: list[dict[str, Any]] = []
    for call in instance.waiting.values():
        what: dict[str, Any] = {"for": call.kind, "name": call.name, "place": call.place}
        if call.kind == "timer":
            if call.key not in timers:
                continue
            name = call.name or "sleep"
            what = {"for": name, "until_ms": call.due_ms, "place": call.place}
        elif call.kind == "child":
            what["run"] = runs.get(call.key, "")
        elif call in paused:
            backoff = paused[call]
            what |= {"for": "retry", "name": call.label, "until_ms": backoff.due_ms}
            what |= {"attempt": backoff.attempt, "error": backoff.error}
        waits.append(what)
    more = {"more": len(waits) - WAITS_MAX} if len(waits) > WAITS_MAX else {}
    return {"waits": waits[:WAITS_MAX], **more}


def _cut(names: Sequence[str]) -> str:
    """As many names as a token can wait for."""
    kept: list[str] = []
    size = 2
    for name in names:
        size += len(encode_value(name)) + 1
        if size > NAME_BYTES_MAX:
            break
        kept.append(name)
    return encode_value(kept).decode()
