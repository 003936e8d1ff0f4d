"""What a worker tells about itself."""

from __future__ import annotations

import logging

import pytest

from minuet.store.exchange import Done, Failed, Released, Retried, Slot, Waiting
from minuet.worker.counts import Counts, Outage

TOKEN = ("run", "node", "", "lease")


def test_every_settled_node_is_counted_once_by_how_it_went() -> None:
    counts = Counts()

    for item in (
        Done(*TOKEN),
        Done(*TOKEN, outcome="skipped"),
        Done(*TOKEN, outcome="failed"),
        Done(*TOKEN, cursor=500),  # One part of a large fan-out; the node is not done.
        Failed(*TOKEN),
        Retried(*TOKEN),
        Waiting(*TOKEN),
        Released(*TOKEN),
        Slot(*TOKEN),
    ):
        counts.add(item)

    assert counts == Counts(completed=1, skipped=1, failed=2, retried=1, waiting=1, released=1)


def test_a_store_that_is_away_is_told_once_each_time(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "minuet.worker")
    outage = Outage()

    outage.end(1.0)
    outage.begin(OSError("gone"), 2.0)
    outage.begin(OSError("still gone"), 3.0)
    outage.end(4.5)
    outage.end(5.0)
    outage.begin(OSError("gone again"), 6.0)

    assert caplog.messages == [
        "the store is not available (gone); trying until it is",
        "the store is back after 2.5 s",
        "the store is not available (gone again); trying until it is",
    ]
