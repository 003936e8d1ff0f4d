"""The page about Python: its examples run and print what it says; it leaves no public name out."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from typing import Any

import pytest
from tools.docs import BEGIN, examples_of

import minuet
from minuet import errors, testing
from minuet.app.app import App
from minuet.app.doctor import Doctor
from minuet.app.handle import RunHandle
from minuet.app.runs import Runs
from minuet.app.workers import Workers
from minuet.app.workflows import Workflows

from ..conftest import ROOT
from .programs import check_program, programs_of

PAGE = (ROOT / "docs" / "reference" / "python.md").read_text("utf-8")

#: Every example, and what it prints.
EXAMPLES = programs_of(PAGE)


def test_every_example_says_what_it_prints() -> None:
    assert len(EXAMPLES) >= 6


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_prints_what_the_page_says(number: int, tmp_path: Path) -> None:
    check_program(*EXAMPLES[number], tmp_path)


def test_every_public_name_stands_on_the_page() -> None:
    missing = [
        name
        for name in minuet.__all__
        if f"## minuet.{name}\n" not in PAGE and f"| `{name}` |" not in PAGE
    ]
    assert missing == ["__version__"]


def test_every_public_name_is_used_by_a_program_on_the_page() -> None:
    used = examples_of(PAGE.split(BEGIN)[0])

    assert {*minuet.__all__, *testing.__all__} - {"__version__"} - used.keys() == set()


def test_every_name_leads_to_its_example() -> None:
    sections = re.findall(r"^## minuet\.(\S+)\n\n(.*)$", PAGE, re.MULTILINE)
    rows = re.findall(r"^\| `(\w+Error|\w+)` \| .* \| (.*) \|$", _part("Errors"), re.MULTILINE)

    assert len(sections) > 30
    assert [name for name, first in sections if not first.startswith("Example: [")] == []
    assert len(rows) > 30
    assert [name for name, link in rows if not link.startswith("[")] == []


def _part(title: str) -> str:
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


@pytest.mark.parametrize(
    ("prefix", "kind"),
    [
        ("App", App),
        ("App.runs", Runs),
        ("App.workflows", Workflows),
        ("App.workers", Workers),
        ("App.doctor", Doctor),
        ("RunHandle", RunHandle),
        ("Flow", minuet.Flow),
    ],
)
def test_every_public_method_stands_on_the_page(prefix: str, kind: type[Any]) -> None:
    methods = [name for name, _ in inspect.getmembers(kind, inspect.isfunction) if name[0] != "_"]

    assert methods
    assert [name for name in methods if f"### {prefix}.{name}\n" not in PAGE] == []


def test_every_error_is_exported() -> None:
    public = {
        name
        for name, found in vars(errors).items()
        if inspect.isclass(found)
        and issubclass(found, BaseException)
        and found.__module__ == errors.__name__
    }

    assert public <= set(minuet.__all__)
    assert all(getattr(minuet, name) is getattr(errors, name) for name in public)


def test_every_exported_name_can_be_imported() -> None:
    assert all(hasattr(minuet, name) for name in minuet.__all__)
    assert set(dir(minuet)) == set(minuet.__all__)


#: What `import minuet` promises today; the reference page documents each.
PROMISED = {"App", "Context", "Retry", "RunFailed", "RunHandle", "RunResult", "arun", "run", "task"}


def test_the_names_that_programs_rely_on_are_public() -> None:
    assert set(minuet.__all__) >= PROMISED
    assert {"start", "wait", "events", "cancel"} <= set(dir(App))
    assert {"id", "wait", "result", "cancel", "events"} <= set(dir(RunHandle))


def test_type_checkers_see_the_names_that_are_loaded_late() -> None:
    tree = ast.parse(Path(minuet.__file__).read_text("utf-8"))
    imported = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("minuet.")
        for alias in node.names
    }

    assert imported == set(minuet.__all__) - {"__version__"}
