"""Guides about programs: their programs run and print what they say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ..conftest import ROOT
from .programs import check_program, programs_of

#: Each guide, and how many programs it has at least.
GUIDES = {"agents": 1, "python-workflows": 5, "functions": 8, "migrating": 1}

#: Every program of every guide, and what it prints.
PROGRAMS = {
    f"{guide} {number}": program
    for guide in GUIDES
    for number, program in enumerate(
        programs_of((ROOT / "docs" / "guides" / f"{guide}.md").read_text("utf-8")), start=1
    )
}


@pytest.mark.parametrize("guide", GUIDES)
def test_every_program_says_what_it_prints(guide: str) -> None:
    assert sum(name.startswith(f"{guide} ") for name in PROGRAMS) >= GUIDES[guide]


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_prints_what_the_guide_says(name: str, tmp_path: Path) -> None:
    check_program(*PROGRAMS[name], tmp_path)


def test_the_programs_of_other_engines_are_those_that_were_run() -> None:
    guide = (ROOT / "docs" / "guides" / "migrating.md").read_text("utf-8")
    shown = re.findall(r"\(\.\./\.\./(\S+\.py)\):\n\n```py\n(.*?)```", guide, re.DOTALL)

    assert len(shown) == guide.count("```py\n") == 5
    for path, program in shown:
        assert (ROOT / path).read_text("utf-8") == program
