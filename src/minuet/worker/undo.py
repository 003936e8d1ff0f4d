"""The hidden nodes of an undo: one lists what to undo, others undo child runs.

Both read how things stand each time they are called, so it does not matter how often that is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from minuet.bridge.history import HistoryReader
from minuet.bridge.programs import Programs
from minuet.errors import RunConflictError, RunNotFoundError
from minuet.kernel.fold import replay
from minuet.kernel.scope import encode
from minuet.kernel.settle import AttemptFailed, Outcome, Succeeded, Waiting
from minuet.kernel.undo import compensated, left_to_undo, list_undos
from minuet.plan.plan import UNDO_CHILD_TYPE, UNDO_TYPE, Node
from minuet.store.base import Store
from minuet.store.changes import Rollback
from minuet.store.families import child_id
from minuet.store.records import Run
from minuet.types import TERMINAL, Json
from minuet.worker.assignment import Assignment


def is_undo_part(node: Node) -> bool:
    """Whether a node is a part of an undo that the worker does without a handler."""
    return node.type in (UNDO_TYPE, UNDO_CHILD_TYPE)


class UndoParts:
    """Runs the hidden nodes of an undo for one worker."""

    def __init__(
        self,
        store: Store,
        tenant: str,
        programs: Programs,
        adopt: Callable[[str, Iterable[str]], None],
    ) -> None:
        self._store = store
        self._tenant = tenant
        self._programs = programs
        #: Called with each child run that is undone, and the queues of its plan.
        self._adopt = adopt
        self._reader = HistoryReader(store, tenant)

    async def run(self, assignment: Assignment, node: Node) -> Outcome:
        """List what to undo, or undo a child run."""
        if node.type == UNDO_TYPE:
            return await self._list(assignment)
        return await self._undo_child(assignment, node)

    async def _list(self, assignment: Assignment) -> Outcome:
        assert assignment.loaded is not None
        history = await self._reader.history(assignment.grant.run)
        found = list_undos(assignment.loaded.program, history, assignment.scope)
        return _succeed(assignment, msgspec.to_builtins(found))

    async def _undo_child(self, assignment: Assignment, node: Node) -> Outcome:
        """Undo the child run of an instance, once it is over."""
        scope = encode(assignment.undone_scope)
        name = child_id((assignment.grant.run, node.undoes, scope))
        child = await self._store.read_run(self._tenant, name)
        if child is None:
            return _succeed(assignment, None)  # It was never started.
        if child.status not in TERMINAL:
            return Waiting("child", key=name)
        loaded = await self._programs.load(child.plan, run=name, tenant=self._tenant)
        history = await self._reader.history(name)
        if not left_to_undo(loaded.program, history):
            return _succeed(assignment, name)
        state = replay(history).state
        if assignment.grant.is_resumed and compensated(loaded.program, state, history):
            return AttemptFailed(_partly(name))
        self._adopt(name, loaded.program.queues)
        if not await self._roll_back(assignment, child):
            return AttemptFailed(_partly(name))
        return Waiting("child", key=name)

    async def _roll_back(self, assignment: Assignment, child: Run) -> bool:
        """Begin to undo a run; False: it cannot be undone. It may have been begun by others."""
        if child.started_ms is None:
            return True
        change = Rollback(by=assignment.grant.run)
        try:
            await self._store.change_run(self._tenant, child.run, change, child.seq)
        except (RunConflictError, RunNotFoundError):
            pass  # It has moved on: what it has become is read when it is over.
        return True


def _succeed(assignment: Assignment, value: Json) -> Succeeded:
    assignment.output = msgspec.json.encode(value)
    return Succeeded(value)


def _partly(child: str) -> dict[str, Json]:
    return {
        "code": "child_partly_undone",
        "message": f"the child run {child} could not be undone completely: see its dead letters",
    }
