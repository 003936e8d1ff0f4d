"""Why a node ran or was skipped: which node decided, by which rule, with which operands.

Only the outputs were recorded. The conditions are evaluated again on them.
"""

from __future__ import annotations

from typing import Any

import msgspec

from minuet.conditions import METADATA
from minuet.kernel.fold import Fold, TokenView
from minuet.kernel.metadata import metadata
from minuet.kernel.program import Program
from minuet.kernel.route import condition_variables, innermost
from minuet.kernel.scope import decode, encode, show
from minuet.plan.plan import Node, author_of
from minuet.types import Json, Scope

#: Characters of what an agent says about its choice.
REASONING_LENGTH_MAX = 300


class Reason(msgspec.Struct, frozen=True):
    """One decision that led to a skip."""

    text: str
    details: dict[str, Any] = {}


def explain_skip(program: Program, fold: Fold, node: Node, scope: Scope) -> list[Reason]:
    """Find every decision that kept live deliveries from an instance."""
    found: list[Reason] = []
    seen: set[tuple[str, Scope]] = set()
    waiting = [(node, scope)]
    while waiting:
        target, where = waiting.pop(0)
        for name in program.sources(target, where):
            source = program.nodes[name]
            token = _source_token(program, fold, source, target, where)
            # A source without a token will be skipped too.
            at = (0,) * len(source.nest) if token is None else decode(token.scope)
            if (name, at) in seen:
                continue
            seen.add((name, at))
            if token is None:
                waiting.append((source, at))
            elif token.skip:
                waiting.append((source, decode(token.scope)))
            else:
                found.append(_decision(program, fold, source, token, target))
    return found or [Reason("every arrival was skipped")]


