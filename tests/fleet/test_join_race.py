"""Four processes hand in the thousand parents of one join at the same time: it fires once."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests import servers

from minuet.app.stores import make_store
from minuet.store.changes import NewRun
from minuet.store.exchange import Delivery

PROCESSES = 4
PARENTS = 1_000

#: How often they race; `make faults` has them do it fifty times.
ROUNDS = int(os.environ.get("MINUET_TEST_RACES", "3"))

STORES: dict[str, Callable[[Path], str]] = {
    "sqlite": lambda folder: f"sqlite:///{folder}/race.db",
    "postgres": lambda folder: servers.postgres_url(),
    "redis": lambda folder: servers.redis_url(),
}


class Racers:
    """The processes, given one order at a time."""

    def __init__(self, url: str, root: Path) -> None:
        command = [sys.executable, "-m", "tests.fleet.racer", url, str(PARENTS)]
        self._children = [
            subprocess.Popen(
                command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            for _ in range(PROCESSES)
        ]

    def order(self, text: str) -> list[str]:
        """Tell all of them the same; what each answers."""
        for child in self._children:
            assert child.stdin is not None
            child.stdin.write(text + "\n")
            child.stdin.flush()
        answers = []
        for child in self._children:
            assert child.stdout is not None
            answers.append(child.stdout.readline().strip())
        return answers

    def end(self) -> list[int]:
        for child in self._children:
            child.communicate(timeout=30)
        return [child.returncode for child in self._children]


@pytest.mark.slow
@pytest.mark.parametrize("kind", STORES)
@pytest.mark.shows("D-17", "Y-03", "Y-06")
async def test_a_join_raced_by_four_processes_fires_once(
    kind: str, tmp_path: Path, root: Path
) -> None:
    url = STORES[kind](tmp_path)
    store = make_store(url)
    await store.open()
    racers = Racers(url, root)
    parents = tuple(Delivery(f"p{n}", "", True, 1, 1, "parents") for n in range(PARENTS))
    for number in range(ROUNDS):
        run = f"race-{number:03d}"
        await store.create_runs([NewRun(run, "w", "p", entries=parents)])
        assert racers.order(f"take {PARENTS // PROCESSES}") == ["ready"] * PROCESSES

        applied = racers.order("go")

        assert sum(map(int, applied)) == PARENTS
        snapshot = await store.read_snapshot("default", run)
        assert snapshot is not None
        assert [(t.node, t.state) for t in snapshot.tokens if t.node == "join"] == [
            ("join", "ready")
        ]
        assert snapshot.run.counter == 1
        assert [(j.live, j.fired) for j in snapshot.joins] == [(PARENTS, True)]
        assert [e.seq for e in snapshot.events] == list(range(1, PARENTS + 3))
    assert racers.end() == [0] * PROCESSES
    await store.close()
