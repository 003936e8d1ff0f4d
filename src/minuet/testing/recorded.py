"""What the handlers of a recorded run have returned and raised, and which signals came.

A node instance has one outcome for each call that was handed in: its attempts, and what it waited
for. A call that a crash cut off has none.
"""

from __future__ import annotations

import builtins
import copy
from collections import defaultdict, deque
from typing import Any

import msgspec

from minuet import events as happened
from minuet.bridge.recording import Recording
from minuet.errors import MinuetError, NonRetryable, Retryable
from minuet.nodes.context import Context
from minuet.nodes.spec import Call, Wait
from minuet.nodes.stand_in import StandIn
from minuet.types import Json

#: Errors that Minuet makes of a node's templates, arguments and outputs. They are no results of a
#: handler: the same document has them again, and another one may not.
_OUTSIDE = frozenset(
    {
        *("template-error", "expression-error", "condition-error", "invalid-input", "input_limit"),
        *("handler-error", "invalid-output", "secret-error", "loop_exhausted"),
        *("exceeded_max_hops", "exceeded_max_fanout", "exceeded_max_bytes", "crash_loop"),
    }
)


class NotRecorded(NonRetryable):
    """A handler is called that has no result in the recorded run."""


class Returned(msgspec.Struct, frozen=True):
    """A handler has returned, or waits."""

    value: Json | Wait


class Raised(msgspec.Struct, frozen=True):
    """A handler has raised."""

    error: dict[str, Any]
    is_retried: bool = False


class Results:
    """The outcomes of all calls of a recording, and its signals."""

    def __init__(self, recording: Recording) -> None:
        self._outcomes: dict[tuple[str, str, str], deque[Returned | Raised]] = defaultdict(deque)
        self._signals: dict[tuple[str, str], deque[Json]] = defaultdict(deque)
        for run in recording.runs:
            self._read(recording, run.run_id, [event.read() for event in run.events])

    def _read(self, recording: Recording, run_id: str, events: list[happened.Event]) -> None:
        for event in events:
            match event:
                case happened.NodeCompleted(error=None):
                    outcome: Returned | Raised = Returned(recording.value(event.output))
                    self._outcomes[run_id, event.node, event.scope].append(outcome)
                case happened.NodeCompleted() | happened.NodeFailed():
                    if event.error is not None and event.error.get("code") not in _OUTSIDE:
                        self._outcomes[run_id, event.node, event.scope].append(Raised(event.error))
                case happened.NodeRetried():
                    outcome = Raised(event.error, is_retried=True)
                    self._outcomes[run_id, event.node, event.scope].append(outcome)
                case happened.NodeWaiting():
                    data = recording.value(event.data)
                    wait = Wait(event.kind, event.key, due_ms=event.due_ms, data=data)
                    self._outcomes[run_id, event.node, event.scope].append(Returned(wait))
                case happened.NodeResumed() if event.signal:
                    sent = events[event.signal - 1]
                    assert isinstance(sent, happened.SignalReceived)
                    self._signals[run_id, sent.name].append(recording.value(sent.data))
                case happened.RunRetried():
                    # In the next generation these were called again, as if they had not failed.
                    for node, scope in event.tokens:
                        outcomes = self._outcomes[run_id, node, scope]
                        if outcomes and isinstance(outcomes[-1], Raised):
                            outcomes.pop()

    # ── signals, for the stage ──────────────────────────────────────────────────────────

    def take(self, run_id: str, name: str) -> list[Any]:
        """The data of the next signal that the recorded run received, or nothing."""
        kept = self._signals[run_id, name]
        return [kept.popleft()] if kept else []

    def advise(self, name: str) -> str:
        """What to say about a signal that does not come."""
        return "the recorded run received no more signals of this name"

    # ── results, for nodes ──────────────────────────────────────────────────────────────

    def stand_in(self) -> StandIn:
        """What gives a node the next of its recorded outcomes."""

        def bind(call: Call, context: Context) -> tuple[Any, dict[str, Any]]:
            return self._give, {"context": context}

        return StandIn(bind)

    async def _give(self, context: Context) -> Json | Wait:
        outcomes = self._outcomes[context.run_id, context.token_node, context.scope_text]
        if not outcomes:
            raise NotRecorded("the recorded run has no result for this call")
        outcome = outcomes.popleft()
        if isinstance(outcome, Returned):
            return copy.deepcopy(outcome.value)
        raise _exception_of(outcome)


def _exception_of(raised: Raised) -> Exception:
    """An exception that makes the same error again, and leads to the same decision on a retry."""
    kind = Retryable if raised.is_retried else NonRetryable
    name = str(raised.error.get("type") or "Exception").rpartition(".")[2]
    code = str(raised.error.get("code") or "handler_raised")
    # A policy may name a base class of Python's own exceptions.
    base = getattr(builtins, name, None)
    bases: tuple[type, ...] = (MinuetError, kind)
    if isinstance(base, type) and issubclass(base, Exception) and base is not Exception:
        bases = (*bases, base)
    # Some of them make their text of several arguments, or quote it.
    plain = {"__init__": Exception.__init__, "__str__": Exception.__str__}
    made: type[Exception] = type(name, bases, {"code": code, **plain})
    return made(str(raised.error.get("message", "")))
