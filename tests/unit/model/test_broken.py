"""What is wrong with a document is said completely, by stable codes and at the right place."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

from minuet.bridge.values import OUTPUT_BYTES_LIMIT
from minuet.errors import DocumentError
from minuet.model import Diagnostic, read_document, read_file, read_mapping
from minuet.model.table import OUTPUT_BYTES_MAX

TABLE = runpy.run_path(str(Path(__file__).with_name("broken_documents.py")))
BROKEN: dict[str, tuple[str | bytes, list[str]]] = TABLE["BROKEN"]
HEAD: str = TABLE["HEAD"]


def problems(text: str | bytes) -> tuple[Diagnostic, ...]:
    with pytest.raises(DocumentError) as raised:
        read_document(text)
    return raised.value.diagnostics


@pytest.mark.parametrize("name", BROKEN)
def test_broken_document_is_reported_with_all_codes_and_positions(name: str) -> None:
    text, expected = BROKEN[name]

    reported = [f"{d.line}:{d.column} {d.code} {d.path}" for d in problems(text)]

    assert reported == expected


@pytest.mark.parametrize("name", BROKEN)
def test_broken_document_is_described_in_short_printable_lines(name: str) -> None:
    text, _ = BROKEN[name]

    for diagnostic in problems(text):
        assert diagnostic.severity == "error"
        assert len(diagnostic.describe()) < 700
        assert diagnostic.describe().isprintable()


@pytest.mark.parametrize(
    ("lines", "message", "hint"),
    [
        ("dependencies: x", 'expected a list of node ids, found a string "x"', "write [x]"),
        ("dependencies: x y", 'expected a list of node ids, found a string "x y"', "write a list"),
        (
            "on_error: x",
            'expected "fail", "continue" or a list of node ids, found a string "x"',
            "write [x]",
        ),
        (
            "on_error: continu",
            'expected "fail", "continue" or a list of node ids, found a string "continu"',
            'did you mean "continue"?',
        ),
        ("depends: []", 'a node has no field "depends"', 'did you mean "depends_on"?'),
        ("qqq: []", 'a node has no field "qqq"', None),
        ("handler: 5", "expected a name, found the number 5", 'put it in quotes: "5"'),
        ("handler: true", "expected a name, found true", 'put it in quotes: "true"'),
        ("handler: []", "expected a name, found a list", None),
        (
            "timeout: '30'",
            'expected a number above 0, at most 1,000,000,000, found a string "30"',
            "write 30 without quotes",
        ),
        (
            "retry: many",
            "expected a retry policy or a whole number from 1 to 1,000,000,000, "
            'found a string "many"',
            'it is an object with "max_attempts", "backoff_ms", "multiplier", "max_delay_ms"',
        ),
        (
            "wait_for_all: yes",
            'expected true or false, found a string "yes"',
            "write true or false, without quotes",
        ),
        (
            "loop:",
            "expected a loop, found nothing (null)",
            "leave the field out, or give it a value",
        ),
        (
            "retry: {max_attempt: 3}",
            'a retry policy has no field "max_attempt"',
            'did you mean "max_attempts"?',
        ),
        ("loop: 3", "expected a loop, found the number 3", 'it is an object with "condition"'),
        ("join: [1]", 'expected "all", "any", "each" or a whole number, found a list', None),
        ("concurrency: {key: {}}", "expected a string, found an object", None),
        ("foreach: {items: 1}", "expected a template or a list, found the number 1", None),
        ("config: {{ x }}", "an object cannot be a key",
         'keys are strings; a template needs quotes: "{{ … }}"'),
    ],
)  # fmt: skip
def test_message_says_what_was_expected_and_found_and_how_to_fix_it(
    lines: str, message: str, hint: str | None
) -> None:
    (diagnostic,) = problems(f"{HEAD}  - id: a\n    {lines}\n")

    assert (diagnostic.message, diagnostic.hint) == (message, hint)


def test_long_value_is_shown_shortened_and_escaped() -> None:
    (diagnostic,) = problems(HEAD + '  - id: "\\e[31m' + "x" * 65536 + '"\n')

    assert diagnostic.message == (
        '"\\u001b[31m' + "x" * 35 + '"… (65541 characters) is not a node id'
    )


def test_more_than_a_hundred_problems_are_counted() -> None:
    found = problems(HEAD + "  - {}\n" * 150)

    assert [d.code for d in found[:100]] == ["missing-field"] * 100
    assert [(d.code, d.message) for d in found[100:]] == [
        ("too-many-problems", "50 more problems not shown")
    ]
    assert problems(HEAD + "  - {}\n" * 101)[100].message == "1 more problem not shown"


def test_unknown_fields_beyond_a_hundred_are_counted_like_other_problems() -> None:
    found = problems(HEAD + "  - id: a\n" + "".join(f"    typ{i}: 1\n" for i in range(120)))

    assert {d.hint for d in found[:100]} == {'did you mean "type"?'}
    assert found[100].message == "20 more problems not shown"


def test_text_of_more_than_32_mib_is_refused() -> None:
    (diagnostic,) = problems(b" " * (32 * 1024 * 1024 + 1))

    assert diagnostic.code == "too-large"


def test_aliases_that_unfold_without_bound_are_refused() -> None:
    lines = ["output:", "  - &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"  - &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 60)]

    (diagnostic,) = problems("name: w\nnodes: []\n" + "\n".join(lines))

    assert (diagnostic.code, diagnostic.line) == ("yaml-alias", 8)


LONG_KEYS = "{" + ", ".join(f"{number:01000}: 1" for number in range(100)).replace("0", "k") + "}"


@pytest.mark.parametrize(
    "value", ["x" * 100_000, LONG_KEYS, "é" * 50_000], ids=["text", "keys", "bytes"]
)
def test_aliases_that_unfold_to_much_text_are_refused(value: str) -> None:
    text = f"name: w\nnodes: []\noutput:\n  - &a {value}\n" + "  - *a\n" * 1_000

    (diagnostic,) = problems(text)

    assert (diagnostic.code, diagnostic.line, diagnostic.column) == ("yaml-alias", 46, 5)
    assert "4 MiB of text" in diagnostic.message


def test_aliases_that_nest_without_bound_are_refused() -> None:
    lines = ["output:", "  - &a0 [1]"]
    lines += [f"  - &a{i} [*a{i - 1}]" for i in range(1, 120)]

    (diagnostic,) = problems("name: w\nnodes: []\n" + "\n".join(lines))

    assert diagnostic.code == "too-deep"


@pytest.mark.parametrize(
    ("value", "code", "path"),
    [
        ({1: 2}, "bad-key", "output"),
        ({"a\0": 2}, "bad-character", "output"),
        ({"a": ["\ud800"]}, "bad-character", "output.a[0]"),
        ([1, 2**63], "bad-number", "output[1]"),
        (float("nan"), "bad-number", "output"),
        ({"a", "b"}, "bad-value", "output"),
        (b"bytes", "bad-value", "output"),
    ],
)
def test_python_value_that_is_no_json_is_refused(value: Any, code: str, path: str) -> None:
    with pytest.raises(DocumentError) as raised:
        read_mapping({"name": "w", "nodes": [], "output": value})

    (diagnostic,) = raised.value.diagnostics
    assert (diagnostic.code, diagnostic.path, diagnostic.line) == (code, path, None)


def test_python_value_that_contains_itself_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)

    with pytest.raises(DocumentError) as raised:
        read_mapping({"name": "w", "nodes": [], "output": endless})

    assert [d.code for d in raised.value.diagnostics] == ["too-deep"]


def test_python_value_that_is_no_object_is_refused() -> None:
    with pytest.raises(DocumentError, match="expected a workflow, found a list"):
        read_mapping([])  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["absent.yaml", "", "nul\0.yaml"])
def test_file_that_cannot_be_opened_is_reported(tmp_path: Path, name: str) -> None:
    with pytest.raises(DocumentError) as raised:
        read_file(tmp_path / name)

    assert [d.code for d in raised.value.diagnostics] == ["unreadable-file"]
    assert raised.value.source == str(tmp_path / name)


def test_broken_file_is_reported_under_its_name(tmp_path: Path) -> None:
    path = tmp_path / "w.yaml"
    path.write_text("name: w\nnode: []\n")

    with pytest.raises(DocumentError) as raised:
        read_file(path)

    assert str(raised.value).startswith(f"{path}: 2 problems\n  1:1: error[missing-field]")


def test_a_limit_above_what_any_output_may_have_is_refused() -> None:
    assert OUTPUT_BYTES_MAX == OUTPUT_BYTES_LIMIT
    text = f"name: w\nlimits: {{max_output_bytes: {OUTPUT_BYTES_MAX + 1}}}\nnodes: [{{id: a}}]\n"

    (diagnostic,) = problems(text)

    assert (diagnostic.code, diagnostic.path) == ("wrong-value", "limits.max_output_bytes")
    assert "67,108,864" in diagnostic.message
