"""What the seeds show, told to the author: findings, each with a seed that shows it."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from minuet.kernel.program import targets
from minuet.plan.plan import Node, Plan
from minuet.rehearsal.handlers import Start
from minuet.rehearsal.stage import Seen, Setting
from minuet.rehearsal.watch import Turn, all_turns

#: An error makes a run fail or hang; a warning wants to be looked at.
Severity: TypeAlias = Literal["error", "warning"]

#: Why a handler ran again, by what became of the start before; the worst first.
_AGAIN = {
    "returned": "it had returned, and its worker died or lost the lease before the commit",
    "running": "its worker died or stood still in the middle of it",
    "stopped": "it was stopped in the middle by a timeout, a lost lease or a drain",
    "raised": "it failed and was retried",
}


class Finding(msgspec.Struct):
    """Something that the author should know."""

    severity: Severity
    code: str
    node: str
    message: str
    hint: str = ""
    #: The first seed that shows it; None: it is about all of them.
    seed: int | None = None
    #: How many seeds show it.
    seeds: int = 0


class Findings:
    """Collects, seed by seed."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._found: dict[tuple[str, ...], Finding] = {}
        self._ranks: dict[tuple[str, ...], int] = {}
        self.turns: set[Turn] = set()
        self._rule_errors: dict[Turn, str] = {}

    def add(self, seen: Seen) -> None:
        """One more seed."""
        self.turns |= seen.turns
        self._rule_errors.update(seen.rule_errors)
        self._add_engine(seen)
        self._add_failure(seen)
        self._add_repeated(seen)
        for limit, node, message in seen.limits:
            finding = Finding("warning", "limit", node, f"{limit} is reached: {message}")
            self._note(seen, finding, limit)

    def _note(self, seen: Seen, finding: Finding, *key: str, rank: int = 0) -> None:
        """Count a finding; of the seeds that show it, the first of the best rank is named."""
        place = (finding.code, finding.node, *key)
        known = self._found.get(place)
        finding.seed, finding.seeds = seen.seed, 1
        if known is not None:
            finding.seeds = known.seeds + 1
            if rank >= self._ranks[place]:
                known.seeds += 1
                return
        self._found[place] = finding
        self._ranks[place] = rank

    def _add_engine(self, seen: Seen) -> None:
        if seen.broken is not None:
            finding = Finding(
                "error",
                "engine",
                "",
                f"Minuet itself broke one of its rules: {seen.broken}",
                "this is a bug of Minuet, not of the workflow: please report it, with the "
                "document and the seed",
            )
            self._note(seen, finding, seen.broken.id)
        if seen.too_long:
            finding = Finding(
                "warning",
                "too-long",
                "",
                "the run is too long to be simulated to its end",
                "give loops a smaller max_iterations, or an input with less to do",
            )
            self._note(seen, finding)

    def _add_failure(self, seen: Seen) -> None:
        if seen.failed is not None:
            node, error = seen.failed
            kind, message = error.get("type"), str(error.get("message"))
            text = f"{kind}: {message}" if kind and kind not in message else message
            finding = Finding(
                "error",
                "unhandled-failure",
                node,
                f"the run fails: {text}",
                self._failure_hint(node, str(error.get("code"))),
            )
            self._note(seen, finding, str(error.get("code")), str(kind))
        if seen.hangs:
            nodes = ", ".join(seen.hangs)
            finding = Finding(
                "error",
                "hang",
                seen.hangs[0].partition(":")[0],
                f"the run does not end: for ten minutes nothing happens ({nodes})",
                "give the node a `timeout_seconds`",
            )
            self._note(seen, finding)

    def _failure_hint(self, node: str, code: str) -> str:
        if code.startswith("exceeded_max"):
            return "raise the limit, or let the workflow do less"
        if code == "loop_exhausted":
            return "give the loop a `timeout_path`, or more `max_iterations`"
        is_data = code in ("template-error", "condition-error", "handler-error")
        if is_data and self._has_stubs():
            return (
                "outputs were drawn; if they cannot be so, run the handlers (--handlers), or "
                "annotate what they return and add --stubs"
            )
        if self._setting.draws_input and (is_data or not self._has_stubs()):
            return "the input was drawn; if it cannot be so, give one with -i, or an `input` schema"
        if node == self._setting.program.plan.output_node:
            return "use `default` in the document's `output` for what may be missing"
        return "handle it with `on_error: continue` or `on_error: [node]`, if the run shall go on"

    def _has_stubs(self) -> bool:
        return any(not role.is_real for role in self._setting.roles.values())

    def _add_repeated(self, seen: Seen) -> None:
        for node, starts in seen.repeated:
            role = self._setting.roles[node]
            if role.effects in ("none", "idempotent"):
                continue
            rank, why = _why_again(starts)
            times = "twice" if len(starts) == 2 else f"{len(starts)} times"
            once = ', although it declares effects="once"' if role.effects == "once" else ""
            finding = Finding(
                "warning",
                "repeated",
                node,
                f"handler {role.node.handler!r} ran {times} for one instance{once}: {why}",
                "let the receiver tell repetitions by ctx.idempotency_key and declare "
                '@minuet.task(effects="idempotent"), or effects="none" if it changes nothing'
                + ("" if role.task else "; --handlers FILE --stubs reads declarations"),
            )
            self._note(seen, finding, rank=rank)

    def __len__(self) -> int:
        return len(self._found)

    def in_order(self, *, with_turns: bool) -> list[Finding]:
        """All of them, errors first; `with_turns`: also what no seed has done."""
        plan = self._setting.program.plan
        found = list(self._found.values())
        if with_turns:
            found += never_taken(plan, self.turns, self._rule_errors)
        order = {node.id: number for number, node in enumerate(plan.nodes)}
        return sorted(found, key=lambda f: (f.severity, f.code, order.get(f.node, -1), f.message))


