"""What is to be undone in a run, in which order, and what has become of it.

All of it follows from the plan and the history. A node instance is undone if it completed and has
a compensator; a node that starts a child run is undone by undoing that run. The last one to
complete is undone first. None is undone twice: an instance counts as undone until it completes
again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from minuet import events as happened
from minuet.events import Place
from minuet.kernel.fold import Fold, NumberedEvent, State, replay
from minuet.kernel.lifecycle import NodeStatus
from minuet.kernel.mailbox import FIRST_ENDS
from minuet.kernel.program import Program
from minuet.kernel.scope import decode, encode
from minuet.kernel.settle import UndoList
from minuet.plan.plan import UNDO_CHILD_TYPE, author_of
from minuet.types import Scope

#: Instances that one list names: it travels with each of them.
LISTED_MAX = 200


class Undoing(msgspec.Struct, frozen=True):
    """What has become of the compensator of an instance."""

    status: NodeStatus
    attempts: int = 0
    error: dict[str, Any] | None = None
    started_ms: int | None = None
    ended_ms: int | None = None

    @property
    def is_undone(self) -> bool:
        return self.status == "COMPLETED"


def list_undos(program: Program, events: Sequence[NumberedEvent], scope: Scope) -> UndoList:
    """What is left to undo. The scope is that of the hidden node that lists it: which undo of the
    run this is, and which of its lists."""
    number, part = scope
    state = replay(events).state
    places = [
        (undo.id, undone + encode((number,)))
        for undo, undone in _left(program, state, events, _back_to(events))
    ]
    # What this undo has tried and could not undo is not tried again.
    places = [place for place in places if place not in state.tokens]
    return UndoList(part, tuple(places[:LISTED_MAX]), len(places) > LISTED_MAX)


def left_to_undo(
    program: Program, events: Sequence[NumberedEvent], back_to: str = ""
) -> list[Place]:
    """The instances that an undo would undo now, in its order."""
    state = replay(events).state
    return [(undo.undoes, scope) for undo, scope in _left(program, state, events, back_to)]


def completion_of(events: Iterable[NumberedEvent], node: str) -> int:
    """The number of the event with which a node last completed; 0: it has not."""
    return max((seq for place, seq in _completions(events).items() if place[0] == node), default=0)


def compensated(
    program: Program, state: State, events: Sequence[NumberedEvent]
) -> Literal["all", "partly"] | None:
    """Whether all that a run did is undone. None: it was not undone, or went on since."""
    last = [
        event
        for _, _, event in events
        if isinstance(event, happened.RunCompensating | happened.RunRetried)
    ]
    if not last or isinstance(last[-1], happened.RunRetried) or state.ends_as:
        return None
    return "partly" if _left(program, state, events, "") else "all"


def undoings(program: Program, fold: Fold, leased: Iterable[Place] = ()) -> dict[Place, Undoing]:
    """What has become of compensators, by the instance that each of them undoes."""
    held = frozenset(leased)
    found: dict[Place, tuple[int, Undoing]] = {}
    for place, token in fold.state.tokens.items():
        node = program.nodes.get(token.node)
        if node is None or not node.undoes:
            continue
        *scope, number = decode(token.scope)
        detail = fold.details[place]
        undoing = Undoing(
            _status(token.state, token.outcome, place in held),
            token.attempt,
            detail.error,
            detail.started_ms,
            detail.ended_ms,
        )
        undone = (node.undoes, encode(tuple(scope)))
        if undone not in found or found[undone][0] < number:
            found[undone] = (number, undoing)
    return {place: undoing for place, (_, undoing) in found.items()}


#: Of several instances, a node shows the one whose compensator has the first of these statuses.
_ATTENTION = ("FAILED", "RUNNING", "WAITING", "QUEUED", "COMPLETED")


def undoing_of(found: Mapping[Place, Undoing], node: str) -> Undoing | None:
    """What has become of the compensators of all instances of an author's node."""
    own = [one for (name, _), one in found.items() if author_of(name) == node]
    return min(own, key=lambda one: _ATTENTION.index(one.status), default=None)


def _status(state: str, outcome: str, is_held: bool) -> NodeStatus:
    if state in ("done", "dead"):
        return "COMPLETED" if outcome == "completed" else "FAILED"
    if state == "waiting":
        return "WAITING"
    return "RUNNING" if is_held else "QUEUED"


def _left(
    program: Program, state: State, events: Sequence[NumberedEvent], back_to: str
) -> list[tuple[Any, str]]:
    """The hidden nodes, and the scopes of the instances that they undo; the first one first."""
    settled = _settlements(events)
    completed = _completions(events)
    since = completion_of(events, back_to) if back_to else 0
    ended = max((seq for seq, _, event in events if isinstance(event, FIRST_ENDS)), default=0)
    found = []
    for place, token in state.tokens.items():
        undo = program.undo_of.get(token.node)
        if undo is None or token.skip:
            continue
        if undo.type == UNDO_CHILD_TYPE:
            # A child run may have done something although its node has not completed.
            done = ended if token.outcome == "cancelled" else settled.get(place, 0)
        else:
            done = completed.get(place, 0)
        if done > max(since, _undone(completed, undo.id, place[1], state.undos)):
            found.append((done, token.node, place[1], undo))
    found.sort(key=lambda one: one[:3], reverse=True)
    return [(undo, scope) for _, _, scope, undo in found]


def _undone(completed: dict[Place, int], undo: str, scope: str, undos: int) -> int:
    """The event with which the last undo of an instance completed; 0: none has."""
    numbers = range(undos, 0, -1)
    return next((s for n in numbers if (s := completed.get((undo, scope + encode((n,))), 0))), 0)


def _completions(events: Iterable[NumberedEvent]) -> dict[Place, int]:
    """When instances last completed, by the numbers of events."""
    return {
        (event.node, event.scope): seq
        for seq, _, event in events
        if isinstance(event, happened.NodeCompleted) and event.error is None
    }


def _settlements(events: Iterable[NumberedEvent]) -> dict[Place, int]:
    """When instances last completed or failed."""
    return {
        (event.node, event.scope): seq
        for seq, _, event in events
        if isinstance(event, happened.NodeCompleted | happened.NodeFailed)
    }


def _back_to(events: Iterable[NumberedEvent]) -> str:
    """The node that stays, of the undo that goes on."""
    found = [event for _, _, event in events if isinstance(event, happened.RunCompensating)]
    return found[-1].back_to if found else ""
