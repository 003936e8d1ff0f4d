"""The generated pages say what the code says."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def docs(root: Path) -> dict[str, Any]:
    return runpy.run_path(str(root / "tools/docs.py"))


def test_the_generated_pages_are_current(
    docs: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    code = docs["main"](["--check"])

    assert code == 0, capsys.readouterr().out


def test_every_command_and_option_has_its_line(docs: dict[str, Any]) -> None:
    from minuet.cli.arguments import every_command

    text = docs["commands_text"]()

    for parser in every_command():
        section = text.split(f"\n## {parser.prog}\n")[1].split("\n## ")[0]
        for action in parser._actions:
            names = action.option_strings
            if not {"--help", "--output", "--json"} & set(names):
                assert (names[-1] if names else action.metavar) in section
                assert action.help


def test_every_command_prints_json(root: Path) -> None:
    from minuet.cli.arguments import every_command

    for parser in every_command():
        options = {option for action in parser._actions for option in action.option_strings}
        assert {"-o", "--json"} <= options, parser.prog
