"""Break the code behind each requirement mark and see whether its test notices.

A test marked `@pytest.mark.shows("B-01")` claims to fail if B-01 does not hold. This tool runs
the marked tests once and records the lines that each executes. Then it breaks those lines one
at a time, the most specific first (lines that few other tests execute), and runs the test
again. A test that survives every break is listed: its mark may claim too much.

    python -m tools.mutation                 all marked tests; takes an hour
    python -m tools.mutation B-01 D-17       the tests of these rows
    python -m tools.mutation --breaks 12     try harder before listing a test

A test whose work happens in other processes executes no line here; those are listed apart.
"""

from __future__ import annotations

import argparse
import ast
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

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
    options = parser.parse_args()
    marks = [m for m in collect_marks(ROOT) if not options.rows or m.row in options.rows]
    rows: dict[str, list[str]] = {}
    for mark in marks:
        rows.setdefault(mark.node_id, []).append(mark.row)
    if not rows:
        print("no test is marked with these rows", file=sys.stderr)
        return 2
    lines = executed_lines(sorted(rows))
    common = Counter(line for found in lines.values() for line in found)
    survivors, elsewhere = [], []
    for number, (test, shown) in enumerate(sorted(rows.items()), 1):
        name = f"{test} ({' '.join(sorted(set(shown)))})"
        found = sorted(lines.get(test, ()), key=lambda line: (common[line], line))
        tried = 0
        for path, broken in breaks(found):
            tried += 1
            if notices(test, path, broken):
                print(f"{number}/{len(rows)} notices  {name}", flush=True)
                break
            if tried == options.breaks:
                break
        else:
            if not tried:
                elsewhere.append(name)
                print(f"{number}/{len(rows)} elsewhere {name}", flush=True)
                continue
        if tried == options.breaks:
            survivors.append(name)
            print(f"{number}/{len(rows)} SURVIVES {name}", flush=True)
    print(f"\n{len(survivors)} of {len(rows)} marked tests survived {options.breaks} breaks each:")
    print("\n".join(f"  {name}" for name in survivors))
    print(f"{len(elsewhere)} do their work in other processes and were not judged:")
    print("\n".join(f"  {name}" for name in elsewhere))
    return 1 if survivors else 0


def executed_lines(tests: list[str]) -> dict[str, set[Line]]:
    """The lines that each test executes itself, imports left out."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "coverage"
        command = [sys.executable, "-m", "pytest", "-q", *tests]
        command += ["--cov=minuet", "--cov-context=test", "--cov-report="]
        subprocess.run(command, cwd=ROOT, env={**os.environ, "COVERAGE_FILE": str(data)})
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


def breaks(lines: list[Line]) -> Iterator[tuple[Path, str]]:
    """For each line that can be broken: its file, and the file's text with the break."""
    for path, line in lines:
        text = Path(path).read_text(encoding="utf-8")
        breaker = Breaker(line)
        broken = ast.fix_missing_locations(breaker.visit(ast.parse(text)))
        if breaker.done:
            yield Path(path), ast.unparse(broken)


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
        shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
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
