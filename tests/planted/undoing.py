"""Mistakes in how runs are undone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from minuet.kernel import settle as settling
from minuet.kernel import undo
from minuet.kernel.fold import NumberedEvent
from minuet.kernel.program import Program
from minuet.kernel.settle import AttemptFailed, Sent, UndoList
from minuet.nodes.context import Context
from minuet.store.records import Key, Run
from minuet.store.rules.transition import Transition
from minuet.types import UNDO, Scope
from minuet.worker import undo as parts


@contextmanager
def _replaced(module: Any, name: str, wrong: Any) -> Iterator[None]:
    right = getattr(module, name)
    setattr(module, name, wrong)
    try:
        yield
    finally:
        setattr(module, name, right)


def undone_is_undone_again() -> Any:
    """What was undone before is undone by the next undo as well."""
    return _replaced(undo, "_undone", lambda *_: 0)


def the_first_is_undone_first() -> Any:
    """Nodes are undone in the order in which they completed."""
    right = undo.list_undos

    def listed(program: Program, events: Sequence[NumberedEvent], scope: Scope) -> UndoList:
        found = right(program, events, scope)
        return msgspec.structs.replace(found, instances=found.instances[::-1])

    return _replaced(parts, "list_undos", listed)


def failed_nodes_are_undone() -> Any:
    """A node that failed and whose failure was handled is undone as well."""
    return _replaced(undo, "_completions", undo._settlements)


def a_failure_ends_the_undo() -> Any:
    """After a compensator that failed, no other is run."""
    right = settling._settle_undo

    def settle(
        program: Any, node: Any, scope: Any, outcome: Any, *rest: Any
    ) -> settling.Settlement:
        found = right(program, node, scope, outcome, *rest)
        if isinstance(outcome, AttemptFailed) and isinstance(found, Sent):
            return msgspec.structs.replace(found, sends=())
        return found

    return _replaced(settling, "_settle_undo", settle)


def keys_change_with_attempts() -> Any:
    """Each attempt of a compensator has a key of its own."""
    right = Context.idempotency_key

    def key(context: Context) -> str:
        found: str = right.fget(context)  # type: ignore[attr-defined]
        return f"{found}-{context.attempt}" if context.token_node.endswith(UNDO) else found

    return _replaced(Context, "idempotency_key", property(key))


class LosesAnUndoInACrash(Transition):
    """A token of an undo whose lease expires is not handed out again: the undo is over."""

    def expire(self, key: Key) -> bool:
        expired = super().expire(key)
        run = self.run(key[0])
        if expired and key[1].endswith(UNDO) and run is not None:
            self._end_undo(run)
        return expired


class ForgetsToUndo(Transition):
    """A run that fails is over at once, whatever it asks for."""

    def _undo(self, run: Run, by: str = "", back_to: str = "") -> None:
        if run.status != "FAILED" or by or run.undos:
            super()._undo(run, by, back_to)
