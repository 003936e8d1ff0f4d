"""The steps of a durable function, as people and programs see them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from minuet.functions.journal import Backoff, Entry, Kind, backoff_name, is_entry
from minuet.types import Json

_decoder = msgspec.json.Decoder(Entry)
_backoff_decoder = msgspec.json.Decoder(Backoff)


class StepView(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something that a durable function has got: the result of a step, a time that was over, a
    signal, the end of a child run, a value that is recorded."""

    #: `charge`, `charge #2`, `sleep`, `signal paid`, `child ship`.
    name: str
    #: `step`, `timer`, `signal`, `child`, `now`, `random`, `uuid`, `version`, `start`.
    kind: Kind
    #: COMPLETED or FAILED.
    status: str
    #: When it came and, of a step, when that began: in milliseconds since 1970.
    ended_ms: int
    started_ms: int | None = None
    #: How often the step was tried.
    attempts: int = 1
    #: The arguments by name; None if they are too large to be kept, or not JSON.
    input: Json = None
    output: Json = None
    #: The blob with the output, if that is large.
    blob: str | None = None
    error: dict[str, Any] | None = None
    #: The id of a child run.
    child: str | None = None


def steps_of(
    steps: Mapping[tuple[str, str, str], bytes], node: str, scope: str
) -> tuple[StepView, ...]:
    """The steps of one node instance, in order. None, if it is not a function."""
    found = [
        entry
        for (of, where, name), value in steps.items()
        if (of, where) == (node, scope) and (entry := _read(name, value)) is not None
    ]
    found.sort(key=lambda entry: (entry.epoch, entry.n))
    # That a timer has a beginning is for the replay alone.
    return tuple(_view(entry) for entry in found if entry.kind != "start")


def read_step(name: str, value: bytes) -> StepView | None:
    """A recorded step; None if it is not one of a function."""
    entry = _read(name, value)
    return None if entry is None else _view(entry)


def read_backoff(name: str, value: bytes) -> Backoff | None:
    """What was noted of a step that is tried again later; None if it is something else."""
    if is_entry(name):
        return None
    try:
        backoff = _backoff_decoder.decode(value)
    except msgspec.MsgspecError:
        return None
    return backoff if backoff_name(backoff) == name else None


def _read(name: str, value: bytes) -> Entry | None:
    try:
        entry = _decoder.decode(value)
    except msgspec.MsgspecError:
        return None
    # Tasks and other nodes keep steps, too, whose values are anything.
    return entry if entry.key == name else None


def _view(entry: Entry) -> StepView:
    return StepView(
        name=entry.label,
        kind=entry.kind,
        status="COMPLETED" if entry.error is None else "FAILED",
        ended_ms=entry.at_ms,
        started_ms=entry.started_ms,
        attempts=entry.attempts,
        input=_value(entry.input),
        output=_value(entry.output),
        blob=entry.blob or None,
        error=entry.error,
        child=entry.child or None,
    )


def _value(data: msgspec.Raw) -> Json:
    return msgspec.json.decode(data) if bytes(data) else None
