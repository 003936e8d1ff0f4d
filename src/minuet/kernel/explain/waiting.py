"""What a run waits for: from a node that has not delivered up to live or failed nodes.

The walk goes against the edges and ends at live tokens, failures, and loops that continue.
It iterates over a list instead of recursing, because graphs can be very deep.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypedDict

import msgspec

from minuet.approvals import APPROVAL_WAIT, approvers_in, deadline_of
from minuet.events import Place
from minuet.kernel.fold import HOLD_WAIT, Detail, Fold, TokenView
from minuet.kernel.program import Program
from minuet.kernel.scope import decode, show
from minuet.kernel.view import NodeView
from minuet.moments import moment
from minuet.plan.placement import describe_needs, read_placement
from minuet.plan.plan import Node, author_of
from minuet.types import TYPE_QUEUE


class Fact(TypedDict, total=False):
    """What the store knows about a live token."""

    state: str
    #: Why it is not handed out: "pause" or "slot".
    lane: str
    queue: str
    slot: str
    lease_until_ms: int | None
    session: str
    #: How many workers serve its queue, and how many there are, if counted.
    workers: int
    known: int


class Causes:
    """The live tokens of a run, and how nodes depend on them."""

    def __init__(
        self,
        program: Program,
        fold: Fold,
        views: Mapping[str, NodeView],
        facts: Mapping[Place, Fact],
    ) -> None:
        self._program, self._details = program, fold.details
        self._views, self._facts = views, facts
        self._reached = {token.node for token in fold.state.tokens.values()}
        self._alive: dict[str, list[TokenView]] = {}
        for token in fold.state.tokens.values():
            # A patch may have removed a node whose token is still alive.
            if token.state in ("ready", "waiting") and token.node in program.nodes:
                self._alive.setdefault(token.node, []).append(token)

    def silence(self, name: str, target: str) -> str:
        """Why a node has not delivered to another, as far as the node alone tells."""
        if name in self._alive:
            return self.phrase(self._alive[name][-1])
        loop = self._loop_between(name, target)
        if loop is not None:
            return self._loop_phrase(loop)
        status = self._views[author_of(name)].status
        return f"is {status}" if status in ("FAILED", "CANCELLED") else "has not run yet"

    def find(self, names: Sequence[str], target: str) -> list[str]:
        """What prevents these nodes from delivering to a target."""
        found: dict[str, None] = {}
        seen = set(names)
        waiting = [(name, target) for name in names]
        for name, below in waiting:  # grows while it is walked
            loop = self._loop_between(name, below)
            tokens = self._alive.get(name) or (self._inside(loop) if loop else [])
            found |= {self._describe(token): None for token in tokens}
            if tokens or not self._may_be_awaited(name, below):
                continue
            for parent in self._program.parents[name]:
                if parent not in seen:
                    seen.add(parent)
                    waiting.append((parent, name))
        return list(found)

    def _may_be_awaited(self, name: str, below: str) -> bool:
        """Whether a node has yet to run: never reached, or in a loop that also holds `below`."""
        if name not in self._reached:
            return True
        node, other = self._program.nodes[name], self._program.nodes[below]
        return any(loop.id in other.nest for loop in self._loops(node))

    def _loops(self, node: Node) -> list[Node]:
        kinds = self._program.plan.constructs
        return [self._program.nodes[name] for name in node.nest if kinds[name] == "loop"]

    def _loop_between(self, name: str, target: str) -> Node | None:
        """A running loop that must end before the node delivers to the target."""
        outside = self._program.nodes[target]
        for loop in self._loops(self._program.nodes[name]):
            if loop.id not in outside.nest and self._inside(loop):
                return loop
        return None

    def _inside(self, loop: Node) -> list[TokenView]:
        """The live tokens in the body of a loop."""
        return [
            token
            for name, tokens in self._alive.items()
            if loop.id in self._program.nodes[name].nest
            for token in tokens
        ]

    def _loop_phrase(self, loop: Node) -> str:
        assert loop.loop is not None
        iteration = 1 + max(
            decode(token.scope)[self._program.nodes[token.node].nest.index(loop.id)]
            for token in self._inside(loop)
        )
        most = loop.loop.max_iterations
        return f"is in the loop of {loop.id!r}, in iteration {iteration} of at most {most}"

    # ── phrases ─────────────────────────────────────────────────────────────────────────

    def _describe(self, token: TokenView) -> str:
        return f"{author_of(token.node)!r}{show(decode(token.scope))} {self.phrase(token)}"

    def phrase(self, token: TokenView) -> str:
        """What a live token is doing."""
        place = (token.node, token.scope)
        fact, detail = self._facts.get(place, Fact()), self._details.get(place, Detail())
        if token.state == "waiting":
            return _wait_phrase(token, detail)
        if token.skip:
            return "is being skipped"
        if fact.get("state") == "leased":
            return _lease_phrase(token, fact)
        if token.given:
            return "has an output that was set, and waits for a worker to pass it on"
        if fact.get("lane") == "slot":
            return f"waits for a free slot under the concurrency key {fact.get('slot', '')!r}"
        if fact.get("lane") == "pause":
            return "is held back: the run is paused"
        if detail.due_ms is not None and detail.error is not None:
            message = detail.error.get("message", detail.error)
            return f"is tried again ({token.attempt}) at {moment(detail.due_ms)} after: {message}"
        queue = fact.get("queue") or self._program.nodes[token.node].queue
        placement = read_placement(queue)
        needs = describe_needs(placement) if placement is not None else ""
        queue = queue if placement is None else placement.queue
        if fact.get("workers") == 0:
            return _unserved_phrase(queue, needs, fact.get("known", 0))
        more = ", to send the rest of its output" if token.cursor else ""
        lost = f", after {token.expiry} expired leases" if token.expiry else ""
        needing = f", which needs {needs}" if needs else ""
        return f"is queued in {queue!r}{needing}{more}{lost}"


def _unserved_phrase(queue: str, needs: str, known: int) -> str:
    why = f": it needs {needs}" if needs else ""
    who = {0: "no worker is registered", 1: "1 worker is known, and does not qualify"}
    fleet = who.get(known, f"{known} workers are known, none qualifies")
    lacking = f"registered worker serves the queue {queue!r}"
    if queue.startswith(TYPE_QUEUE):
        lacking = f"worker has node type {queue.removeprefix(TYPE_QUEUE)!r}"
    return f"is queued, and no {lacking}{why}; {fleet}"


def _wait_phrase(token: TokenView, detail: Detail) -> str:
    if token.wait == "signal":
        return _lasting(f"signal {token.wait_key!r}", detail.wait_ms, token.due_ms)
    if token.wait == "flow":
        return describe_waits(msgspec.json.decode(detail.wait_data), time=moment)
    if token.wait == APPROVAL_WAIT:
        question = msgspec.json.decode(detail.wait_data)
        asked = f"a decision of {approvers_in(question)}"
        return _lasting(asked, detail.wait_ms, deadline_of(question, token.due_ms))
    if token.wait == HOLD_WAIT:
        message = (detail.error or {}).get("message", detail.error)
        return f"failed at {moment(detail.wait_ms)}, and is held until somebody decides: {message}"
    if token.wait == "child":
        return f"waits for its child run {token.wait_key}"
    key = f" {token.wait_key!r}" if token.wait_key else ""
    until = f" until {moment(token.due_ms)}" if token.due_ms is not None else ""
    return f"waits for a {token.wait}{key}{until}"


def _lasting(what: str, since_ms: int, due_ms: int | None) -> str:
    due = f"; due at {moment(due_ms)}" if due_ms is not None else ""
    return f"has waited for {what} since {moment(since_ms)}{due}"


def describe_waits(
    data: Any, *, time: Callable[[int], str], place: Callable[[str], str] = str
) -> str:
    """What a durable function waits for: from what its worker noted when it left it."""
    waits = data.get("waits", ()) if isinstance(data, dict) else ()
    things, sleeps, limits = list[str](), list[str](), list[str]()
    named: set[str] = set()
    for wait in waits:
        where = "" if wait["place"] in named else f" ({place(wait['place'])})"
        named.add(wait["place"])
        match wait["for"]:
            case "signal":
                things.append(f"the signal {wait['name']!r}{where}")
            case "child":
                things.append(f"child run {wait['run']} of {wait['name']!r}{where}")
            case "retry":
                failed = f"attempt {wait['attempt']} failed with {wait['error']['type']}"
                sleeps.append(
                    f"tries {wait['name']!r} again at {time(wait['until_ms'])}: {failed}{where}"
                )
            case "sleep":
                sleeps.append(f"sleeps until {time(wait['until_ms'])}{where}")
            case _:
                limits.append(f"due at {time(wait['until_ms'])}{where}")
    more = data.get("more", 0) if waits else 0
    things += [f"{more} more"] if more else []
    parts = [f"waits for {_joined(things)}"] if things else []
    return ", ".join(parts + sleeps + limits) or "waits"


def _joined(parts: list[str]) -> str:
    return " and ".join(parts) if len(parts) < 3 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _lease_phrase(token: TokenView, fact: Fact) -> str:
    by = f" in session {fact['session']}" if fact.get("session") else ""
    until_ms = fact.get("lease_until_ms")
    until = f", leased until {moment(until_ms)}" if until_ms is not None else ""
    return f"is running, attempt {token.attempt}{by}{until}"
