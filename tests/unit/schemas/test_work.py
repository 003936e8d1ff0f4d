"""An input's JSON Schema takes bounded time, whatever schema and input are."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minuet.plan.schema import find_input_problems
from minuet.schemas import COUNTED_LOOKS_MAX, SchemaTooComplexError
from minuet.schemas.work import SchemaWork


def chain(length: int, link: Any, end: Any) -> dict[str, Any]:
    """Definitions of which each leads to the next one."""
    definitions = {f"d{n}": link({"$ref": f"#/$defs/d{n + 1}"}) for n in range(length)}
    return {"$ref": "#/$defs/d0", "$defs": {**definitions, f"d{length}": end}}


def twice(word: str) -> Any:
    return lambda following: {word: [following, following]}


def nested(levels: int, end: Any) -> Any:
    value = end
    for _ in range(levels):
        value = {"a": value}
    return value


@pytest.mark.parametrize("word", ["anyOf", "oneOf", "allOf"])
@pytest.mark.parametrize("length", [31, 20])
def test_definitions_that_double_each_other_are_refused(word: str, length: int) -> None:
    with pytest.raises(SchemaTooComplexError, match="checks of one value"):
        SchemaWork(chain(length, twice(word), {"type": "string"}))


@pytest.mark.parametrize(
    "link",
    [lambda to: to, lambda to: {"allOf": [to]}, lambda to: {"anyOf": [to]}],
    ids=["ref", "allOf", "anyOf"],
)
def test_long_chain_of_references_is_refused(link: Any) -> None:
    with pytest.raises(SchemaTooComplexError, match="more than 50 references"):
        SchemaWork(chain(2_000, link, {"type": "string"}))


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"anyOf": [{"type": "string"}, {"$ref": "#"}]},
        {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
    ],
)
def test_reference_that_goes_round_in_one_place_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(SchemaTooComplexError, match="refers to itself"):
        SchemaWork(schema)


def test_very_large_schema_is_refused() -> None:
    with pytest.raises(SchemaTooComplexError, match="10,000 subschemas"):
        SchemaWork({"properties": {str(n): {} for n in range(10_001)}})


@pytest.mark.parametrize(
    "reference", ["#/$defs/nowhere", "#nowhere", "https://example.com/schema", "other.json"]
)
def test_reference_to_somewhere_else_is_refused(reference: str) -> None:
    with pytest.raises(SchemaTooComplexError, match="leads nowhere"):
        SchemaWork({"properties": {"a": {"$ref": reference}}})


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/$defs/x~1y%25", "$defs": {"x/y%": {"type": "string"}}},
        {"$ref": "#name", "$defs": {"x": {"$anchor": "name"}}},
        {"$id": "https://example.com/a", "$ref": "b", "$defs": {"x": {"$id": "b"}}},
        {"$id": "https://example.com/a", "properties": {"a": {"$ref": "#"}}},
        {"allOf": [{"$ref": "#/$defs/l/1"}], "$defs": {"l": [{}, {"type": "string"}]}},
        {"properties": {"a": {"$dynamicRef": "#n"}}, "$dynamicAnchor": "n"},
        {"properties": {"id": {"type": "string"}, "a": {"id": "x", "$ref": "#/$defs/d"}},
         "$defs": {"d": {}}},
    ],
)  # fmt: skip
def test_references_inside_the_schema_are_followed(schema: dict[str, Any]) -> None:
    assert SchemaWork(schema).looks_max is not None


def test_deep_input_that_doubles_at_each_level_is_refused() -> None:
    schema = {"anyOf": [{"properties": {"a": {"$ref": "#"}}}] * 2}

    assert find_input_problems(schema, nested(5, {})) == []
    (problem,) = find_input_problems(schema, nested(60, {}))
    assert "more than 500,000 checks" in problem


def test_definitions_that_double_level_by_level_are_counted_by_the_input() -> None:
    schema = chain(
        31, lambda to: {"anyOf": [{"properties": {"a": to}}, {"properties": {"a": to}}]}, {}
    )

    assert SchemaWork(schema).looks_max is None
    assert find_input_problems(schema, nested(8, 1)) == []
    (problem,) = find_input_problems(schema, nested(31, 1))
    assert "more than 500,000 checks" in problem


@pytest.mark.slow
def test_large_input_of_a_plain_schema_is_checked_in_full() -> None:
    schema = {"properties": {"xs": {"type": "array", "items": {"type": "integer"}}}}
    numbers: list[Any] = list(range(COUNTED_LOOKS_MAX + 1))

    assert find_input_problems(schema, {"xs": numbers}) == []
    numbers[-1] = "no number"
    assert find_input_problems(schema, {"xs": numbers}) == [
        f'xs[{COUNTED_LOOKS_MAX}]: "no number" is not of type "integer"'
    ]


@pytest.mark.slow
def test_many_wrong_values_among_alternatives_are_not_listed() -> None:
    schema = {"items": {"anyOf": [{"type": "integer"}, {"type": "null"}]}}

    assert find_input_problems(schema, ["x"] * 100_000) == [
        "it does not fit its JSON Schema, and is too large to say where"
    ]
    assert len(find_input_problems(schema, ["x"] * 30)) == 20


def test_a_problem_does_not_quote_all_of_the_input() -> None:
    (problem,) = find_input_problems({"type": "integer"}, "x" * 100_000)

    assert len(problem) < 500
    assert problem.startswith('input: "xxx')
    assert problem.endswith('is not of type "integer"')


# Against a count that walks.

NAMES = ["a", "b"]
REFERENCES = st.sampled_from(NAMES).map(lambda name: {"$ref": f"#/$defs/{name}"})
SCHEMAS = st.recursive(
    REFERENCES | st.just({"type": "string"}) | st.booleans(),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "anyOf": st.lists(inner, min_size=1, max_size=3),
            "allOf": st.lists(inner, min_size=1, max_size=2),
            "not": inner,
            "properties": st.dictionaries(st.sampled_from(NAMES), inner, max_size=2),
            "additionalProperties": inner,
            "items": inner,
            "prefixItems": st.lists(inner, min_size=1, max_size=2),
        },
    ),
    max_leaves=6,
)
VALUES = st.recursive(
    st.just(1),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*NAMES, "c"]), inner, max_size=3)
    ),
    max_leaves=8,
)


def walk(schema: Any, root: dict[str, Any], value: Any) -> int:
    if not isinstance(schema, dict):
        return 0
    count = 1
    if "$ref" in schema:
        count += walk(root["$defs"][schema["$ref"].rpartition("/")[2]], root, value)
    for inner in (*schema.get("anyOf", ()), *schema.get("allOf", ()), schema.get("not")):
        count += walk(inner, root, value)
    named = schema.get("properties", {})
    for name, item in value.items() if isinstance(value, dict) else ():
        count += walk(named.get(name, schema.get("additionalProperties")), root, item)
    first = schema.get("prefixItems", [])
    for number, item in enumerate(value) if isinstance(value, list) else ():
        count += walk(first[number] if number < len(first) else None, root, item)
        count += walk(schema.get("items"), root, item)
    return count


def size(value: Any) -> int:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(size, parts))


@given(st.fixed_dictionaries({"a": SCHEMAS, "b": SCHEMAS}), SCHEMAS, VALUES)
def test_counting_agrees_with_walking(definitions: Any, schema: Any, value: Any) -> None:
    root = {"$defs": definitions, "allOf": [schema]}
    try:
        work = SchemaWork(root)
    except SchemaTooComplexError:
        return
    walked = walk(root, root, value)

    assert walked <= work.count(value, 10**9) <= walked + size(value)
    assert work.looks_max is None or walked <= work.looks_max * size(value)
