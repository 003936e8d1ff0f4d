"""Which requirement is shown by which test: prints the gaps, writes docs/requirements.md.

A test says what it shows with `@pytest.mark.shows("B-01")`. The marks are read from the
source, not by running pytest, so they count only where they are written with literal ids: on
a test, on a class, in `pytestmark`, or on a `pytest.param`.

The rows come from the design's requirements.md in the folder `shared` beside the project.
Some rows ask for mechanics that the design replaces; decided-otherwise.md lists them with the
reason. They count neither as shown nor as missing, and no test may be marked with them.
Where `shared` is absent, the page written last is used: it has the same rows, shortened.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

#: Relative to the project's folder.
DESIGN = Path("../shared/design/requirements.md")
DECISIONS = Path("../shared/design/decided-otherwise.md")
PAGE = Path("docs/requirements.md")

#: The longest text of a row on the page: one line on a wide screen.
TEXT_MAX = 140

#: `## A. Title`, in the design followed by `(39 rows)`.
AREA = re.compile(r"^## ([A-Z])\. (.+?)(?: \(\d+ rows\))?$")
#: `| A-01 | text | …`; a bar inside a cell is written `\|`.
ROW = re.compile(r"^\| ([A-Z]-\d+) \| (.+?) (?<!\\)\|")
#: `| A-27 | what the row asks | what was decided instead |`.
DECISION = re.compile(r"^\| ([A-Z]-\d+) \| .+? (?<!\\)\| (.+) \|$")
#: How the page begins the last cell of such a row.
OTHERWISE = "*decided otherwise*: "


@dataclass(frozen=True)
class Row:
    """One requirement."""

    id: str
    text: str


@dataclass(frozen=True)
class Area:
    """The requirements under one heading."""

    letter: str
    title: str
    rows: list[Row] = field(default_factory=list)


@dataclass(frozen=True, order=True)
class Mark:
    """One id in one `shows` mark, and the test that carries it."""

    path: str
    line: int
    #: What follows the path in a node id: `test_x`, `TestX::test_y`, or nothing for a module.
    test: str
    row: str

    @property
    def node_id(self) -> str:
        return f"{self.path}::{self.test}" if self.test else self.path


class Problem(Exception):
    """Something that a person has to fix."""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing, fail if outdated")
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    options = parser.parse_args(arguments)
    root: Path = options.root
    try:
        areas = read_areas(root)
        decisions = read_decisions(root)
        shown = group_marks(areas, decisions, collect_marks(root))
    except Problem as problem:
        print(problem, file=sys.stderr)
        return 1
    text = render_page(areas, decisions, shown)
    if options.check:
        return check_page(root, text)
    print(render_summary(areas, decisions, shown))
    (root / PAGE).parent.mkdir(exist_ok=True)
    (root / PAGE).write_text(text, encoding="utf-8")
    return 0


def check_page(root: Path, text: str) -> int:
    page = root / PAGE
    if page.exists() and page.read_text(encoding="utf-8") == text:
        return 0
    print(f"{PAGE} is not current: run `make requirements`", file=sys.stderr)
    return 1


# The rows.


def read_areas(root: Path) -> list[Area]:
    """Read the areas and their rows, from the design or else from the page."""
    source = root / DESIGN
    if not source.exists():
        print(f"{DESIGN} is absent: using the rows of {PAGE}", file=sys.stderr)
        source = root / PAGE
    if not source.exists():
        raise Problem(f"neither {DESIGN} nor {PAGE} exists: there are no requirements to show")
    areas = parse_areas(source.read_text(encoding="utf-8"))
    if not areas:
        raise Problem(f"{source.name} has no row of the form `| A-01 | text |`")
    return areas


def parse_areas(text: str) -> list[Area]:
    areas: list[Area] = []
    current: Area | None = None
    for line in text.splitlines():
        if heading := AREA.match(line):
            current = Area(heading[1], heading[2])
            areas.append(current)
        elif line.startswith("## "):
            current = None
        elif current is not None and (row := ROW.match(line)):
            current.rows.append(Row(row[1], shorten(row[2])))
    return [area for area in areas if area.rows]


def read_decisions(root: Path) -> dict[str, str]:
    """Rows that the design replaces, and what it has instead; from the design or the page."""
    source = root / DECISIONS
    if source.exists():
        lines = source.read_text(encoding="utf-8").splitlines()
        found = (DECISION.match(line) for line in lines)
        return {row[1]: row[2] for row in found if row}
    if (root / DESIGN).exists() or not (root / PAGE).exists():
        return {}
    lines = (root / PAGE).read_text(encoding="utf-8").splitlines()
    found = (DECISION.match(line) for line in lines)
    return {
        row[1]: row[2].removeprefix(OTHERWISE)
        for row in found
        if row and row[2].startswith(OTHERWISE)
    }


def shorten(text: str) -> str:
    """Cut to one line, at a word, and never inside `code`; a short text is not changed."""
    if len(text) <= TEXT_MAX:
        return text
    cut = text[: TEXT_MAX - 2].rpartition(" ")[0]
    if cut.count("`") % 2:
        cut = cut.rpartition("`")[0]
    return cut.rstrip(" ,;:(\\") + " …"


# The marks.


def spread(arguments: Iterable[ast.expr]) -> Iterator[ast.expr]:
    """The arguments of a call; one written `*("A-01", "A-02")` counts as its parts."""
    for argument in arguments:
        if isinstance(argument, ast.Starred) and isinstance(argument.value, ast.Tuple):
            yield from argument.value.elts
        else:
            yield argument


def collect_marks(root: Path) -> list[Mark]:
    """Find every `shows` mark under tests/, in the order of path and line."""
    marks: set[Mark] = set()
    problems: list[str] = []
    for path in sorted((root / "tests").rglob("*.py")):
        name = path.relative_to(root).as_posix()
        text = path.read_text(encoding="utf-8")
        if "mark.shows" not in text:
            continue
        for test, call in find_calls(ast.parse(text, filename=name)):
            place = f"{name}:{call.lineno}"
            if test is None:
                problems.append(f"{place}: the mark is on nothing that pytest collects")
                continue
            for argument in spread(call.args):
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                    marks.add(Mark(name, call.lineno, test, argument.value))
                else:
                    problems.append(f"{place}: write the ids of rows as literal strings")
    if problems:
        raise Problem("\n".join(problems))
    return sorted(marks)


def find_calls(tree: ast.Module) -> Iterator[tuple[str | None, ast.Call]]:
    """Give each `….mark.shows(…)` with the test it belongs to; None if it belongs to none."""
    tables = {
        target.id: statement
        for statement in tree.body
        if isinstance(statement, ast.Assign | ast.AnnAssign)
        for target in assigned_names(statement)
    }
    used: set[ast.Call] = set()
    for test, decorated in find_tests(tree.body, ""):
        for part in decorated:
            names = {each.id for each in ast.walk(part) if isinstance(each, ast.Name)}
            # A list of cases at module level belongs to the tests that name it.
            for place in [part, *(tables[name] for name in sorted(names & tables.keys()))]:
                for call in shows_calls(place):
                    used.add(call)
                    yield test, call
    for call in shows_calls(tree):
        if call not in used:
            yield None, call


def assigned_names(statement: ast.Assign | ast.AnnAssign) -> list[ast.Name]:
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    return [target for target in targets if isinstance(target, ast.Name)]


def find_tests(body: list[ast.stmt], prefix: str) -> Iterator[tuple[str, list[ast.expr]]]:
    """Give the tests of a module or class with the expressions that may carry their marks."""
    for statement in body:
        match statement:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                if statement.name.startswith("test"):
                    yield prefix + statement.name, statement.decorator_list
            case ast.ClassDef():
                if statement.name.startswith("Test"):
                    yield prefix + statement.name, statement.decorator_list
                    yield from find_tests(statement.body, f"{prefix}{statement.name}::")
            case ast.Assign() | ast.AnnAssign():
                names = {target.id for target in assigned_names(statement)}
                if "pytestmark" in names and statement.value is not None:
                    yield prefix.removesuffix("::"), [statement.value]


def shows_calls(tree: ast.AST) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        match node:
            case ast.Call(ast.Attribute(attr="shows") as function):
                if ast.unparse(function).endswith("mark.shows"):
                    yield node


def group_marks(
    areas: list[Area], decisions: dict[str, str], marks: list[Mark]
) -> dict[str, list[Mark]]:
    """Sort the marks by row; a mark of an unknown or a replaced row is a mistake."""
    shown: dict[str, list[Mark]] = {row.id: [] for area in areas for row in area.rows}
    problems = [
        f"{mark.path}:{mark.line}: there is no row {mark.row!r}"
        for mark in marks
        if mark.row not in shown
    ]
    problems += [
        f"{mark.path}:{mark.line}: {mark.row} was decided otherwise: {decisions[mark.row]}"
        for mark in marks
        if mark.row in decisions
    ]
    if problems:
        raise Problem("\n".join(problems))
    for mark in marks:
        if mark.node_id not in {other.node_id for other in shown[mark.row]}:
            shown[mark.row].append(mark)
    return shown


# What is said about them.


def render_summary(
    areas: list[Area], decisions: dict[str, str], shown: dict[str, list[Mark]]
) -> str:
    """Say for each area how much is shown, and which rows are not."""
    lines = []
    for area in areas:
        missing = [r.id for r in area.rows if not shown[r.id] and r.id not in decisions]
        lines.append(f"{area.letter}. {area.title}: {tally(area.rows, decisions, shown)}")
        if missing:
            ids = "not shown: " + " ".join(missing)
            lines.append(
                textwrap.fill(
                    ids,
                    width=100,
                    initial_indent="    ",
                    subsequent_indent="    ",
                    break_on_hyphens=False,
                )
            )
    rows = [row for area in areas for row in area.rows]
    lines.append(f"all: {tally(rows, decisions, shown)}")
    return "\n".join(lines)


def tally(rows: list[Row], decisions: dict[str, str], shown: dict[str, list[Mark]]) -> str:
    count = sum(1 for row in rows if shown[row.id])
    text = f"{count} of {len(rows)} shown ({100 * count / len(rows):.0f} %)"
    replaced = sum(1 for row in rows if row.id in decisions)
    return f"{text}, {replaced} decided otherwise" if replaced else text


def render_page(areas: list[Area], decisions: dict[str, str], shown: dict[str, list[Mark]]) -> str:
    rows = [row for area in areas for row in area.rows]
    lines = [
        "# Requirements and the tests that show them",
        "",
        "Made by `make requirements`; do not edit. A test shows a row if it would fail should the",
        "row not hold. A row is *decided otherwise* if the design replaces what it asks for.",
        "",
        "| area | rows | shown | decided otherwise |",
        "|---|--:|--:|--:|",
    ]
    for area in areas:
        count = sum(1 for row in area.rows if shown[row.id])
        replaced = sum(1 for row in area.rows if row.id in decisions)
        lines.append(f"| {area.letter}. {area.title} | {len(area.rows)} | {count} | {replaced} |")
    total = sum(1 for row in rows if shown[row.id])
    replaced = sum(1 for row in rows if row.id in decisions)
    lines.append(f"| **all** | **{len(rows)}** | **{total}** | **{replaced}** |")
    for area in areas:
        lines += ["", f"## {area.letter}. {area.title}", ""]
        lines += ["| row | in one line | shown by |", "|---|---|---|"]
        for row in area.rows:
            last = " · ".join(render_link(mark) for mark in shown[row.id]) or "–"
            if row.id in decisions:
                last = OTHERWISE + decisions[row.id]
            lines.append(f"| {row.id} | {row.text} | {last} |")
    return "\n".join(lines) + "\n"


def render_link(mark: Mark) -> str:
    """Link to the test's file, called by its node id without the folder."""
    name = mark.node_id.removeprefix("tests/")
    return f"[{name}](../{mark.path})"


if __name__ == "__main__":
    sys.exit(main())
