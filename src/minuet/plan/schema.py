"""JSON Schemas at compile time: of a node type's config and of the workflow's input.

References to other documents are never followed: a schema is data that somebody sent.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

import msgspec

from minuet.model.diagnostics import quote
from minuet.model.workflow import Node, Workflow
from minuet.plan.problems import Problems
from minuet.plan.text import has_template

#: Keywords that judge an object or list by itself, whatever its members will be rendered to.
SHALLOW = frozenset(
    {
        "type",
        "required",
        "additionalProperties",
        "minProperties",
        "maxProperties",
        "propertyNames",
        "minItems",
        "maxItems",
    }
)


def check_config(place: int, node: Node, schema: dict[str, Any], problems: Problems) -> None:
    """Check a node's config, except what templates will only give when they are rendered."""
    for error in _validator(msgspec.json.encode(schema)).iter_errors(node.config):
        where = tuple(error.instance_path)
        found = _follow(node.config, where)
        depends_on_text = isinstance(found, str) or error.kind.name not in SHALLOW
        if depends_on_text and has_template(found):
            continue
        problems.error(
            "bad-config",
            f"config of {node.type} node {quote(node.id)}: {error.message}",
            ("nodes", place, "config", *where),
        )


def check_input_schema(workflow: Workflow, problems: Problems) -> None:
    """Check that the schema of the workflow's input is one, and complete in itself."""
    if workflow.input is None:
        return
    import jsonschema_rs

    try:
        jsonschema_rs.validator_for(workflow.input, offline=True)
    except jsonschema_rs.ValidationError as error:
        problems.error(
            "bad-input-schema",
            f"the input's JSON Schema is not valid: {error.message}",
            ("input", *error.instance_path),
        )


@functools.lru_cache(maxsize=256)
def _validator(schema: bytes) -> Any:
    import jsonschema_rs

    return jsonschema_rs.validator_for(msgspec.json.decode(schema), offline=True)


def _follow(value: Any, path: Iterable[str | int]) -> Any:
    for key in path:
        value = value[key]
    return value
