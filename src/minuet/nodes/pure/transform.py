"""`transform`: a value made of other values, by templates or by a CEL expression."""

from __future__ import annotations

from minuet.conditions import compile_expression
from minuet.errors import ExpressionError
from minuet.nodes.spec import Call, NodeType
from minuet.types import Json


def run(call: Call) -> Json:
    """Return the rendered `value`, or what `expression` evaluates to."""
    if "expression" not in call.config:
        return call.config.get("value")
    if "value" in call.config:
        raise ExpressionError("a transform has either `value` or `expression`, not both")
    ctx = {node: {"output": output} for node, output in call.outputs.items()}
    variables = {"input": call.input, "ctx": ctx, "output": call.inputs, **call.variables}
    return compile_expression(call.config["expression"]).evaluate(variables)


TRANSFORM = NodeType(
    name="transform",
    display_name="Transform",
    summary="Makes a value of other values.",
    description="`value` is any JSON with templates. `expression` is CEL; it sees `input`, "
    "`ctx.<node>.output` and `output` (the inputs, by dependency), and in a foreach `item` and "
    "`item_index`.",
    config_schema={
        "type": "object",
        "properties": {
            "value": {"description": "any JSON with templates"},
            "expression": {"type": "string", "description": "CEL"},
        },
        "additionalProperties": False,
        "oneOf": [{"required": ["value"]}, {"required": ["expression"]}],
    },
    expression_fields=("expression",),
    output="the rendered value",
    example={
        "id": "greeting",
        "type": "transform",
        "config": {"value": {"text": "Hello {{ input.name }}"}},
    },
    run=run,
)
