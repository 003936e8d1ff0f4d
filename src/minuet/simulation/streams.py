"""Randomness, derived from a seed: one stream per concern.

Separate streams keep a world comparable with itself: switching one kind of fault off does not
reshuffle the schedule or the workload. So a failing seed can be minimised.
"""

from __future__ import annotations

import random


class Streams:
    """Sources of randomness, by name."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._known: dict[str, random.Random] = {}

    def get(self, name: str) -> random.Random:
        """The stream of this name, the same one each time."""
        found = self._known.get(name)
        if found is None:
            found = self._known[name] = self.make(name)
        return found

    def make(self, name: str) -> random.Random:
        """A new stream that starts where every stream of this name starts."""
        # Text is hashed by SHA-512 here, not by `hash`: the same in every interpreter.
        return random.Random(f"{self.seed}/{name}")
