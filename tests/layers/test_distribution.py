"""How much the tests cover of work that is distributed over several workers."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.requirements import collect_marks

#: The scenarios that were asked for by name: leases, placement, the registry, recovery.
NAMED = {f"Y-{number}" for number in range(21, 44)}


@pytest.mark.shows("Y-44")
def test_distribution_is_covered_by_more_than_25_scenarios(root: Path) -> None:
    marks = [mark for mark in collect_marks(root) if mark.row in NAMED]

    assert {mark.row for mark in marks} == NAMED
    assert len({mark.node_id for mark in marks}) >= 25
