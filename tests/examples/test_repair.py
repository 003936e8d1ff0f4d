"""The guide about repairing runs: its program prints what the page says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from minuet.cli.arguments import build_parser

from ..conftest import ROOT
from .programs import check_program, programs_of

GUIDE = (ROOT / "docs" / "guides" / "repair.md").read_text("utf-8")


def test_the_program_prints_what_the_guide_says(tmp_path: Path) -> None:
    ((program, printed),) = programs_of(GUIDE)

    check_program(program, printed, tmp_path)


def test_the_commands_of_the_guide_exist() -> None:
    commands = re.findall(r"`(minuet (?:runs|dlq) .+?)`", GUIDE)

    assert len(commands) >= 8
    for command in commands:
        build_parser().parse_args(shlex.split(command)[1:])
