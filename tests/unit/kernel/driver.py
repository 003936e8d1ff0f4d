"""A run from beginning to end, without a worker: the reference store, a clock that is moved by
hand, and the kernel. Every step is followed by every check that there is.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from minuet.bridge.snapshot import events_of, facts_of, state_of
from minuet.clock import ManualClock
from minuet.ids import SeededIds
from minuet.kernel.fold import State, fold, replay
from minuet.kernel.invariants import check_run
from minuet.kernel.lifecycle import NodeStatus, check_node_transition
from minuet.kernel.program import Program, Send
from minuet.kernel.scope import decode, encode
from minuet.kernel.settle import (
    AttemptFailed,
    NodeFailed,
    Outcome,
    Retried,
    Sent,
    Settlement,
    Skipped,
    Succeeded,
    Waiting,
    settle,
)
from minuet.kernel.view import node_views
from minuet.model.document import read_mapping
from minuet.plan.catalog import NodeKind
from minuet.plan.compile import compile_workflow
from minuet.plan.plan import Plan
from minuet.store import changes, exchange, records
from minuet.store.exchange import Grant
from minuet.store.memory import MemoryStore
from minuet.types import TERMINAL, Json, Scope

RUN = "run-1"
SESSION = "session-1"

CATALOG = {
    name: NodeKind(name=name, queue=name)
    for name in ("task", "noop", "decision", "transform", "wait")
}

#: What a node does: given its id, its scope and the attempt.
Handler = Callable[[str, Scope, int], Outcome]


def compile_nodes(*nodes: dict[str, Any], **fields: Any) -> Plan:
    """Compile nodes as a document has them; they are noops unless they say otherwise."""
    written = [{"type": "noop", **node} for node in nodes]
    return compile_workflow(
        read_mapping({"name": "example", "nodes": written, **fields}), CATALOG
    ).plan


def program_of(*nodes: dict[str, Any], **fields: Any) -> Program:
    """Compile nodes and make a program of the plan."""
    return Program(compile_nodes(*nodes, **fields), "plan-1")


def finish(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """The result of a coroutine that waits for nothing, as all of the reference store's."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    raise AssertionError("the reference store waits for nothing")


