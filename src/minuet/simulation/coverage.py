"""Counts what happened: a green batch in which nothing happened proves nothing.

`REQUIRED` lists what must happen in a batch of a few hundred seeds. A batch in which one of these
never happens fails.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from minuet.events import (
    Event,
    LeaseExpired,
    LeaseReturned,
    NodeCompleted,
    NodeFailed,
    NodeResumed,
    NodeRetried,
    NodeSkipped,
    RunCompensated,
    RunRetried,
)
from minuet.simulation.faults import FAULTS
from minuet.store.exchange import (
    Done,
    Exchange,
    Failed,
    Released,
    Reply,
    Retried,
    Slot,
    Swept,
    Waiting,
)

_ITEMS = (Done, Retried, Failed, Waiting, Released, Slot)

#: What an intruder tries with the ids of others.
HOSTILE = (
    *("exchange", "repeat", "change_run", "resolve", "record_steps", "delete_runs", "put_run"),
    *("create_runs", "discard_dead_letter", "read", "list", "get_blob"),
)

#: A batch without these proves too little.
REQUIRED: tuple[str, ...] = (
    *(f"fault {fault}" for fault in FAULTS),
    *(f"result {r}" for r in ("applied", "held", "duplicate", "stale", "replan", "closed")),
    *(f"item {kind.__name__}" for kind in _ITEMS),
    *(f"swept {what}" for what in ("lease", "timer", "deadline")),
    *(f"change {c}" for c in ("Start", "Cancel", "Pause", "Resume", "RetryRun", "NewPlan")),
    *("call repeated", "lease lost while running", "lease returned", "lease returned late"),
    *("slot waited for", "slot held"),
    *("compared", "resolve won", "resolve lost", "start repeated", "run restarted"),
    *("run deleted", "delete refused", "race started after the end"),
    *(f"hostile {verb}" for verb in HOSTILE),
    *("run COMPLETED", "run FAILED", "run CANCELLED"),
    "race store died before the answer",
    *("race cancel won", "race completion won", "race killed before the reply"),
    *("race request arrived after its caller gave up", "race late result of a withdrawn node"),
    *("error session-error", "error run-conflict"),
    *(f"node {what}" for what in ("skipped", "withdrawn", "continued", "in parts", "expired")),
    *("fleet drain", "fleet remove", "placed token taken"),
    *("dead letter", "crash loop", "step reused", "timed out", "limit"),
    *(f"construct {c}" for c in ("branch", "any", "some", "each", "cancel", "loop", "nested loop")),
    *(f"construct {c}" for c in ("continue", "path", "concurrency", "output", "deadline", "wait")),
    *("construct read", "construct child", "child run started", "child run cut off"),
    *("content put", "content deleted"),
    *("workflow deployed", "workflow deployed again", "run started by name"),
    *(f"letter {what}" for what in ("retried", "left alone", "discarded")),
    "construct signal",
    *("construct function", "construct function node"),
    *(f"function {w}" for w in ("waited", "ended", "tried again", "error dropped")),
    *("function step started again", "function step tried later", "function child cancelled"),
    *(f"function got {w}" for w in ("start", "step", "timer", "signal", "child")),
    *(f"function got {w}" for w in ("now", "random", "uuid")),
    *("construct agent", "agent completed", "agent with a budget", "agent ended with agent-budget"),
    *("agent ended with agent-max-turns", "agent's model failed", "agent's tool called again"),
    *(f"signal {w}" for w in ("received", "was early", "timed out", "sent again", "refused")),
)


class Coverage:
    """Counters by name."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    def hit(self, name: str, times: int = 1) -> None:
        """Something happened."""
        self.counts[name] = self.counts.get(name, 0) + times

    def exchange(self, request: Exchange, reply: Reply) -> None:
        """Count the outcomes of the items of an exchange."""
        for item, result in zip(request.hand_in, reply.results, strict=True):
            self.hit(f"item {type(item).__name__}")
            self.hit(f"result {result}")
            if isinstance(item, Slot):
                self.hit("slot held" if result == "held" else "slot waited for")
        if reply.revoked:
            self.hit("lease lost while running", len(reply.revoked))

    def call(self, request: Any, result: Any) -> None:
        """Count what a call did."""
        if isinstance(result, Reply):
            self.exchange(request, result)
        elif isinstance(result, Swept):
            for what, count in (
                ("lease", result.expired),
                ("timer", result.resumed),
                ("deadline", result.cancelled),
            ):
                if count:
                    self.hit(f"swept {what}", count)

    def event(self, seq: int, event: Event) -> None:
        """Count what an event tells."""
        hit = self.hit
        match event:
            case NodeCompleted():
                if event.error is not None:
                    hit("node continued" if event.dead_letter is None else "compensator failed")
                if event.more:
                    hit("node in parts")
                hit("node withdrawn", len(event.withdrawn))
                if event.error is not None and event.error.get("code") == "timeout":
                    hit("timed out")
                if event.error is not None and event.error.get("code") == "signal_timeout":
                    hit("signal timed out")
            case NodeSkipped():
                hit("node skipped")
            case NodeRetried():
                if event.error.get("code") == "timeout":
                    hit("timed out")
            case NodeFailed():
                if event.dead_letter is not None:
                    hit("dead letter")
                code = event.error.get("code")
                if code == "timeout":
                    hit("timed out")
                if event.dead_letter == "no_plan":
                    hit("plan lost")
                if code == "crash_loop":
                    hit("crash loop")
                elif event.dead_letter == "limit":
                    hit("limit")
            case NodeResumed():
                if event.signal:
                    hit("signal was early" if event.signal < seq - 1 else "signal received")
            case LeaseExpired():
                hit("node expired")
            case LeaseReturned():
                hit("lease returned late" if event.late else "lease returned")
            case RunCompensated():
                hit("undo ended")
            case RunRetried():
                hit("run restarted")


def missing(counts: dict[str, int], required: Iterable[str] = REQUIRED) -> list[str]:
    """What should have happened but did not."""
    return [name for name in required if not counts.get(name)]
