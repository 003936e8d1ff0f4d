"""What a worker has done so far, and whether its store is available: for people who watch it."""

from __future__ import annotations

import logging

import msgspec

from minuet.store.exchange import Done, Failed, Item, Released, Retried, Waiting

_log = logging.getLogger("minuet.worker")


class Counts(msgspec.Struct):
    """How many nodes a worker has settled, by how that went."""

    completed: int = 0
    skipped: int = 0
    failed: int = 0
    retried: int = 0
    waiting: int = 0
    #: Given back, to be run by others.
    released: int = 0

    def add(self, item: Item) -> None:
        """The store has applied an item."""
        if isinstance(item, Done):
            # One part of a large fan-out is not the end of its node.
            if item.cursor is not None:
                pass
            elif item.outcome == "completed":
                self.completed += 1
            elif item.outcome == "skipped":
                self.skipped += 1
            else:
                self.failed += 1
        elif isinstance(item, Failed):
            self.failed += 1
        elif isinstance(item, Retried):
            self.retried += 1
        elif isinstance(item, Waiting):
            self.waiting += 1
        elif isinstance(item, Released):
            self.released += 1


class Outage:
    """Logs once that the store is not available, and once that it is back."""

    def __init__(self) -> None:
        self._since: float | None = None

    def begin(self, error: Exception, now: float) -> None:
        """A call failed."""
        if self._since is None:
            self._since = now
            _log.warning("the store is not available (%s); trying until it is", error)

    def end(self, now: float) -> float:
        """A call was answered; how long the store was away."""
        if self._since is None:
            return 0.0
        away_s, self._since = now - self._since, None
        _log.warning("the store is back after %.1f s", away_s)
        return away_s
