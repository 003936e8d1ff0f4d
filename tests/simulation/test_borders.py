"""A process that dies at any call to the store, just before or just after it, changes nothing.

Exhaustive for a handful of worlds: every call of every process is tried as the last one.
"""

from __future__ import annotations

import os

import msgspec
import pytest

from minuet.simulation.config import Config
from minuet.simulation.faults import FAULTS
from minuet.simulation.run import simulate

#: Without any fault, and with outputs that follow from the input: something to compare with.
#: MINUET_TEST_BLOWS: another world of each kind.
WORLDS = 2 if "MINUET_TEST_BLOWS" in os.environ else 1
SEEDS = (247, 260)[:WORLDS]
#: The same with durable functions.
FUNCTION_SEEDS = (266, 268)[:WORLDS]
#: The same with agents.
AGENT_SEEDS = (54, 161)[:WORLDS]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [*SEEDS, *FUNCTION_SEEDS, *AGENT_SEEDS])
@pytest.mark.parametrize("moment", ["kill_before", "kill_after"])
def test_a_death_at_any_call_leaves_the_same_results(seed: int, moment: str) -> None:
    calm = Config(
        seed,
        without=FAULTS,
        calm_clients=True,
        compare=False,
        functions=seed in FUNCTION_SEEDS,
        agents=seed in AGENT_SEEDS,
    )
    expected = simulate(calm)
    assert expected.broken is None
    assert expected.results

    for number in range(1, expected.calls + 1):
        config = msgspec.structs.replace(calm, **{moment: number})
        outcome = simulate(config)
        assert outcome.broken is None, config
        assert outcome.results == expected.results, config
