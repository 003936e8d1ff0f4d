"""The PostgreSQL store and the reference give the same answers to the same calls."""

from __future__ import annotations

import pytest
from tests.differential.driver import EXPECTED
from tests.differential.long import Run, found_after, postgres
from tests.differential.machine import same_answers

from minuet.store.postgres.rows import Rows

TestSameAnswers = same_answers(postgres, examples=10)


@pytest.mark.slow
async def test_a_thousand_random_calls_get_the_same_answers() -> None:
    run = Run(seed=2, factory=postgres)

    await run.go(1000)

    assert run.steps == 1000
    assert len(run.seen.keys() & EXPECTED) > 0.9 * len(EXPECTED), sorted(run.missing)


async def test_scenes_of_many_calls_get_the_same_answers() -> None:
    run = Run(seed=1, factory=postgres, scenes=True)

    await run.go(100)

    assert not run.missing


# Each with the seed that comes to what is wrong soon.
@pytest.mark.parametrize(
    ("name", "bug", "seed"),
    [
        ("count_holders", lambda rows, tenant, slot: 0, 21),
        ("find_waiters", lambda rows, tenant, slot: [], 10),
        ("has_arrival", lambda rows, key, source: False, 193),
        ("find_tokens", lambda rows, run, states: [], 1),
    ],
    ids=["slots look free", "nobody waits", "arrivals forgotten", "tokens not found"],
)
async def test_a_planted_bug_is_found(
    monkeypatch: pytest.MonkeyPatch, name: str, bug: object, seed: int
) -> None:
    monkeypatch.setattr(Rows, name, bug)

    assert await found_after(postgres, seed)
