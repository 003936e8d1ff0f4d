"""A failing world is shrunk to what it needs to fail, and failures are told so that they help."""

from __future__ import annotations

import json

import msgspec
import pytest
from tests.planted.__main__ import main as main_of_planted
from tests.planted.bugs import BUGS, catch

from minuet.simulation.__main__ import main
from minuet.simulation.config import Config
from minuet.simulation.minimise import minimise
from minuet.simulation.run import simulate

BUG = BUGS["skip-dropped"]


def test_minimising_leaves_out_what_does_not_matter() -> None:
    found = catch(BUG).outcome
    assert found is not None

    smallest = minimise(found.config, parts=BUG)

    assert smallest.broken is not None
    assert found.broken is not None
    assert smallest.broken.id == found.broken.id
    assert not smallest.faults
    assert smallest.steps <= found.steps
    # The config alone is enough to see it again.
    again = msgspec.json.decode(msgspec.json.encode(smallest.config), type=Config)
    assert simulate(again, BUG).broken == smallest.broken


def test_a_sound_world_cannot_be_minimised() -> None:
    with pytest.raises(ValueError, match="does not fail"):
        minimise(Config(0))


def test_the_command_tells_the_seed_the_rule_and_the_last_lines(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = catch(BUG).outcome
    assert found is not None
    seed = str(found.config.seed)

    code = main_of_planted([BUG.name, "--start", seed, "--seeds", "1", "--jobs", "1"])

    told = capsys.readouterr().out
    assert code == 1
    assert f"seed {seed}: sent:" in told
    assert "BROKEN" in told
    assert f"python -m tests.planted {BUG.name} --trace --config" in told
    config = told.split("--config '")[1].split("'")[0]
    assert json.loads(config) == msgspec.to_builtins(BUG.describe(found.config.seed))


def test_the_command_runs_a_sound_batch(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "12", "--jobs", "2"]) == 0

    assert "12 seeds in" in capsys.readouterr().out
