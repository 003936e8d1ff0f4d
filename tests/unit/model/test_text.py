"""JSON and YAML text become the same plain data, by the rules that the reference names."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from minuet.errors import DocumentError
from minuet.model import jsontext, read_document
from minuet.model.problem import BROKEN
from minuet.model.text import parse, parse_marks
from minuet.model.tree import Builder

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)
WHOLE = st.integers(-(2**63), 2**63 - 1)
JSON = st.recursive(
    st.none() | st.booleans() | WHOLE | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


def value(text: str) -> Any:
    parsed = parse(text)
    assert parsed.problems.count == 0
    return parsed.value


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        *((word, word) for word in ("no", "No", "off", "on", "yes", "y", "NO", "nil", "none")),
        *((word, True) for word in ("true", "True", "TRUE")),
        *((word, False) for word in ("false", "False", "FALSE")),
        *((word, None) for word in ("", "~", "null", "Null", "NULL")),
        ("2024-01-31", "2024-01-31"),
        ("2024-01-31T10:00:00Z", "2024-01-31T10:00:00Z"),
        ("12:30:45", "12:30:45"),
        ("1_000", "1_000"),
        ("0b11", "0b11"),
        ("0o17", 15),
        ("0x1F", 31),
        ("0", 0),
        ("-0", 0),
        ("+7", 7),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("0.5", 0.5),
        (".5", 0.5),
        ("1.", 1.0),
        ("1e3", 1000.0),
        ("-1.5E-3", -0.0015),
        ("'1'", "1"),
        ('"1"', "1"),
        ("!", BROKEN),
        ("|\n  1\n  2\n", "1\n2\n"),
        ('"\\u00e4\\x41"', "äA"),
        ("=", "="),
        ("a\\0", "a\\0"),
    ],
)
def test_yaml_scalar_is_read_as_yaml_1_2_says(written: str, expected: Any) -> None:
    assert parse(f"key: {written}").value == {"key": expected}


def test_norway_is_no_boolean() -> None:
    workflow = read_document("name: w\nnodes:\n- id: no\n- {id: on, depends_on: [no]}\n").workflow

    assert [node.id for node in workflow.nodes] == ["no", "on"]
    assert workflow.nodes[1].dependencies == ("no",)


def test_yaml_keys_that_look_like_booleans_in_yaml_1_1_are_strings() -> None:
    assert value("on: 1\nno: 2\n2024-01-01: 3\n") == {"on": 1, "no": 2, "2024-01-01": 3}


def test_yaml_aliases_share_what_they_name() -> None:
    text = "a: &a [1]\nb: *a\n&k c: &s text\nd: *s\ne: *k\nf: &a 2\ng: *a\n"

    assert value(text) == {
        "a": [1], "b": [1], "c": "text", "d": "text", "e": "c", "f": 2, "g": 2,
    }  # fmt: skip


def test_text_that_begins_with_a_bracket_is_json_and_any_other_is_yaml() -> None:
    assert value(' \n// c\n/* c */ {"a": /* c */ 1, // c\n "b": [2, true, null]}') == {
        "a": 1,
        "b": [2, True, None],
    }
    assert value("# {\na: [1, {b: c}]\n") == {"a": [1, {"b": "c"}]}


def test_json_may_have_tabs_and_carriage_returns() -> None:
    assert value('{\r\n\t"a":\t"x\ty"}\r\n') == {"a": "x\ty"}


def test_byte_order_mark_is_no_part_of_the_text() -> None:
    assert value("\ufeffa: 1") == {"a": 1}
    assert parse(b"\xef\xbb\xbf[1]").value == [1]


@pytest.mark.parametrize("pairs", ['"\\ud83d\\ude00"', '"😀"'])
def test_character_beyond_sixteen_bits_is_read_in_either_form(pairs: str) -> None:
    assert value(f"[{pairs}]") == ["😀"]


def test_hundred_levels_are_allowed() -> None:
    text = "[" * 100 + "]" * 100

    assert json.dumps(value(text)) == text
    assert json.dumps(value("a: " + text[1:-1])["a"]) == text[1:-1]


def test_long_row_of_comments_is_read_in_linear_time() -> None:
    assert value("/**/" * 20_000 + "x") == "/**/" * 20_000 + "x"
    assert value("/**/" * 20_000 + "[]") == []


@given(JSON)
def test_json_is_read_as_the_standard_library_reads_it(data: Any) -> None:
    for text in (json.dumps([data]), json.dumps([data], ensure_ascii=False, indent=1)):
        parsed = parse(text)

        assert parsed.problems.count == 0 or parsed.problems.kept[0].code == "bad-character"
        assert parsed.problems.count or parsed.value == [data]


@given(JSON)
def test_slow_and_fast_reading_of_json_agree(data: Any) -> None:
    text = json.dumps([data], indent=2)
    builder = Builder(keep_marks=True)

    jsontext.scan(text, builder)

    assert builder.problems.count == 0
    assert builder.value == [data]
    assert jsontext.load(text) in (BROKEN, [data])


@given(JSON)
def test_yaml_that_a_program_wrote_is_read_back(data: Any) -> None:
    text = yaml.safe_dump({"key": [data]}, default_flow_style=None)

    parsed = parse(text)

    codes = {problem.code for problem in parsed.problems.kept}
    assert codes <= {"bad-number", "yaml-tag", "yaml-alias"}
    assert codes or parsed.value == {"key": [data]}


@given(st.text(max_size=60) | st.binary(max_size=60))
def test_no_text_makes_the_reader_fail_otherwise_than_with_diagnostics(text: str | bytes) -> None:
    with pytest.raises(DocumentError):
        read_document(text)


@given(st.text("{}[]:,-?&*!|>\"'%@`#<0 \n\tab\\u/", max_size=40))
def test_no_row_of_signs_makes_the_reader_fail_otherwise(text: str) -> None:
    for start in ("name: w\nnodes:\n", '{"name": "w", "nodes": '):
        try:
            read_document(start + text)
        except DocumentError as error:
            found = error.diagnostics
        else:
            found = ()

        assert all(diagnostic.line for diagnostic in found)


@given(JSON)
def test_every_part_of_a_text_has_a_mark(data: Any) -> None:
    mark = parse_marks(json.dumps([data], indent=1))

    def check(part: Any, mark: Any) -> None:
        items = part.items() if isinstance(part, dict) else enumerate(part)
        for key, item in items:
            assert mark.parts[key].place.line >= mark.place.line
            if isinstance(item, (dict, list)):
                check(item, mark.parts[key])

    check([data], mark)
