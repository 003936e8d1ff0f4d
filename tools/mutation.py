"""Break the code behind each requirement mark and see whether its test notices.

A test marked `@pytest.mark.shows("B-01")` claims to fail if B-01 does not hold. This tool runs
the marked tests once and records the lines that each executes. Then it breaks those lines one
at a time, the most specific first (lines that few other tests execute), and then the constants
that those lines name, and runs the test again. A test that survives every break is listed: its
mark may claim too much. At the end each row has a verdict:

    killed      a test of the row noticed a break
    survived    none did
    failing     it fails on unbroken code, so its failing on a break says nothing
    elsewhere   its tests work in other processes: no line is executed here, nothing was broken

    python -m tools.mutation                 all marked tests, the quickest first; takes hours
    python -m tools.mutation B-01 D-17       the tests of these rows
    python -m tools.mutation --in tests/unit only tests in this folder
    python -m tools.mutation --breaks 12     try harder before listing a test
"""

from __future__ import annotations

import argparse
import ast
import itertools
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

from tools.requirements import collect_marks

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src"

#: A broken test may hang: this is far longer than any marked test takes.
TIMEOUT_S = 120

Line = tuple[str, int]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("rows", nargs="*", help="ids of rows; all, if none is given")
    parser.add_argument("--breaks", type=int, default=6, help="breaks to try for each test")
    parser.add_argument("--in", dest="folder", default="", help="only tests in this folder")
    options = parser.parse_args()
    rows: dict[str, set[str]] = {}
    for mark in collect_marks(ROOT):
        if mark.node_id.startswith(options.folder) and (
            not options.rows or mark.row in options.rows
        ):
            rows.setdefault(mark.node_id, set()).add(mark.row)
    if not rows:
        print("no test is marked with these rows", file=sys.stderr)
        return 2
    lines, seconds, failing = measure(sorted(rows))
    common = Counter(line for found in lines.values() for line in found)
    verdicts: dict[str, str] = {}
    quickest = sorted(rows, key=lambda test: (seconds.get(test, 0.0), test))
    for number, test in enumerate(quickest, 1):
        found = sorted(lines.get(test, ()), key=lambda line: (common[line], line))
        verdicts[test] = FAILING if test in failing else judge(test, found, options.breaks)
        shown = " ".join(sorted(rows[test]))
        print(f"{number}/{len(rows)} {verdicts[test]:9} {test} ({shown})", flush=True)
    report(rows, verdicts)
    return 0 if {SURVIVED, FAILING}.isdisjoint(verdicts.values()) else 1


KILLED, SURVIVED, FAILING, ELSEWHERE = "killed", "survived", "failing", "elsewhere"


def judge(test: str, lines: list[Line], most: int) -> str:
    """Break what a test executes, at most so many times, until it notices."""
    tried = False
    for path, broken in itertools.islice(breaks(lines), most):
        tried = True
        if notices(test, path, broken):
            return KILLED
    for path, broken in itertools.islice(constant_breaks(lines), most):
        tried = True
        if notices(test, path, broken):
            return KILLED
    return SURVIVED if tried else ELSEWHERE


def report(rows: dict[str, set[str]], verdicts: dict[str, str]) -> None:
    """Say which rows have a test that noticed something, and which have none."""
    by_row: dict[str, set[str]] = {}
    for test, shown in rows.items():
        for row in shown:
            by_row.setdefault(row, set()).add(verdicts[test])
    for verdict in (KILLED, SURVIVED, FAILING, ELSEWHERE):
        # A row with several tests has the best of their verdicts.
        found = sorted(row for row, known in by_row.items() if verdict in known)
        for row in found:
            del by_row[row]
        print(f"\n{len(found)} rows {verdict}: {' '.join(found)}")
    survivors = [test for test, verdict in verdicts.items() if verdict == SURVIVED]
    print(f"\n{len(survivors)} of {len(rows)} marked tests survived:")
    print("\n".join(f"  {test}" for test in survivors))


def measure(tests: list[str]) -> tuple[dict[str, set[Line]], dict[str, float], set[str]]:
    """The lines that each test executes itself, imports left out; its seconds; and those that
    fail on unbroken code."""
    with tempfile.TemporaryDirectory() as folder:
        data, results = Path(folder) / "coverage", Path(folder) / "results.xml"
        command = [sys.executable, "-m", "pytest", "-q", *tests, f"--junit-xml={results}"]
        command += ["--cov=minuet", "--cov-context=test", "--cov-report="]
        subprocess.run(command, cwd=ROOT, env={**os.environ, "COVERAGE_FILE": str(data)})
        return _lines(data), *_results(results)


