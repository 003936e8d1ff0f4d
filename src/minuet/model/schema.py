"""The JSON Schema of a workflow document, for editors, generated from the table.

It describes what the reader accepts, including all spellings. Only the reader and the compiler
check what a schema cannot express (references, contradictions).
"""

from __future__ import annotations

from typing import Any

import msgspec

from minuet.model.field_types import FieldType
from minuet.model.fields import Field, ObjectType
from minuet.model.table import WORKFLOW


def document_schema() -> dict[str, Any]:
    """Generate the JSON Schema (2020-12) of a workflow document."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Minuet workflow",
        **_definition(WORKFLOW),
        "$defs": {part.title: _definition(part) for part in parts() if part is not WORKFLOW},
    }


def parts() -> list[ObjectType]:
    """All parts of a document, outermost first."""
    found: dict[str, ObjectType] = {}
    waiting: list[FieldType] = [WORKFLOW]
    while waiting:
        kind = waiting.pop(0)
        if isinstance(kind, ObjectType):
            if kind.title in found:
                continue
            found[kind.title] = kind
        waiting.extend(kind.kinds())
    return list(found.values())


def _definition(part: ObjectType) -> dict[str, Any]:
    properties = {name: _property(field, name) for field in part.fields for name in field.spellings}
    rules = [rule for field in part.fields for rule in _rules(field)]
    definition: dict[str, Any] = {"type": "object", "properties": properties}
    if rules:
        definition["allOf"] = rules
    return definition | {"additionalProperties": False}


def _property(field: Field, name: str) -> dict[str, Any]:
    about = field.about if name == field.name else f"Another spelling of `{field.name}`."
    described = {"description": about, **field.spellings[name].schema()}
    if name == field.name and has_default(field):
        described["default"] = field.kind.dump(field.default)
    return described


def has_default(field: Field) -> bool:
    """Whether the field has a default value."""
    is_unset = field.helper or field.required or field.default is None
    return not is_unset and not isinstance(field.default, msgspec.Struct)


def _rules(field: Field) -> list[dict[str, Any]]:
    names = list(field.spellings)
    if field.required:
        rule = "anyOf" if len(names) == 1 else "oneOf"
        return [{rule: [{"required": [name]} for name in names]}]
    return [
        {"not": {"required": [first, second]}}
        for index, first in enumerate(names)
        for second in names[index + 1 :]
    ]
