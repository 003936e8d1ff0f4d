"""The power goes at any moment: what was acknowledged is there, and the file is sound.

`make faults` cuts a thousand times in each mode; the tests of every day cut less often.
With `--log-cli-level=INFO` they say what they have seen.
"""

from __future__ import annotations

import itertools
import logging
import os
import random
from pathlib import Path

import pytest
from tests.fault.powercut.child import WRITERS_MAX
from tests.fault.powercut.examine import Figures, cut_power, examine_cuts, make_trace
from tests.fault.powercut.trace import Acknowledged, Committing, Entry, Sync, Truncate

_log = logging.getLogger("tests.fault")

CUTS = int(os.environ.get("MINUET_TEST_POWER_CUTS", "60"))

#: Every so many cuts the runs are worked on to their end.
RESUME_EVERY = 10


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory, root: Path) -> list[Entry]:
    """The trace of a process whose answers are synced."""
    return make_trace(tmp_path_factory.mktemp("power") / "full", "full", root)


@pytest.fixture(scope="module")
def normal(tmp_path_factory: pytest.TempPathFactory, root: Path) -> list[Entry]:
    return make_trace(tmp_path_factory.mktemp("power") / "normal", "normal", root)


@pytest.fixture(scope="module")
def shared_file(tmp_path_factory: pytest.TempPathFactory, root: Path) -> list[Entry]:
    """The trace of two processes that write to one file at the same time."""
    folder = tmp_path_factory.mktemp("power") / "shared"
    return make_trace(folder, "full", root, writers=WRITERS_MAX)


def is_sound(figures: Figures) -> None:
    """Whatever was lost: the file is undamaged and some commit was its last."""
    _log.info("%s", figures)
    assert not figures.problems
    assert figures.torn == 0
    assert figures.cuts == CUTS
    assert figures.resumed == CUTS // RESUME_EVERY
    # The cuts did hit: there was something to lose, and a log to be recovered.
    assert figures.acknowledged > 10 * CUTS
    assert figures.with_log > CUTS // 2


def count_commits(trace: list[Entry]) -> int:
    """Transactions that changed something."""
    states = [entry.digest for entry in trace if isinstance(entry, Committing)]
    return sum(before != after for before, after in itertools.pairwise(states))


def test_the_traced_process_does_all_that_matters(full: list[Entry], normal: list[Entry]) -> None:
    for trace in (full, normal):
        told = [entry.what for entry in trace if isinstance(entry, Acknowledged)]
        assert {"start", "result", "skip", "end"} == set(told)
        assert len(told) > 100
        assert Truncate("x.db-wal", 0) in trace
        # The log was moved into the file several times.
        assert trace.count(Sync("x.db")) > 5
    # One syncs its log at every commit, the other one when it moves the log into the file.
    assert full.count(Sync("x.db-wal")) >= count_commits(full)
    assert normal.count(Sync("x.db-wal")) < count_commits(normal)


@pytest.mark.slow
@pytest.mark.shows("I-09", "P-37")
def test_full_durability_loses_nothing_acknowledged(full: list[Entry], tmp_path: Path) -> None:
    figures = examine_cuts(full, tmp_path / "after", CUTS, resume_every=RESUME_EVERY)

    is_sound(figures)
    assert figures.lost == 0
    assert figures.transactions_lost_max <= 0


def test_the_two_traced_processes_write_in_turns(shared_file: list[Entry]) -> None:
    writers = [entry.process for entry in shared_file if isinstance(entry, Committing)]
    turns = sum(before != after for before, after in itertools.pairwise(writers))
    assert len(set(writers)) == WRITERS_MAX
    assert turns > 20
    assert shared_file.count(Sync("x.db")) > 5
    assert shared_file.count(Sync("x.db-wal")) >= count_commits(shared_file)


@pytest.mark.slow
@pytest.mark.shows("I-09", "P-37")
def test_two_processes_that_write_to_one_file_lose_nothing_acknowledged(
    shared_file: list[Entry], tmp_path: Path
) -> None:
    figures = examine_cuts(shared_file, tmp_path / "after", CUTS, resume_every=RESUME_EVERY)

    is_sound(figures)
    assert figures.lost == 0
    assert figures.transactions_lost_max <= 0


@pytest.mark.slow
def test_a_second_cut_after_the_first_loses_nothing_acknowledged_either(
    full: list[Entry], tmp_path: Path, root: Path
) -> None:
    moments = cut_power(full, range(len(full) // 2, len(full)), random.Random(2))
    first = next(moment for moment in moments if moment.files.get("x.db-wal"))
    second = make_trace(tmp_path / "second", "full", root, after=first)

    figures = examine_cuts(second, tmp_path / "after", CUTS, after=first, resume_every=RESUME_EVERY)

    is_sound(figures)
    assert figures.lost == 0
    assert figures.transactions_lost_max <= 0


@pytest.mark.slow
def test_normal_durability_leaves_a_complete_earlier_state(
    normal: list[Entry], tmp_path: Path
) -> None:
    figures = examine_cuts(normal, tmp_path / "after", CUTS, resume_every=RESUME_EVERY)

    is_sound(figures)
    # Otherwise these cuts would not tell the two modes apart.
    assert figures.cuts_that_lost > 0
    assert figures.transactions_lost_max > 0


@pytest.mark.slow
def test_a_disk_that_takes_no_notice_of_syncs_is_found_out(
    full: list[Entry], tmp_path: Path
) -> None:
    figures = examine_cuts(full, tmp_path / "after", 20, deaf=True, resume_every=10**6)

    assert figures.lost > 0
    assert figures.problems or figures.torn
