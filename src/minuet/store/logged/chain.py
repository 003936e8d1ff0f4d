"""The hash of an event and of all events before it in its run.

Changing, removing or adding an event in the log afterwards breaks the chain from there on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

from minuet.store.records import EventRecord

#: The hash before the first event.
START = bytes(32)


def link(before: bytes, event: EventRecord) -> bytes:
    """The hash of an event that follows the one with the hash `before`."""
    head = f"{event.run}\0{event.seq}\0{event.at_ms}\0".encode()
    return hashlib.sha256(before + head + event.data).digest()


def chain(before: bytes, events: Iterable[EventRecord]) -> Iterator[bytes]:
    """The hashes of events in a row."""
    for event in events:
        before = link(before, event)
        yield before
