"""Rules for the store's replies, beyond what a run's record can show.

`kernel.invariants` looks at one run at one moment. These rules compare requests with replies, and
settled nodes with the deliveries that they should have sent. Each yields one message per problem.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from minuet.events import (
    COUNTED,
    Event,
    NodeCompleted,
    NodeResumed,
    NodeSent,
    NodeSkipped,
    NodeWaiting,
    Place,
    decode_event,
)
from minuet.kernel.fold import State
from minuet.kernel.ledger import sent_by
from minuet.kernel.program import Program, Send
from minuet.kernel.scope import decode, encode
from minuet.kernel.settle import list_items
from minuet.plan.plan import item_id
from minuet.simulation.loop import Process
from minuet.simulation.model import ModelStore
from minuet.store.exchange import Done, Exchange, Reply, Retried, Slot
from minuet.store.records import FLOW_WAIT, Key
from minuet.store.rules.leases import lease_end

#: How often a token may be handed out. One that comes back at once each time is in a busy loop.
DELIVERIES_MAX = 200

#: Seconds after a worker learned of a run's end in which a handler may still start: it may be on
#: its way to a thread.
POLL = 1.0


class Deletion(msgspec.Struct, frozen=True):
    """A call that deletes runs."""

    tenant: str
    runs: tuple[str, ...]


#: (token, lease) → the process that it was granted to.
Grants = dict[tuple[Key, str], Process]

#: How often a token may get its slot under one lease, for example again after a lost reply.
ASKED_MAX = 5

#: Rule, message, run.
Found = tuple[str, str, str]


def exchange_rules(
    model: ModelStore,
    grants: Grants,
    slots: dict[tuple[Key, str], int],
    process: Process,
    request: Exchange,
    reply: Reply,
    *,
    repeated: bool,
) -> Iterator[Found]:
    """What must hold for one exchange. A repeated one only returns what was done before."""
    if not repeated:
        yield from _results(model, grants, slots, process, request, reply)
        yield from _renewals(model, grants, process, request, reply)
    elif not model.has_forgotten:
        for grant in reply.granted:
            if ((grant.run, grant.node, grant.scope), grant.lease) not in grants:
                message = f"call {request.seq} is repeated, and takes {grant.node!r} in addition"
                yield "I23", message, grant.run
    yield from _granted(model, grants, process, reply)
    yield from _tenants(model, request, reply)


def _tenants(model: ModelStore, request: Exchange, reply: Reply) -> Iterator[Found]:
    """I24: a worker that hands in, or is granted or shown something, has the run's tenant."""
    touched = {
        item.run
        for item, result in zip(request.hand_in, reply.results, strict=True)
        if result != "stale"
    }
    touched |= {grant.run for grant in reply.granted} | set(reply.runs)
    for run in sorted(touched):
        row = model.run(run)
        if row is not None and row.tenant != request.tenant:
            yield (
                "I24",
                f"a worker of {request.tenant!r} has to do with a run of {row.tenant!r}",
                run,
            )


def _results(
    model: ModelStore,
    grants: Grants,
    slots: dict[tuple[Key, str], int],
    process: Process,
    request: Exchange,
    reply: Reply,
) -> Iterator[Found]:
    for item, result in zip(request.hand_in, reply.results, strict=True):
        if result not in ("applied", "held"):
            continue
        key = (item.run, item.node, item.scope)
        owner = grants.get((key, item.lease))
        if owner is not process:
            name = owner.name if owner is not None else "nobody"
            yield "I11", f"{process.name} hands in {key[1:]} under a lease of {name}", item.run
        run, token = model.run(item.run), model.token(key)
        # Or the very call that handed it in took it again.
        last = (item.lease, request.lease)
        if isinstance(item, Done) and token is not None and token.lease not in last:
            message = f"{key[1:]} was handed in under a lease that is not its last one"
            yield "I11", message, item.run
        if token is not None and item.lease in token.lost:
            yield "I13", f"{key[1:]} was handed in, and its lease counts as expired", item.run
        if isinstance(item, Slot) and result == "held":
            asked = slots[key, item.lease] = slots.get((key, item.lease), 0) + 1
            if asked > ASKED_MAX:
                yield "busy", f"{key[1:]} asks again and again for the slot that it holds", item.run
        if isinstance(item, Done) and run is not None and run.plan != item.plan:
            yield "I19", f"{key[1:]} was routed by a plan that the run does not have", item.run
        if isinstance(item, Retried) and token is not None and token.state == "ready":
            delay_ms = (token.due_ms or 0) - reply.now_ms
            if delay_ms != item.delay_ms:
                message = f"{key[1:]} is due in {delay_ms} ms, not in {item.delay_ms}"
                yield "delay", message, item.run


