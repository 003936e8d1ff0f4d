"""Why a node got no live delivery: who decided so, by which rule, with which operands.

Nothing was recorded for this but the outputs; the conditions are evaluated again on them.
"""

from __future__ import annotations

from typing import Any

import msgspec

from minuet.kernel.fold import State, TokenView
from minuet.kernel.program import Program
from minuet.kernel.route import condition_variables, innermost
from minuet.kernel.scope import decode, encode, show
from minuet.plan.plan import Node
from minuet.types import Json, Scope


class Because(msgspec.Struct, frozen=True):
    """One decision on the way to a skip."""

    text: str
    details: dict[str, Any] = {}


def explain_skip(program: Program, state: State, node: Node, scope: Scope) -> list[Because]:
    """Find every decision that kept live deliveries from an instance."""
    found: list[Because] = []
    seen: set[tuple[str, Scope]] = set()
    waiting = [(node, scope)]
    while waiting:
        target, where = waiting.pop(0)
        for name in program.sources(target, where):
            source = program.nodes[name]
            token = _source_token(program, state, source, target, where)
            if token is None or (name, decode(token.scope)) in seen:
                continue
            seen.add((name, decode(token.scope)))
            if token.skip:
                waiting.append((source, decode(token.scope)))
            else:
                found.append(_decision(program, state, source, token, target))
    return found or [Because("every arrival was skipped")]


def _source_token(
    program: Program, state: State, source: Node, target: Node, scope: Scope
) -> TokenView | None:
    """The instance of a source that delivered to this instance of a target."""
    common = _common(source, target)
    prefix = encode(scope[:common])
    found = [
        token
        for token in state.tokens.values()
        if token.node == source.id and token.scope.startswith(prefix)
    ]
    return max(found, key=lambda token: token.scope, default=None)


def _common(one: Node, other: Node) -> int:
    """How many constructs enclose both nodes."""
    count = 0
    for mine, theirs in zip(one.nest, other.nest, strict=False):
        if mine != theirs:
            break
        count += 1
    return count


def _decision(
    program: Program, state: State, source: Node, token: TokenView, target: Node
) -> Because:
    """Why a node that ran did not send its output to a target."""
    name = f"{source.id!r}{show(decode(token.scope))}"
    edge = next(edge for edge in source.edges if edge.target == target.id)
    if token.outcome == "failed":
        return Because(f"{name} failed, and its on_error leads elsewhere")
    if edge.roles == ("error",):
        return Because(f"{name} completed, and {target.id!r} is only for its errors")
    if source.loop is not None:
        again = program.condition(source.loop.condition).explain(
            _variables(program, state, source, token)
        )
        # A branch decides only when the loop's condition does not hold any more.
        if again.get("result") or source.branch is None or edge.roles == ("timeout",):
            return _loop_decision(program, source, decode(token.scope), target, again)
    if source.branch is not None:
        return _branch_decision(program, state, source, token, target)
    return Because(f"{name} completed without choosing {target.id!r}")


def _loop_decision(
    program: Program, source: Node, scope: Scope, target: Node, again: dict[str, Any]
) -> Because:
    assert source.loop is not None
    if again.get("result"):
        ended = f"used up its {source.loop.max_iterations} iterations"
    else:
        number = scope[program.loop_position(source)] + 1
        ended = f"was left after iteration {number}, as its condition did not hold"
    return Because(
        f"the loop at {source.id!r} {ended}; {target.id!r} is its other way out",
        {"node": source.id, "scope": scope, "loop": again},
    )


def _branch_decision(
    program: Program, state: State, source: Node, token: TokenView, target: Node
) -> Because:
    assert source.branch is not None
    details: dict[str, Any] = {"node": source.id, "scope": decode(token.scope)}
    if source.branch.type == "agent_driven":
        return Because(f"{source.id!r} did not choose {target.id!r}", details)
    variables = _variables(program, state, source, token)
    rules, winner = [], "its default,"
    for number, rule in enumerate(source.branch.rules):
        told = program.condition(rule.condition).explain(variables)
        rules.append({"rule": number, "to": rule.targets, **told})
        if told.get("result"):
            winner = f"rule {number}, {told['source']!r},"
            break
    failed = [_rule_text(told) for told in rules if target.id in told["to"]]
    why = f" ({'; '.join(failed)})" if failed else ""
    return Because(
        f"{source.id!r} followed {winner} which does not lead to {target.id!r}{why}",
        {**details, "rules": rules},
    )


def _rule_text(told: dict[str, Any]) -> str:
    """A condition, what came of it, and the parts and values that made it so."""
    outcome = f"failed: {told['error']}" if "error" in told else "did not hold"
    parts = told.get("parts", [])
    decided = [part for part in parts if part.get("result") is False]
    if len(parts) > 1 and decided and "error" not in told:
        shown = "; ".join(f"{part['source']!r} is false{_with(part)}" for part in decided)
        return f"{told['source']!r} {outcome}: {shown}"
    values = {name: value for part in parts for name, value in part.get("values", {}).items()}
    # The values of what is read come first, those of what was made of them after it.
    return f"{told['source']!r} {outcome}{_with({'values': {**told['operands'], **values}})}"


def _with(part: dict[str, Any]) -> str:
    values = ", ".join(f"{name} = {value!r}" for name, value in part.get("values", {}).items())
    return f" with {values}" if values else ""


def _variables(program: Program, state: State, node: Node, token: TokenView) -> dict[str, Json]:
    """What the node's conditions saw, as far as the state knows it."""
    scope = decode(token.scope)
    prefixes = {
        name: scope[: _common(node, program.nodes[name])] for name in program.parents[node.id]
    }
    prefixes |= dict(program.reads(node, scope))
    ctx = {}
    for name, prefix in prefixes.items():
        outputs = [
            (other.scope, other.output)
            for other in state.tokens.values()
            if other.node == name
            and other.output is not None
            and other.scope.startswith(encode(prefix))
        ]
        if outputs:
            ctx[name] = {"output": _decode(max(outputs)[1])}
    variables = {
        "ctx": ctx,
        "input": _decode(state.input),
        "run": {"workflow": state.workflow, "generation": state.generation},
    }
    seen = condition_variables(node, _decode(token.output), variables)
    seen["iteration"] = scope[program.loop_position(node)] if node.loop else innermost(scope)
    return seen


def _decode(data: bytes | None) -> Json:
    return None if data is None else msgspec.json.decode(data)
