"""The contract of a blob store: named bytes, each put whole and never changed.

It knows nothing of runs and hashes: `store.outside` decides the names and verifies what it reads.

* A put is whole or has not happened, and durable when it is answered. Putting a name again
  replaces its bytes by the same ones.
* What cannot be reached, or has no room, is a StoreUnavailableError that names the place: the same
  call may be repeated.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

#: Begins the names of files that are being written. An old one was left by a process that died.
UNFINISHED = ".unfinished/"


class BlobStore(Protocol):
    """Named bytes in one place."""

    @property
    def name(self) -> str:
        """The place, as messages name it."""
        ...

    async def open(self) -> None:
        """Find the place; ConfigError if it cannot be used."""
        ...

    async def put(self, name: str, data: bytes) -> None:
        """Keep bytes under a name, which has parts separated by `/`."""
        ...

    async def get(self, name: str) -> bytes | None:
        """The bytes of a name; None: there are none."""
        ...

    def list(self, beginning: str = "") -> AsyncIterator[tuple[str, int]]:
        """The names that begin so, and when each was last put, in milliseconds; in any order.

        `beginning` is empty or ends with `/`. Unfinished files are among them, under
        `UNFINISHED`.
        """
        ...

    async def delete(self, names: Sequence[str]) -> None:
        """Delete some names; one that is not there is no error."""
        ...