class Driver:
    """One run. Takes tokens, settles them as the handler says, and checks after every step."""

    def __init__(
        self,
        program: Program,
        handler: Handler | None = None,
        *,
        chance: random.Random | None = None,
        run_input: Json = None,
        checking: bool = True,
    ) -> None:
        self.program = program
        self.handler = handler or (lambda node, scope, attempt: Succeeded({}))
        self.chance = chance or random.Random(0)
        self.checking = checking
        self.clock = ManualClock()
        self.store = MemoryStore(self.clock)
        self.ids = SeededIds()
        self.input = run_input
        #: Tokens that are being worked on.
        self.held: dict[tuple[str, str], Grant] = {}
        #: Instances in the order in which they were settled.
        self.settled: list[tuple[str, Scope, Settlement]] = []
        #: Instances that were run, skips left out, with the nodes whose outputs they got.
        self.ran: list[tuple[str, Scope]] = []
        self.inputs: dict[tuple[str, Scope], list[str]] = {}
        #: (target, scope) → source → live
        self.arrived: dict[tuple[str, str], dict[str, bool]] = {}
        self.statuses: dict[tuple[str, Scope], NodeStatus] = {}
        self._calls = 0
        created = changes.NewRun(
            RUN,
            "example",
            "plan-1",
            input=msgspec.json.encode(run_input),
            entries=tuple(delivery(send) for send in program.entries()),
        )
        finish(self.store.create_runs([created]))
        self.check()

    # ── what a worker does ──────────────────────────────────────────────────────────────

    def exchange(self, *items: exchange.Item, take: int = 0) -> exchange.Reply:
        """One call of the store."""
        self._calls += 1
        queues = ("", *CATALOG)
        reply: exchange.Reply = finish(
            self.store.exchange(
                exchange.Exchange(
                    session=SESSION,
                    seq=self._calls,
                    lease=self.ids.token(),
                    hand_in=items,
                    take=(exchange.Take(queues, take),) if take else (),
                )
            )
        )
        self.check()
        return reply

    def take(self, limit: int = 1) -> list[Grant]:
        """Take tokens and look at what came with them."""
        granted = self.exchange(take=limit).granted
        for grant in granted:
            self.held[grant.node, grant.scope] = grant
            if self.checking:
                self._check_arrivals(grant)
        return list(granted)

    def _check_arrivals(self, grant: Grant) -> None:
        """A node runs only after what it needs, and gets the outputs of what was live."""
        node, scope = self.program.nodes[grant.node], decode(grant.scope)
        arrived = self.arrived.get((grant.node, grant.scope), {})
        if not arrived:
            assert grant.node in self.program.plan.entries
            assert not grant.skip
            return
        sources = self.program.sources(node, scope)
        need, total = self.program.arrivals(node, scope)
        assert total == len(sources)
        assert set(arrived) <= set(sources)
        live = sum(arrived.values())
        if grant.skip:
            assert live == 0
            assert len(arrived) == total
        else:
            assert live >= need or (live and len(arrived) == total)
            # What comes after the join has fired is not for this node, in any attempt.
            on_time = [source for source in arrived if arrived[source]][: need or None]
            assert {given.node for given in grant.inputs} == set(on_time)

    def outcome_of(self, grant: Grant) -> Outcome:
        """What the node does with this token."""
        if grant.skip:
            return Skipped()
        if grant.cursor:
            own = next(read for read in grant.reads if read.node == grant.node)
            return Succeeded(msgspec.json.decode(own.data))
        scope = decode(grant.scope)
        if grant.resolution is not None:
            return Succeeded({"resolution": msgspec.json.decode(grant.resolution)})
        return self.handler(grant.node, scope, grant.attempt)

    def settle(self, *grants: Grant) -> list[str]:
        """Settle tokens in one exchange; say what became of each."""
        items, settlements = [], []
        for grant in grants:
            node, scope = self.program.nodes[grant.node], decode(grant.scope)
            outcome = self.outcome_of(grant)
            known = {
                given.node: {"output": msgspec.json.decode(given.data)}
                for given in (*grant.reads, *grant.inputs)
            }
            settlement = settle(
                self.program,
                node,
                scope,
                outcome,
                variables={"ctx": known, "input": self.input, "run": {}},
                attempt=grant.attempt,
                hop=grant.hop,
                cursor=grant.cursor,
                fraction=self.chance.random(),
            )
            items.append(item(grant, settlement))
            settlements.append(settlement)
        for grant in grants:
            self.held.pop((grant.node, grant.scope), None)
        results: list[str] = list(self.exchange(*items).results)
        for grant, settlement, result in zip(grants, settlements, results, strict=True):
            if result == "applied":
                self._note(grant, settlement)
        return results

    def _note(self, grant: Grant, settlement: Settlement) -> None:
        """Keep our own record of what was settled and what it sent."""
        scope = decode(grant.scope)
        self.settled.append((grant.node, scope, settlement))
        if not isinstance(settlement, Sent):
            return
        for send in settlement.sends:
            place = (send.node, encode(send.scope))
            self.arrived.setdefault(place, {})[grant.node] = send.live
        if not grant.skip and not grant.cursor:
            self.ran.append((grant.node, scope))
            self.inputs[grant.node, scope] = sorted(given.node for given in grant.inputs)

    # ── to the end ──────────────────────────────────────────────────────────────────────

    def run(self, *, steps: int = 5_000) -> State:
        """Go on until the run is over, in an order that chance decides."""
        for _ in range(steps):
            if self.state.status in TERMINAL:
                return self.state
            self.step()
        raise AssertionError("the run does not end")

    def step(self) -> None:
        """Do something that moves the run on."""
        if self.held and self.chance.random() < 0.6:
            count = self.chance.choice((1, 1, 2, 3))
            keys = self.chance.sample(sorted(self.held), min(count, len(self.held)))
            self.settle(*(self.held[key] for key in keys))
        elif not self.take(self.chance.choice((1, 2, 5))) and not self.held:
            self.pass_time()

    def pass_time(self) -> None:
        """Nothing can be taken: go to the next moment at which something happens."""
        swept = finish(self.store.sweep())
        self.check()
        if swept.expired or swept.resumed or swept.cancelled:
            return
        assert swept.next_due_ms is not None, "nothing will ever happen: the run hangs"
        self.clock.advance(max(1, swept.next_due_ms - self.clock.now_ms()))

    def lose(self) -> None:
        """The worker dies: everything that it held expires."""
        self.held.clear()
        self.clock.advance(30_001)
        finish(self.store.sweep())
        self.check()

    def change(self, change: changes.Change) -> None:
        """Change the run from outside."""
        finish(self.store.change_run(records.DEFAULT_TENANT, RUN, change))
        self.check()

    # ── what can be seen ────────────────────────────────────────────────────────────────

    @property
    def snapshot(self) -> records.Snapshot:
        found: records.Snapshot = finish(self.store.read_snapshot(records.DEFAULT_TENANT, RUN))
        return found

    @property
    def state(self) -> State:
        return state_of(self.snapshot)

    def check(self) -> None:
        """Everything that must hold after every step."""
        if not self.checking:
            return
        snapshot = self.snapshot
        stored, events = state_of(snapshot), events_of(snapshot)
        assert fold(events) == stored
        violations = check_run(
            self.program, events, stored, facts_of(snapshot, self.clock.now_ms())
        )
        assert violations == []
        self._check_statuses(snapshot)

    def _check_statuses(self, snapshot: records.Snapshot) -> None:
        """Nodes change their status only as the table says."""
        leased = frozenset((t.node, t.scope) for t in snapshot.tokens if t.state == "leased")
        folded = replay(events_of(snapshot))
        for view in node_views(self.program, folded.state, folded.details, leased).values():
            for instance in view.instances:
                key = (view.node, instance.scope)
                check_node_transition(self.statuses.get(key, "PENDING"), instance.status)
                self.statuses[key] = instance.status


