"""A store with large contents outside and the reference give the same answers to the same calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from tests.differential.long import Run, outside

from minuet.store.outside import OutsideStore


async def test_random_calls_get_the_same_answers() -> None:
    run = Run(seed=3, factory=outside)

    await run.go(800)

    assert run.seen["put_blob", "kept"]
    assert run.seen["get_blob", "some"]


async def keeps_nothing(self: Any, tenant: str, run: str, data: bytes) -> bytes:
    """A planted bug: a stub without its content."""
    return data[:10]


async def forgets_to_delete(self: Any, tenant: str, runs: Sequence[str]) -> int:
    """A planted bug: the runs stay."""
    return len(runs)


@pytest.mark.parametrize(
    ("name", "bug"), [("_put", keeps_nothing), ("delete_runs", forgets_to_delete)]
)
async def test_a_planted_bug_is_found(
    monkeypatch: pytest.MonkeyPatch, name: str, bug: object
) -> None:
    monkeypatch.setattr(OutsideStore, name, bug)

    run = Run(3, factory=outside)

    with pytest.raises(AssertionError):
        await run.go(3000)
    assert run.steps
