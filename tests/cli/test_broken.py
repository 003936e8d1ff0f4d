"""A document with problems: exit code 2, every problem with its code and place, nothing written."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
MODEL = runpy.run_path(str(HERE.parent / "unit/model/broken_documents.py"))["BROKEN"]
PLAN = runpy.run_path(str(HERE / "broken_plans.py"))["BROKEN"]

#: Half of a surrogate pair cannot be written into a file.
IN_FILES = {name: case for name, case in MODEL.items() if "\ud800" not in str(case[0])}


@pytest.mark.shows("B-10")
@pytest.mark.parametrize("name", IN_FILES)
def test_document_that_cannot_be_read_is_refused_and_nothing_is_written(
    folder: Any, minuet: Any, name: str
) -> None:
    text, expected = IN_FILES[name]
    folder.write("broken.yaml", text)

    called = minuet("run", "broken.yaml", "--json")

    assert called.code == 2
    found = called.json["error"]["diagnostics"]
    assert [f"{d['line']}:{d['column']} {d['code']} {d['path']}" for d in found] == expected
    assert not folder.store.exists()


@pytest.mark.shows("B-01", "B-04", "B-05", "B-06", "B-07", "B-08", "B-10", "B-25", "B-27")
@pytest.mark.parametrize("name", PLAN)
def test_document_that_cannot_be_compiled_is_refused_and_nothing_is_written(
    folder: Any, minuet: Any, name: str
) -> None:
    text, expected = PLAN[name]
    folder.write("broken.yaml", text)

    called = minuet("run", "broken.yaml", "--json")

    assert called.code == 2
    found = called.json["error"]["diagnostics"]
    assert [f"{d['line']}:{d['column']} {d['code']}" for d in found] == expected
    assert not folder.store.exists()


def test_there_are_more_than_forty_of_each_kind_of_broken_document() -> None:
    assert len(IN_FILES) > 40
    assert len(PLAN) > 40


def test_each_problem_is_shown_with_its_line_a_caret_and_a_hint(folder: Any, minuet: Any) -> None:
    folder.write(
        "broken.yaml",
        "name: w\nnodes:\n  - {id: fetch, type: noop}\n"
        "  - {id: a, type: nop, dependencies: [fetsh]}\n",
    )

    called = minuet("validate", "broken.yaml")

    assert called.code == 2
    assert called.out == ""
    assert called.err == (
        'broken.yaml:4:19: warning[unknown-node-type]: there is no node type "nop" here; a worker '
        'that has it can run node "a" (at nodes[1].type)\n'
        "    4 |   - {id: a, type: nop, dependencies: [fetsh]}\n"
        "      |                   ^\n"
        '  hint: did you mean "noop"?\n'
        'broken.yaml:4:39: error[unknown-node]: there is no node "fetsh" '
        "(at nodes[1].dependencies[0])\n"
        "    4 |   - {id: a, type: nop, dependencies: [fetsh]}\n"
        "      |                                       ^\n"
        '  hint: did you mean "fetch"?\n'
        "broken.yaml: 1 error\n"
    )


def test_a_long_line_is_shown_around_the_problem(folder: Any, minuet: Any) -> None:
    folder.write("broken.yaml", f'{{"name": "w", "description": "{"x" * 500}", "nodes": [1]}}')

    lines = minuet("validate", "broken.yaml").err.splitlines()

    assert "1]" in lines[1]
    assert max(map(len, lines)) < 120
    assert lines[1][lines[2].index("^")] == "1"


def test_what_a_document_contains_cannot_command_the_terminal(folder: Any, minuet: Any) -> None:
    folder.write("broken.yaml", "name: w\nnodes:\n  - {id: a, type: noop, x\u009b2J: 1}\n")

    called = minuet("validate", "broken.yaml")

    assert called.code == 2
    assert "\u009b" not in called.err


def test_validate_tells_of_every_file_and_fails_if_one_is_wrong(folder: Any, minuet: Any) -> None:
    folder.write("good.yaml", "name: w\nnodes:\n  - {id: a, type: noop}\n")
    folder.write("bad.yaml", "name: w\n")

    text = minuet("validate", "good.yaml", "bad.yaml", "none.yaml")
    record = minuet("validate", "good.yaml", "bad.yaml", "none.yaml", "--json").json

    assert text.code == 2
    assert text.out == "good.yaml: valid: w, 1 node\n"
    assert "2 of 3 files have errors" in text.err
    assert [file["valid"] for file in record["files"]] == [True, False, False]
    assert [file["diagnostics"][0]["code"] for file in record["files"][1:]] == [
        *("missing-field", "unreadable-file"),
    ]
    assert minuet("validate", "good.yaml").code == 0


def test_validate_looks_for_handlers_only_when_told_where(folder: Any, minuet: Any) -> None:
    folder.write("w.yaml", "name: w\nnodes:\n  - {id: a, handler: duoble}\n")

    assert minuet("validate", "w.yaml").code == 0
    called = minuet("validate", "w.yaml", "--handlers", "work_handlers")

    assert called.code == 2
    assert "error[unknown-handler]" in called.err
    assert "did you mean 'double'?" in called.err


def test_validate_checks_the_arguments_of_handlers(folder: Any, minuet: Any) -> None:
    folder.write("w.yaml", "name: w\nnodes:\n  - id: a\n    handler: double\n    config: {nn: 1}\n")

    assert minuet("validate", "w.yaml").code == 0
    called = minuet("validate", "w.yaml", "--handlers", "work_handlers")

    assert called.code == 2
    assert "5:18: error[unknown-argument]" in called.err
    assert "5:13: error[missing-argument]" in called.err


@pytest.mark.shows("B-12")
@pytest.mark.parametrize("command", ["validate", "graph"])
def test_looking_at_a_document_starts_and_stores_nothing(
    folder: Any, minuet: Any, command: str
) -> None:
    folder.write("w.yaml", "name: w\nnodes:\n  - {id: a, handler: double}\n")

    assert minuet(command, "w.yaml").code == 0
    assert [path.name for path in folder.path.iterdir() if path.suffix == ".db"] == []
