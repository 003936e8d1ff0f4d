"""`make requirements`: the table of what is shown by which test."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Tool = Callable[..., subprocess.CompletedProcess[str]]

DESIGN = r"""# Inventory

| Area | Rows |
|---|---|
| A Model | 3 |

## A. Model & more (3 rows)

| ID | Observable requirement | Seeds | Priority |
|---|---|---|---|
| A-01 | Logic `a \|\| b` works. | 003 | core |
| A-02 | LONG | 000, 001 | core |
| A-03 | Third. | 000 | core |

## B. Checks (1 rows)

| ID | Observable requirement | Seeds | Priority |
|---|---|---|---|
| B-01 | Fourth. | 000 | expected |

## Contradictions

| X-99 | not a requirement | 000 | core |
""".replace("LONG", "word " * 26 + "`code that does not fit into the line`.")

DECISIONS = r"""# Decided otherwise

| row | the row asks | decided instead |
|---|---|---|
| A-03 | Third, as `a \|\| b`. | Fourth does it. |
"""

TESTS = """
import pytest

pytestmark = [pytest.mark.slow, pytest.mark.shows("B-01")]

CASES = [pytest.param(1, marks=pytest.mark.shows("A-01"), id="one"), 2]

@pytest.mark.parametrize("case", CASES)
def test_cases(case): ...

@pytest.mark.parametrize("case", [pytest.param(1, marks=[pytest.mark.shows("A-01")])])
async def test_inline(case): ...

@pytest.mark.shows("A-01", "A-02")
class TestGroup:
    @pytest.mark.shows("A-02")
    def test_method(self): ...
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with one test file, beside a design of four rows."""
    design = tmp_path / "shared/design/requirements.md"
    design.parent.mkdir(parents=True)
    design.write_text(DESIGN, encoding="utf-8")
    tests = tmp_path / "project/tests/unit"
    tests.mkdir(parents=True)
    (tests / "test_it.py").write_text(TESTS, encoding="utf-8")
    return tmp_path / "project"


@pytest.fixture
def tool(root: Path, project: Path) -> Tool:
    """Run the tool on that project."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(root / "tools/requirements.py"), "--root", str(project)]
        return subprocess.run([*command, *arguments], capture_output=True, text=True)

    return run


def page(project: Path) -> str:
    return (project / "docs/requirements.md").read_text(encoding="utf-8")


def row(project: Path, id: str) -> str:
    return next(line for line in page(project).splitlines() if line.startswith(f"| {id} "))


def test_each_area_is_counted_and_its_gaps_are_listed(project: Path, tool: Tool) -> None:
    finished = tool()

    assert finished.returncode == 0
    assert finished.stdout.splitlines() == [
        "A. Model & more: 2 of 3 shown (67 %)",
        "    not shown: A-03",
        "B. Checks: 1 of 1 shown (100 %)",
        "all: 3 of 4 shown (75 %)",
    ]
    assert "| **all** | **4** | **3** | **0** |" in page(project)


def decide(project: Path) -> Path:
    path = project.parent / "shared/design/decided-otherwise.md"
    path.write_text(DECISIONS, encoding="utf-8")
    return path


def test_a_row_that_was_decided_otherwise_is_neither_shown_nor_missing(
    project: Path, tool: Tool
) -> None:
    decide(project)

    finished = tool()

    assert finished.stdout.splitlines() == [
        "A. Model & more: 2 of 3 shown (67 %), 1 decided otherwise",
        "B. Checks: 1 of 1 shown (100 %)",
        "all: 3 of 4 shown (75 %), 1 decided otherwise",
    ]
    assert row(project, "A-03") == "| A-03 | Third. | *decided otherwise*: Fourth does it. |"
    assert "| **all** | **4** | **3** | **1** |" in page(project)


def test_a_mark_of_a_row_that_was_decided_otherwise_is_an_error(project: Path, tool: Tool) -> None:
    decide(project)
    (project / "tests/test_odd.py").write_text(
        "import pytest\n@pytest.mark.shows('A-03')\ndef test_x(): ...\n", encoding="utf-8"
    )

    finished = tool()

    assert finished.returncode == 1
    assert finished.stderr == ("tests/test_odd.py:2: A-03 was decided otherwise: Fourth does it.\n")


def test_marks_count_wherever_pytest_takes_them(project: Path, tool: Tool) -> None:
    tool()

    file = "(../tests/unit/test_it.py)"
    assert row(project, "A-01") == (
        rf"| A-01 | Logic `a \|\| b` works. | [unit/test_it.py::test_cases]{file}"
        f" · [unit/test_it.py::test_inline]{file} · [unit/test_it.py::TestGroup]{file} |"
    )
    assert row(project, "A-02").endswith(
        f"| [unit/test_it.py::TestGroup]{file} · [unit/test_it.py::TestGroup::test_method]{file} |"
    )
    assert row(project, "B-01") == f"| B-01 | Fourth. | [unit/test_it.py]{file} |"


def test_a_long_row_is_cut_at_a_word_and_outside_of_code(project: Path, tool: Tool) -> None:
    tool()

    text = row(project, "A-02").split("|")[2].strip()
    assert text == ("word " * 26) + "…"


def test_a_mark_that_names_no_row_is_an_error(project: Path, tool: Tool) -> None:
    (project / "tests/test_odd.py").write_text(
        "import pytest\n@pytest.mark.shows('A-99')\ndef test_x(): ...\n", encoding="utf-8"
    )

    finished = tool()

    assert finished.returncode == 1
    assert finished.stderr == "tests/test_odd.py:2: there is no row 'A-99'\n"
    assert not (project / "docs").exists()


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("@pytest.mark.shows(*ROWS)\ndef test_x(): ...", "write the ids of rows as literal"),
        ("@pytest.mark.shows('A-01')\ndef helper(): ...", "on nothing that pytest collects"),
        ("@pytest.mark.shows('A-01')\nclass Case:\n    def test_x(self): ...", "on nothing"),
    ],
)
def test_a_mark_that_cannot_count_is_an_error(
    project: Path, tool: Tool, source: str, message: str
) -> None:
    (project / "tests/test_odd.py").write_text(source, encoding="utf-8")

    finished = tool()

    assert finished.returncode == 1
    assert finished.stderr.startswith("tests/test_odd.py:1: ")
    assert message in finished.stderr


def test_check_fails_until_the_page_is_current(project: Path, tool: Tool) -> None:
    assert tool("--check").returncode == 1
    assert not (project / "docs").exists()

    tool()
    assert tool("--check").returncode == 0

    (project / "tests/unit/test_it.py").write_text("", encoding="utf-8")
    assert "run `make requirements`" in tool("--check").stderr


def test_without_the_design_the_page_keeps_its_rows(project: Path, tool: Tool) -> None:
    decisions = decide(project)
    tool()
    before = page(project)
    (project.parent / "shared/design/requirements.md").unlink()
    decisions.unlink()

    finished = tool()

    assert finished.returncode == 0
    assert "requirements.md is absent: using the rows of docs/requirements.md" in finished.stderr
    assert page(project) == before


def test_without_design_and_page_the_tool_says_so(project: Path, tool: Tool) -> None:
    (project.parent / "shared/design/requirements.md").unlink()

    finished = tool()

    assert finished.returncode == 1
    assert "there are no requirements to show" in finished.stderr


def test_the_page_of_this_project_is_current(root: Path) -> None:
    command = [sys.executable, str(root / "tools/requirements.py"), "--check"]

    finished = subprocess.run(command, capture_output=True, text=True)

    assert finished.returncode == 0, finished.stderr
