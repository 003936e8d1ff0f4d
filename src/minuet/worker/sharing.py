"""What one exchange hands in when a run has finished many nodes and others have finished few.

The store settles all items of an exchange together, so each of them takes as long as all. A hop of
a small run would take as long as the hundred items of a foreach that were finished at the same
time. Therefore a run that has more items than all other runs together keeps its surplus back for
the next exchanges. Where a run is alone, or no run has most of the items, nothing is kept back:
large exchanges are the cheapest.
"""

from __future__ import annotations

from collections import Counter

from minuet.store.exchange import Item
from minuet.worker.assignment import Assignment

#: Items that a run may hand in at once, however few the others have. So many take about as long as
#: an exchange without them: a hop of another run takes about twice as long as it would alone, and
#: the run that gives way still has about half of the time.
SHARE = 6

#: For how long a run gives way after others had something to hand in. The next node of a small run,
#: or the next small run, comes about one exchange later.
GIVE_WAY_S = 0.1

#: For how long a run counts as large after it had many items. Its first and last nodes are few,
#: and so is what it finishes while results are kept back: other runs need not give way to these.
LARGE_S = 1.0

Finished = list[tuple[Assignment, Item]]


class Sharing:
    """Divides what is finished between this exchange and the next ones."""

    def __init__(self) -> None:
        self._until = 0.0
        #: The runs that the last small exchange had something of, and when it was.
        self._few: set[str] = set()
        self._few_at = 0.0
        #: Runs that had many items, and when that was.
        self._large: dict[str, float] = {}

    def divide(self, finished: Finished, now: float) -> tuple[Finished, Finished]:
        """What to hand in now, and what to keep back."""
        if len(finished) < SHARE:
            small = {one.grant.run for one, _ in finished} - self._large.keys()
            if small:
                self._few, self._few_at = small, now
            return finished, []
        counts = self._count(finished, now)
        ((largest, count),) = counts.most_common(1)
        if not counts.keys() <= self._large.keys():
            self._until = now + GIVE_WAY_S
        until = self._until
        if self._few - self._large.keys():
            # The two take turns: the store works for one while the handlers of the other run.
            until = max(until, self._few_at + GIVE_WAY_S)
        most = max(SHARE, len(finished) - count)
        if count <= most or now >= until:
            return finished, []
        first: Finished = []
        rest: Finished = []
        for one in finished:
            if one[0].grant.run != largest:
                first.append(one)
            elif most:
                most -= 1
                first.append(one)
            else:
                rest.append(one)
        return first, rest

    def hand_in_all(self, finished: Finished, now: float) -> None:
        """Nothing is kept back now, but the runs that have many items count as large."""
        if len(finished) >= SHARE:
            self._count(finished, now)

    def _count(self, finished: Finished, now: float) -> Counter[str]:
        """How many items each run has. Those that have many are remembered for a while."""
        counts = Counter([assignment.grant.run for assignment, _ in finished])
        if self._large or max(counts.values()) >= SHARE:
            self._large = {run: at for run, at in self._large.items() if now < at + LARGE_S}
            self._large.update({run: now for run, count in counts.items() if count >= SHARE})
        return counts
