"""Compare what happened in two runs: which instances ran, what they gave, where they led.

Instances that do not depend on each other settle in any order, so their order is not compared.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import msgspec

from minuet import events as happened
from minuet.app.watch import instance_name
from minuet.bridge.recording import RecordedRun, Recording
from minuet.plan.plan import author_of, is_list, item_id
from minuet.testing.played import describe
from minuet.testing.recorded import NotRecorded
from minuet.types import Json

#: How much of a value a difference shows.
SHOWN_CHARACTERS = 600

#: Begins what is said of a durable function whose code does not fit.
STOPS = "stops: "

_ENDED = {
    "run.completed": "COMPLETED",
    "run.failed": "FAILED",
    "run.cancelled": "CANCELLED",
}


class Difference(msgspec.Struct, frozen=True):
    """Something that is not as it was recorded."""

    #: The node instance, after the workflow's name in a child run; "": the run as a whole.
    place: str
    #: `taken`, `error`, `output` or `to`; of a run `status`.
    what: str
    recorded: Any
    replayed: Any

    def __str__(self) -> str:
        words = {
            "taken": "the node",
            "output": "its output",
            "error": "its error",
            "to": "went on to",
            "status": "its status",
        }
        return (
            f"{self.place or 'the run'}: {words[self.what]}: recorded {_short(self.recorded)}, "
            f"now {_short(self.replayed)}"
        )


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "…"


class _Instance(msgspec.Struct):
    """What became of a node instance."""

    taken: str = "did not run"
    output: Json = None
    error: str = ""
    #: Where it led.
    to: set[str] = msgspec.field(default_factory=set)


class _Way:
    """The way of one run."""

    def __init__(self, recording: Recording, run: RecordedRun) -> None:
        self._recording = recording
        #: In the order in which they settled.
        self.instances: dict[str, _Instance] = {}
        self.status = "OPEN"
        self.error = ""
        for recorded in run.events:
            self._read(recorded.read())

    def _read(self, event: happened.Event) -> None:
        match event:
            case happened.NodeCompleted():
                error = describe(event.error)
                taken = _failed(event.error, ", and its error was handled") if error else "ran"
                output = self._recording.value(event.output)
                self._settle(event.node, event.scope, taken, output, error)
                self._send(event.node, event.scope, event.to)
            case happened.NodeFailed():
                error = describe(event.error)
                self._settle(event.node, event.scope, _failed(event.error), None, error)
            case happened.NodeSkipped():
                self._settle(event.node, event.scope, "was skipped", None, "")
            case happened.NodeSent():
                self._send(event.node, event.scope, event.to)
            case happened.RunFailed():
                self.status, self.error = "FAILED", describe(event.error)
            case happened.RunCompleted() | happened.RunCancelled():
                self.status = _ENDED[happened.event_type(event)]
            case happened.RunRetried():
                self.status = "OPEN"

    def _settle(self, node: str, scope: str, taken: str, output: Json, error: str) -> None:
        if is_list(node):
            return  # No author wrote it; its items are compared.
        name = instance_name(node, scope)
        # One that was retried with its run settles again.
        self.instances.pop(name, None)
        self.instances[name] = _Instance(taken, output, error)

    def _send(self, node: str, scope: str, sent: list[happened.Sent]) -> None:
        found = self.instances.get(instance_name(node, scope))
        for target, target_scope, live, *_ in sent if found is not None else ():
            # Which item of a foreach lets the next one begin depends on which is faster.
            if live & 1 and target != item_id(author_of(node)):
                assert found is not None
                found.to.add(instance_name(target, target_scope))


def _failed(error: dict[str, Any] | None, handled: str = "") -> str:
    if (error or {}).get("type") == NotRecorded.__name__:
        return "is called, and has no recorded result"
    if error is not None and error.get("code") in ("replay-mismatch", "handler-error"):
        return f"{STOPS}{error.get('message')}"
    return f"failed{handled}"


def find_differences(recorded: Recording, replayed: Recording) -> Iterator[Difference]:
    """What is not as it was recorded, the earliest first."""
    again = {run.run_id: run for run in replayed.runs}
    for number, run in enumerate(recorded.runs):
        prefix = f"{run.workflow}/" if number else ""
        was = _Way(recorded, run)
        # A run that was not started again: the node that had started it says so.
        if run.run_id in again:
            yield from _compare(prefix, was, _Way(replayed, again[run.run_id]))


def _compare(prefix: str, was: _Way, now: _Way) -> Iterator[Difference]:
    is_over = was.status in ("COMPLETED", "FAILED")
    new = deque(name for name in now.instances if name not in was.instances)
    order = {name: number for number, name in enumerate(now.instances)}
    for name, before in was.instances.items():
        after = now.instances.get(name, _Instance())
        # What was not there before comes before what it may have changed.
        while is_over and new and order[new[0]] < order.get(name, len(order)):
            yield _is_new(prefix, now, new.popleft())
        for what, one, other in (
            ("taken", before.taken, after.taken),
            ("error", before.error, after.error),
            ("output", before.output, after.output),
            ("to", sorted(before.to), sorted(after.to)),
        ):
            if one != other:
                yield Difference(prefix + name, what, one, other)
                break
    if not is_over:
        for name in new:
            # Its code does not fit what it has done until now.
            if now.instances[name].taken.startswith(STOPS):
                yield _is_new(prefix, now, name)
        return  # It was cancelled or is open: what would have followed is not known.
    for name in new:
        yield _is_new(prefix, now, name)
    if was.status != now.status:
        yield Difference(prefix.rstrip("/"), "status", was.status, now.status)


def _is_new(prefix: str, now: _Way, name: str) -> Difference:
    return Difference(prefix + name, "taken", "did not run", now.instances[name].taken)
