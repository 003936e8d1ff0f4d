"""Rows of the requirements that no test beside the code shows: on every store, one file an area."""

from __future__ import annotations

import pytest

from minuet.clock import ManualClock

from ..cli.conftest import folder, minuet
from ..scenario.conftest import scene, store_url

__all__ = ["folder", "minuet", "scene", "store_url"]


@pytest.fixture
def clock() -> ManualClock:
    """A clock that stands still."""
    return ManualClock()
