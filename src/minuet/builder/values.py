"""Python values as they stand in a document: references become templates, the rest plain JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from minuet.bridge.values import to_plain
from minuet.builder.places import refuse
from minuet.builder.references import Expression, Referable, tree_of
from minuet.builder.spelling import owners, spell_condition, spell_template
from minuet.errors import ConditionError, OutputError, TemplateError
from minuet.types import Json


def encode(value: Any, owner: object) -> Json:
    """A value of a document. References may be anywhere in lists and objects."""
    if isinstance(value, Expression):
        _check_owner(value, owner)
        return spell_template(tree_of(value))
    if isinstance(value, Referable):
        hint = f"write .output for what it returns: {value.id}.output"
        refuse("not-a-value", f"node {value.id!r} is not a value", hint)
    if isinstance(value, dict):
        return {encode_key(key): encode(item, owner) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [encode(item, owner) for item in value]
    try:
        return to_plain(value)
    except OutputError as error:
        hint = "use a JSON value or a reference; references may stand in lists and dicts"
        refuse("bad-value", str(error), hint)


def encode_key(key: Any) -> str:
    if not isinstance(key, str):
        refuse("bad-key", f"the key {key!r:.60} is not a string", "use text as the key")
    return key


def encode_condition(condition: Any, owner: object, node_id: str | None) -> Json:
    """A condition of a node: an expression over references, CEL text, or an object with a type.

    `node_id` is the node whose output is known when it is evaluated, if any.
    """
    if isinstance(condition, Expression):
        _check_owner(condition, owner)
        return spell_condition(tree_of(condition), node_id)
    if isinstance(condition, bool):
        return "true" if condition else "false"
    return encode(condition, owner)


def _check_owner(expression: Expression, owner: object) -> None:
    if not owners(tree_of(expression)) <= {id(owner)}:
        refuse(
            "foreign-reference",
            f"{expression!r} belongs to another workflow",
            "pass values between workflows as the input of a child (minuet.child)",
        )


def names_in_templates(value: Json, item: str = "item") -> frozenset[str]:
    """The nodes whose outputs the templates in a value read. The compiler reports broken ones.

    `item` is what the author calls the items of a foreach.
    """
    from minuet.templates import compile_template

    try:
        return compile_template(value, item=item).references
    except TemplateError:
        # The parts that are right still count.
        parts = value.values() if isinstance(value, dict) else value
        found = parts if isinstance(value, dict | list) else ()
        return frozenset(name for part in found for name in names_in_templates(part, item))


def names_in_conditions(conditions: Iterable[Json]) -> frozenset[str]:
    """The nodes whose outputs conditions read. The compiler reports broken ones."""
    from minuet.conditions import compile_condition

    return _names(conditions, compile_condition)


def names_in_expressions(expressions: Iterable[str]) -> frozenset[str]:
    """The nodes whose outputs CEL expressions read. The compiler reports broken ones."""
    from minuet.conditions import compile_expression

    return _names(expressions, compile_expression)


def _names(sources: Iterable[Any], compile_source: Callable[[Any], Any]) -> frozenset[str]:
    found: set[str] = set()
    for source in sources:
        try:
            found |= compile_source(source).references
        except ConditionError:
            continue
    return frozenset(found)
