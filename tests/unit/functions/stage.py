"""A host for durable functions without a store: it executes code up to any entry of its journal,
and other code from there on."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any

import msgspec

from minuet.bridge.values import encode_value
from minuet.functions.exceptions import contents_of
from minuet.functions.flow import Flow
from minuet.functions.instance import Call, FunctionInstance
from minuet.functions.journal import (
    Entry,
    Epoch,
    Journal,
    decode_entries,
    encode_entry,
    input_fields,
)
from minuet.nodes.handler import Task, place_of

Code = Callable[[Flow], Coroutine[Any, Any, Any]]


class Stage:
    """Does what a function asks for: steps at once, timers when nothing else is left."""

    def __init__(
        self,
        code: Code,
        entries: Sequence[Entry] = (),
        *,
        signals: dict[str, list[Any]] | None = None,
        latest_first: bool = False,
        epoch: Epoch = (1, 1),
    ) -> None:
        self.clock_ms = max((entry.at_ms for entry in entries), default=1_000_000)
        self._signals = {name: list(all_of) for name, all_of in (signals or {}).items()}
        for entry in entries:
            if entry.kind == "signal" and self._signals.get(entry.name):
                self._signals[entry.name].pop(0)
        self._latest_first = latest_first
        #: What was executed here: steps and child runs.
        self.executed: list[str] = []
        self._open: list[Call] = []
        self.entries = list(entries)
        # As they are kept, and read again.
        kept = decode_entries("run", [encode_entry(entry) for entry in entries])
        self.instance = FunctionInstance(Journal(kept, epoch), self, place_of(code))
        flow = Flow(self.instance, run_id="r", workflow="w", node_id="n", tags={})
        self.instance.begin(partial(code, flow))

    # ── the host ────────────────────────────────────────────────────────────────────────

    def now_ms(self) -> int:
        self.clock_ms += 1
        return self.clock_ms

    def random(self) -> float:
        return random.random()

    def uuid(self) -> str:
        return str(uuid.uuid4())

    def encode(self, value: Any, what: str) -> bytes:
        return encode_value(value)

    # ── the way ─────────────────────────────────────────────────────────────────────────

    def run(self) -> Any:
        """Run to the end, or until nothing more can come: then the labels of what it waits for."""
        try:
            while True:
                self.instance.turn()
                self.entries += self.instance.journal.take_unsaved()
                if self.instance.is_over:
                    return self.instance.result()
                self._open += self.instance.take_asked()
                arrival = self._next()
                if arrival is None:
                    return [call.label for call in self.instance.waiting.values()]
                call, fields = arrival
                new = self.instance.journal.new
                entry = new(call.kind, call.name, call.occurrence, self.now_ms(), **fields)
                self.instance.deliver(call, entry)
        finally:
            self.instance.close()

    def _next(self) -> tuple[Call, dict[str, Any]] | None:
        waiting = self.instance.waiting
        self._open = [call for call in self._open if waiting.get(call.key) is call]
        for call in reversed(self._open) if self._latest_first else self._open:
            if call.kind in ("step", "child"):
                self.executed.append(call.key)
                return call, {**self._execute(call), **input_fields(call.input)}
            if call.kind == "signal" and self._signals.get(call.name):
                data = encode_value(self._signals[call.name].pop(0))
                return call, {"output": msgspec.Raw(data)}
        timers = list(self.instance.timers())
        first = min(timers, key=lambda call: (call.due_ms, call.occurrence), default=None)
        if first is None:
            return None
        self.clock_ms = max(self.clock_ms, first.due_ms)
        return first, {}

    def _execute(self, call: Call) -> dict[str, Any]:
        target, arguments = call.target, call.arguments
        try:
            if call.kind == "child":
                value = {"child": call.name, **arguments}
            elif isinstance(target, Task):
                value = _finish(target.function(**arguments))
            else:
                value = target(*arguments["args"], **arguments["kwargs"])
            return {"output": msgspec.Raw(encode_value(value))}
        except Exception as error:
            described = {"type": type(error).__name__, "message": str(error)}
            return {"error": {**described, **contents_of(error)}}


def _finish(value: Any) -> Any:
    """The result of a task that waits for nothing."""
    if not hasattr(value, "send"):
        return value
    try:
        value.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("this task waits for something")


def perform(code: Code, entries: Sequence[Entry] = (), **options: Any) -> tuple[Any, Stage]:
    """Execute code on a journal."""
    stage = Stage(code, entries, **options)
    return stage.run(), stage
