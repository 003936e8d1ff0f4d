"""Print what is wrong: where it is, what it is, and how to fix it."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from minuet.app import shapes
from minuet.cli.output import clean, print_json
from minuet.errors import DocumentError, InputError, MinuetError
from minuet.model.diagnostics import Diagnostic

#: Characters of a source line that are shown around a problem.
LINE_LENGTH_MAX = 100


def print_error(error: MinuetError, *, as_json: bool) -> None:
    """Say what went wrong; for programs also as JSON on standard output."""
    if as_json:
        print_json({"error": shapes.error(error)})
    if isinstance(error, DocumentError):
        print_diagnostics(error.source, error.diagnostics)
        print(shapes.count_errors(error.diagnostics), file=sys.stderr)
    else:
        print(f"minuet: {clean(str(error))}", file=sys.stderr)
    if isinstance(error, InputError) and error.argument is None:
        print("Give the input with -i key=value, -i JSON or -i @FILE.", file=sys.stderr)


def print_diagnostics(source: str, diagnostics: Sequence[Diagnostic]) -> None:
    """Print every problem, with the line it is on."""
    lines = _source_lines(source) if any(found.line for found in diagnostics) else []
    for found in diagnostics:
        print(clean("\n".join(_describe(source, found, lines))), file=sys.stderr)


def _describe(source: str, found: Diagnostic, lines: list[str]) -> list[str]:
    place = f":{found.line}:{found.column}" if found.line is not None else ""
    path = f" (at {found.path})" if found.path else ""
    text = [f"{source}{place}: {found.severity}[{found.code}]: {found.message}{path}"]
    if found.line is not None and found.column is not None and found.line <= len(lines):
        text += _excerpt(lines[found.line - 1], found.line, found.column)
    if found.hint:
        text.append(f"  hint: {found.hint}")
    return text


def _excerpt(line: str, number: int, column: int) -> list[str]:
    """The line and a caret below the place; of a long line, the part around it."""
    line = line.replace("\t", " ")
    start = max(0, column - 1 - LINE_LENGTH_MAX // 2) if len(line) > LINE_LENGTH_MAX else 0
    shown = line[start : start + LINE_LENGTH_MAX]
    margin = f"{number:>5} | "
    return [f"{margin}{shown}", f"{' ' * (len(margin) - 2)}| {' ' * (column - 1 - start)}^"]


def _source_lines(source: str) -> list[str]:
    """The document's lines, to be shown; none when they cannot be read any more."""
    try:
        with open(source, encoding="utf-8-sig", errors="replace", newline=None) as file:
            return file.read().split("\n")
    except (OSError, ValueError):
        return []
