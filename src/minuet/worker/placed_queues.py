"""The queues with placement constraints that a worker may serve, and how much it may take.

Whether a worker qualifies is decided once for each queue, from its name (`plan.placement`). The
worker counts how many instances of a node it runs at once. When a node has reached its limit, the
worker takes nothing from its queue until one of them has ended.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

import msgspec

from minuet.plan.placement import Offer, Placement, read_placement, unmet
from minuet.store.exchange import Take

#: A queue in which nothing was ready for this long is dropped until it is found again.
KEEP_S = 60.0

#: Queue names whose verdict is kept.
VERDICTS_MAX = 10_000

#: Workflow and node: what the limit of a node counts.
LimitedNode = tuple[str, str]


class _Known(msgspec.Struct):
    """A queue that this worker serves."""

    placement: Placement
    #: When something was last found ready in it; None: the user named it, and it stays.
    found_at: float | None


class PlacedQueues:
    """What a worker knows of queues with constraints."""

    def __init__(self, offer: Offer) -> None:
        self._offer = offer
        self._known: dict[str, _Known] = {}
        #: The constraints of queues that were met, by name; None: this worker does not qualify.
        self._verdicts: dict[str, Placement | None] = {}
        #: With room for one token: whether it went to these queues last.
        self._turn = False

    def __bool__(self) -> bool:
        return bool(self._known)

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def offer(self, offer: Offer) -> None:
        """The worker's offer has changed."""
        if offer != self._offer:
            self._offer = offer
            self._verdicts.clear()

    def insist(self, queue: str) -> bool:
        """Serve a queue that the user named; False: its name has no constraints."""
        placement = read_placement(queue)
        if placement is not None:
            self._known[queue] = _Known(placement, None)
        return placement is not None

    def find(self, queues: Iterable[str], served: Collection[str], now: float) -> bool:
        """Something is ready in these queues; whether one is new among those to serve.

        `served` are the queues that the worker could serve without constraints.
        """
        is_new = False
        for queue in queues:
            placement = self._verdict(queue)
            if placement is None or placement.queue not in served:
                continue
            known = self._known.get(queue)
            if known is None:
                is_new = True
                self._known[queue] = _Known(placement, now)
            elif known.found_at is not None:
                known.found_at = now
        return is_new

    def may_serve(self, queue: str, served: Collection[str]) -> bool:
        """Whether the worker would take from this queue."""
        placement = self._verdict(queue)
        return queue in self._known or (placement is not None and placement.queue in served)

    def forget(self, now: float) -> None:
        """Drop queues in which nothing has been ready for long."""
        self._known = {
            queue: known
            for queue, known in self._known.items()
            if known.found_at is None or known.found_at > now - KEEP_S
        }

    def _verdict(self, queue: str) -> Placement | None:
        if queue not in self._verdicts:
            if len(self._verdicts) >= VERDICTS_MAX:
                self._verdicts.clear()
            placement = read_placement(queue)
            if placement is not None and unmet(placement, self._offer):
                placement = None
            self._verdicts[queue] = placement
        return self._verdicts[queue]

    def leases(self, by_queue: Mapping[str, int]) -> dict[str, int]:
        """The lengths of leases that these queues have without constraints."""
        return {
            queue: by_queue[known.placement.queue]
            for queue, known in self._known.items()
            if known.placement.queue in by_queue
        }

    def open(self, running: Mapping[LimitedNode, int]) -> tuple[tuple[str, ...], int]:
        """The queues to take from, and how many tokens at most from all of them together, so
        that no node has more instances than it may."""
        free = {
            queue: left
            for queue, known in self._known.items()
            if (left := known.placement.limit - running.get(_limited_node(known.placement), 0)) > 0
        }
        return tuple(free), min(free.values(), default=0)

    def share(
        self, room: int, served: tuple[str, ...], running: Mapping[LimitedNode, int]
    ) -> list[Take]:
        """Divide the room of a worker between these queues and the others that it serves."""
        placed, limit = self.open(running)
        if not placed:
            return [Take(served, room)]
        if room == 1:
            self._turn = not self._turn or not served
            return [Take(placed if self._turn else served, 1)]
        limit = min(limit, room // 2)
        return [Take(placed, limit), Take(served, room - limit)]


def _limited_node(placement: Placement) -> LimitedNode:
    return (placement.workflow, placement.node)
