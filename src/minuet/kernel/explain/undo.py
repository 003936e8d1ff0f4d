"""What has become of a node that was undone, in words."""

from __future__ import annotations

from collections.abc import Mapping

from minuet.events import Place
from minuet.kernel.explain.waiting import Fact
from minuet.kernel.fold import Fold
from minuet.kernel.lifecycle import NodeStatus
from minuet.kernel.program import Program
from minuet.kernel.scope import encode
from minuet.kernel.undo import Undoing, undoing_of, undoings
from minuet.plan.plan import UNDO_CHILD_TYPE, item_id
from minuet.types import Scope


def explain_undo(
    program: Program,
    fold: Fold,
    name: str,
    scope: Scope,
    status: NodeStatus,
    facts: Mapping[Place, Fact],
) -> str:
    """What the compensator of a node has done; "": there is nothing to say."""
    state = fold.state
    if not state.undos:
        return ""
    leased = [place for place, fact in facts.items() if fact.get("state") == "leased"]
    found = undoings(program, fold, leased)
    token = item_id(name) if program.nodes[name].foreach is not None else name
    undoing = found.get((token, encode(scope))) or undoing_of(found, name)
    if undoing is not None:
        return _describe(undoing, is_child=program.undo_of[token].type == UNDO_CHILD_TYPE)
    if status != "COMPLETED":
        return ""
    if token not in program.undo_of:
        return "it is not undone: it has no compensator"
    if state.ends_as:
        return "it will be undone, unless the undo goes back only to a node that completed later"
    return "it was not undone"


def _describe(undoing: Undoing, *, is_child: bool) -> str:
    what = "its child run" if is_child else "it"
    match undoing.status:
        case "COMPLETED":
            return f"{what} was undone"
        case "FAILED":
            tries = "attempt" if undoing.attempts == 1 else "attempts"
            why = (undoing.error or {}).get("message", "")
            return f"{what} was not undone: it failed after {undoing.attempts} {tries}: {why}"
        case "RUNNING":
            return f"{what} is being undone, in attempt {undoing.attempts}"
        case "WAITING":
            return f"{what} is being undone"
    retried = f", after attempt {undoing.attempts - 1} failed" if undoing.attempts > 1 else ""
    return f"{what} is next to be undone{retried}"
