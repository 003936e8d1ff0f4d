"""Where a node's output goes: static dependents, branch, loop.

A loop decides first. If its condition is false, it breaks, and the branch (or the break path and
the static dependents) decides where to go. If it is true and iterations are left, it goes back. If
none are left, it takes the timeout path, or fails if there is none.

A branch replaces the static dependents. A rule that cannot be evaluated is noted and counts as
not matching. A loop condition that cannot be evaluated fails the node, because neither continuing
nor stopping would be right.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from minuet.errors import ConditionError
from minuet.kernel.program import Program, targets
from minuet.plan.plan import Node, item_id
from minuet.types import Json, Scope

#: The node type of people, and the codes of a run that fails because of what they decided.
HUMAN = "human"
REJECTED = "rejected"
TIMED_OUT = "approval_timeout"


class Routing(msgspec.Struct, frozen=True, gc=False):
    """The targets that get a live delivery. All other forward edges deliver a skip."""

    live: tuple[str, ...] = ()
    #: The loop continues: only its back edge delivers.
    back: bool = False
    #: Which rule decided what, for the history.
    notes: list[Any] | None = None
    #: The node fails although its handler succeeded.
    error: dict[str, Any] | None = None


def route(
    program: Program, node: Node, scope: Scope, output: Json, variables: Mapping[str, Json]
) -> Routing:
    """Choose where the output of a completed node goes."""
    asking = None
    if node.type == HUMAN or node.foreach is not None:
        asking = asking_node(program, node)
    if asking is not None and not is_approved(output):
        return _rejected(node, asking, output)
    if node.loop is None and node.branch is None:
        return Routing(program.static_targets(node))
    seen = condition_variables(node, output, variables)
    seen["iteration"] = scope[program.loop_position(node)] if node.loop else innermost(scope)
    if node.loop is not None:
        try:
            again = program.condition(node.loop.condition).evaluate(seen)
        except ConditionError as error:
            return Routing(
                error={
                    "code": error.code,
                    "message": f"the condition of the loop at {node.id!r} failed: {error}",
                }
            )
        if again:
            return _go_on(node, int(seen["iteration"]))
    if node.branch is not None:
        return _branch(program, node, output, seen)
    return Routing(targets(node, "static", "break"), notes=[{"loop": "break"}])


def asking_node(program: Program, node: Node) -> Node | None:
    """The human node whose decisions a node's output is: itself, or the items that it gathers."""
    if node.type == HUMAN:
        return node
    if node.foreach is None or node.foreach.role != "gather":
        return None
    item = program.nodes[item_id(node.id)]
    return item if item.type == HUMAN else None


def is_approved(output: Json) -> bool:
    """Whether people have approved; of a foreach, all that they were asked."""
    if isinstance(output, list):
        return all(map(is_approved, output))
    return isinstance(output, dict) and output.get("decision") == "approve"


def _rejected(node: Node, asking: Node, output: Json) -> Routing:
    """Where a decision leads that is not an approval."""
    if isinstance(output, list):
        output = next(one for one in output if not is_approved(one))
    decision = output if isinstance(output, dict) else {}
    notes: list[Any] = [{"decision": decision.get("decision")}]
    path = targets(node, "reject")
    if path or (asking.extra.get("human_config") or {}).get("on_reject") == "complete":
        return Routing(path, notes=notes)
    says = f": {decision['comments']}" if decision.get("comments") else ""
    if decision.get("decision") == "timeout":
        return Routing(error={"code": TIMED_OUT, "message": f"nobody decided in time{says}"})
    message = f"{decision.get('decided_by')} rejected{says}"
    fields = ("decision", "comments", "data", "decided_by", "decided_at")
    details = {name: decision.get(name) for name in fields}
    return Routing(error={"code": REJECTED, "message": message, "details": details})


def condition_variables(node: Node, output: Json, variables: Mapping[str, Json]) -> dict[str, Json]:
    """The variables of a node's conditions: those given, and its own output."""
    ctx = dict(variables.get("ctx") or {})
    ctx[node.id] = {"output": output}
    return {**variables, "output": output, "ctx": ctx}


def innermost(scope: Scope) -> int:
    """The number that `iteration` means for a node: that of the innermost construct around it."""
    return scope[-1] if scope else 0


def _go_on(node: Node, iteration: int) -> Routing:
    assert node.loop is not None
    if iteration + 1 < node.loop.max_iterations:
        return Routing(back=True, notes=[{"loop": "again", "iteration": iteration + 1}])
    if node.loop.has_timeout_path:
        return Routing(targets(node, "timeout"), notes=[{"loop": "timeout"}])
    return Routing(
        error={
            "code": "loop_exhausted",
            "message": f"the loop at {node.id!r} still asks for another round after "
            f"{node.loop.max_iterations}, and has no timeout_path",
        }
    )


def _branch(program: Program, node: Node, output: Json, seen: Mapping[str, Json]) -> Routing:
    assert node.branch is not None
    if node.branch.type == "agent_driven":
        return _agent_choice(node, output)
    notes: list[Any] = []
    for number, rule in enumerate(node.branch.rules):
        try:
            holds = program.condition(rule.condition).evaluate(seen)
        except ConditionError as error:
            notes.append({"rule": number, "error": str(error)})
            continue
        if holds:
            return Routing(rule.targets, notes=[*notes, {"rule": number, "to": rule.targets}])
    return Routing(node.branch.default, notes=[*notes, {"default": node.branch.default}])


def _agent_choice(node: Node, output: Json) -> Routing:
    """The node's output names its next nodes. It may choose only from those it was offered."""
    assert node.branch is not None
    chosen = output.get("next_nodes") if isinstance(output, dict) else None
    if not isinstance(chosen, list) or not chosen:
        return Routing(node.branch.default, notes=[{"default": node.branch.default}])
    for name in chosen:
        if name not in node.branch.available:
            return Routing(
                error={
                    "code": "unauthorized_route",
                    "message": f"agent tried to route to unauthorized node: {name}",
                }
            )
    return Routing(tuple(dict.fromkeys(chosen)), notes=[{"chosen": chosen}])


def route_failure(node: Node) -> Routing | None:
    """Where a failed node leads, by its `on_error`. None: nowhere, the run fails."""
    if node.on_error == "fail":
        return None
    if node.on_error == "path":
        return Routing(targets(node, "error"), notes=[{"on_error": "path"}])
    if node.branch is not None:
        return Routing(node.branch.default, notes=[{"on_error": "continue"}])
    return Routing(targets(node, "static", "break"), notes=[{"on_error": "continue"}])
