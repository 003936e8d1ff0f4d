"""A node that may be killing its workers is tried alone.

When a process dies, every token in its hands loses a chance, and it is not known which of them
killed it. A token on its last chance must not pay for another's. So a worker runs one such token
at a time: before it runs, everything finished is handed in; while it runs, no other one on its
last chance is kept, and at first nothing is taken at all. Then the guilty one dies alone and
is given up, and the innocent ones complete.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from minuet.worker.assignment import Assignment

#: How long the process takes nothing while a token on its last chance runs (one that kills its
#: worker usually does it early), and how long after another such token was refused.
ALONE_SECONDS = 5.0
AGAIN_SECONDS = 1.0


class Quarantine:
    """The one assignment on its last chance that a worker keeps, if there is one."""

    def __init__(self, crashes_max: int) -> None:
        self._crashes_max = crashes_max
        self._alone_until = 0.0
        self.assignment: Assignment | None = None

    def is_suspect(self, assignment: Assignment) -> bool:
        """Whether the token is given up if one more of its workers dies."""
        return 0 < assignment.grant.expiry == self._crashes_max - 1

    def keep(self, assignment: Assignment, now: float) -> None:
        """Keep this one; nothing is taken for a while."""
        self.assignment, self._alone_until = assignment, now + ALONE_SECONDS

    def refuse(self, now: float) -> None:
        """Another one was given back: take nothing for a while, or it is granted again."""
        self._alone_until = max(self._alone_until, now + AGAIN_SECONDS)

    def begin(self, now: float) -> Assignment | None:
        """The assignment, if it has not begun; call this when everything else is handed in."""
        kept = self.assignment
        if kept is None or kept.task is not None or kept.outcome is not None:
            return None
        self._alone_until = now + ALONE_SECONDS
        return kept

    def forget(self) -> None:
        """The store has settled the assignment."""
        self.assignment, self._alone_until = None, 0.0

    def seconds_alone(self, now: float) -> float:
        """How long to take nothing; 0: take."""
        return max(0.0, self._alone_until - now)
