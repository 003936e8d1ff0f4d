"""JSON Schemas at compile time: of a node type's config and of the workflow's input.

References to other documents are never followed, because schemas come from outside.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

import msgspec

from minuet.model.diagnostics import quote
from minuet.model.workflow import Node, Workflow
from minuet.plan.problems import Problems
from minuet.plan.schemawork import SchemaTooComplexError, SchemaWork
from minuet.plan.text import has_template
from minuet.types import Json

#: Up to this many checks, no exact count is needed: they take less than a second.
EASY_LOOKS_MAX = 20_000_000

#: Up to this many are counted one by one.
COUNTED_LOOKS_MAX = 500_000

#: Up to this many, every problem is listed.
ERRORS_LOOKS_MAX = 20_000

#: How many problems of an input are shown, and the length of each (it may quote the input).
PROBLEMS_MAX = 20
MESSAGE_LENGTH_MAX = 400

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
    """Check that the workflow's input schema is a valid and self-contained JSON Schema."""
    if workflow.input is None:
        return
    import jsonschema_rs

    try:
        SchemaWork(workflow.input)
        jsonschema_rs.validator_for(workflow.input, offline=True)
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
    """Say what is wrong with a run's input, in bounded time.

    A validator needs about 30 ns per check of a value, and a thousand times that for each problem
    that it reports. So the checks are counted before validation, and if there are many, only the
    first problem is reported.
    """
    encoded = msgspec.json.encode(schema)
    try:
        work = _work(encoded)
    except SchemaTooComplexError as error:
        # A plan made by an older version, which accepted such schemas.
        return [f"the input's JSON Schema cannot be used: {error}"]
    values = len(msgspec.json.encode(value)) // 2 + 1
    looks = values * work.looks_max if work.looks_max is not None else None
    if looks is None or looks > ERRORS_LOOKS_MAX:
        is_easy = looks is not None and looks <= EASY_LOOKS_MAX
        looks = work.count(value, COUNTED_LOOKS_MAX)
        if looks > COUNTED_LOOKS_MAX and not is_easy:
            return [
                f"the input's JSON Schema would need more than {COUNTED_LOOKS_MAX:,} checks for "
                "this input: make the input smaller, or the schema simpler"
            ]
    validator = _validator(encoded)
    if validator.is_valid(value):
        return []
    if looks <= ERRORS_LOOKS_MAX:
        errors = list(validator.iter_errors(value))
    elif work.has_alternatives:
        return ["it does not fit its JSON Schema, and is too large to say where"]
    else:
        errors = [_first_error(validator, value)]
    return [_describe(error) for error in errors[:PROBLEMS_MAX]]


@functools.lru_cache(maxsize=64)
def _work(schema: bytes) -> SchemaWork:
    return SchemaWork(msgspec.json.decode(schema))


def _first_error(validator: Any, value: Json) -> Any:
    import jsonschema_rs

    try:
        validator.validate(value)
    except jsonschema_rs.ValidationError as error:
        return error
    raise AssertionError("the validator contradicted itself")


def _describe(error: Any) -> str:
    where = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in error.instance_path)
    message = error.message
    if len(message) > MESSAGE_LENGTH_MAX:
        message = f"{message[: MESSAGE_LENGTH_MAX // 2]} … {message[-MESSAGE_LENGTH_MAX // 2 :]}"
    return f"{where.lstrip('.') or 'input'}: {message}"


@functools.lru_cache(maxsize=256)
def _validator(schema: bytes) -> Any:
    import jsonschema_rs

    return jsonschema_rs.validator_for(msgspec.json.decode(schema), offline=True)


def _follow(value: Any, path: Iterable[str | int]) -> Any:
    for key in path:
        value = value[key]
    return value
