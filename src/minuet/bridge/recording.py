"""A run as one value: its history, with all that the history names. It can be kept in a file.

    {"format": "minuet-run", "version": 1, "runs": [{"run_id", "workflow", "events", …}, …],
     "plans": {digest: plan}, "blobs": {reference: base64}, "left_out": [reference, …]}

The first run is the one that was asked for; its child runs, and theirs, follow. An event is as the
store holds it, with its number and its time. Contents that are too large for a file of this kind
are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal

import msgspec

from minuet.bridge.pages import read_events
from minuet.errors import InputError
from minuet.events import Event, RunCreated, RunPatched, decode_event
from minuet.store.base import Store
from minuet.store.blob import blob_of
from minuet.store.large import get_content
from minuet.store.records import EventRecord
from minuet.types import Json

#: Bytes of a content that is kept with the run.
CONTENT_BYTES_MAX = 16 * 1024 * 1024


class RecordedEvent(msgspec.Struct, frozen=True):
    """An event, as the store holds it."""

    seq: int
    at_ms: int
    event: msgspec.Raw

    def read(self) -> Event:
        """The event itself."""
        return decode_event(bytes(self.event))


class RecordedRun(msgspec.Struct, frozen=True, omit_defaults=True):
    """One run of a recording."""

    run_id: str
    workflow: str
    #: The digest of its last plan.
    plan: str
    events: tuple[RecordedEvent, ...]
    parent: str | None = None


class Recording(msgspec.Struct, frozen=True):
    """A run and its child runs, with their plans and the large values that they name."""

    runs: tuple[RecordedRun, ...]
    plans: dict[str, msgspec.Raw]
    blobs: dict[str, bytes] = {}
    #: Contents that are too large, or that the store no longer has.
    left_out: tuple[str, ...] = ()
    format: Literal["minuet-run"] = "minuet-run"
    version: Literal[1] = 1

    def encode(self) -> bytes:
        """As JSON. Not indented: a plan is named by the hash of its bytes."""
        return msgspec.json.encode(self) + b"\n"

    def value(self, raw: msgspec.Raw | bytes) -> Json:
        """A value of an event: itself, or the large one that it refers to."""
        data = bytes(raw)
        ref = blob_of(data)
        return msgspec.json.decode(self.blobs.get(ref, data) if ref is not None else data)


_decoder = msgspec.json.Decoder(Recording)


def read_recording(source: Any) -> Recording:
    """Read a recording: a file's path, or its text or bytes; InputError if it is none."""
    if isinstance(source, Recording):
        return source
    where = "recorded"
    try:
        if not isinstance(source, bytes) and not (isinstance(source, str) and "\n" in source):
            where = str(source)
            source = Path(source).read_bytes()
        return _decoder.decode(source)
    except (OSError, TypeError, msgspec.DecodeError) as error:
        problem = (
            f"{where}: this is not a recorded run ({error}); `minuet runs export RUN > FILE` "
            "writes one"
        )
        raise InputError([problem], argument="recorded") from None


class Recorder:
    """Reads runs of one tenant, with all that they name."""

    def __init__(self, store: Store, tenant: str) -> None:
        self._store, self._tenant = store, tenant

    async def record(
        self, run_ids: Iterable[str], refs_in: Callable[[bytes], Iterable[str]]
    ) -> Recording:
        """Record a run and its child runs, in this order. `refs_in` finds the blobs that bytes
        name."""
        runs: list[RecordedRun] = []
        plans: dict[str, msgspec.Raw] = {}
        blobs: dict[str, bytes] = {}
        left_out: dict[str, None] = {}
        for run_id in run_ids:
            records = await read_events(self._store, self._tenant, run_id)
            run = _recorded(run_id, records)
            runs.append(run)
            wanted = [run.plan, *(ref for record in records for ref in refs_in(record.data))]
            for ref in wanted:  # It grows while it is walked: plans name blobs too.
                if ref in plans or ref in blobs or ref in left_out:
                    continue
                data = await get_content(self._store, ref, run=run_id, tenant=self._tenant)
                if data is None or len(data) > CONTENT_BYTES_MAX:
                    left_out[ref] = None
                elif ref == run.plan:
                    plans[ref] = msgspec.Raw(bytes(data))
                    wanted += refs_in(bytes(data))
                else:
                    blobs[ref] = bytes(data)
        return Recording(tuple(runs), plans, blobs, tuple(left_out))


def _recorded(run_id: str, records: list[EventRecord]) -> RecordedRun:
    events = tuple(
        RecordedEvent(record.seq, record.at_ms, msgspec.Raw(record.data)) for record in records
    )
    workflow, plan, parent = "", "", None
    for event in events:
        match event.read():
            case RunCreated() as created:
                workflow, plan, parent = created.workflow, created.plan, created.parent
            case RunPatched() as patched:
                plan = patched.plan
    return RecordedRun(run_id, workflow, plan, events, parent)
