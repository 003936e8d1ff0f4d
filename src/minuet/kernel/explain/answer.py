"""Why a node has not run, or why it is in its state.

`explain` looks at one instance of a node: the named one (`node[2]`), or else the one that
waits for arrivals, or else the latest. Missing arrivals are traced to their causes (`cause`),
skipped ones to the decision (`because`). `facts` are what only the store knows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import msgspec

from minuet.errors import NodeNotFoundError
from minuet.events import Place
from minuet.kernel.explain.skip import Reason, explain_choice, explain_run, explain_skip
from minuet.kernel.explain.undo import explain_undo
from minuet.kernel.explain.waiting import Causes, Fact
from minuet.kernel.fold import Detail, Fold, JoinView, TokenView
from minuet.kernel.lifecycle import NodeStatus
from minuet.kernel.program import Program
from minuet.kernel.scope import decode, encode, read_reference, show
from minuet.kernel.view import ALL_SKIPPED, NodeView, node_views, token_status, wait_view
from minuet.plan.plan import HIDDEN, Node, author_of, item_id, items_id
from minuet.types import TERMINAL, Scope

#: How many existing instances are listed when the requested one does not exist.
INSTANCES_LISTED_MAX = 10


class Missing(msgspec.Struct, frozen=True):
    """A parent whose delivery has not arrived."""

    node: str
    status: NodeStatus
    reason: str


class Explanation(msgspec.Struct, frozen=True):
    """The answer: as one sentence, as several, and as data."""

    node: str
    scope: Scope
    status: NodeStatus
    summary: str
    reasons: tuple[str, ...] = ()
    missing: tuple[Missing, ...] = ()
    details: dict[str, Any] = {}


def explain(
    program: Program, fold: Fold, node_id: str, *, facts: Mapping[Place, Fact] | None = None
) -> Explanation:
    """Say why a node or an instance is in its state. NodeNotFoundError if it does not exist."""
    node, scope = find_node(program, node_id)
    answer = _Inquiry(program, fold, facts or {}).answer(node, scope)
    undone = explain_undo(program, fold, answer.node, answer.scope, answer.status, facts or {})
    if undone:
        return msgspec.structs.replace(answer, reasons=(*answer.reasons, undone))
    return answer


def find_node(program: Program, text: str) -> tuple[Node, Scope | None]:
    """The named node, and its instance if one is named. NodeNotFoundError if there is none."""
    name, scope = read_reference(text)
    node = program.nodes.get(name)
    if node is None or HIDDEN in name:
        known = [name for name in program.nodes if HIDDEN not in name]
        close = get_close_matches(name, known, 1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise NodeNotFoundError(f"the run has no node {name!r}{hint}")
    return node, scope


def no_instance(node: str, scope: Scope, known: Sequence[str]) -> NodeNotFoundError:
    """The error for an instance that does not exist. It lists those that do."""
    more = "… " if len(known) > INSTANCES_LISTED_MAX else ""
    listed = f"it has {more}{', '.join(known[-INSTANCES_LISTED_MAX:])}" if known else "it has none"
    return NodeNotFoundError(f"node {node!r} has no instance {show(scope)}; {listed}")


class _Inquiry:
    """One question, and everything needed to answer it."""

    def __init__(self, program: Program, fold: Fold, facts: Mapping[Place, Fact]) -> None:
        self.program, self.fold = program, fold
        self.state, self.details = fold.state, fold.details
        #: What the run is, or will be again when it has been undone.
        self._status = fold.state.ends_as or fold.state.status
        self.facts = facts
        leased = frozenset(place for place, fact in facts.items() if fact.get("state") == "leased")
        self.views = node_views(program, fold.state, fold.details, leased)
        self.causes = Causes(program, fold, self.views, facts)

    def answer(self, node: Node, wanted: Scope | None) -> Explanation:
        if node.foreach is not None:
            node, wanted = self._part(node, wanted)
        if wanted is not None:
            return self._answer_one(node, wanted)
        view = self.views[author_of(node.id)]
        if view.status == "SKIPPED" and view.reason == ALL_SKIPPED and not view.instances:
            return self._will_be_skipped(node)
        scope = self._waiting_join(node)
        if scope is not None:
            return self._lacks_arrivals(node, scope)
        if view.instances:
            return self._has_token(node, self.state.tokens[node.id, encode(view.scope)])
        if self.state.status in ("RUNNING", "PAUSED"):
            return self._lacks_arrivals(node, (0,) * len(node.nest))
        name = author_of(node.id)
        return Explanation(name, (), view.status, f"{name!r} {self._never(view)}")

    def _part(self, node: Node, wanted: Scope | None) -> tuple[Node, Scope | None]:
        """Which part of a node with a foreach to look at: an item if one is named, otherwise the
        node that gathers, or the list if the run has not got further."""
        nodes, depth = self.program.nodes, len(node.nest)
        if wanted is not None and len(wanted) == depth + 1:
            return nodes[item_id(node.id)], wanted
        if wanted is None:
            scopes = [decode(t.scope) for t in self.state.tokens.values() if _is_list_of(t, node)]
            wanted = max(scopes, default=None)
        if wanted is None:
            return nodes[items_id(node.id)], None
        place = (node.id, encode(wanted))
        reached = place in self.state.tokens or place in self.state.joins
        return (node if reached else nodes[items_id(node.id)]), wanted

    def _answer_one(self, node: Node, scope: Scope) -> Explanation:
        place = (node.id, encode(scope))
        if place in self.state.tokens:
            return self._has_token(node, self.state.tokens[place])
        if place in self.state.joins and self._status not in TERMINAL:
            return self._lacks_arrivals(node, scope)
        name = author_of(node.id)
        known = [f"{name}{show(one.scope)}" for one in self.views[name].instances]
        raise no_instance(name, scope, known)

    # ── no token ────────────────────────────────────────────────────────────────────────

    def _will_be_skipped(self, node: Node) -> Explanation:
        """The answer if only skips can still reach the node."""
        scope = (0,) * len(node.nest)
        because = explain_skip(self.program, self.fold, node, scope)
        return Explanation(
            author_of(node.id),
            scope,
            "SKIPPED",
            f"{author_of(node.id)!r} will be skipped: {because[0].text}",
            tuple(each.text for each in because[1:]),
            details={"decisions": [each.details for each in because if each.details]},
        )

    def _waiting_join(self, node: Node) -> Scope | None:
        """The latest instance that has some of its arrivals, while the run is open."""
        if self._status in TERMINAL:
            return None
        scopes = [
            decode(scope)
            for (name, scope), join in self.state.joins.items()
            if name == node.id and not join.fired
        ]
        return max(scopes, default=None)

    def _never(self, view: NodeView) -> str:
        """Why a node has no token in a run that is not open."""
        if view.status == "PENDING":
            return "waits: the run has not started"
        if view.reason == "not_reached":
            return "was never reached: a join did not wait for the path that leads to it"
        if view.reason == "upstream_failed":
            return f"will not run: a node above it failed, and {self._end_of_run()}"
        return f"was not reached before the run ended: {self._end_of_run()}"

    def _end_of_run(self) -> str:
        error = self.state.error or {}
        if self._status == "FAILED":
            name = author_of(error.get("node") or "")
            return f"node {name!r} failed: {error.get('message', '')}"
        why = error.get("code", "cancelled")
        return "it was cancelled" if why == "cancelled" else f"it was cancelled ({why})"

    def _lacks_arrivals(self, node: Node, scope: Scope) -> Explanation:
        join = self.state.joins.get((node.id, encode(scope)))
        arrived = join.sources if join is not None else {}
        if join is not None and node.foreach is not None and node.foreach.role == "gather":
            return self._lacks_items(node, scope, join)
        need, total = self.program.arrivals(node, scope)
        missing = tuple(
            Missing(
                author_of(name),
                self.views[author_of(name)].status,
                self.causes.silence(name, node.id),
            )
            for name in self.program.sources(node, scope)
            if name not in arrived
        )
        silent = [f"{parent.node!r} {parent.reason}" for parent in missing]
        silent_nodes = [n for n in self.program.sources(node, scope) if n not in arrived]
        causes = self.causes.find(silent_nodes, node.id)
        wanted = f"all {total} arrivals" if need == total else f"{need} of {total} arrivals"
        names = ", ".join(repr(parent.node) for parent in missing)
        reasons = [f"it needs {wanted}"] if total > 1 else []
        reasons += [f"{author_of(n)!r} arrived {_live(live)}" for n, live in arrived.items()]
        reasons += silent
        reasons += [cause for cause in causes if cause not in reasons]
        if self.state.status == "PAUSED":
            reasons.append("the run is paused")
        name = author_of(node.id)
        return Explanation(
            name,
            scope,
            "PENDING",
            f"{name!r}{show(scope)} waits for {names}: {'; '.join((causes or silent)[:3])}",
            tuple(reasons),
            missing,
            {"need": need, "total": total, "arrived": dict(arrived)},
        )

    def _lacks_items(self, node: Node, scope: Scope, join: JoinView) -> Explanation:
        """The answer if the list is known and items are still to come."""
        count, completed, failed = join.total - 1, join.live - 1, join.skipped
        causes = self.causes.find([item_id(node.id)], node.id)
        each = node.foreach
        wanted = f"{each.need} of {count}" if each is not None and each.need else f"all {count}"
        reasons = [f"it needs {wanted} items", f"{completed} have completed"]
        reasons += [f"{failed} have failed"] if failed else []
        return Explanation(
            node.id,
            scope,
            self.views[node.id].status,
            f"{node.id!r}{show(scope)} waits for its items, {completed + failed} of {count} are "
            f"done: {'; '.join(causes[:3])}",
            (*reasons, *causes),
            details={"items": count, "completed": completed, "failed": failed},
        )

    # ── a token ─────────────────────────────────────────────────────────────────────────

    def _has_token(self, node: Node, token: TokenView) -> Explanation:
        place, scope = (node.id, token.scope), decode(token.scope)
        status = token_status(token, leased=self.facts.get(place, {}).get("state") == "leased")
        detail = self.details.get(place) or Detail()
        reasons: list[str] = []
        details: dict[str, Any] = {
            "attempt": token.attempt,
            "max_attempts": node.retry.max_attempts,
            **self.facts.get(place, {}),
        }
        if token.skip and detail.decided == "skip":
            phrase = f"{'was' if token.outcome else 'is being'} skipped{_decision(detail)}"
        elif token.skip:
            because = explain_skip(self.program, self.fold, node, scope)
            phrase = f"{'was' if token.outcome else 'is being'} skipped: {because[0].text}"
            reasons += [each.text for each in because[1:]]
            details["decisions"] = [each.details for each in because if each.details]
        elif token.outcome:
            phrase = self._end_phrase(node, token, detail)
            because = self._decisions(node, token)
            reasons += [each.text for each in because]
            if because:
                details["decisions"] = [each.details for each in because if each.details]
        else:
            phrase = self.causes.phrase(token)
            waiting_for = wait_view(token, detail)
            if waiting_for is not None:
                details["waiting_for"] = msgspec.to_builtins(waiting_for)
            if self.state.status == "PAUSED":
                reasons.append("the run is paused: nothing is handed out")
        if detail.error is not None:
            reasons.append(f"its error: {detail.error.get('message', detail.error)}")
            details["error"] = detail.error
        if detail.notes:
            details["notes"] = [_count_from_one(note) for note in detail.notes]
        name = author_of(node.id)
        summary = f"{name!r}{show(scope)} {phrase}"
        return Explanation(name, scope, status, summary, tuple(reasons), details=details)

    def _decisions(self, node: Node, token: TokenView) -> list[Reason]:
        """The decisions that led to an instance that ran, and its own."""
        led = explain_run(self.program, self.fold, node, decode(token.scope))
        if (token.state, token.outcome) != ("done", "completed"):
            return led
        return led + explain_choice(self.program, self.fold, node, token)

    def _end_phrase(self, node: Node, token: TokenView, detail: Detail) -> str:
        if token.outcome == "completed" and token.given:
            return f"completed with an output that was set{_decision(detail)}"
        if token.outcome == "completed":
            return f"completed in attempt {token.attempt}"
        if token.outcome == "cancelled":
            return f"was cut off when the run ended: {self._end_of_run()}"
        if token.outcome == "superseded" and node.foreach is not None:
            return f"was withdrawn: {author_of(node.id)!r} did not wait for all of its items"
        if token.outcome == "superseded":
            joins = [
                repr(other.id) for other in self.program.plan.nodes if node.id in other.cancels
            ]
            return f"was withdrawn: the join at {', '.join(joins)} did not wait for it"
        end = "its on_error went on" if token.state == "done" else "it took the run with it"
        if token.state == "done" and node.foreach is not None and node.foreach.role == "item":
            each = node.foreach
            goes_on = each.on_item_error == "continue"
            end = "the other items went on" if goes_on else f"its error is that of {each.node!r}"
        return f"failed in attempt {token.attempt}, and {end}"


def _decision(detail: Detail) -> str:
    """Who has decided about a node, and why."""
    by = f" by {detail.decided_by}" if detail.decided_by else ""
    return f"{by}: {detail.decided_why}" if detail.decided_why else by


def _is_list_of(token: TokenView, node: Node) -> bool:
    """Whether a token is of the list of a node with a foreach."""
    return token.node == items_id(node.id)


def _count_from_one(note: Any) -> Any:
    """A note on the rule that decided, for people: authors count rules from 1."""
    if isinstance(note, dict) and isinstance(note.get("rule"), int):
        return {**note, "rule": note["rule"] + 1}
    return note


def _live(live: bool) -> str:
    return "live" if live else "skipped"
