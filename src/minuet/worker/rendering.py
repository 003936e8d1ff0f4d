"""What a node's templates and conditions see, and what its templates become."""

from __future__ import annotations

from minuet.bridge.programs import item_name
from minuet.bridge.values import encode_value
from minuet.conditions import METADATA
from minuet.nodes.spec import Call
from minuet.plan.plan import Node
from minuet.templates import compile_template
from minuet.types import Json
from minuet.worker.assignment import Assignment


def render_config(
    assignment: Assignment, node: Node, secrets: dict[str, Json] | None = None
) -> Json:
    """The node's config for this instance; with secrets in it, it must not be kept anywhere."""
    loaded = assignment.loaded
    assert loaded is not None
    config = assignment.config or loaded.config(node)
    if config.is_constant:
        return config.render({}, {})
    # What reaches the document's output says when it is due; what it is made of, its reads.
    is_output = node.id == loaded.program.plan.output_node
    outputs = assignment.reads() if is_output else assignment.outputs()
    variables = _template_variables(assignment)
    if secrets:
        variables["secrets"] = secrets
    return config.render(outputs, variables)


def render_slot_key(assignment: Assignment, node: Node, source: str) -> str:
    """The name of the slot that a node needs; "": none."""
    template = compile_template(source, item=item_name(node))
    key = template.render(assignment.outputs(), _template_variables(assignment))
    data = encode_value(key)
    return key or "" if isinstance(key, str | None) else data.decode()


def make_call(assignment: Assignment, node: Node, config: Json) -> Call:
    """What the node's type is called with."""
    inputs, grant = assignment.inputs(), assignment.grant
    return Call(
        config,
        inputs,
        assignment.input(),
        {**assignment.reads(), **inputs} if grant.reads else dict(inputs),
        grant.is_resumed,
        grant.timed_out,
        assignment.resolution(),
        node.extra,
        node.secrets,
        node.timeout_ms,
        grant.taken_ms,
        item_variables(assignment),
    )


def condition_variables(assignment: Assignment, node: Node) -> dict[str, Json]:
    """What the conditions of a node that has succeeded see."""
    if node.branch is None and node.loop is None:
        return {}
    if assignment.context is not None:
        # The handler may have changed what it was given; conditions see what is recorded.
        assignment.forget_values()
    outputs = assignment.outputs().items()
    ctx: dict[str, Json] = {name: {"output": output} for name, output in outputs}
    for name, found in assignment.metadata.items():
        ctx[name] = {**ctx.get(name, {}), METADATA: found}
    return {"ctx": ctx, "input": assignment.input(), "run": assignment.run_variable()}


def _template_variables(assignment: Assignment) -> dict[str, Json]:
    scope = assignment.undone_scope
    variables = item_variables(assignment)
    if variables:
        scope = scope[:-1]
    if assignment.facts.undoes:
        variables["output"] = assignment.undone_output()
    return {
        "input": assignment.input(),
        "run": assignment.run_variable(),
        "iteration": scope[-1] if scope else 0,
        **variables,
    }


def item_variables(assignment: Assignment) -> dict[str, Json]:
    """What only an item of a foreach sees."""
    if not assignment.facts.is_item:
        return {}
    return {"item": assignment.item(), "item_index": assignment.undone_scope[-1]}
