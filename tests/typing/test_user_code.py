"""A user's type checker sees what the user may do: mypy and pyright, both strict, on files of user
code. What is right is clean; what is wrong is reported where a comment expects it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

import minuet

USER = Path(__file__).parent / "user"

#: Examples that are written as a user with a strict type checker would.
THREE_WAYS = Path(__file__).parents[2] / "examples" / "three_ways"

#: At the end of a line that is wrong: the code of mypy's error, then that of pyright's. One that
#: reports a mistake twice has both codes, with a + between.
EXPECT = re.compile(r"  # expect: (\S+), (\S+)$")


class Report(NamedTuple):
    """An error that a checker reports, or should report."""

    file: str
    line: int
    code: str


def expected(checker: int) -> list[Report]:
    """What the comments expect of mypy (0) or of pyright (1)."""
    return [
        Report(path.name, number, code)
        for path in sorted(USER.glob("*.py"))
        for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1)
        if (found := EXPECT.search(line))
        for code in sorted(found.groups()[checker].split("+"))
    ]


def run_mypy(root: Path, folder: Path) -> list[Report]:
    # Not with the project's configuration: a user has none of it. The cache is not that of
    # `make check`, whose options differ.
    cache = root / ".mypy_cache" / "user"
    options = ["--strict", "--config-file=", f"--cache-dir={cache}", "--output=json"]
    done = run([sys.executable, "-m", "mypy", *options, str(USER), str(THREE_WAYS)], folder)
    reports = [json.loads(line) for line in done.splitlines()]
    return [
        Report(Path(report["file"]).name, report["line"], report["code"])
        for report in reports
        if report["severity"] == "error"
    ]


def run_pyright(root: Path, folder: Path) -> list[Report]:
    project = folder / "pyrightconfig.json"
    # An expression without effect is what some of the mistakes are made of.
    options = {"typeCheckingMode": "strict", "reportUnusedExpression": False}
    project.write_text(json.dumps({"include": [str(USER)], **options}), encoding="utf-8")
    command = ["-m", "basedpyright", "--pythonpath", sys.executable, "--project", str(project)]
    done = run([sys.executable, *command, "--outputjson"], folder)
    return [
        Report(Path(report["file"]).name, report["range"]["start"]["line"] + 1, report["rule"])
        for report in json.loads(done)["generalDiagnostics"]
        if report["severity"] == "error"
    ]


def run(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    # 0: clean. 1: it has found something. All else: it has not checked.
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(("number", "check"), [(0, run_mypy), (1, run_pyright)])
def test_a_checker_reports_each_mistake_of_a_user_and_nothing_else(
    root: Path, tmp_path: Path, number: int, check: Callable[[Path, Path], list[Report]]
) -> None:
    assert sorted(check(root, tmp_path)) == expected(number)


def test_the_files_use_every_public_name() -> None:
    text = (USER / "public.py").read_text("utf-8")
    used = set(re.findall(r"\bminuet\.(\w+)", text))

    assert set(minuet.__all__) - used == set()
