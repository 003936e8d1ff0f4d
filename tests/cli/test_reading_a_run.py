"""The guide about how a run stands: the commands print what it says, in a few lines."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from math import ceil
from typing import Any

import pytest

from ..conftest import ROOT
from .conftest import Called

GUIDE = (ROOT / "docs" / "guides" / "reading-a-run.md").read_text("utf-8")

#: What differs from one time to the next, and what stands for it.
_VARIES = (
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "RUN"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z", "MOMENT"),
    (r"\d{4}-\d\d-\d\d", "DAY"),
    (r"\d\d:\d\d:\d\d\.\d+", "TIME"),
    (r"\b\d+(\.\d+)? (ms|s|min)\b", "LONG"),
    # A duration of another length moves the columns, and texts are cut elsewhere.
    (r"  \S+(?: \S+)*…$", "  …"),
    (r" {2,}", "  "),
    (r" +$", ""),
)

#: How wide a terminal is, and how many lines of it an answer may fill.
COLUMNS = 80
LINES_MAX = 10


def alike(text: str) -> str:
    """A text without what varies."""
    for pattern, stands in _VARIES:
        text = re.sub(pattern, stands, text, flags=re.MULTILINE)
    return text.strip()


def commands() -> Iterator[tuple[str, str]]:
    """The commands of the guide, and what they print."""
    for block in re.findall(r"^```console\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL):
        for part in re.split(r"^\$ minuet ", block, flags=re.MULTILINE)[1:]:
            command, _, printed = part.partition("\n")
            yield command, printed


@pytest.fixture
def shop(folder: Any) -> None:
    """The files of the guide."""
    for name, text in re.findall(r"^```\w+\n# (\S+)\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL):
        folder.write(name, f"# {name}\n{text}")
    order = (folder.path / "order.yaml").read_text()
    folder.write("held.yaml", order.replace("name: order", "name: held-order\non_dlq: hold"))
    careful = "name: careful-order\non_failure: {compensate: true}"
    folder.write("careful.yaml", order.replace("name: order", careful))


@pytest.mark.usefixtures("shop")
def test_the_commands_print_what_the_guide_says_in_ten_lines(
    minuet: Callable[..., Called], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    # By the time that the guide comes to the last run, it has been silent for so long.
    monkeypatch.setenv("MINUET_STALL_SECONDS", "1")
    begun = minuet("start", "gift.yaml").out.strip()
    workflows = dict(_runs_of_the_guide())
    shown = []
    for command, printed in commands():
        words = shlex.split(command)
        if words[0] == "start":
            continue  # It was begun before.
        called = minuet(*(_meant(word, workflows, minuet) for word in words))
        assert alike(called.out) == alike(printed), f"{command}\n{called.out}{called.err}"
        if words[:2] in (["runs", "show"], ["runs", "why"]):
            shown.append(words[1])
            lines = [ceil(len(line) / COLUMNS) or 1 for line in called.out.splitlines()]
            assert sum(lines) <= LINES_MAX, called.out
    assert begun in minuet("runs", "list", "--stalled").out.replace("…", "")
    assert (shown.count("show"), shown.count("why")) == (6, 7)


def _runs_of_the_guide() -> list[tuple[str, str]]:
    """The ids of the guide's runs, and their workflows."""
    found = re.findall(r"^(\S+): [A-Z]+.*\(run (\S+)\)$", GUIDE, re.MULTILINE)
    return [(run, workflow) for workflow, run in found]


def _meant(word: str, workflows: dict[str, str], minuet: Callable[..., Called]) -> str:
    """A word of a command; in place of a run of the guide, the one that is here."""
    for run, workflow in workflows.items():
        if run.startswith(word) and len(word) > 8:
            return str(minuet("runs", "list", "--workflow", workflow, "--json").json[0]["run_id"])
    return word
