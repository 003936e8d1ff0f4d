"""From what somebody wants undone to a change of the run, or why that cannot be.

What there is to undo follows from the history (`kernel.undo`). The store only knows that a run is
undone, and how often it was.
"""

from __future__ import annotations

from collections.abc import Sequence

from minuet.errors import InputError, RunConflictError
from minuet.kernel.fold import NumberedEvent, replay
from minuet.kernel.program import Program
from minuet.kernel.undo import completion_of, left_to_undo, undoings
from minuet.plan.plan import author_of
from minuet.store.changes import Rollback
from minuet.store.records import Run
from minuet.types import TERMINAL


def rollback(
    program: Program, history: Sequence[NumberedEvent], run: Run, to: str | None
) -> Rollback:
    """The change that undoes a run: all of it, or what completed after the node `to`.

    InputError when that node has not completed, RunConflictError when there is nothing to undo.
    """
    if to is not None and not completion_of(history, to):
        problem = f"node {to!r} has not completed in run {run.run}: name one that has"
        raise InputError([problem], argument="to")
    if run.status in TERMINAL and not left_to_undo(program, history, to or ""):
        after = f" after {to!r}" if to else ""
        message = f"has nothing to undo: no node with a compensator completed{after}"
        raise RunConflictError(run.run, message, status=run.status, seq=run.seq)
    return Rollback(back_to=to or "")


def undone_nodes(program: Program, history: Sequence[NumberedEvent]) -> list[str]:
    """The nodes of which an instance was undone."""
    found = undoings(program, replay(history))
    return sorted({author_of(node) for (node, _), one in found.items() if one.is_undone})
