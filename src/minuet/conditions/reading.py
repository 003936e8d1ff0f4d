"""What a condition reads, where its text says all of it."""

from __future__ import annotations

from minuet.conditions import METADATA


class ReadsByName:
    """A condition that needs nothing but the nodes that its text names."""

    __slots__ = ()
    source: str
    reads_all = False
    blobs: frozenset[str] = frozenset()
    is_slow = False

    @property
    def reads_metadata(self) -> bool:
        """Whether it may: a field of that name in an output looks the same from here."""
        return METADATA in self.source
