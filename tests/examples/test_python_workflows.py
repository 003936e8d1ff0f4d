"""The guide about workflows in Python: its programs run and print what it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..conftest import ROOT
from .programs import check_program, programs_of

GUIDE = (ROOT / "docs" / "guides" / "python-workflows.md").read_text("utf-8")

#: Every program, and what it prints.
PROGRAMS = programs_of(GUIDE)


def test_every_program_says_what_it_prints() -> None:
    assert len(PROGRAMS) >= 4


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_a_program_prints_what_the_guide_says(number: int, tmp_path: Path) -> None:
    check_program(*PROGRAMS[number], tmp_path)