def _renewals(
    model: ModelStore, grants: Grants, process: Process, request: Exchange, reply: Reply
) -> Iterator[Found]:
    lost = set(reply.revoked)
    for held in request.renew:
        key = (held.run, held.node, held.scope)
        token = model.token(key)
        if held in lost or token is None or token.state != "leased":
            continue
        if token.lease != held.lease or grants.get((key, held.lease)) is not process:
            yield "I12", f"{process.name} renews {key[1:]} under another's lease", held.run
        elif held.lease in token.lost:
            yield "I13", f"{key[1:]} was renewed, and its lease counts as expired", held.run
        elif token.due_ms != lease_end(request, token.queue, reply.now_ms):
            yield "I13", f"{key[1:]} was renewed, and is due at {token.due_ms}", held.run


def _granted(model: ModelStore, grants: Grants, process: Process, reply: Reply) -> Iterator[Found]:
    for grant in reply.granted:
        key = (grant.run, grant.node, grant.scope)
        known = grants.get((key, grant.lease))
        if known is not None and known is not process:
            yield "I12", f"{key[1:]} is leased twice under one lease", grant.run
        if grant.delivery > DELIVERIES_MAX:
            yield "busy", f"{key[1:]} is handed out for the {grant.delivery}th time", grant.run
        run = model.run(grant.run)
        if known is None and run is not None and run.status not in ("RUNNING", "COMPENSATING"):
            yield "paused", f"{key[1:]} is handed out in a run that is {run.status}", grant.run
        if known is None and grant.is_resumed and grant.timed_out == _was_resolved(model, key):
            ended = "timed out" if grant.timed_out else "was resolved"
            yield "timeout", f"{key[1:]} is handed out as if its wait {ended}", grant.run
        grants[key, grant.lease] = process


def _was_resolved(model: ModelStore, key: Key) -> bool:
    """Whether somebody has ended a token's last wait. Clients give their name, signals their event,
    and sweeps have neither."""
    for record in reversed(model.events(key[0])):
        event = decode_event(record.data)
        if isinstance(event, NodeResumed) and (event.node, event.scope) == key[1:]:
            return bool(event.by or event.signal) or _was_woken(model, key[0], event)
    return False


def _was_woken(model: ModelStore, run: str, event: NodeResumed) -> bool:
    """Whether a function goes on because a signal has come, which is kept: its event does not say
    who has ended the wait."""
    for record in reversed(model.events(run)):
        found = decode_event(record.data)
        if isinstance(found, NodeWaiting) and (found.node, found.scope) == (
            event.node,
            event.scope,
        ):
            return found.kind == FLOW_WAIT and not event.timed_out
    return False


def event_rules(
    model: ModelStore, program: Program, state: State, fired: set[Place], run: str, event: Event
) -> Iterator[tuple[str, str]]:
    """What must hold after an event was folded into `state`.

    `fired` are the joins that had fired before. Those that fire now are added.
    """
    for message in unsent(program, state, event):
        yield "sent", message
    for message in _foreach_rules(program, state, event):
        yield "foreach", message
    sent = [(node, scope) for _, (node, scope, *_) in sent_by(event)]
    new = [place for place in sent if place in state.joins and state.joins[place].fired]
    new = [place for place in new if place not in fired]
    fired.update(new)
    for message in _withdrawals(program, state, new, event):
        yield "withdrawn", message
    if (
        isinstance(event, NodeResumed)
        and event.timed_out == bool(event.by or event.signal)
        and not _was_woken(model, run, event)
    ):
        yield "timeout", f"{(event.node, event.scope)}: timed_out is {event.timed_out}"
    if isinstance(event, NodeCompleted):
        for node, scope, live, _, total in event.to:
            token = model.token((run, node, scope))
            # An item that another one has issued is as far from the start as that.
            hop = event.hop if live >= COUNTED else event.hop + 1
            if live % COUNTED and total <= 1 and token is not None and token.hop != hop:
                yield "hop", f"{(node, scope)} is at hop {token.hop}, behind hop {event.hop}"