def _lines(data: Path) -> dict[str, set[Line]]:
    from coverage import CoverageData

    measured = CoverageData(str(data))
    measured.read()
    found: dict[str, set[Line]] = {}
    for path in measured.measured_files():
        for line, contexts in measured.contexts_by_lineno(path).items():
            for context in contexts:
                # tests/x.py::test_y[case]|run
                test = context.partition("|")[0].partition("[")[0]
                while test:
                    found.setdefault(test, set()).add((path, line))
                    test = test.rpartition("::")[0]
    return found


def _results(results: Path) -> tuple[dict[str, float], set[str]]:
    found: dict[str, float] = {}
    failing: set[str] = set()
    for case in ElementTree.parse(results).iter("testcase"):
        module = case.attrib["classname"].replace(".", "/")
        test = f"{module}.py::{case.attrib['name'].partition('[')[0]}"
        found[test] = found.get(test, 0.0) + float(case.attrib["time"])
        if case.find("failure") is not None or case.find("error") is not None:
            failing.add(test)
    return found, failing


def breaks(lines: list[Line]) -> Iterator[tuple[Path, str]]:
    """For each line that can be broken: its file, and the file's text with the break."""
    for path, line in lines:
        text = Path(path).read_text(encoding="utf-8")
        breaker = Breaker(line)
        broken = ast.fix_missing_locations(breaker.visit(ast.parse(text)))
        if breaker.done:
            yield Path(path), ast.unparse(broken)


def constant_breaks(lines: list[Line]) -> Iterator[tuple[Path, str]]:
    """The same for the numbers that a module has names for and some of these lines use.

    Numbers alone: a module with another text in the place of one might not even be imported.
    """
    seen: set[tuple[str, str]] = set()
    for path, line in lines:
        tree = ast.parse(Path(path).read_text(encoding="utf-8"))
        named = {
            node.id
            for node in ast.walk(tree)
            if isinstance(node, ast.Name) and node.lineno == line and node.id.isupper()
        }
        for statement in tree.body:
            match statement:
                case ast.Assign(
                    targets=[ast.Name(name)], value=ast.Constant(int() | float()) as value
                ):
                    if name in named and (path, name) not in seen:
                        seen.add((path, name))
                        statement.value = _other(value)
                        yield Path(path), ast.unparse(ast.fix_missing_locations(tree))


class Breaker(ast.NodeTransformer):
    """Change what one line does."""

    def __init__(self, line: int) -> None:
        self._line = line
        self.done = False

    def visit(self, node: ast.AST) -> ast.AST:
        if not self.done and isinstance(node, ast.stmt) and node.lineno == self._line:
            broken = self._broken(node)
            if broken is not None:
                self.done = True
                return ast.copy_location(broken, node)
        return self.generic_visit(node)

    def _broken(self, node: ast.stmt) -> ast.stmt | None:
        match node:
            case ast.If() | ast.While():
                node.test = ast.UnaryOp(ast.Not(), node.test)
                return node
            case ast.Return(value) if value is not None:
                return ast.Return(_other(value))
            case ast.Assign() | ast.AugAssign() if node.value is not None:
                node.value = _other(node.value)
                return node
            case ast.Raise():
                return ast.Pass()
            case ast.Expr(ast.Call() | ast.Await()):
                return ast.Pass()
        return None


def _other(value: ast.expr) -> ast.expr:
    """An expression with another value."""
    match value:
        case ast.Constant(bool() as known):
            return ast.Constant(not known)
        case ast.Constant(int() | float() as number):
            return ast.Constant(number + 1)
        case ast.Compare() | ast.BoolOp() | ast.UnaryOp(ast.Not()):
            return ast.UnaryOp(ast.Not(), value)
    return ast.Constant(None)


def notices(test: str, path: Path, broken: str) -> bool:
    """Whether the test fails on the broken code."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "src"
        # With what is compiled: only the broken module has to be compiled again.
        shutil.copytree(SOURCE, copy)
        (copy / path.relative_to(SOURCE)).write_text(broken, encoding="utf-8")
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
        command += [f"--timeout={TIMEOUT_S}", test]
        paths = os.pathsep.join(filter(None, [str(copy), os.environ.get("PYTHONPATH", "")]))
        finished = subprocess.run(
            command, cwd=ROOT, env={**os.environ, "PYTHONPATH": paths}, capture_output=True
        )
        return finished.returncode != 0


if __name__ == "__main__":
    sys.exit(main())
