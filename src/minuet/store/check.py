"""What comes from outside a run must be storable: its types, and the length of its names.

A record does not check its fields when it is made, and what is once in a history stays there: a
reason that is a number makes the whole history unreadable. So every store checks new runs, changes,
resolutions and workers before it touches anything. Workers build exchanges from checked values, so
an exchange is not slowed down. Rows that are damaged all the same are read by `store.lenient`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from minuet.errors import InputError, RunConflictError, StoreError
from minuet.store.changes import Change, NewPlan, NewRun, Repair, SendSignal, Start
from minuet.store.exchange import Delivery, NewStep
from minuet.store.identifiers import is_long, shown, too_long
from minuet.store.records import PAYLOAD_BYTES_MAX, TIMED_OUT, WorkerRecord, WorkflowVersion

_pack = msgspec.msgpack.Encoder().encode
_read_run = msgspec.msgpack.Decoder(NewRun).decode
_read_change = msgspec.msgpack.Decoder(Change).decode
_read_worker = msgspec.msgpack.Decoder(WorkerRecord).decode
_read_version = msgspec.msgpack.Decoder(WorkflowVersion).decode
_json = msgspec.json.Encoder().encode


def check_new_runs(runs: Sequence[NewRun]) -> None:
    """InputError for a run that a store could not read back, RunConflictError for a long name."""
    for new in runs:
        # Blobs are bytes for certain and may be large.
        head = msgspec.structs.replace(new, blobs=()) if new.blobs else new
        _check(head, _read_run, "a run")
        _check_json("tags", new.tags)
    _check_names(runs)


def check_change(run: str, change: Change) -> Change:
    """As `check_new_runs`, for a change and its event. Return it as stores make it."""
    _check(change, _read_change, "a change")
    if isinstance(change, Start):
        _check_deliveries(run, change.entries)
    elif isinstance(change, NewPlan):
        _check_deliveries(run, [delivery for _, _, delivery in change.deliveries])
    elif isinstance(change, SendSignal):
        return _checked_signal(run, change)
    elif isinstance(change, Repair):
        return _checked_repair(change)
    return change


def check_worker(record: WorkerRecord) -> None:
    """InputError for a worker that a store could not list, StoreError for a long name."""
    _check(record, _read_worker, "a worker")
    check_name("worker", record.worker)
    _check_json("capabilities", record.capabilities)


def check_steps(steps: Sequence[NewStep]) -> None:
    """StoreError for a long name."""
    for new in steps:
        check_name("step", new.name)


def check_version(new: WorkflowVersion, tags: Sequence[str]) -> None:
    """InputError for a version that a store could not read back, StoreError for a long name."""
    _check(new, _read_version, "a version")
    for what, name in (("tenant", new.tenant), ("workflow", new.name)):
        check_name(what, name)
    for tag in tags:
        check_name("tag", tag)


def check_resolution(data: bytes) -> bytes:
    """What a token gets, as stores keep it; InputError when it is not valid JSON.

    The same JSON, but never in the spelling that is kept for timeouts.
    """
    try:
        msgspec.json.decode(data)
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError) as error:
        raise InputError(
            [f"a resolution must be valid JSON: {error}"], argument="resolution"
        ) from None
    return data if data.strip() != TIMED_OUT else TIMED_OUT.replace(b":", b": ")


def _checked_signal(run: str, signal: SendSignal) -> SendSignal:
    for what, name in (("name", signal.name), ("id", signal.id)):
        if is_long(name):
            raise RunConflictError(run, f"the {what} of a signal {too_long(name)}")
    if not signal.id or "\0" in signal.id:
        raise InputError(["the id of a signal must be text without U+0000"], argument="id")
    if len(signal.data) > PAYLOAD_BYTES_MAX:
        problem = f"the data of a signal has at most {PAYLOAD_BYTES_MAX:,} bytes: put it as a blob"
        raise InputError([problem], argument="data")
    return msgspec.structs.replace(signal, data=check_resolution(signal.data.strip()))


def _checked_repair(repair: Repair) -> Repair:
    value, what = repair.value.strip(), "config" if repair.action == "edit" else "output"
    if len(value) > PAYLOAD_BYTES_MAX:
        problem = f"{what} has at most {PAYLOAD_BYTES_MAX:,} bytes: put it as a blob"
        raise InputError([problem], argument=what)
    check_resolution(value)
    if repair.action == "edit" and not value.startswith(b"{"):
        raise InputError(["a config must be a JSON object"], argument="config")
    _check_json("error", repair.error)
    return msgspec.structs.replace(repair, value=value)


def check_name(what: str, name: str) -> None:
    """StoreError when the name of a step, a worker, a workflow or the like is too long."""
    if is_long(name):
        raise StoreError(f"the name of a {what} {too_long(name)}")


def _check_names(runs: Sequence[NewRun]) -> None:
    for new in runs:
        names = {
            "id": new.run,
            "tenant": new.tenant,
            "workflow's name": new.workflow,
            "idempotency key": new.idempotency_key or "",
        }
        for what, name in names.items():
            if is_long(name):
                raise RunConflictError(shown(new.run), f"its {what} {too_long(name)}")
        _check_deliveries(new.run, new.entries or ())


def _check_deliveries(run: str, deliveries: Sequence[Delivery]) -> None:
    for d in deliveries:
        for what, name in (("node", d.node), ("scope", d.scope), ("queue", d.queue)):
            if is_long(name):
                raise RunConflictError(run, f"the name of a {what} {too_long(name)}")


def _check(record: Any, read: Any, what: str) -> None:
    """Read a record back as a store would. For a record that is right, this takes about 1 µs."""
    try:
        read(_pack(record))
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InputError([f"{what} cannot be stored: {error}"], argument=what) from None


def _check_json(name: str, value: Any) -> None:
    """Values of any type are written as JSON and must come back unchanged."""
    if not value:
        return
    try:
        same = msgspec.json.decode(_json(value)) == value
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError):
        same = False
    if not same:
        raise InputError([f"{name} cannot be stored: they are not plain JSON"], argument=name)
