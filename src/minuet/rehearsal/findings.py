"""Findings: what the author should know about the workflow. Each names a seed that shows it."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from minuet.kernel.program import targets
from minuet.plan.plan import FLOW, Node, Plan, author_of
from minuet.rehearsal.handlers import Start
from minuet.rehearsal.stage import LET_FAIL, Seen, StageSetup
from minuet.rehearsal.watch import Turn, all_turns
from minuet.store.records import HOLD_WAIT

#: An error makes a run fail or hang. A warning deserves a look.
Severity: TypeAlias = Literal["error", "warning"]

#: Why a handler ran again, by how its previous start ended. The worst reason comes first.
_AGAIN = {
    "returned": "it had returned, but its worker died or lost the lease before the commit",
    "running": "its worker died or froze while it ran",
    "stopped": "a timeout, a lost lease or a drain stopped it while it ran",
    "raised": "it failed and was retried",
}


class Finding(msgspec.Struct):
    """Something that the author should know."""

    severity: Severity
    code: str
    node: str
    message: str
    hint: str = ""
    #: The first seed that shows it. None: it concerns all seeds.
    seed: int | None = None
    #: How many seeds show it.
    seeds: int = 0


class Findings:
    """Collects findings, seed by seed."""

    def __init__(self, setup: StageSetup) -> None:
        self._setup = setup
        self._found: dict[tuple[str, ...], Finding] = {}
        self._ranks: dict[tuple[str, ...], int] = {}
        self.turns: set[Turn] = set()
        self._rule_errors: dict[Turn, str] = {}

    def add(self, seen: Seen) -> None:
        """Add what one seed showed."""
        self.turns |= seen.turns
        self._rule_errors.update(seen.rule_errors)
        self._add_engine(seen)
        self._add_failure(seen)
        self._add_repeated(seen)
        for limit, node, message in seen.limits:
            finding = Finding("warning", "limit", node, f"{limit} is reached: {message}")
            self._note(seen, finding, limit)

    def _note(self, seen: Seen, finding: Finding, *key: str, rank: int = 0) -> None:
        """Count a finding. Of the seeds that show it, name the first one of the lowest rank."""
        finding.node = author_of(finding.node)
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
                "this is a bug in Minuet, not in the workflow: please report it, with the "
                "document and the seed",
            )
            self._note(seen, finding, seen.broken.id)
        if seen.too_long:
            finding = Finding(
                "warning",
                "too-long",
                "",
                "the run is too long to simulate it to its end",
                "give loops a smaller max_iterations, or pass an input with less to do",
            )
            self._note(seen, finding)

    def _add_failure(self, seen: Seen) -> None:
        # What somebody let fail was held: the document says what happens to it.
        if seen.failed is not None and seen.failed[1].get("code") != LET_FAIL:
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
                f"the run does not end: nothing happens for ten minutes ({nodes})",
                "give the node a `timeout_seconds`",
            )
            self._note(seen, finding)

        for wait in seen.waits:
            node, _, what = wait.partition(": ")
            if what.startswith(f"{HOLD_WAIT} "):
                finding = Finding(
                    "warning",
                    "waits",
                    node,
                    "the node failed and is held, and the run waits until somebody decides",
                    "have somebody look at `minuet dlq list`, or at the webhook "
                    "`dead_letter.created`",
                )
                self._note(seen, finding)
                continue
            finding = Finding(
                "warning",
                "waits",
                node,
                f"the run waits for {what}, and nothing ends the wait if it does not come",
                "give the node a `timeout_seconds`, and say with `on_error` what follows",
            )
            self._note(seen, finding)

    def _failure_hint(self, node: str, code: str) -> str:
        if code.startswith("exceeded_max"):
            return "raise the limit, or make the workflow do less"
        if code in ("rejected", "approval_timeout"):
            return "say with `rejection_path: [node]` what follows a rejection"
        if code == "signal_timeout":
            return "say with `on_error: [node]` what follows if the signal does not come"
        if code == "loop_exhausted":
            return "give the loop a `timeout_path`, or more `max_iterations`"
        functions = self._setup.functions
        if functions.functions and node in self._function_nodes:
            if code == "replay-mismatch":
                return "what a function uses must come from a step or from ctx"
            drawn = "; what tasks return was drawn by their annotations: --handlers runs them"
            drawn = "" if functions.are_real else drawn
            return f"catch the exception in the function, if the run should go on{drawn}"
        is_data = code in ("template-error", "condition-error", "handler-error")
        if is_data and self._has_stubs():
            return (
                "outputs were drawn at random; if your handlers never return such outputs, run "
                "them (--handlers), or annotate what they return and add --stubs"
            )
        if self._setup.draws_input and (is_data or not self._has_stubs()):
            return (
                "the input was drawn at random; if it is not realistic, pass one with -i, or add "
                "an `input` schema"
            )
        if node == self._setup.program.plan.output_node:
            return "use `default` in the document's `output` for values that may be missing"
        return "if the run should continue, use `on_error: continue` or `on_error: [node]`"

    @property
    def _function_nodes(self) -> set[str]:
        nodes = self._setup.program.plan.nodes
        return {author_of(node.id) for node in nodes if node.type == FLOW}

    def _has_stubs(self) -> bool:
        return any(not role.is_real for role in self._setup.roles.values())

    def _add_repeated(self, seen: Seen) -> None:
        for node, starts in seen.repeated:
            role = self._setup.roles[node]
            if role.effects in ("none", "idempotent"):
                continue
            rank, why = _why_again(starts)
            known = role.task or role.node_type
            declared = "@minuet.task" if role.node.handler else "@minuet.node_type"
            once = ', although it declares effects="once"' if role.effects == "once" else ""
            finding = Finding(
                "warning",
                "repeated",
                node,
                f"{role.name} ran {_times(starts)} for one instance{once}: {why}",
                "pass ctx.idempotency_key to the receiver, so that it can ignore repeated calls, "
                f'and declare {declared}(effects="idempotent"); or declare effects="none" if the '
                "handler changes nothing"
                + ("" if known else "; --handlers FILE --stubs reads declarations"),
            )
            self._note(seen, finding, rank=rank)
        for repeated in seen.repeated_steps:
            if repeated.effects in ("none", "idempotent"):
                continue
            rank, why = _why_again(repeated.starts)
            once = ', although it declares effects="once"' if repeated.effects == "once" else ""
            name = repeated.step.partition("#")[0]
            finding = Finding(
                "warning",
                "repeated",
                repeated.node,
                f"step {name!r} ran {_times(repeated.starts)} for one call{once}: {why}",
                "pass ctx.idempotency_key to the receiver, so that it can ignore repeated calls, "
                'and declare @minuet.task(effects="idempotent"); or declare effects="none" if the '
                "task changes nothing",
            )
            self._note(seen, finding, name, rank=rank)

    def __len__(self) -> int:
        return len(self._found)

    def in_order(self, *, with_turns: bool) -> list[Finding]:
        """All findings, errors first. `with_turns`: also the turns that no seed took."""
        plan = self._setup.program.plan
        found = list(self._found.values())
        if with_turns:
            found += never_taken(plan, self.turns, self._rule_errors)
        order = {node.id: number for number, node in enumerate(plan.nodes)}
        return sorted(found, key=lambda f: (f.severity, f.code, order.get(f.node, -1), f.message))


def _times(starts: list[Start]) -> str:
    return "twice" if len(starts) == 2 else f"{len(starts)} times"


def _why_again(starts: list[Start]) -> tuple[int, str]:
    """The worst reason why a handler ran again, and its rank."""
    reasons = list(_AGAIN)
    rank = min(reasons.index(start.ended) for start in starts[:-1])
    return rank, _AGAIN[reasons[rank]]


def never_taken(plan: Plan, taken: set[Turn], rule_errors: dict[Turn, str]) -> list[Finding]:
    """Turns that no seed took. Nodes that only a reported turn leads to are not reported."""
    missing = [turn for turn in all_turns(plan) if turn not in taken]
    nodes = {node.id: node for node in plan.nodes}
    found, behind = [], set()
    for turn in missing:
        if turn.kind != "node" and Turn("node", turn.node) in taken:
            message, targets = _describe(nodes[turn.node], turn)
            if targets:
                message += f", so it never went to {', '.join(targets)}"
                behind |= set(targets)
            hint = "no output led there"
            if turn.kind == "error":
                hint = "the node never failed"
            elif turn in rule_errors:
                hint = f"the rule could not be evaluated: {rule_errors[turn]}"
            found.append(Finding("warning", "never-taken", turn.node, message, hint))
    for turn in missing:
        if turn.kind == "node" and turn.node not in behind:
            found.append(Finding("warning", "never-reached", turn.node, "no seed reached it"))
    return found


def _describe(node: Node, turn: Turn) -> tuple[str, tuple[str, ...]]:
    """Describe a turn that was not taken, and name the nodes that it leads to."""
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
