"""What the history of a run shows: where it went, which limits it reached, how it ended.

A *turn* is something that a document offers and a run may take: a node, a rule of a branch, a
round or an exit of a loop, an `on_error`. Turns that no seed takes are reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from minuet import events as happened
from minuet.events import Event
from minuet.plan.plan import HIDDEN, Node, Plan

#: Error codes that mean that a limit was reached, and the limit.
LIMITS = {
    "exceeded_max_hops": "max_hops",
    "exceeded_max_fanout": "max_fanout",
    "exceeded_max_bytes": "max_bytes",
    "loop_exhausted": "max_iterations",
}


class Turn(NamedTuple):
    """Something that a run may take."""

    kind: str
    node: str
    which: str = ""


def all_turns(plan: Plan) -> list[Turn]:
    """All turns that a plan offers, in the order of its nodes."""
    return [turn for node in plan.nodes if HIDDEN not in node.id for turn in _offers(node)]


def _offers(node: Node) -> Iterator[Turn]:
    yield Turn("node", node.id)
    if node.branch is not None and node.branch.type == "conditional":
        for number in range(len(node.branch.rules)):
            yield Turn("rule", node.id, str(number))
        if node.branch.default:
            yield Turn("default", node.id)
    if node.loop is not None:
        for which in ("again", "break", *(("timeout",) if node.loop.has_timeout_path else ())):
            yield Turn("loop", node.id, which)
    if node.on_error != "fail":
        yield Turn("error", node.id)


def turns_taken(events: Iterable[Event]) -> set[Turn]:
    """The turns that a run has taken."""
    taken = set()
    for event in events:
        if isinstance(event, happened.NodeCompleted):
            taken |= {Turn("node", event.node), *_noted(event)}
        elif isinstance(event, happened.NodeRetried | happened.NodeFailed | happened.NodeWaiting):
            taken.add(Turn("node", event.node))
    return taken


def _noted(event: happened.NodeCompleted) -> Iterator[Turn]:
    if event.error is not None:
        yield Turn("error", event.node)
        return
    for note in event.notes or ():
        if "to" in note:
            yield Turn("rule", event.node, str(note["rule"]))
        elif "default" in note:
            yield Turn("default", event.node)
        if "loop" in note:
            yield Turn("loop", event.node, note["loop"])
    is_branch = any("to" in note or "default" in note for note in event.notes or ())
    if is_branch:
        # If the node also has a branch, the branch decides where the break leads.
        yield Turn("loop", event.node, "break")


def rule_errors(events: Iterable[Event]) -> dict[Turn, str]:
    """Rules that could not be evaluated, and why."""
    return {
        Turn("rule", event.node, str(note["rule"])): str(note["error"])
        for event in events
        if isinstance(event, happened.NodeCompleted)
        for note in event.notes or ()
        if "rule" in note and "error" in note
    }


def limits_met(events: Iterable[Event]) -> Iterator[tuple[str, str, str]]:
    """Limits that a run has reached: the limit, the node, and the message."""
    for event in events:
        match event:
            case happened.NodeCompleted():
                if {"loop": "timeout"} in (event.notes or ()):
                    yield "max_iterations", event.node, "the loop takes its timeout_path"
                if event.error is not None:
                    yield from _limit(event.node, event.error)
            case happened.NodeFailed() | happened.NodeRetried():
                yield from _limit(event.node, event.error)
            case happened.RunCancelled(reason=reason):
                if "deadline" in reason:
                    yield "deadline_s", "", "the run is cancelled at its deadline"


def _limit(node: str, error: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    code, message = str(error.get("code")), str(error.get("message"))
    if code in LIMITS:
        yield LIMITS[code], node, message
    elif code == "invalid-output" and "bytes as JSON" in message:
        yield "max_output_bytes", node, message
