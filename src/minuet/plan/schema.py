"""JSON Schemas at compile time: of a node type's config and of the workflow's input.

References to other documents are never followed, because schemas come from outside.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from minuet.model.diagnostics import quote
from minuet.model.workflow import Node, Workflow
from minuet.plan.policy import agent_fields
from minuet.plan.problems import Problems
from minuet.plan.text import has_template
from minuet.schemas import MESSAGE_LENGTH_MAX, SchemaTooComplexError, compile_schema
from minuet.types import Json, Path

#: Keywords that apply to an object or list no matter what its members are rendered to.
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
    """Check a node's config, except values that templates provide only when rendered."""
    told = agent_fields(node)
    for where, message in find_config_problems({**node.config, **told}, schema):
        part = "agent_config" if where and where[0] in told else "config"
        problems.error(
            "bad-config",
            f"config of {node.type} node {quote(node.id)}: {message}",
            ("nodes", place, part, *where),
        )


def find_config_problems(
    config: dict[str, Json] | None, schema: dict[str, Any]
) -> Iterator[tuple[Path, str]]:
    """What is wrong with a config that has templates: where, and what."""
    for error in compile_schema(msgspec.json.encode(schema)).iter_errors(config):
        where = tuple(error.instance_path)
        found = _follow(config, where)
        depends_on_text = isinstance(found, str) or error.kind.name not in SHALLOW
        if not (depends_on_text and has_template(found)):
            yield where, _described(schema, tuple(error.schema_path), found) or error.message


def _described(schema: Any, path: tuple[str | int, ...], found: Json) -> str | None:
    """What a value is not, if the schema says in words what its pattern means."""
    if path[-1:] != ("pattern",):
        return None
    text = _follow(schema, path[:-1]).get("description")
    return f"{found!r:.100} is not {text}" if text else None


def check_input_schema(workflow: Workflow, problems: Problems) -> None:
    """Check that the workflow's input schema is a valid and self-contained JSON Schema."""
    if workflow.input is None:
        return
    import jsonschema_rs

    try:
        compile_schema(msgspec.json.encode(workflow.input))
    except SchemaTooComplexError as error:
        problems.error(
            "bad-input-schema",
            f"the input's JSON Schema cannot be used: {error}",
            ("input", *error.path),
            hint="split it up, or check the rest in a node",
        )
    except jsonschema_rs.ValidationError as error:
        problems.error(
            "bad-input-schema",
            f"the input's JSON Schema is not valid: {error.message[:MESSAGE_LENGTH_MAX]}",
            ("input", *error.instance_path),
        )


def find_input_problems(schema: dict[str, Any], value: Json) -> list[str]:
    """Say what is wrong with a run's input, in bounded time."""
    try:
        return compile_schema(msgspec.json.encode(schema)).find_problems(value, "input")
    except SchemaTooComplexError as error:
        # A plan made by an older version, which accepted such schemas.
        return [f"the input's JSON Schema cannot be used: {error}"]


def _follow(value: Any, path: Iterable[str | int]) -> Any:
    for key in path:
        value = value[key]
    return value
