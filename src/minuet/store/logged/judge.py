"""Whether events continue those that the log has."""

from __future__ import annotations

from collections.abc import Sequence

from minuet.store.logged.base import Appended, Unlogged
from minuet.store.records import EventRecord


def judge(
    found: Unlogged, seq: int, overlap: Sequence[EventRecord]
) -> tuple[Appended, tuple[EventRecord, ...]]:
    """What becomes of events that are to be logged, and which of them to add.

    `seq` is the number of the log's last event of the run, `overlap` its events after
    `found.logged`: the same ones, unless the run has lost some and taken another way since.
    """
    if seq < found.logged:
        return "gap", ()
    ours = found.events[: len(overlap)]
    if tuple(overlap) != ours:
        return "forked", ()
    return "logged", found.events[len(overlap) :]
