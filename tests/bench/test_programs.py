"""The programs that are compared with those of other engines: ours run, the table is true."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from bench.peers.programs.__main__ import run
from bench.peers.programs.table import (
    CASES,
    ENGINES,
    FOLDER,
    PAGE,
    PROGRAMS,
    code_of,
    length_of,
    page_text,
)

MINUETS = [
    pytest.param(program, given, printed, id=f"{program} {number}")
    for program, cases in CASES.items()
    for number, (given, printed) in enumerate(cases)
]


@pytest.mark.slow
@pytest.mark.parametrize(("program", "given", "printed"), MINUETS)
def test_a_program_prints_what_those_of_the_others_do(
    monkeypatch: pytest.MonkeyPatch, program: str, given: dict[str, Any], printed: str
) -> None:
    monkeypatch.setenv("RETRY_INITIAL_DELAY", "0.01")

    assert run("minuet", program, given) == printed


def test_the_table_counts_the_programs_as_they_are() -> None:
    assert PAGE.read_text("utf-8") == page_text()


@pytest.mark.parametrize("program", PROGRAMS)
def test_no_engine_has_a_shorter_program(program: str) -> None:
    lengths = {engine: length_of(code_of(engine, program)) for engine in ENGINES}

    assert lengths["minuet"] == min(lengths.values())


def test_every_engine_has_every_program() -> None:
    assert [
        (engine, program)
        for engine in ENGINES
        for program in PROGRAMS
        if not code_of(engine, program).is_file()
    ] == []


def test_the_programs_are_formatted() -> None:
    """Else their lines would not count the same."""
    command = [sys.executable, "-m", "ruff", "format", "--check", "--quiet", str(FOLDER)]
    assert subprocess.run(command, check=False, timeout=60).returncode == 0


def test_blank_lines_and_comments_do_not_count(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_text("# a\n\nimport a\n\n    # b\nif a:  # c\n    b()\n")

    assert length_of(file) == 3
