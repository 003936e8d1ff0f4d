"""What is written into a run's history has the types that its records declare.

A record does not check its fields when it is made, and what is once in a history stays there: a
reason that is a number makes the whole history unreadable. So every store checks what comes from
outside a run (new runs, changes, workers) before it touches anything. What workers hand in is made
from checked values, and an exchange is not slowed down.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from minuet.errors import InputError
from minuet.store import identifiers
from minuet.store.records import Change, NewRun, WorkerRecord

_pack = msgspec.msgpack.Encoder().encode
_read_run = msgspec.msgpack.Decoder(NewRun).decode
_read_change = msgspec.msgpack.Decoder(Change).decode
_read_worker = msgspec.msgpack.Decoder(WorkerRecord).decode
_json = msgspec.json.Encoder().encode


def check_new_runs(runs: Sequence[NewRun]) -> None:
    """InputError when a store could not read one of these runs back."""
    for new in runs:
        # Blobs are bytes for certain and may be large.
        head = msgspec.structs.replace(new, blobs=()) if new.blobs else new
        _check(head, _read_run, "a run")
        _check_json("tags", new.tags)
    identifiers.check_new_runs(runs)


def check_change(run: str, change: Change) -> None:
    """InputError when a store could not read the event of this change back."""
    _check(change, _read_change, "a change")
    identifiers.check_change(run, change)


def check_worker(record: WorkerRecord) -> None:
    """InputError when a store could not list this worker."""
    _check(record, _read_worker, "a worker")
    identifiers.check_name("worker", record.worker)
    _check_json("capabilities", record.capabilities)


def _check(record: Any, read: Any, what: str) -> None:
    """Read a record back as a store would. A copy of what is right costs about a microsecond."""
    try:
        read(_pack(record))
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InputError([f"{what} cannot be stored: {error}"], argument=what) from None


def _check_json(name: str, value: Any) -> None:
    """Values of any type are written as JSON and must come back as they are."""
    if not value:
        return
    try:
        same = msgspec.json.decode(_json(value)) == value
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError):
        same = False
    if not same:
        raise InputError([f"{name} cannot be stored: they are not plain JSON"], argument=name)
