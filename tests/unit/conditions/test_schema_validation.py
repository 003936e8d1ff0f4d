"""Conditions that hold if the output fits a JSON Schema."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from minuet.conditions import compile_condition
from minuet.errors import ConditionError

#: The seeds' own schema.
SCHEMA = {
    "type": "object",
    "required": ["status", "data"],
    "properties": {
        "status": {"const": "success"},
        "data": {"type": "array", "minItems": 1},
    },
}
FITS = {"status": "success", "data": [1]}
OTHERS = [{"status": "failed", "data": [1]}, {"status": "success", "data": []}, {}, 5, None]
REF = "cas://sha256:schema123"


def decide(source: dict[str, Any], output: Any, **blobs: bytes) -> bool:
    condition = compile_condition(
        {"type": "schema_validation", **source}, blobs={REF: blobs["blob"]} if blobs else {}
    )
    return condition.evaluate({"output": output})


@pytest.mark.shows("F-13", "F-15")
def test_output_fits_or_does_not() -> None:
    assert decide({"schema": SCHEMA}, FITS) is True
    assert decide({"schema": SCHEMA, "invert": True}, FITS) is False
    for other in OTHERS:
        assert decide({"schema": SCHEMA}, other) is False
        assert decide({"schema": SCHEMA, "invert": True}, other) is True


@pytest.mark.shows("F-14")
def test_schema_may_come_from_a_blob() -> None:
    blob = msgspec.json.encode(SCHEMA)

    assert decide({"schema_ref": REF}, FITS, blob=blob) is True
    assert decide({"schema_ref": REF}, {}, blob=blob) is False
    assert compile_condition({"type": "schema_validation", "schema_ref": REF}).blobs == {REF}


def test_reference_to_nothing_fails_when_it_is_read() -> None:
    condition = compile_condition({"type": "schema_validation", "schema_ref": REF})

    with pytest.raises(ConditionError, match=f"there is no blob {REF}"):
        condition.evaluate({"output": {}})


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({}, "needs a 'schema' or a 'schema_ref'"),
        ({"schema": {}, "schema_ref": REF}, "needs a 'schema' or a 'schema_ref'"),
        ({"schema": 5}, "a schema is an object"),
        ({"schema": {"type": "strin"}}, "not a valid JSON Schema"),
        ({"schema": {}, "invert": "yes"}, "'invert' is true or false"),
        ({"schema": {}, "inverted": True}, "has no 'inverted'"),
        ({"schema_ref": "file:///etc/passwd"}, "the reference of a blob"),
        ({"schema": {"$ref": "http://127.0.0.1:1/x.json"}}, ""),
        ({"schema": {"$ref": "file:///etc/passwd"}}, ""),
    ],
)
def test_condition_of_the_wrong_form_is_an_error(source: Any, message: str) -> None:
    with pytest.raises(ConditionError) as caught:
        compile_condition({"type": "schema_validation", **source})

    assert message in str(caught.value)


@pytest.mark.parametrize("blob", [b"{", b"5", b'{"type": "strin"}'])
def test_blob_that_is_not_a_schema_is_an_error(blob: bytes) -> None:
    with pytest.raises(ConditionError, match="schema"):
        decide({"schema_ref": REF}, {}, blob=blob)


def test_schema_that_multiplies_itself_is_refused() -> None:
    definitions: dict[str, Any] = {
        f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(30)
    }
    schema = {"$ref": "#/$defs/d0", "$defs": {**definitions, "d30": {"type": "string"}}}

    with pytest.raises(ConditionError, match="cannot be used"):
        compile_condition({"type": "schema_validation", "schema": schema})


def test_explanation_lists_what_does_not_fit() -> None:
    condition = compile_condition({"type": "schema_validation", "schema": SCHEMA})

    told = condition.explain({"output": {"status": "failed"}})

    assert told["result"] is False
    assert any("status" in problem for problem in told["operands"]["problems"])
    assert any("data" in problem for problem in told["operands"]["problems"])
