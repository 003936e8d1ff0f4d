"""A simulated blob store: contents beside the store, with faults of their own.

A put is lost, late, or kept although the caller hears of an error; a read fails, or comes out
damaged on the way. What was kept is never lost: that a lost content is reported is tested with real
blob stores.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections.abc import AsyncIterator, Callable, Sequence

from minuet.errors import StoreUnavailableError
from minuet.simulation.coverage import Coverage
from minuet.simulation.faults import Faults
from minuet.store.blob import stub_of
from minuet.store.outside import OutsideStore, content_name

#: What a damaged content has in it, and nothing else: messages speak of damage in other letters.
DAMAGED = b"DAMAGED"


class Contents:
    """What all processes of a world keep outside the store."""

    def __init__(
        self, chance: random.Random, faults: Callable[[], Faults], coverage: Coverage
    ) -> None:
        self._chance, self._faults, self._coverage = chance, faults, coverage
        self._kept: dict[str, bytes] = {}
        #: Names that were deleted. A store that is set back may have their runs again.
        self._deleted: set[str] = set()
        #: Names whose last read came out damaged: the next one does not.
        self._damaged: set[str] = set()

    name = "sim://contents"

    async def open(self) -> None:
        pass

    async def put(self, name: str, data: bytes) -> None:
        await asyncio.sleep(self._delay())
        if self._strikes(0.2):
            raise StoreUnavailableError("a put was lost")
        self._coverage.hit("content put")
        self._kept[name] = data
        if self._strikes(0.1):
            raise StoreUnavailableError("a put was kept, and nobody knows")

    async def get(self, name: str) -> bytes | None:
        await asyncio.sleep(self._delay())
        if self._strikes(0.1):
            raise StoreUnavailableError("a read failed")
        found = self._kept.get(name)
        if found and name not in self._damaged and self._strikes(0.2):
            self._damaged.add(name)
            return found.replace(b"x" * len(DAMAGED), DAMAGED, 1)
        self._damaged.discard(name)
        return found

    async def list(self, beginning: str = "") -> AsyncIterator[tuple[str, int]]:
        for name in sorted(self._kept):
            if name.startswith(beginning):
                yield name, 0

    async def delete(self, names: Sequence[str]) -> None:
        if self._strikes(0.2):
            raise StoreUnavailableError("nothing was deleted")
        for name in names:
            self._coverage.hit("content deleted")
            self._kept.pop(name, None)
            self._deleted.add(name)

    def _delay(self) -> float:
        late = self._strikes(0.2)
        return self._chance.choice((0.3, 1.5, 4.0)) if late else self._chance.expovariate(1000)

    def _strikes(self, rate: float) -> bool:
        strength = self._faults().of("contents")
        if strength and self._chance.random() < rate * strength:
            self._coverage.hit("fault contents")
            return True
        return False

    # ── what is true ────────────────────────────────────────────────────────────────────

    def has(self, tenant: str, run: str, stored: bytes | None) -> bool:
        """Whether the content is there that a stored blob stands for."""
        stub = stub_of(stored)
        if stub is None or not stub.is_outside:
            return stored is not None
        name = content_name(tenant, run, stub.ref)
        if name in self._deleted:
            return True
        kept = self._kept.get(name, b"")
        return hashlib.sha256(kept).hexdigest() == stub.ref.rpartition(":")[2]


class SimOutsideStore(OutsideStore):
    """The real thing; only that a world has one blob store, which belongs to its store."""

    async def open(self) -> None:
        await self._inside.open()
