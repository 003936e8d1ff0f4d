"""What comes to a durable function from other runs and from people: signals, and the ends of its
child runs."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import msgspec

from minuet import events
from minuet.errors import LeaseLost, ReplayError
from minuet.functions.exceptions import contents_of
from minuet.functions.instance import Call, FunctionInstance
from minuet.functions.journal import OF_TASK, input_fields
from minuet.nodes.context import Context
from minuet.store.base import Store
from minuet.store.records import CHILD_SIGNAL
from minuet.types import TERMINAL
from minuet.worker.children import Children
from minuet.worker.failure import describe
from minuet.worker.flow_arrivals import Arrivals
from minuet.worker.flow_journal import FlowJournal, insist
from minuet.worker.flow_steps import masked

#: How long to wait for a hint that something has come for a function that is not left, because
#: steps of it run.
WATCH_MS = 5_000


class FlowInbox:
    """The signals and the child runs of one function instance."""

    def __init__(
        self,
        store: Store,
        tenant: str,
        children: Children,
        context: Context,
        journal: FlowJournal,
        instance: FunctionInstance,
        arrivals: Arrivals,
    ) -> None:
        self._store = store
        self._tenant = tenant
        self._run = context.run_id
        self._of_worker = children
        self._context = context
        self._journal = journal
        self._instance = instance
        self._arrivals = arrivals
        #: Ids of child runs that the code waits for.
        self.children: dict[str, Call] = {}
        #: Those that were over when this run of the function came to them.
        self._over: set[str] = set()
        #: Events of signals that have arrived here.
        self._seen: set[int] = set()
        #: What the code waits for that has arrived here.
        self._arrived: set[Call] = set()
        self._watcher: asyncio.Task[None] | None = None

    # ── child runs ──────────────────────────────────────────────────────────────────────

    async def start_child(self, call: Call) -> None:
        """Start the child run that the code asks for, or find it."""
        before = self._instance.journal.dropped.get(call.key)
        try:
            child = await insist(
                partial(
                    self._of_worker.start,
                    self._context,
                    call.number,
                    call.target,
                    msgspec.json.decode(call.input),
                    asked=call,
                    ended=0 if before is None else before.child_generation,
                )
            )
        except (LeaseLost, ReplayError):
            raise
        except Exception as error:
            mask = self._context.mask
            described = {**describe(error, mask), **masked(contents_of(error), mask)}
            self._arrivals.add(call, {"error": described, **input_fields(call.input)})
            return
        self.children[child.run] = call
        if child.status in TERMINAL:
            self._over.add(child.run)

    async def cancel_child(self, call: Call) -> None:
        """Cancel a child run that the code no longer waits for."""
        self.children = {child: one for child, one in self.children.items() if one is not call}
        await insist(partial(self._of_worker.cancel, self._context, call.number))

    async def _ended(self, child: str) -> dict[str, Any] | None:
        """What a child run has come to; None: it goes on again."""
        return await insist(partial(self._of_worker.end_of, child))

    # ── signals ─────────────────────────────────────────────────────────────────────────

    def awaited(self) -> dict[str, list[Call]]:
        """What the code waits for that comes as a signal, by the signal's name."""
        found: dict[str, list[Call]] = {}
        for call in self._instance.waiting.values():
            if call.kind == "signal":
                found.setdefault(call.name, []).append(call)
        for child, call in self.children.items():
            if call.key in self._instance.waiting:
                found[f"{CHILD_SIGNAL}{child}"] = [call]
        return found

    async def look(self) -> None:
        """Fetch the signals that have come for the code."""
        awaited = self.awaited()
        if not awaited:
            return
        for signal in await insist(partial(self._store.read_signals, self._tenant, self._run)):
            calls = [call for call in awaited.get(signal.name, ()) if call not in self._arrived]
            if not calls or signal.seq in self._seen:
                continue
            call = calls[0]
            if call.kind == "child":
                fields = await self._ended(signal.name.removeprefix(CHILD_SIGNAL))
            else:
                fields = {"output": await self._signal_data(signal.seq)}
            if fields is None:
                # A child run that is open again: receive the signal, and do nothing with it.
                await self._journal.note(
                    f"{OF_TASK}{CHILD_SIGNAL}{signal.seq}", b"null", signal.seq
                )
                continue
            self._seen.add(signal.seq)
            self._arrive(call, fields, signal.seq)
        for child in sorted(self._over & self.children.keys()):
            # No signal came if this run was over, too, when the child run ended.
            call = self.children[child]
            fields = await self._ended(child) if call not in self._arrived else None
            if fields is not None:
                self._arrive(call, fields)
        self._over.clear()

    def _arrive(self, call: Call, fields: dict[str, Any], signal: int = 0) -> None:
        self._arrived.add(call)
        self._arrivals.add(call, fields | input_fields(call.input), signal)

    async def _signal_data(self, seq: int) -> msgspec.Raw:
        (found,) = await insist(
            partial(self._store.read_events, self._tenant, self._run, seq - 1, 1)
        )
        event = events.decode_event(found.data)
        assert isinstance(event, events.SignalReceived)
        return msgspec.Raw(bytes(event.data))

    # ── while steps run ─────────────────────────────────────────────────────────────────

    def watch(self) -> None:
        """Look again whenever something has happened to the run."""
        if self._watcher is None and self.awaited():
            self._watcher = asyncio.create_task(self._keep_watch())

    def leave(self) -> None:
        """Look no more."""
        if self._watcher is not None:
            self._watcher.cancel()

    async def _keep_watch(self) -> None:
        try:
            await self._watch()
        except Exception as error:
            self._arrivals.fail(error)

    async def _watch(self) -> None:
        seq = -1
        while True:
            await self.look()
            found = await insist(partial(self._store.read_run, self._tenant, self._run))
            if found is None:
                return
            if found.seq == seq:
                await self._store.wait_for_change(self._run, seq, WATCH_MS)
            seq = found.seq
