"""The guide about testing: its programs print what it says, and its tests for pytest pass."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from ..conftest import ROOT
from ..examples.programs import check_program, programs_of

GUIDE = (ROOT / "docs" / "guides" / "testing.md").read_text("utf-8")

#: Every program, and what it prints.
PROGRAMS = programs_of(GUIDE)

BEFORE = """
import minuet

@minuet.task
def charge(amount: int, ctx: minuet.Context) -> dict:
    return {"charged": amount}

"""
ORDER = """
name: order
nodes:
  - {id: fetch, type: http, config: {url: "https://shop.example/{{ input.id }}"}}
  - id: price
    type: transform
    dependencies: [fetch]
    config: {value: "{{ item }}"}
    foreach: {items: "{{ fetch.body.lines }}"}
  - {id: ship, type: noop, dependencies: [price]}
"""


def test_every_program_says_what_it_prints() -> None:
    assert len(PROGRAMS) >= 5


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_a_program_prints_what_the_guide_says(number: int, tmp_path: Path) -> None:
    check_program(*PROGRAMS[number], tmp_path)


def test_the_tests_for_pytest_pass(tmp_path: Path) -> None:
    (code,) = re.findall(r"```py\n(.*?)```", GUIDE, re.DOTALL)
    (tmp_path / "test_order.py").write_text(BEFORE + code, "utf-8")
    (tmp_path / "order.yaml").write_text(ORDER, "utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\n", "utf-8")
    installed = entry_points(group="pytest11", name="minuet")
    load = () if installed else ("-p", "minuet.testing.fixtures")

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *load],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )

    assert "2 passed" in done.stdout, done.stdout
