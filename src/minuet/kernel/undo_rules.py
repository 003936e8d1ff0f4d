"""What must hold for the undo of a run, counted by its events alone.

A second opinion on `kernel.undo`, which decides what is undone: nothing of it is used here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from minuet import events as happened
from minuet.events import Place
from minuet.kernel.fold import NumberedEvent
from minuet.kernel.ledger import sent_by
from minuet.kernel.program import Program
from minuet.kernel.scope import decode, encode
from minuet.plan.plan import UNDO_CHILD_TYPE
from minuet.types import UNDO


def broken_undos(program: Program, events: Sequence[NumberedEvent]) -> Iterator[str]:
    """What is wrong with the undos of a run."""
    book = _Book(program)
    for seq, _, event in events:
        yield from book.note(seq, event)


class _Book:
    """What has completed and what was undone, up to an event."""

    def __init__(self, program: Program) -> None:
        self._program = program
        #: When instances last completed, and when their compensators did.
        self._completed: dict[Place, int] = {}
        self._undone: dict[Place, int] = {}
        #: Of the present undo: since when it goes back, what it has begun, and what is alive.
        self._since = 0
        self._begun: list[Place] = []
        self._live: set[Place] = set()

    def note(self, seq: int, event: happened.Event) -> Iterator[str]:
        if isinstance(event, happened.RunCompensating):
            kept = [done for (node, _), done in self._completed.items() if node == event.back_to]
            self._since = max(kept, default=0)
            self._begun, self._live = [], set()
        if isinstance(event, happened.NodeCompleted | happened.NodeFailed):
            yield from self._settle(seq, event)
        for _, (node, scope, *_rest) in sent_by(event):
            undone = self._subject(node, scope)
            if undone is not None:
                yield from self._begin(seq, undone, (node, scope))
        if isinstance(event, happened.RunCompensated):
            yield from self._end(seq)

    def _subject(self, node: str, scope: str) -> Place | None:
        """The instance that an instance undoes. None: it undoes none."""
        found = self._program.nodes.get(node)
        if found is None or not found.undoes:
            return None
        return (found.undoes, encode(decode(scope)[:-1]))

    def _is_child(self, place: Place) -> bool:
        return self._program.undo_of[place[0]].type == UNDO_CHILD_TYPE

    def _settle(
        self, seq: int, event: happened.NodeCompleted | happened.NodeFailed
    ) -> Iterator[str]:
        place = (event.node, event.scope)
        undone = self._subject(*place)
        self._live.discard(place)
        if event.node.endswith(UNDO) and undone is None:
            return
        if undone is None:
            if isinstance(event, happened.NodeCompleted) and event.error is None:
                self._completed[place] = seq
        elif isinstance(event, happened.NodeCompleted) and event.error is None:
            if self._undone.get(undone, 0) > self._completed.get(undone, 0):
                yield f"event {seq}: {undone} is undone twice"
            self._undone[undone] = seq

    def _begin(self, seq: int, undone: Place, place: Place) -> Iterator[str]:
        done = self._completed.get(undone, 0)
        if not done and not self._is_child(undone):
            yield f"event {seq}: {undone} did not complete and is undone"
        elif not self._is_child(undone) and self._undone.get(undone, 0) > done:
            yield f"event {seq}: {undone} was undone and is undone again"
        if undone in self._begun:
            yield f"event {seq}: {undone} is undone twice by one undo"
        earlier = [self._completed.get(one, 0) for one in self._begun if not self._is_child(one)]
        if earlier and not self._is_child(undone) and done > earlier[-1]:
            yield f"event {seq}: {undone} completed after what was undone before it"
        if done and done <= self._since:
            yield f"event {seq}: {undone} should have stayed"
        if self._live:
            yield f"event {seq}: {undone} is undone beside {sorted(self._live)}"
        self._begun.append(undone)
        self._live.add(place)

    def _end(self, seq: int) -> Iterator[str]:
        for place, done in sorted(self._completed.items()):
            is_left = (
                place[0] in self._program.undo_of
                and done > max(self._since, self._undone.get(place, 0))
                and place not in self._begun
            )
            if is_left:
                yield f"event {seq}: the undo is over, and {place} was forgotten"
