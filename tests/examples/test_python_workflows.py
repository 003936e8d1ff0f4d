"""The guide about workflows in Python: its programs run and print what it says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from ..conftest import ROOT

GUIDE = (ROOT / "docs" / "guides" / "python-workflows.md").read_text("utf-8")

#: Every program, and what it prints.
PROGRAMS: list[tuple[str, str]] = re.findall(
    r"```python\n(.*?)```\n\n```text\n(.*?)```", GUIDE, re.DOTALL
)


def test_every_program_says_what_it_prints() -> None:
    assert len(PROGRAMS) == GUIDE.count("```python\n") == GUIDE.count("```text\n") >= 4


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_a_program_prints_what_the_guide_says(number: int, tmp_path: Path) -> None:
    code, printed = PROGRAMS[number]
    (tmp_path / "example.py").write_text(code, "utf-8")

    done = subprocess.run(
        [sys.executable, "example.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == printed
