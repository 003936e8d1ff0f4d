"""Durable functions in replays: their code is executed on what a recorded run of it has got.

Nothing is executed but the code of the function. If it asks for the same things in the same order
up to the end of what was recorded, it fits; otherwise it stops with ReplayError.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any
from uuid import UUID

import msgspec

from minuet import events as happened
from minuet.bridge.recording import RecordedRun, Recording
from minuet.bridge.values import encode_value
from minuet.errors import BlobError, MinuetError, ReplayError
from minuet.functions.flow import Flow
from minuet.functions.function import Function
from minuet.functions.instance import FunctionInstance
from minuet.functions.journal import ADVICE, Entry, Journal, decode_entries, is_entry
from minuet.nodes.context import Context
from minuet.nodes.handler import Handlers
from minuet.nodes.spec import Call, Wait
from minuet.nodes.stand_in import StandIn
from minuet.plan.digest import decode_plan
from minuet.plan.plan import FLOW
from minuet.types import Json

#: Errors that end a function from outside: its code was not at its end.
_CUT_OFF = frozenset({"timeout", "crash_loop", "replay-mismatch"})


class _Recorded(msgspec.Struct):
    """What is recorded of one function instance."""

    values: list[bytes]
    generation: int = 1
    #: Whether its code has come to its end.
    is_over: bool = False


class RecordedFunctions:
    """The durable functions of a recording."""

    def __init__(self, recording: Recording, handlers: Handlers) -> None:
        self._handlers = handlers
        self._blobs = recording.blobs
        self._found: dict[tuple[str, str, str], _Recorded] = {}
        for run in recording.runs:
            for recorded in run.events:
                self._read(run.run_id, recorded.read())

    def _read(self, run_id: str, event: happened.Event) -> None:
        match event:
            case happened.StepRecorded() if is_entry(event.name):
                self._of(run_id, event.node, event.scope).values.append(bytes(event.value))
            case happened.NodeCompleted():
                self._of(run_id, event.node, event.scope).is_over = True
            case happened.NodeFailed():
                is_over = event.error.get("code") not in _CUT_OFF
                self._of(run_id, event.node, event.scope).is_over = is_over
            case happened.RunRetried():
                for node, scope in event.tokens:
                    found = self._of(run_id, node, scope)
                    found.generation, found.is_over = event.generation, False

    def _of(self, run_id: str, node: str, scope: str) -> _Recorded:
        return self._found.setdefault((run_id, node, scope), _Recorded([]))

    def stand_in(self, name: str) -> StandIn:
        """What executes the code of a function instead of a worker. In a thread: the code has an
        event loop of its own."""

        def bind(call: Call, context: Context) -> tuple[Any, dict[str, Any]]:
            function = self._function(name)
            arguments = function.bind(call.config, context.input)
            flow = {
                "run_id": context.run_id,
                "workflow": context.workflow,
                "node_id": context.node_id,
                "tags": context.tags,
            }
            place = (context.run_id, context.token_node, context.scope_text)
            return partial(self._execute, function, arguments, place, flow), {}

        return StandIn(bind, is_async=False)

    def check_child(self, recording: Recording, run: RecordedRun) -> Iterator[ReplayError]:
        """Execute a function that a recorded function has started as a child run."""
        plan = decode_plan(bytes(recording.plans[run.plan]))
        if len(plan.nodes) != 1 or plan.nodes[0].type != FLOW:
            return
        (node,) = plan.nodes
        created = run.events[0].read()
        assert isinstance(created, happened.RunCreated)
        flow = {"workflow": plan.name, "node_id": node.id, "tags": created.tags}
        try:
            function = self._function(node.handler or "")
            arguments = function.bind({}, recording.value(created.input))
            place = (run.run_id, node.id, "")
            self._execute(function, arguments, place, {"run_id": run.run_id, **flow})
        except ReplayError as error:
            yield error
        except MinuetError as error:
            # Of the function itself: it was recorded, too, if its code has not changed.
            if error.code == "handler-error":
                yield ReplayError(str(error), recorded=run.workflow, wanted=[])
        except Exception:
            pass

    def _function(self, name: str) -> Function[Any, Any]:
        function = self._handlers.find_function(name)
        assert isinstance(function, Function)
        return function

    def _execute(
        self,
        function: Function[Any, Any],
        arguments: dict[str, Any],
        place: tuple[str, str, str],
        flow: Mapping[str, Any],
    ) -> Any:
        recorded = self._of(*place)
        entries = [*map(self._with_output, decode_entries(place[0], recorded.values))]
        epoch = max([(recorded.generation, 1), *(entry.epoch for entry in entries)])
        instance = FunctionInstance(Journal(entries, epoch), _Host(entries), function.place)
        instance.begin(partial(function.function, Flow(instance, **flow), **arguments))
        try:
            instance.turn()
            more = [call for call in instance.waiting.values() if call.handle is None]
            more += instance.timers()
            asked = [(call.label, call.place) for call in more]
            asked += [(e.label, "") for e in instance.journal.unsaved if e.kind != "version"]
            if recorded.is_over and asked and not instance.is_over:
                raise _longer(asked)
            return instance.result() if instance.is_over else Wait(FLOW)
        finally:
            instance.close()

    def _with_output(self, entry: Entry) -> Entry:
        """An entry with its large output."""
        if not entry.blob:
            return entry
        data = self._blobs.get(entry.blob)
        if data is None:
            raise BlobError(entry.blob, f"has the result of {entry.label!r}, and was left out")
        return msgspec.structs.replace(entry, output=msgspec.Raw(data))


class _Host:
    """The time has stopped where the recording ends."""

    def __init__(self, entries: list[Entry]) -> None:
        self._now_ms = max((entry.at_ms for entry in entries), default=0)

    def now_ms(self) -> int:
        return self._now_ms

    def encode(self, value: Json, what: str) -> bytes:
        return encode_value(value)

    # What the code asks for beyond the recording does not matter.

    def random(self) -> float:
        return 0.0

    def uuid(self) -> str:
        return str(UUID(int=0))


def _longer(asked: list[tuple[str, str]]) -> ReplayError:
    label, place = asked[0]
    where = f" ({place})" if place else ""
    return ReplayError(
        "the code has changed since this run was recorded: the run has ended here, but the code "
        f"now asks for {label!r}{where}. {ADVICE}",
        recorded="the end",
        wanted=[label for label, _ in asked],
    )