def unsent(program: Program, state: State, event: Event) -> Iterator[str]:
    """The targets to which a settled node should have sent a delivery but has not."""
    if not isinstance(event, NodeCompleted | NodeSkipped | NodeSent) or getattr(
        event, "more", False
    ):
        return
    node = program.nodes.get(event.node)
    if node is None:
        return
    scope = decode(event.scope)
    if node.loop is not None and not isinstance(event, NodeSkipped):
        (back,) = program.send_back(node, scope)
        if _has_arrived(state, back, event.node):
            return
    for send in program.sends(node, scope, ()):
        if not _has_arrived(state, send, event.node):
            yield f"{(event.node, event.scope)} is settled and has not sent to {_place(send)}"


def _foreach_rules(program: Program, state: State, event: Event) -> Iterator[str]:
    """As many items are issued as may be alive, and their outputs are gathered in their order."""
    if not isinstance(event, NodeCompleted):
        return
    node = program.nodes.get(event.node)
    if node is None or node.foreach is None or node.undoes:
        return
    role, item = node.foreach.role, item_id(node.foreach.node)
    scope = event.scope if role != "item" else encode(decode(event.scope)[:-1])
    items = {
        decode(place[1])[-1]: token
        for place, token in state.tokens.items()
        if place[0] == item and place[1].startswith(scope)
    }
    if sorted(items) != list(range(len(items))):
        yield f"the items of {(node.foreach.node, scope)} are {sorted(items)}"
    join = state.joins.get((node.foreach.node, scope))
    if join is not None and not join.fired:
        count, arrived = join.total - 1, join.live + join.skipped - 1
        due = min(list_items(node, count).window + arrived, count)
        if len(items) != due:
            yield f"{len(items)} items of {(node.foreach.node, scope)} were issued, {due} were due"
    is_set = state.tokens[event.node, event.scope].given != 0
    if role == "gather" and event.error is None and not is_set:
        outputs = [items[number].output for number in sorted(items)]
        # Large ones are elsewhere.
        if not any(b"$blob" in (output or b"") for output in (*outputs, bytes(event.output))):
            expected = [msgspec.json.decode(output) for output in outputs if output is not None]
            if msgspec.json.decode(event.output) != expected:
                yield f"{(event.node, scope)} has not gathered what its items gave, in their order"


def _has_arrived(state: State, send: Send, source: str) -> bool:
    place = _place(send)
    if send.total <= 1:
        return place in state.tokens
    join = state.joins.get(place)
    return join is not None and source in join.sources


def _place(send: Send) -> Place:
    return (send.node, encode(send.scope))


def _withdrawals(program: Program, state: State, fired: list[Place], event: Event) -> Iterator[str]:
    """A join that fires withdraws the nodes that lead only to it, in its scope only."""
    unwanted: set[Place] = set()
    for name, scope in fired:
        cancels = program.nodes[name].cancels
        if program.nodes[name].foreach is not None:
            cancels = (*cancels, item_id(name))
        unwanted |= {
            place for place in state.tokens if place[0] in cancels and place[1].startswith(scope)
        }
    for place in sorted(unwanted):
        if state.tokens[place].state in ("ready", "waiting"):
            yield f"{place} lives on, and the join that it leads to has fired"
    for place in getattr(event, "withdrawn", ()):
        if tuple(place) not in unwanted:
            yield f"{place} was withdrawn, and leads elsewhere"


def completed_rules(state: State) -> Iterator[str]:
    """In a completed run, every token was settled and none was cut off."""
    if state.status != "COMPLETED":
        return
    for place, token in state.tokens.items():
        if token.state != "done" and token.outcome != "superseded":
            yield f"{place} is {token.state} {token.outcome} in a run that completed"


def deletion_rules(
    asked: Deletion, count: int, over: dict[str, str], gone: set[str], orphans: list[str]
) -> Iterator[Found]:
    """Only runs that are over are deleted. `over` are these, with their tenants."""
    wanted = {run for run in asked.runs if over.get(run) == asked.tenant}
    for run in sorted(gone - wanted):
        yield "deleted", f"it was deleted by {asked.tenant!r}, which must not be", run
    for run in sorted(wanted - gone):
        yield "deleted", "it was to be deleted and is there", run
    if count != len(wanted):
        yield "deleted", f"{count} runs were said to be deleted, {len(wanted)} should be", ""
    for run in orphans:
        yield "deleted", "it was deleted, and something of it is left", run
