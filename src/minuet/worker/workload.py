"""All tokens in a worker's hands: granted, running, and finished.

    granted ─► assignments (running: `executing`) ─► finished ─► handed in and forgotten

This is state that the worker's parts share. It decides nothing.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator

from minuet.kernel.scope import show
from minuet.kernel.settle import is_undo
from minuet.plan.plan import author_of
from minuet.store.exchange import Held, Item, Slot
from minuet.store.records import Key
from minuet.worker.assignment import Assignment
from minuet.worker.placed_queues import LimitedNode
from minuet.worker.quarantine import Quarantine
from minuet.worker.sharing import Finished, Sharing

#: Items handed in by one exchange.
ITEMS_MAX = 1_000


class Workload:
    """What one worker has taken and not yet handed in."""

    def __init__(self, crashes_max: int) -> None:
        #: Granted, to be begun while the next call is under way.
        self.granted: list[Assignment] = []
        #: Begun, and not settled by the store yet.
        self.assignments: dict[Key, Assignment] = {}
        #: Permits in use: handlers that run, threads that cannot be stopped included.
        self.executing: set[Assignment] = set()
        #: Those of them that were asked to stop, and when; they hold their permits.
        self.asked: dict[Assignment, float] = {}
        #: Handlers that were asked and did not stop for so long that others have their permits.
        self.given_up: set[Assignment] = set()
        #: Finished, to be handed in.
        self.finished: Finished = []
        #: How many of these the last exchange could have handed in, and did not.
        self.kept_back = 0
        self._sharing = Sharing()
        self.suspect = Quarantine(crashes_max)
        #: Set when the worker has something to do.
        self.wake = asyncio.Event()

    @property
    def is_idle(self) -> bool:
        """Whether nothing runs and nothing is to be handed in."""
        return not (self.assignments or self.finished or self.granted)

    @property
    def leftover(self) -> int:
        """How many threads run although their attempts are over: they cannot be stopped, and hold
        their permits."""
        return sum(one.task is None for one in self.executing)

    def unfinished(self) -> list[str]:
        """The node instances whose handlers run, in words, even if no result is wanted."""
        return sorted(
            f"{one.key[1]}{show(one.scope)} of run {one.key[0]}"
            for one in (*self.executing, *self.given_up)
        )

    def held(self) -> Iterator[Held]:
        """What the worker works on, or will."""
        suspect = self.suspect.assignment
        for one in self.assignments.values():
            if one.task or (one is suspect and one.outcome is None):
                yield one.held

    def running(self) -> Counter[LimitedNode]:
        """How many instances of each node are in hand here and not done, or still run although
        their result is no longer wanted."""
        done = {one for one, item in self.finished if not isinstance(item, Slot)}
        busy = {one for one in self.assignments.values() if one not in done} | self.executing
        busy.update(self.granted)
        return Counter((one.header.workflow, author_of(one.grant.node)) for one in busy)

    # ── from the grant to the hand-in ───────────────────────────────────────────────────

    def grant(self, assignments: Iterable[Assignment]) -> None:
        """The store has granted these tokens."""
        self.granted += assignments

    def next_granted(self, count: int) -> list[Assignment]:
        """Take the next one to begin."""
        first, self.granted = self.granted[:count], self.granted[count:]
        return first

    def begin(self, assignment: Assignment) -> Assignment | None:
        """Have a token in hand; the assignment of the same token that it replaces, if any."""
        replaced = self.assignments.get(assignment.key)
        self.assignments[assignment.key] = assignment
        return replaced

    def finish(self, assignment: Assignment, item: Item) -> None:
        """Hand this in with the next exchange."""
        self.finished.append((assignment, item))

    def next_finished(self, now: float, *, give_way: bool) -> Finished:
        """Take the next items to hand in: as many as one exchange may have. Whether a run that has
        many of them gives way to others."""
        rest: Finished = []
        if give_way:
            self.finished, rest = self._sharing.divide(self.finished, now)
        else:
            self._sharing.hand_in_all(self.finished, now)
        self.kept_back = len(rest)
        first, self.finished = self.finished[:ITEMS_MAX], self.finished[ITEMS_MAX:] + rest
        return first

    def forget(self, assignment: Assignment) -> None:
        """The token is settled, or no longer ours."""
        key = assignment.key
        if self.assignments.get(key) is assignment:
            del self.assignments[key]
        if self.suspect.assignment is assignment:
            self.suspect.forget()

    # ── what is no longer wanted ────────────────────────────────────────────────────────

    def revoke(self, key: Key, lease: str) -> None:
        """The store has given the token to another worker."""
        assignment = self.assignments.get(key)
        if assignment is not None and assignment.grant.lease == lease:
            assignment.abandon(is_lost=True)
            self.ask_to_stop(assignment)
            self.forget(assignment)

    def abandon_run(self, run: str) -> None:
        """The run is over: stop the handlers that still work on it. They would find out only when
        their leases are not renewed."""
        self.granted = [one for one in self.granted if not _is_of(one, run)]
        for assignment in [one for one in self.assignments.values() if _is_of(one, run)]:
            assignment.abandon()
            self.ask_to_stop(assignment)
            self.forget(assignment)

    def ask_to_stop(self, assignment: Assignment) -> None:
        """A handler has been asked to stop; note since when."""
        if assignment in self.executing:
            self.asked.setdefault(assignment, asyncio.get_running_loop().time())

    def give_up(self, assignment: Assignment) -> None:
        """A handler does not stop: let another one have its permit."""
        self.executing.discard(assignment)
        del self.asked[assignment]
        self.given_up.add(assignment)

    def leave(self, assignment: Assignment) -> None:
        """A handler has ended."""
        self.executing.discard(assignment)
        if self.asked:
            self.asked.pop(assignment, None)
        if self.given_up:
            self.given_up.discard(assignment)

    def abandon_all(self) -> None:
        """The worker ends."""
        for assignment in self.assignments.values():
            assignment.abandon()


def _is_of(assignment: Assignment, run: str) -> bool:
    """Whether a token belongs to what a run does. If it is over, it may be being undone."""
    return assignment.grant.run == run and not is_undo(assignment.grant.node)
