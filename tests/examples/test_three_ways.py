"""The programs of examples/three_ways do the same in each way, and their histories say so."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .three_ways import CASES, WAYS

#: What comes of each input, in the order of CASES: the output, and the tasks with their attempts.
EXPECTED: dict[str, list[tuple[Any, list[str]]]] = {
    "saga": [
        ("DE-o1", ["reserve 1", "charge 1", "ship 1"]),
        (None, ["reserve 1", "charge 1", "release 1"]),
        (None, ["reserve 1", "charge 1", "ship 3", "refund 1", "release 1"]),
        (None, ["reserve 1"]),
    ],
    "etl": [
        (
            {"files": 2, "broken": 1, "rows": 3, "total": 600},
            ["find_files 1", *["clean 1"] * 3, "load 1"],
        )
    ],
    "booking": [
        ({"flight": "LH1", "price": 103, "seat": "12A"}, ["quote 2", "book 2"] * 3),
        (None, ["quote 2", "book 2"] * 4),
    ],
    "polling": [(12, ["submit 1", *["ask 1"] * 3]), (None, ["submit 1", *["ask 1"] * 10])],
}


@pytest.mark.slow
def test_the_three_ways_of_a_program_do_the_same(root: Path, tmp_path: Path) -> None:
    folder = root / "examples" / "three_ways"
    program = Path(__file__).parent / "three_ways.py"

    done = subprocess.run(
        [sys.executable, str(program), str(folder)],
        cwd=folder,
        env={**os.environ, "MINUET_STORE": f"sqlite:///{tmp_path}/examples.db"},
        capture_output=True,
        text=True,
        timeout=200,
    )

    assert done.returncode == 0, done.stderr
    ended = json.loads(done.stdout)
    assert len(ended) == 3 * sum(map(len, CASES.values()))
    for one in ended:
        output, history = EXPECTED[one["program"]][CASES[one["program"]].index(one["input"])]
        assert (one["output"], one["history"]) == (output, history), one
    assert {(one["program"], one["way"]) for one in ended} == {
        (program, way) for program in CASES for way in WAYS
    }


def test_the_list_of_the_programs_is_complete(root: Path) -> None:
    folder = root / "examples" / "three_ways"
    text = (folder / "README.md").read_text("utf-8")

    files = {path.name for path in folder.iterdir() if path.suffix in (".py", ".yaml")}
    assert len(files) == 4 * len(CASES)
    assert [name for name in files if f"]({name})" not in text] == []