def _source_token(
    program: Program, fold: Fold, source: Node, target: Node, scope: Scope
) -> TokenView | None:
    """The instance of a source that delivered to this instance of a target."""
    edge = next(edge for edge in source.edges if edge.target == target.id)
    if edge.roles == ("back",):
        # A back edge delivers from the previous iteration.
        at = program.loop_position(source)
        prefix = encode((*scope[:at], max(scope[at] - 1, 0)))
    else:
        prefix = encode(scope[: _common(source, target)])
    found = [
        token
        for token in fold.state.tokens.values()
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


def _decision(program: Program, fold: Fold, source: Node, token: TokenView, target: Node) -> Reason:
    """Why a node that ran did not send its output to a target."""
    name = f"{author_of(source.id)!r}{show(decode(token.scope))}"
    edge = next(edge for edge in source.edges if edge.target == target.id)
    if token.outcome == "failed":
        return Reason(f"{name} failed, and its on_error leads elsewhere")
    if edge.roles == ("error",):
        return Reason(f"{name} completed, and {author_of(target.id)!r} is only for its errors")
    if source.loop is not None:
        again = program.condition(source.loop.condition).explain(
            _variables(program, fold, source, token)
        )
        # A branch decides only when the loop's condition no longer holds.
        if again.get("result") or source.branch is None or edge.roles == ("timeout",):
            return _loop_decision(program, source, decode(token.scope), target, again)
    if source.branch is not None:
        return _branch_decision(program, fold, source, token, target)
    return Reason(f"{name} completed without choosing {author_of(target.id)!r}")


def _loop_decision(
    program: Program, source: Node, scope: Scope, target: Node, again: dict[str, Any]
) -> Reason:
    assert source.loop is not None
    if again.get("result"):
        ended = f"used up its {source.loop.max_iterations} iterations"
    else:
        number = scope[program.loop_position(source)] + 1
        ended = f"was left after iteration {number}, as its condition did not hold"
    return Reason(
        f"the loop at {source.id!r} {ended}; {author_of(target.id)!r} is its other way out",
        {"node": author_of(source.id), "scope": scope, "loop": again},
    )


def _branch_decision(
    program: Program, fold: Fold, source: Node, token: TokenView, target: Node
) -> Reason:
    assert source.branch is not None
    details: dict[str, Any] = {"node": author_of(source.id), "scope": decode(token.scope)}
    if source.branch.type == "agent_driven":
        words, chosen = _choice(source, token)
        text = f"{author_of(source.id)!r} did not choose {author_of(target.id)!r}, but {words}"
        return Reason(text, {**details, **chosen})
    variables = _variables(program, fold, source, token)
    rules, winner = [], "its default,"
    for number, rule in enumerate(source.branch.rules, 1):
        explained = program.condition(rule.condition).explain(variables)
        rules.append({"rule": number, "to": rule.targets, **explained})
        if explained.get("result"):
            winner = f"rule {number}, {explained['source']!r},"
            break
    wanted = author_of(target.id)
    failed = [_rule_text(explained) for explained in rules if wanted in explained["to"]]
    why = f" ({'; '.join(failed)})" if failed else ""
    return Reason(
        f"{source.id!r} followed {winner} which does not lead to {wanted!r}{why}",
        {**details, "rules": rules},
    )


def explain_run(program: Program, fold: Fold, node: Node, scope: Scope) -> list[Reason]:
    """The decisions of other nodes that led to an instance that ran."""
    found = []
    for name in program.sources(node, scope):
        source = program.nodes[name]
        token = _source_token(program, fold, source, node, scope)
        if token is not None and (token.state, token.outcome) == ("done", "completed"):
            found += _choices(program, fold, source, token, node.id)
    return found


def explain_choice(program: Program, fold: Fold, node: Node, token: TokenView) -> list[Reason]:
    """The decision that a completed node made itself."""
    return _choices(program, fold, node, token, None)


def _choices(
    program: Program, fold: Fold, node: Node, token: TokenView, target: str | None
) -> list[Reason]:
    """What a node's loop and branch decided. With a target: only if that led to it."""
    scope = decode(token.scope)
    name = f"{node.id!r}{show(scope)}"
    variables = _variables(program, fold, node, token)
    details: dict[str, Any] = {"node": node.id, "scope": scope}
    found: list[Reason] = []
    if node.loop is not None:
        again = program.condition(node.loop.condition).explain(variables)
        goes_on = bool(again.get("result"))
        number = scope[program.loop_position(node)] + 1
        most = node.loop.max_iterations
        end = f"the loop at {name} " + (
            f"goes on after iteration {number} of at most {most}"
            if goes_on and number < most
            else f"used up its {most} iterations"
            if goes_on
            else f"was left after iteration {number}"
        )
        found.append(Reason(f"{end}: {_rule_text(again)}", {**details, "loop": again}))
        if goes_on:
            return found
    if node.branch is not None and node.branch.type == "agent_driven":
        words, chosen = _choice(node, token)
        if target is None or author_of(target) in chosen["chosen"]:
            found.append(Reason(f"{name} chose {words}", {**details, **chosen}))
    elif node.branch is not None:
        found += _chosen_rule(program, node, name, variables, details, target)
    return found


def _choice(node: Node, token: TokenView) -> tuple[str, dict[str, Any]]:
    """What a node that chooses by its output has chosen, and why, in words and as data."""
    assert node.branch is not None
    output = None if token.output is None else msgspec.json.decode(token.output)
    given: dict[str, Any] = output if isinstance(output, dict) else {}
    wanted = given.get("next_nodes")
    if isinstance(wanted, list) and wanted:
        chosen, why = list(dict.fromkeys(wanted)), given.get("reasoning")
    else:
        chosen, why = list(node.branch.default), "it named none, and this is the default"
    names = ", ".join(map(repr, chosen)) or "nothing"
    because = f" ({why:.{REASONING_LENGTH_MAX}})" if isinstance(why, str) and why else ""
    return f"{names}{because}", {"chosen": chosen, "reasoning": given.get("reasoning")}


def _chosen_rule(
    program: Program,
    node: Node,
    name: str,
    variables: dict[str, Json],
    details: dict[str, Any],
    target: str | None,
) -> list[Reason]:
    assert node.branch is not None
    rules: list[dict[str, Any]] = []
    passed: list[Reason] = []
    for number, rule in enumerate(node.branch.rules, 1):
        explained = program.condition(rule.condition).explain(variables)
        rules.append({"rule": number, "to": rule.targets, **explained})
        if explained.get("result"):
            to, words = rule.targets, f"followed rule {number}: {_rule_text(explained)}"
            break
        passed.append(Reason(f"rule {number} of {name} did not match: {_rule_text(explained)}"))
    else:
        to, words = node.branch.default, "followed its default: no rule matched"
    if target is not None and author_of(target) not in to:
        return []
    leads = f", which leads to {', '.join(map(repr, to))}" if to else ""
    return [Reason(f"{name} {words}{leads}", {**details, "rules": rules}), *passed]


def _rule_text(explained: dict[str, Any]) -> str:
    """A condition, its result, and the parts and values that decided it."""
    held = "held" if explained.get("result") else "did not hold"
    outcome = f"failed: {explained['error']}" if "error" in explained else held
    parts = explained.get("parts", [])
    decided = [part for part in parts if part.get("result") is False]
    if len(parts) > 1 and decided and outcome == "did not hold":
        shown = "; ".join(f"{part['source']!r} is false{_with(part)}" for part in decided)
        return f"{explained['source']!r} {outcome}: {shown}"
    values = {name: value for part in parts for name, value in part.get("values", {}).items()}
    # Values that were read come first, then those computed from them.
    return (
        f"{explained['source']!r} {outcome}{_with({'values': {**explained['operands'], **values}})}"
    )


def _with(part: dict[str, Any]) -> str:
    values = ", ".join(f"{name} = {value!r}" for name, value in part.get("values", {}).items())
    return f" with {values}" if values else ""


def _variables(program: Program, fold: Fold, node: Node, token: TokenView) -> dict[str, Json]:
    """The variables that the node's conditions saw, as far as the state has them."""
    scope = decode(token.scope)
    prefixes = {
        name: scope[: _common(node, program.nodes[name])] for name in program.parents[node.id]
    }
    prefixes |= dict(program.reads(node, scope))
    ctx = {}
    for name, prefix in prefixes.items():
        completed = [
            other
            for other in fold.state.tokens.values()
            if other.node == name
            and other.output is not None
            and other.scope.startswith(encode(prefix))
        ]
        if completed:
            latest = max(completed, key=lambda other: other.scope)
            ctx[name] = {"output": _decode(latest.output), METADATA: _metadata(fold, latest)}
    variables = {
        "ctx": ctx,
        "input": _decode(fold.state.input),
        "run": {"workflow": fold.state.workflow, "generation": fold.state.generation},
    }
    seen = condition_variables(node, _decode(token.output), variables)
    seen["iteration"] = scope[program.loop_position(node)] if node.loop else innermost(scope)
    return seen


def _metadata(fold: Fold, token: TokenView) -> Json:
    detail = fold.details[token.node, token.scope]
    return metadata(
        taken_ms=detail.started_ms or 0, completed_ms=detail.ended_ms or 0, attempts=token.attempt
    )


def _decode(data: bytes | None) -> Json:
    return None if data is None else msgspec.json.decode(data)
