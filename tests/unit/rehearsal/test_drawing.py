"""Values for stubs: with the fields that a document reads, at the values where it decides."""

from __future__ import annotations

import random
from typing import Any

import jsonschema_rs
import pytest

from minuet.app.compiling import compile_source
from minuet.rehearsal.fields import INPUT, Shape, find_shapes
from minuet.rehearsal.values import draw_output, draw_schema


def shapes(*nodes: dict[str, Any]) -> dict[str, Shape]:
    return find_shapes(compile_source({"name": "w", "nodes": list(nodes)}).plan, {})


def below(text: str) -> dict[str, Any]:
    """A node that reads others by a template."""
    config = {"value": text}
    return {"id": "reader", "type": "transform", "dependencies": ["a"], "config": config}


A = {"id": "a", "handler": "a"}


@pytest.mark.parametrize(
    ("text", "path", "candidates"),
    [
        ("{{ a.name }}", ("name",), []),
        ("{{ a.output.user.name | upper }}", ("user", "name"), ["text", "other"]),
        ('{{ a["content-type"] }}', ("content-type",), []),
        ("{{ a.items | length }}", ("items",), [[], [1], [1, 2], [1, 2, 3]]),
        ("{{ a.items[1].price * 2 }}", ("items", 1, "price"), [0, 1, 7, 1000]),
        ("for {{ nodes['a'].output.total - 1 }} EUR", ("total",), [0, 1, 7, 1000]),
        ("{{ 'x' if a.kind == 'b' else 'y' }}", ("kind",), ["b", "other"]),
    ],
)
def test_what_a_template_reads_is_found(
    text: str, path: tuple[str | int, ...], candidates: list[Any]
) -> None:
    found = shapes(A, below(text))["a"]

    assert found.below(path).candidates == candidates
    assert found == _only(path, candidates)


def _only(path: tuple[str | int, ...], candidates: list[Any]) -> Shape:
    shape = Shape()
    shape.below(path).suggest(candidates)
    return shape


@pytest.mark.parametrize(
    ("condition", "path", "candidates"),
    [
        ("output.amount > 1000", ("amount",), [999, 1000, 1001]),
        ("1000 < output.amount", ("amount",), [999, 1000, 1001]),
        ('output.status == "ok"', ("status",), ["ok", "other"]),
        ("output.ok", ("ok",), [True, False]),
        ("!output.ok || iteration > 3", ("ok",), [True, False]),
        ('"a" in output.tags', ("tags",), [[], ["a"]]),
        ("output.items.size() > 0", ("items",), [[], [1]]),
        ("size(output.items) >= 2", ("items",), [[], [1], [1, 2], [1, 2, 3]]),
        ('output.name.startsWith("x")', ("name",), ["text", "other"]),
        ("output.score >= 0.5", ("score",), [0.5 * 0.9, 0.5, 0.5 * 1.1 + 0.1]),
        ("output.?limit.orValue(0) > 1", ("limit",), []),
    ],
)
def test_a_decision_is_drawn_on_both_sides(
    condition: str, path: tuple[str, ...], candidates: list[Any]
) -> None:
    rule = {"when": condition, "next_nodes": ["b"]}
    node = {**A, "branch": {"rules": [rule], "default": ["c"]}}

    found = shapes(node, {"id": "b", "type": "noop"}, {"id": "c", "type": "noop"})["a"]

    assert found.below(path).candidates == candidates


def test_a_decision_node_is_looked_through() -> None:
    rule = {"when": "output.a.total > 5 && input.big", "next_nodes": ["b"]}
    decision = {"id": "d", "type": "decision", "dependencies": ["a"]}

    found = shapes(
        A, {**decision, "branch": {"rules": [rule], "default": []}}, {"id": "b", "type": "noop"}
    )

    assert found["a"].below(("total",)).candidates == [4, 5, 6]
    assert found[INPUT].below(("big",)).candidates == [True, False]


def test_a_stub_of_which_nothing_is_read_returns_an_object() -> None:
    assert isinstance(draw_output(random.Random(1), Shape()), dict)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "required": ["a"], "properties": {"a": {"type": "integer"}}},
        {"type": "integer", "minimum": 3, "maximum": 4},
        {"type": "integer", "exclusiveMinimum": 3, "exclusiveMaximum": 6},
        {"type": "integer", "minimum": 10, "multipleOf": 5, "maximum": 95},
        {"type": "number", "minimum": 0, "maximum": 1},
        {"type": "string", "minLength": 12, "maxLength": 14},
        {"type": "string", "maxLength": 1},
        {"type": "array", "minItems": 2, "maxItems": 3, "items": {"enum": ["x", "y"]}},
        {
            "type": "array",
            "prefixItems": [{"type": "integer"}, {"type": "string"}],
            "items": False,
            "minItems": 2,
        },
        {"type": "object", "additionalProperties": {"type": "integer"}},
        {"anyOf": [{"const": 5}, {"type": "null"}]},
        {"allOf": [{"type": "object"}, {"required": ["b"], "properties": {"b": {"const": 1}}}]},
        {"$ref": "#/$defs/T", "$defs": {"T": {"type": ["boolean", "string"]}}},
        {
            "$ref": "#/$defs/Tree",
            "$defs": {
                "Tree": {
                    "type": "object",
                    "properties": {"below": {"type": "array", "items": {"$ref": "#/$defs/Tree"}}},
                }
            },
        },
    ],
)
def test_what_is_drawn_fits_its_schema(schema: dict[str, Any]) -> None:
    validator = jsonschema_rs.validator_for(schema)

    for seed in range(50):
        value = draw_schema(random.Random(seed), schema)
        assert validator.is_valid(value), value
