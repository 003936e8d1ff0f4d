"""The journal of a durable function in the store: read when the function is taken up, and kept
before anything follows from it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TypeVar

import msgspec

from minuet.bridge.values import needs_blob
from minuet.errors import BlobError, FunctionError, LeaseLost, StoreUnavailableError
from minuet.functions.journal import (
    NOTHING,
    Backoff,
    Entry,
    decode_backoffs,
    decode_entries,
    encode_entry,
    is_entry,
)
from minuet.nodes.context import Context
from minuet.store.base import Store
from minuet.store.exchange import Held, NewStep
from minuet.store.large import get_content, put_content
from minuet.worker.recording import StepRecorder

T = TypeVar("T")

#: Shortest and longest pause before steps that could not be kept are kept again.
KEEP_S = (0.05, 5.0)


class Restart(Exception):
    """Another instance was faster: the journal has to be read again."""


class FlowJournal:
    """What is kept of one function instance, under the lease that this worker has on it."""

    def __init__(
        self, store: Store, tenant: str, recorder: StepRecorder, context: Context, *, is_new: bool
    ) -> None:
        self._store = store
        self._tenant = tenant
        self._recorder = recorder
        self._context = context
        self.key = (context.run_id, context.token_node, context.scope_text)
        self._held = Held(*self.key, context.lease_id)
        #: Whether it was not read, because it cannot have entries.
        self._is_new = is_new
        #: The name of the last entry that is kept.
        self._last = ""
        #: Of steps that failed and are tried again later: how far they have come, by key.
        self.backoffs: dict[str, Backoff] = {}

    async def load(self) -> list[Entry]:
        """All entries."""
        if self._is_new:
            return []
        steps = await insist(partial(self._store.read_steps, self._tenant, self.key))
        epoch = (self._context.generation, self._context.attempt)
        self.backoffs = decode_backoffs(self.key[0], steps, epoch)
        own = [value for name, value in steps.items() if is_entry(name)]
        entries = decode_entries(self.key[0], own)
        if entries:
            self._last = self._context.mask(entries[-1].key)
        return [await self._with_output(entry) if entry.blob else entry for entry in entries]

    async def _with_output(self, entry: Entry) -> Entry:
        """An entry with its large output, which is kept as a blob."""
        store, tenant, run = self._store, self._tenant, self.key[0]
        data = await insist(lambda: get_content(store, entry.blob, run=run, tenant=tenant))
        if data is None:
            problem = f"has the result of {entry.label!r} and is missing in the store"
            raise BlobError(entry.blob, problem, "missing")
        return msgspec.structs.replace(entry, output=msgspec.Raw(bytes(data)))

    async def _without_output(self, entry: Entry) -> Entry:
        """An entry whose large output is kept as a blob."""
        store, tenant, run = self._store, self._tenant, self.key[0]
        data = bytes(entry.output)
        blob = await insist(lambda: put_content(store, data, run=run, tenant=tenant))
        return msgspec.structs.replace(entry, output=NOTHING, blob=blob)

    async def keep(self, entries: Sequence[Entry], received: Mapping[str, int]) -> None:
        """Keep what the code has got, and wait until that is durable. `received` are the signals
        that entries have received, by the entries' keys."""
        lease, mask, last = self._context.lease_id, self._context.mask, self._last
        steps: list[NewStep] = []
        for entry in entries:
            key, name = entry.key, mask(entry.key)
            if needs_blob(bytes(entry.output)):
                entry = await self._without_output(entry)
            value = encode_entry(entry)
            steps.append(NewStep(*self.key, lease, name, value, received.get(key, 0), last))
            last = name
        for part in parts_of(steps):
            answers = await insist(partial(self._recorder.record, part))
            if "lost" in answers:
                self._lose()
            if "gone" in answers:
                raise Restart  # A signal went to another instance.
            if answers != [step.value for step in part]:
                if self._is_new:
                    raise Restart  # The journal was not read, and has entries.
                names = ", ".join(repr(step.name) for step in part)
                raise FunctionError(f"two steps are kept under one name of {names}: rename one")
        self._last = last
        if not await insist(partial(self._store.wait_until_durable, self._tenant, self._held)):
            self._lose()

    async def note(self, name: str, value: bytes, signal: int = 0) -> None:
        """Keep something that is not an entry, and receive a signal."""
        name = self._context.mask(name)
        step = NewStep(*self.key, self._context.lease_id, name, value, signal)
        if "lost" in await insist(partial(self._recorder.record, [step])):
            self._lose()

    def _lose(self) -> None:
        self._context.cancel()
        raise LeaseLost(f"{self._context} is no longer ours")


async def insist(call: Callable[[], Awaitable[T]]) -> T:
    """Call the store, and do not give up: steps have run, and would run again. If the worker
    stops, or the lease is lost, this is cancelled."""
    pause_s = KEEP_S[0]
    while True:
        try:
            return await call()
        except StoreUnavailableError:
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, KEEP_S[1])


def parts_of(steps: list[NewStep]) -> Iterator[list[NewStep]]:
    """Steps in parts that end with those that receive a signal: if another instance was faster,
    nothing that follows from the signal is kept."""
    part: list[NewStep] = []
    for step in steps:
        part.append(step)
        if step.signal:
            yield part
            part = []
    if part:
        yield part