def delivery(send: Send) -> exchange.Delivery:
    """A kernel's send as the store has it."""
    return exchange.Delivery(
        send.node,
        encode(send.scope),
        send.live,
        send.need,
        send.total,
        send.queue,
        tuple(records.Read(node, encode(prefix)) for node, prefix in send.reads),
        send.withdraws,
    )


def item(grant: Grant, settlement: Settlement) -> exchange.Item:
    """A kernel's settlement as the store has it."""
    token = (grant.run, grant.node, grant.scope, grant.lease)
    match settlement:
        case Sent():
            return exchange.Done(
                *token,
                plan="plan-1",
                outcome=settlement.outcome,
                output=msgspec.json.encode(settlement.output),
                deliveries=tuple(delivery(send) for send in settlement.sends),
                error=settlement.error,
                notes=settlement.notes,
                cursor=settlement.cursor,
            )
        case Retried():
            return exchange.Retried(*token, error=settlement.error, delay_ms=settlement.delay_ms)
        case NodeFailed():
            return exchange.Failed(
                *token, error=settlement.error, dead_letter=settlement.dead_letter
            )
        case Waiting():
            return exchange.Waiting(
                *token,
                kind=settlement.kind,
                key=settlement.key,
                due_ms=settlement.due_ms,
                delay_ms=settlement.delay_ms,
                data=msgspec.json.encode(settlement.data),
            )


def outputs(table: dict[str, Json]) -> Handler:
    """A handler that returns what a table says: a value, or one per iteration; else {}.

    An exception in the table is a failure that cannot be repeated, and an outcome is itself.
    """

    def handle(node: str, scope: Scope, attempt: int) -> Outcome:
        value = table.get(node, {})
        if isinstance(value, list):
            value = value[scope[-1]]
        if isinstance(value, Exception):
            return AttemptFailed({"code": "broken", "message": str(value)})
        if isinstance(value, AttemptFailed | Waiting):
            return value
        return Succeeded(value)

    return handle
