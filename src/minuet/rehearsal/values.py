"""Draw values that fit a JSON Schema, or that have the fields that a document reads."""

from __future__ import annotations

import random
from typing import Any

from minuet.rehearsal.fields import Shape
from minuet.types import Json

#: How deep a schema is followed. Below that, optional parts are left out.
DEPTH_MAX = 6

_FORMATS = {
    "date-time": "2026-01-02T03:04:05Z",
    "date": "2026-01-02",
    "time": "03:04:05Z",
    "email": "a@example.org",
    "uri": "https://example.org/a",
    "uuid": "01234567-89ab-4def-8123-456789abcdef",
}


def draw_shape(chance: random.Random, shape: Shape) -> Json:
    """Draw a value that has the parts that are read."""
    if shape.fields:
        return {name: draw_shape(chance, part) for name, part in sorted(shape.fields.items())}
    if shape.items is not None:
        length = shape.index + 1 + chance.randrange(2)
        return [draw_shape(chance, shape.items) for _ in range(length)]
    return chance.choice(shape.candidates) if shape.candidates else draw_any(chance)


def draw_any(chance: random.Random) -> Json:
    """Draw a value about which nothing is known."""
    return chance.choice((0, 1, 7, 1000, "text", "other"))


def draw_output(chance: random.Random, shape: Shape) -> Json:
    """What a stub returns: an object, unless the document reads something else."""
    if shape.fields or shape.items is not None or shape.candidates:
        return draw_shape(chance, shape)
    return {"value": draw_any(chance)}


def overlay(value: Json, drawn: Json) -> Json:
    """Merge two values: what the schema requires, and what the document reads."""
    if not (isinstance(value, dict) and isinstance(drawn, dict)):
        return drawn
    return {
        **value,
        **{key: overlay(value[key], new) if key in value else new for key, new in drawn.items()},
    }


def draw_schema(chance: random.Random, schema: Any, root: Any = None, depth: int = 0) -> Json:
    """Draw a value that fits a schema, as far as its keywords are supported."""
    root = schema if root is None else root
    if not isinstance(schema, dict):
        return draw_any(chance)
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return chance.choice(schema["enum"])
    if "$ref" in schema:
        target = _resolve(root, schema["$ref"])
        return draw_schema(chance, target, root, depth + 1) if depth < 3 * DEPTH_MAX else None
    for word in ("anyOf", "oneOf"):
        if schema.get(word):
            return draw_schema(chance, chance.choice(schema[word]), root, depth + 1)
    for part in schema.get("allOf", ()):
        schema = {**schema, **(part if isinstance(part, dict) else {})}
    kind = schema.get("type") or _implied(schema)
    if isinstance(kind, list):
        kind = chance.choice(kind)
    match kind:
        case "object":
            return _draw_object(chance, schema, root, depth)
        case "array":
            first = schema.get("prefixItems", ())
            if first:
                return [draw_schema(chance, part, root, depth + 1) for part in first]
            least = schema.get("minItems", 0)
            most = min(schema.get("maxItems", least + 2), least + 3)
            length = least if depth >= DEPTH_MAX else chance.randint(least, max(least, most))
            return [
                draw_schema(chance, schema.get("items"), root, depth + 1) for _ in range(length)
            ]
        case "integer" | "number":
            return _draw_number(chance, schema, whole=kind == "integer")
        case "string":
            return _draw_text(chance, schema)
        case "boolean":
            return chance.random() < 0.5
        case "null":
            return None
        case _:
            return draw_any(chance)


def _implied(schema: dict[str, Any]) -> str:
    if "properties" in schema or "required" in schema:
        return "object"
    return "array" if "items" in schema else ""


def _resolve(root: Any, reference: str) -> Any:
    found = root
    for key in reference.removeprefix("#").strip("/").split("/"):
        if key:
            found = found.get(key) if isinstance(found, dict) else None
    return found


def _draw_object(chance: random.Random, schema: dict[str, Any], root: Any, depth: int) -> Json:
    properties = schema.get("properties", {})
    required = schema.get("required", [])
    optional = [
        name
        for name in properties
        if name not in required and depth < DEPTH_MAX and chance.random() < 0.7
    ]
    return {
        name: draw_schema(chance, properties.get(name), root, depth + 1)
        for name in [*required, *optional]
    }


def _draw_number(chance: random.Random, schema: dict[str, Any], *, whole: bool) -> Json:
    low = schema.get("minimum", schema.get("exclusiveMinimum", 0))
    high = schema.get("maximum", schema.get("exclusiveMaximum", max(low, 0) + 1000))
    if not whole:
        return chance.uniform(low, high)
    low = int(low) + ("exclusiveMinimum" in schema and "minimum" not in schema)
    high = int(high) - ("exclusiveMaximum" in schema and "maximum" not in schema)
    step = schema.get("multipleOf", 1)
    number = chance.choice((low, high, chance.randint(low, max(low, high))))
    return (
        number - number % step
        if isinstance(step, int) and number - number % step >= low
        else number
    )


def _draw_text(chance: random.Random, schema: dict[str, Any]) -> str:
    if schema.get("format") in _FORMATS:
        return _FORMATS[schema["format"]]
    text = chance.choice(("text", "other", "a"))
    least, most = int(schema.get("minLength", 0)), int(schema.get("maxLength", 9))
    return (text * (least // len(text) + 1))[: max(least, min(len(text), most))]
