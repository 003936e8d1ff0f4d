"""The guide about dead letters: its program prints what the page says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from minuet.cli.arguments import build_parser

from ..conftest import ROOT
from .programs import check_program, programs_of

GUIDE = (ROOT / "docs" / "guides" / "dead-letters.md").read_text("utf-8")


def test_the_program_prints_what_the_guide_says(tmp_path: Path) -> None:
    ((program, printed),) = programs_of(GUIDE)

    check_program(program, printed, tmp_path)


def test_the_commands_of_the_guide_exist() -> None:
    commands = [line.strip() for line in re.findall(r"^    (minuet dlq .+)$", GUIDE, re.MULTILINE)]

    assert len(commands) == 7
    for command in commands:
        build_parser().parse_args(shlex.split(command, comments=True)[1:])
