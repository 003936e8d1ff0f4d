"""The SQLite store and the reference give the same answers to the same calls."""

from __future__ import annotations

import pytest
from tests.differential.driver import EXPECTED
from tests.differential.long import Run, found_after, sqlite
from tests.differential.machine import same_answers

from minuet.store.sqlite.rows import Rows

TestSameAnswers = same_answers(sqlite)


@pytest.mark.slow
@pytest.mark.shows("D-08", "D-29", "O-02", "O-03")
async def test_thousands_of_random_calls_get_the_same_answers() -> None:
    run = Run(seed=1, factory=sqlite)

    await run.go(3000)

    assert run.steps == 3000
    assert len(run.seen.keys() & EXPECTED) > 0.9 * len(EXPECTED), sorted(run.missing)


async def test_scenes_of_many_calls_get_the_same_answers() -> None:
    run = Run(seed=1, factory=sqlite, scenes=True)

    await run.go(100)

    assert not run.missing


def forgets_the_slot(rows: Rows, tenant: str, slot: str) -> int:
    """A planted bug: every slot looks free."""
    return 0


# Each with the seed that comes to what is wrong soon.
@pytest.mark.parametrize(
    ("name", "bug", "seed"),
    [
        ("count_holders", forgets_the_slot, 21),
        ("find_waiters", lambda rows, tenant, slot: [], 10),
        ("has_arrival", lambda rows, key, source: False, 193),
        ("find_tokens", lambda rows, run, states: [], 28),
        ("find_signals", lambda rows, run: [], 50),
        ("load_signal", lambda rows, run, id: None, 47),
        ("find_waiting", lambda rows, run, kind, key=None: [], 29),
        ("load_kept", lambda rows, run, seq: None, 50),
        ("load_step", lambda rows, key, name: None, 20),
    ],
    ids=[
        *("slots look free", "nobody waits", "arrivals forgotten", "tokens not found"),
        *("signals not kept", "signals not known", "nobody waits for signals"),
        *("signals gone for steps", "steps forgotten"),
    ],
)
async def test_a_planted_bug_is_found(
    monkeypatch: pytest.MonkeyPatch, name: str, bug: object, seed: int
) -> None:
    monkeypatch.setattr(Rows, name, bug)

    assert await found_after(sqlite, seed)
