"""Decisions of a play: what people decide, as a test gives it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from minuet.app.approvals import Approval
from minuet.errors import InputError

#: `approve` or `reject`, or a dict with more.
Made: TypeAlias = str | Mapping[str, Any]

#: What is decided: the same for each approval of the node, one after another, or by a function.
Decision: TypeAlias = Made | Sequence[Made] | Callable[[Approval], Made]

#: Who decides if the test does not say so.
SOMEBODY = "somebody"

_FIELDS = frozenset({"decision", "comments", "data", "by"})


class GivenDecisions:
    """Decisions that a test gives, by node."""

    def __init__(self, decisions: Mapping[str, Decision]) -> None:
        self._decisions: dict[str, Any] = {
            name: list(given) if isinstance(given, list | tuple) else given
            for name, given in decisions.items()
        }

    def take(self, approval: Approval) -> dict[str, Any] | None:
        """The next decision for an approval, as arguments of `decide`; None: there is none."""
        given = self._decisions.get(approval.node_id)
        if isinstance(given, list):
            given = given.pop(0) if given else None
        if callable(given):
            given = given(approval)
        if given is None:
            return None
        return _arguments(approval, given)


def _arguments(approval: Approval, given: Any) -> dict[str, Any]:
    made = {"decision": given} if isinstance(given, str) else given
    if not isinstance(made, Mapping) or "decision" not in made or not made.keys() <= _FIELDS:
        problem = (
            f"decisions: for node {approval.node_id!r}, expected 'approve', 'reject' or a dict "
            f"with decision, comments, data and by, not {given!r:.100}"
        )
        raise InputError([problem], argument="decisions")
    # Each person counts once: of a quorum, everybody who decides is somebody else.
    return {"by": f"{SOMEBODY}-{len(approval.decisions) + 1}", **made}
