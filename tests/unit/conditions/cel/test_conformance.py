"""The official conformance tests of CEL: everything that can be said without protocol buffers."""

from __future__ import annotations

import base64
import json
import re
from collections import Counter
from collections.abc import Iterator
from math import isnan
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from minuet.conditions import LIMITS
from minuet.conditions.cel.errors import CelError
from minuet.conditions.cel.executable import Executable
from minuet.conditions.cel.library.times import duration_of_text
from minuet.conditions.cel.meter import Meter
from minuet.conditions.cel.parser import parse
from minuet.conditions.cel.types import check_types
from minuet.conditions.cel.values import Map, Optional, Type, UInt, make_map, type_name

#: Why a test is left out. Nothing else is.
NEEDS_MESSAGES = "builds or reads a protocol buffer message"
NEEDS_CONTAINER = "resolves names in a container, which expressions of workflows do not have"
IS_WRONG = "expects a backslash where its expression has none"

_WRONG = frozenset(
    f"parse/bytes_literals/triple_{kind}_quoted_unescaped_punctuation"
    for kind in ("single", "double")
)

#: How many of each, so that none is lost unseen.
EXECUTED = 1608
LEFT_OUT = {NEEDS_MESSAGES: 112, NEEDS_CONTAINER: 13, IS_WRONG: 2}

_MESSAGE = re.compile(r"TestAllTypes|google\s*\.\s*protobuf\s*\.\s*\w+\s*\{")


class Case(NamedTuple):
    """One test."""

    name: str
    expression: str
    bindings: dict[str, Any]
    #: The value, or None if the evaluation must fail.
    expected: dict[str, Any] | None
    is_checked: bool
    container: str


def read_cases(folder: Path) -> Iterator[Case]:
    for path in sorted(folder.glob("*.json")):
        for section in json.loads(path.read_text(encoding="utf-8"))["section"]:
            for number, test in enumerate(section["test"]):
                yield Case(
                    f"{path.stem}/{section['name']}/{test['name']}#{number}",
                    test["expr"],
                    {k: v["value"] for k, v in test.get("bindings", {}).items()},
                    None if "eval_error" in test else test.get("value", {"bool_value": True}),
                    not test.get("disable_check"),
                    test.get("container", ""),
                )


def reason_to_leave_out(case: Case) -> str | None:
    if _MESSAGE.search(case.expression):
        return NEEDS_MESSAGES
    if case.name.partition("#")[0] in _WRONG:
        return IS_WRONG
    return NEEDS_CONTAINER if case.container else None


def read_value(typed: dict[str, Any]) -> Any:
    """A value of the test files as one of ours."""
    ((kind, value),) = typed.items()
    match kind:
        case "int64_value":
            return int(value)
        case "uint64_value":
            return UInt(int(value))
        case "double_value":
            return float(value)
        case "bytes_value":
            return base64.b64decode(value)
        case "list_value":
            return [read_value(item) for item in value.get("values", [])]
        case "map_value":
            entries = value.get("entries", [])
            return make_map([(read_value(e["key"]), read_value(e["value"])) for e in entries])
        case "type_value":
            return Type(value)
        case "object_value" if value["@type"].endswith("google.protobuf.Duration"):
            return duration_of_text(Meter(LIMITS), value["value"])
        case "null_value" | "bool_value" | "string_value":
            return value
    raise AssertionError(kind)


def same(found: Any, expected: Any) -> bool:
    """Whether two values are the same, types included."""
    if type_name(found) != type_name(expected):
        return False
    if isinstance(found, float):
        return repr(found) == repr(expected) or (isnan(found) and isnan(expected))
    if isinstance(found, list):
        return len(found) == len(expected) and all(map(same, found, expected))
    if isinstance(found, dict):
        return found.keys() == expected.keys() and all(same(found[k], expected[k]) for k in found)
    if isinstance(found, Map):
        pairs = [(item, expected.find(key)) for key, item in found.items()]
        return len(found) == len(expected) and all(o and same(i, o[1]) for i, o in pairs)
    if isinstance(found, Optional):
        return found.present == expected.present and same(found.value, expected.value)
    return bool(found == expected)


def run(case: Case) -> Any:
    variables = {name: read_value(value) for name, value in case.bindings.items()}
    names = tuple(variables)
    tree = parse(case.expression, LIMITS.expression_depth)
    if case.is_checked:
        check_types(tree, names, LIMITS)
    return Executable(tree, names).run(variables, Meter(LIMITS))


def problem_of(case: Case) -> str | None:
    try:
        found = run(case)
    except CelError as error:
        if case.expected is None:
            return None
        return f"{case.name}: {case.expression!r} failed: {error.describe(case.expression)}"
    if case.expected is None:
        return f"{case.name}: {case.expression!r} should fail, not give {found!r}"
    expected = read_value(case.expected)
    if same(found, expected):
        return None
    return f"{case.name}: {case.expression!r} gave {found!r}, not {expected!r}"


@pytest.fixture(scope="module")
def cases(shared: Path) -> list[Case]:
    return [*read_cases(shared / "data" / "cel")]


def test_every_official_test_that_concerns_json_passes(cases: list[Case]) -> None:
    problems = [problem_of(case) for case in cases if reason_to_leave_out(case) is None]

    assert not [*filter(None, problems)], "\n".join(filter(None, problems))
    assert len(problems) == EXECUTED


def test_official_tests_are_left_out_for_these_reasons_only(cases: list[Case]) -> None:
    reasons = Counter(filter(None, map(reason_to_leave_out, cases)))

    assert reasons == LEFT_OUT
    assert sum(reasons.values()) + EXECUTED == len(cases)