def _why_again(starts: list[Start]) -> tuple[int, str]:
    """The worst reason for which a handler ran again."""
    reasons = list(_AGAIN)
    rank = min(reasons.index(start.ended) for start in starts[:-1])
    return rank, _AGAIN[reasons[rank]]


def never_taken(plan: Plan, taken: set[Turn], rule_errors: dict[Turn, str]) -> list[Finding]:
    """Turns that no seed has taken; nodes behind a turn that is told are not told as well."""
    missing = [turn for turn in all_turns(plan) if turn not in taken]
    nodes = {node.id: node for node in plan.nodes}
    found, behind = [], set()
    for turn in missing:
        if turn.kind != "node" and Turn("node", turn.node) in taken:
            message, targets = _describe(nodes[turn.node], turn)
            if targets:
                message += f", so it never went to {', '.join(targets)}"
                behind |= set(targets)
            hint = "no output was seen that leads there"
            if turn.kind == "error":
                hint = "the node never failed"
            elif turn in rule_errors:
                hint = f"the rule could not be evaluated: {rule_errors[turn]}"
            found.append(Finding("warning", "never-taken", turn.node, message, hint))
    for turn in missing:
        if turn.kind == "node" and turn.node not in behind:
            found.append(Finding("warning", "never-reached", turn.node, "it was never reached"))
    return found


def _describe(node: Node, turn: Turn) -> tuple[str, tuple[str, ...]]:
    """A turn that was not taken, and where it would have led."""
    if turn.kind == "rule":
        assert node.branch is not None
        rule = node.branch.rules[int(turn.which)]
        return f"rule {int(turn.which) + 1} ({_text(rule.condition)}) never decided", rule.targets
    if turn.kind == "default":
        assert node.branch is not None
        return "the branch never took its default", node.branch.default
    if turn.kind == "error":
        return "its on_error was never needed", targets(node, "error")
    if turn.which == "again":
        return "the loop never went round again", ()
    if turn.which == "timeout":
        return "the loop never took its timeout_path", targets(node, "timeout")
    return "the loop was never left by its condition", targets(node, "break")


def _text(condition: Any) -> str:
    if isinstance(condition, dict) and isinstance(condition.get("expression"), str):
        return str(condition["expression"])
    return condition if isinstance(condition, str) else msgspec.json.encode(condition).decode()
