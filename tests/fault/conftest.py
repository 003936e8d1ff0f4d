"""Makes `tests.fault` importable, here and in the processes that the tests start."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..folding import Findings

ROOT = Path(__file__).resolve().parent.parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))


@pytest.fixture(autouse=True)
def processes_have_compared(tmp_path: Path, histories: Findings) -> Iterator[None]:
    """Whatever process worked on a run, killed or not, has compared it with its events."""
    yield
    histories.assert_compared(tmp_path)


@pytest.fixture(scope="module")
def nursery(histories: Findings) -> Iterator[object]:
    """Starts processes in no time; ends those that are left when the module is done."""
    from tests.fault.processes import Nursery

    with Nursery(ROOT) as nursery:
        yield nursery
