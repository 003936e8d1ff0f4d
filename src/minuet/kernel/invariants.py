"""The invariants, as functions of a run's events, its stored state and its plan.

The simulation and the fault tests check them after every step, and `minuet doctor` checks them on
a live store. The ids are those of the design's list of invariants. Ids that are missing here need
more than one run, one moment or one store. A function returns one message per violation; an empty
result is good.

The events are counted by separate rules (`Ledger`), not folded: otherwise a mistake in `fold`
would hide itself. I6 compares the two.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from functools import cached_property
from typing import Any, TypeAlias

import msgspec

from minuet import events as happened
from minuet.errors import InvariantError
from minuet.events import Place, event_type
from minuet.kernel.fold import NumberedEvent, State, fold
from minuet.kernel.ledger import ENDS, SETTLING, Ledger, sent_by
from minuet.kernel.program import Program
from minuet.kernel.scope import decode
from minuet.kernel.settle import fanout_limit, hops_limit
from minuet.kernel.undo_rules import broken_undos
from minuet.types import TERMINAL, UNDO


class Violation(msgspec.Struct, frozen=True):
    """An invariant does not hold."""

    id: str
    message: str


class Leased(msgspec.Struct, frozen=True):
    """A token that a worker holds."""

    node: str
    scope: str
    lease: str
    session: str
    due_ms: int | None


class RunFacts(msgspec.Struct, frozen=True):
    """What a store knows about a run beyond its state."""

    now_ms: int
    max_lease_ms: int
    #: How often a lease on one token may expire, if limited.
    max_expiry: int | None = None
    deadline_ms: int | None = None
    leased: tuple[Leased, ...] = ()
    #: (node, scope, generation) of the dead letters.
    dead_letters: tuple[tuple[str, str, int], ...] = ()
    #: The generations of those that nobody has dealt with.
    pending_letters: tuple[int, ...] = ()


class Evidence(msgspec.Struct, dict=True):
    """Everything that the checks look at."""

    program: Program | None
    events: Sequence[NumberedEvent]
    stored: State
    facts: RunFacts

    @cached_property
    def ledger(self) -> Ledger:
        """The events, counted."""
        return Ledger(self.events)

    @property
    def patched(self) -> bool:
        """Whether the run has had more than one plan, so that older events followed another."""
        return any(isinstance(event, happened.RunPatched) for _, _, event in self.events)


Check: TypeAlias = Callable[[Evidence], Iterator[str]]


def counter_adds_up(seen: Evidence) -> Iterator[str]:
    """I1: the counter that an event states is what was emitted minus what was consumed."""
    for seq, stated, counted in seen.ledger.counters:
        if stated != counted:
            yield f"event {seq} states a counter of {stated}, emitted minus consumed is {counted}"


def counter_counts_live_tokens(seen: Evidence) -> Iterator[str]:
    """I2: the stored counter is the number of live tokens."""
    counter, live = seen.stored.counter, seen.stored.live()
    if counter != live:
        yield f"the counter is {counter}, but {live} tokens are alive"


def counter_is_zero_when_over(seen: Evidence) -> Iterator[str]:
    """I3: the counter is never negative, and 0 exactly when the run is over or not started."""
    counter, status = seen.stored.counter, seen.stored.status
    if counter < 0:
        yield f"the counter is {counter}"
    elif (counter == 0) != (status in TERMINAL or status == "PENDING"):
        yield f"the counter is {counter} in a run that is {status}"


def nothing_lives_in_a_closed_run(seen: Evidence) -> Iterator[str]:
    """I4: a run that is over has no live token, no lease, no timer and no deadline."""
    if seen.stored.status not in TERMINAL:
        return
    for token in seen.stored.tokens.values():
        if token.state in ("ready", "waiting"):
            yield f"{token.node!r} {token.scope} is {token.state} in a run that is over"
    for leased in seen.facts.leased:
        yield f"{leased.node!r} {leased.scope} is leased in a run that is over"
    if seen.facts.deadline_ms is not None:
        yield "a run that is over has a deadline"


def events_have_no_gap(seen: Evidence) -> Iterator[str]:
    """I5: events are numbered 1, 2, 3, …, and the run knows the last number."""
    for expected, (seq, _, _) in enumerate(seen.events, start=1):
        if seq != expected:
            yield f"event {seq} is in the place of event {expected}"
            return
    if seen.stored.seq != len(seen.events):
        yield f"the run counts {seen.stored.seq} events, but has {len(seen.events)}"


def fold_equals_stored(seen: Evidence) -> Iterator[str]:
    """I6: folding the events gives the stored state."""
    yield from differences(fold(seen.events), seen.stored)


def differences(folded: State, stored: State) -> Iterator[str]:
    """Say precisely where two states differ."""
    names = ("status", "counter", "generation", "workflow", "plan", "input", "error")
    for name in (*names, "undos", "ends_as", "output_bytes"):
        ours, theirs = getattr(folded, name), getattr(stored, name)
        if ours != theirs:
            yield f"{name}: the events say {ours!r}, the store has {theirs!r}"
    for kind in ("tokens", "joins", "steps", "signals"):
        ours, theirs = getattr(folded, kind), getattr(stored, kind)
        for key in sorted(ours.keys() | theirs.keys()):
            what = f"{kind[:-1]} {key}"
            if key not in theirs:
                yield f"{what}: the events have it, the store does not"
            elif key not in ours:
                yield f"{what}: the store has it, the events do not"
            elif ours[key] != theirs[key]:
                yield f"{what}: {_difference(ours[key], theirs[key])}"


def _difference(ours: Any, theirs: Any) -> str:
    if not isinstance(ours, msgspec.Struct):
        return f"the events say {ours!r}, the store has {theirs!r}"
    return "; ".join(
        f"{name}: the events say {getattr(ours, name)!r}, the store has {getattr(theirs, name)!r}"
        for name in ours.__struct_fields__
        if getattr(ours, name) != getattr(theirs, name)
    )


def instances_end_once(seen: Evidence) -> Iterator[str]:
    """I7: an instance completes at most once, and nothing happens to it after its end."""
    for seq, place, kind in seen.ledger.after_end:
        yield f"event {seq}, {kind}, happens to {place} after its end"


def joins_fire_once_and_in_time(seen: Evidence) -> Iterator[str]:
    """I8: a join fires once, after the arrivals that it needs. Each source arrives once."""
    ledger = seen.ledger
    for seq, place, source in ledger.twice:
        yield f"event {seq}: {source!r} arrives at {place} for the second time"
    for seq, place in ledger.early:
        yield f"event {seq}: {place} is settled before its join has the arrivals that it needs"
    for place, join in ledger.joins.items():
        stored = seen.stored.joins.get(place)
        if stored is not None and stored.fired != join.fired:
            state = "has fired" if stored.fired else "has not fired"
            counts = f"{join.live} live and {join.skipped} skipped of {join.total}"
            yield f"the join of {place} {state} with {counts} arrivals, {join.need} needed"


def instances_are_emitted_once(seen: Evidence) -> Iterator[str]:
    """I9: an instance gets one token, and nothing happens to an instance without one."""
    for seq, place in seen.ledger.emitted_twice:
        yield f"event {seq} emits {place}, which has a token"
    for seq, place in seen.ledger.unknown:
        yield f"event {seq} happens to {place}, which was never emitted"


def runs_end_once(seen: Evidence) -> Iterator[str]:
    """I10: a generation has one last event, and only a retry of the run, or its undo, follows;
    before a retry, a node that failed may get another config."""
    over = False
    for seq, _, event in seen.events:
        if isinstance(event, happened.RunRetried | happened.RunCompensating):
            over = False
        elif over and not isinstance(event, happened.NodeEdited):
            yield f"event {seq}, {event_type(event)}, follows the end of the run"
        over = over or isinstance(event, ENDS)
    if over != (seen.stored.status in TERMINAL):
        yield f"the run is {seen.stored.status}, its events say that it is {_over(over)}"


def _over(over: bool) -> str:
    return "over" if over else "not over"


def results_come_under_a_lease(seen: Evidence) -> Iterator[str]:
    """I11: a result names the lease and the session that handed it in, which belong together.
    Only what somebody let fail has none."""
    sessions: dict[str, str] = {}
    let_fail = {
        seq + 1
        for seq, _, event in seen.events
        if isinstance(event, happened.NodeRepaired) and event.action == "fail"
    }
    for seq, event in _settling(seen):
        if seq in let_fail and isinstance(event, happened.NodeFailed):
            continue
        if not event.lease or not event.session:
            yield f"event {seq} settles {(event.node, event.scope)} without a lease"
        elif sessions.setdefault(event.lease, event.session) != event.session:
            yield f"event {seq}: another session hands in under the lease {event.lease}"
    for held in seen.facts.leased:
        if sessions.get(held.lease, held.session) != held.session:
            yield f"another session holds {(held.node, held.scope)} under the lease {held.lease}"


def leases_are_used_once(seen: Evidence) -> Iterator[str]:
    """I12: a lease settles a token once, and never after it was taken back; a token has at most
    one lease."""
    used: set[tuple[str, str, str]] = set()
    # A call that is repeated much later may take a token again under the lease that it had.
    taken_back: set[tuple[str, str, str, int]] = set()
    for seq, _, event in seen.events:
        if not isinstance(event, (*SETTLING, happened.NodeRepaired)) or not event.lease:
            continue  # I11 says which events must have a lease.
        key = (event.node, event.scope, event.lease)
        if (*key, event.taken_ms) in taken_back:
            yield f"event {seq}: the lease {event.lease} of {key[:2]} had been taken back"
        if isinstance(event, happened.NodeRepaired):
            taken_back.add((*key, event.taken_ms))
            continue
        if key in used:
            yield f"event {seq}: the lease {event.lease} settles {key[:2]} for the second time"
        used.add(key)
    holds: set[Place] = set()
    for held in seen.facts.leased:
        place = (held.node, held.scope)
        token = seen.stored.tokens.get(place)
        if place in holds:
            yield f"{place} has two leases"
        if (*place, held.lease) in used:
            yield f"{place} is leased again under the lease {held.lease}, which settled it"
        if seen.stored.status not in TERMINAL and (token is None or token.state != "ready"):
            yield f"{place} is leased, but its token is {token.state if token else 'missing'}"
        holds.add(place)


def leases_end(seen: Evidence) -> Iterator[str]:
    """I13: every lease ends, no later than the longest lease from now."""
    for held in seen.facts.leased:
        place = (held.node, held.scope)
        if held.due_ms is None:
            yield f"the lease of {place} never ends"
        elif held.due_ms - seen.facts.now_ms > seen.facts.max_lease_ms:
            yield f"the lease of {place} ends in {held.due_ms - seen.facts.now_ms} ms"


def limits_are_kept(seen: Evidence) -> Iterator[str]:
    """I16: attempts, expiries, hops, fan-out, iterations and bytes stay within their limits."""
    most = seen.facts.max_expiry
    for place, token in seen.stored.tokens.items():
        if most is not None and token.expiry > most:
            yield f"{token.expiry} leases on {place} have expired, at most {most} may"
    if seen.program is None or seen.patched:
        return
    program, nodes = seen.program, seen.program.nodes
    most_bytes = program.plan.max_bytes
    if most_bytes is not None and seen.stored.output_bytes > most_bytes:
        yield f"outputs have {seen.stored.output_bytes} bytes, at most {most_bytes} are allowed"
    for place, token in seen.stored.tokens.items():
        node = nodes.get(place[0])
        # If the document sets no policy, the handler may have one.
        is_certain = node is not None and (node.handler is None or node.retry_by == "document")
        if node is not None and is_certain and token.attempt > node.retry.max_attempts:
            yield f"{place} is in attempt {token.attempt} of at most {node.retry.max_attempts}"
    hidden = program.plan.output_node
    for (name, scope), sent_to in seen.ledger.fanout.items():
        if name not in nodes:
            continue
        each = nodes[name].foreach
        if each is not None and each.role == "item":
            continue
        # The node that gathers the items is not one of them.
        is_list = each is not None and each.role == "items"
        count = sent_to - is_list - any(edge.target == hidden for edge in nodes[name].edges)
        if count > (limit := fanout_limit(program.plan, nodes[name])):
            yield f"{(name, scope)} sent to {count} nodes, at most {limit} were allowed"
    for seq, _, event in seen.events:
        if isinstance(event, happened.NodeCompleted) and _is_counted(event.node, nodes):
            limit = hops_limit(program.plan, nodes[event.node])
            goes_on = any(sent[2] and sent[0] != hidden for sent in event.to)
            if event.hop + 1 >= limit and goes_on:
                yield f"event {seq} sends on from hop {event.hop}, at most {limit} are allowed"
        for _, sent in sent_by(event):
            yield from _iterations(program, seq, sent[0], sent[1])


def _is_counted(name: str, nodes: Container[str]) -> bool:
    """Whether limits of hops apply to a node: to undo what was done, there is no limit."""
    return name in nodes and not name.endswith(UNDO)


def _iterations(program: Program, seq: int, name: str, scope: str) -> Iterator[str]:
    node = program.nodes.get(name)
    for construct, number in zip(node.nest if node else (), decode(scope), strict=False):
        loop = program.nodes[construct].loop
        if loop is not None and number >= loop.max_iterations:
            yield (
                f"event {seq} begins iteration {number + 1} of the loop at {construct!r}, "
                f"at most {loop.max_iterations} are allowed"
            )


def plan_is_followed(seen: Evidence) -> Iterator[str]:
    """I19: the run has the plan of its last patch, and emits only nodes of its plan."""
    plan, since = "", 0
    for seq, _, event in seen.events:
        if isinstance(event, happened.RunCreated | happened.RunPatched):
            plan, since = event.plan, seq
    if seen.stored.plan != plan:
        yield f"the run has the plan {seen.stored.plan!r}, its events say {plan!r}"
    if seen.program is None:
        return
    if seen.program.digest not in ("", plan):
        yield f"the plan at hand is {seen.program.digest!r}, the run's is {plan!r}"
        return
    for seq, _, event in seen.events:
        for _, (name, scope, _, need, total) in sent_by(event) if seq >= since else ():
            node = seen.program.nodes.get(name)
            if node is None or len(decode(scope)) != len(node.nest):
                yield f"event {seq} emits {(name, scope)}, which the plan does not know"
            elif node.foreach is not None and node.foreach.role == "gather":
                yield from _items_are_expected(seen, seq, name, scope, total)
            elif not isinstance(event, happened.RunStarted | happened.RunCompensating):
                expected = seen.program.arrivals(node, decode(scope))
                if (need, total) != expected:
                    yield f"event {seq} sends {(need, total)} to {name!r}, the plan {expected}"


def _items_are_expected(
    seen: Evidence, seq: int, name: str, scope: str, total: int
) -> Iterator[str]:
    """How many items there are, the list alone says: all must agree with it."""
    join = seen.ledger.joins.get((name, scope))
    if join is not None and join.total != total:
        yield f"event {seq} tells {name!r} of {total - 1} items, its list has {join.total - 1}"


def dead_letters_are_dead_tokens(seen: Evidence) -> Iterator[str]:
    """I34: a token that failed with a reason is a dead letter, and nothing else is. A retry takes
    up what is pending."""
    failed = seen.ledger.dead_letters
    kept = set(seen.facts.dead_letters)
    for key in sorted(failed - kept):
        yield f"{key[:2]} failed in generation {key[2]} but is not a dead letter"
    for key in sorted(kept - failed):
        yield f"{key[:2]} is a dead letter of generation {key[2]}, in which it did not fail"
    for generation in seen.facts.pending_letters:
        if generation != seen.stored.generation:
            yield f"the dead letter of generation {generation} is pending, and the run was retried"


def signals_are_queues(seen: Evidence) -> Iterator[str]:
    """I38: a signal is received once, the oldest first, by the instance that has waited the
    longest; no instance waits for a signal that is kept."""
    yield from seen.ledger.mailbox.broken
    yield from seen.ledger.mailbox.unmatched()


def undo_is_complete(seen: Evidence) -> Iterator[str]:
    """I39: an undo runs the compensators of what completed, the last one first, one after the other
    and each once, and leaves none out."""
    yield from _missing_undos(seen)
    if seen.program is None or seen.patched or not seen.stored.undos:
        return
    if any(event.dead_letter == "no_plan" for _, event in _failures(seen)):
        return  # What there was to undo could not be known.
    yield from broken_undos(seen.program, seen.events)


def stalls_are_reported_once(seen: Evidence) -> Iterator[str]:
    """I40: a stall is reported once: something happens to the run before the next report."""
    is_reported = False
    for seq, _, event in seen.events:
        is_report = isinstance(event, happened.RunStalled)
        if is_report and is_reported:
            yield f"event {seq} reports what event {seq - 1} has reported"
        is_reported = is_report


def _missing_undos(seen: Evidence) -> Iterator[str]:
    """A run that asks for it is undone in the step in which it fails."""
    events = [event for _, _, event in seen.events]
    if not events or getattr(events[0], "undo_on", "") not in ("failure", "both"):
        return
    for seq, (event, after) in enumerate(zip(events, [*events[1:], None], strict=True), 1):
        is_undone = isinstance(after, happened.RunCompensating)
        if isinstance(event, happened.RunFailed) and not is_undone:
            yield f"event {seq}: the run failed and is not undone"


def _failures(seen: Evidence) -> Iterator[tuple[int, happened.NodeFailed]]:
    for seq, _, event in seen.events:
        if isinstance(event, happened.NodeFailed) and event.node.endswith(UNDO):
            yield seq, event


def _settling(seen: Evidence) -> Iterator[tuple[int, Any]]:
    for seq, _, event in seen.events:
        if isinstance(event, SETTLING):
            yield seq, event


INVARIANTS: dict[str, Check] = {
    "I1": counter_adds_up,
    "I2": counter_counts_live_tokens,
    "I3": counter_is_zero_when_over,
    "I4": nothing_lives_in_a_closed_run,
    "I5": events_have_no_gap,
    "I7": instances_end_once,
    "I8": joins_fire_once_and_in_time,
    "I9": instances_are_emitted_once,
    "I10": runs_end_once,
    "I11": results_come_under_a_lease,
    "I12": leases_are_used_once,
    "I13": leases_end,
    "I16": limits_are_kept,
    "I19": plan_is_followed,
    "I34": dead_letters_are_dead_tokens,
    "I38": signals_are_queues,
    "I39": undo_is_complete,
    "I40": stalls_are_reported_once,
    # Last: a history that breaks another rule may be impossible to fold.
    "I6": fold_equals_stored,
}


def check_run(
    program: Program | None, events: Sequence[NumberedEvent], stored: State, facts: RunFacts
) -> list[Violation]:
    """Check everything that can be checked on one run at one moment."""
    seen = Evidence(program, events, stored, facts)
    found: list[Violation] = []
    for id_, check in INVARIANTS.items():
        try:
            found += [Violation(id_, message) for message in check(seen)]
        except InvariantError as error:
            # The cause has usually been reported by another check already.
            if not found:
                found.append(Violation(id_, f"the events cannot be folded: {error}"))
    return found
