"""Repairs of runs: each store and the reference give the same answers."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from tests.differential.driver import EXPECTED_REPAIRS, Driver
from tests.differential.long import FACTORIES
from tests.differential.test_redis import replace_in_library

from minuet.clock import ManualClock
from minuet.store.memory import MemoryStore

#: Enough for all that is expected, and for every planted bug.
SCENES = 120


async def compare(folder: Path, name: str, *, scenes: int = SCENES) -> Driver:
    """Repair runs of two stores in the same ways."""
    clock = ManualClock()
    stores = [MemoryStore(clock), FACTORIES[name](folder, clock)]
    driver, rng = Driver(clock, stores), Random("repairs")
    for store in stores:
        await store.open()
    try:
        for _ in range(scenes):
            await driver.repair(rng)
    finally:
        for store in stores:
            await store.close()
    return driver


@pytest.mark.parametrize("name", ["sqlite", "postgres", "redis"])
async def test_repairs_get_the_same_answers(name: str, tmp_path: Path) -> None:
    driver = await compare(tmp_path, name)

    assert not EXPECTED_REPAIRS - set(driver.seen)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("return token[T_EVENT] ~= 0 and ENDED_BY.completed or nil", "return nil"),
        ("token[T_WAIT], token[T_WAIT_KEY] = L_HOLD_WAIT, ''", "token[T_WAIT] = 'timer'"),
        ("token[T_EDITED] = append(", "append("),
        ("  token[T_LEASE] = ''\n  make_ready(run, token, now)\n  if action", "  if action"),
        (
            "if letter then move_letter(run, letter, status, action",
            "if false then move_letter(run, letter, status, action",
        ),
        ("queue[3], token[T_WAS_LEASED] = queue[3] - 1, false", ""),
        ("if not (held or known or undo.is_part(node)) then field", "if true then field"),
    ],
    ids=[
        *("a completed node is skipped", "a hold is lost", "an edit is lost"),
        *("a late completion counts", "dead letters stay pending", "the holders of a queue"),
        "one dead letter for all that is held",
    ],
)
async def test_a_planted_bug_is_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, right: str, wrong: str
) -> None:
    replace_in_library(monkeypatch, right, wrong)

    with pytest.raises(Exception):  # noqa: B017, PT011 — a difference, or a function that stops
        await compare(tmp_path, "redis")
