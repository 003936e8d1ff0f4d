"""The verdict at the end: what clients were promised, and what the outside world has seen.

In a world whose store was rolled back, an acknowledged suffix is lost by design. Promises and
their consequences are not checked there. The store's own record is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from minuet import events as happened
from minuet.approvals import APPROVAL_WAIT
from minuet.kernel.view import run_output
from minuet.simulation.agents import is_determined
from minuet.simulation.approvals import is_lost, wrong_decisions
from minuet.simulation.checker import BrokenRule
from minuet.simulation.handlers import Start
from minuet.simulation.letters import discarded_wrongly, retried_wrongly
from minuet.simulation.logged import LogModel
from minuet.simulation.server import apply
from minuet.simulation.undo import subject
from minuet.store.records import SIGNAL_WAIT, Key, Run
from minuet.types import UNDO

if TYPE_CHECKING:
    from minuet.simulation.world import World

#: The event that an acknowledged change must have left.
_EVENTS = {
    "create": happened.RunCreated,
    "Start": happened.RunStarted,
    "Cancel": happened.RunCancelled,
    "Pause": happened.RunPaused,
    "Resume": happened.RunResumed,
    "RetryRun": happened.RunRetried,
    "NewPlan": happened.RunPatched,
    "Rollback": happened.RunCompensating,
    **{
        f"Repair {action}": happened.NodeRepaired
        for action in ("skip", "output", "take_back", "retry", "fail")
    },
    "Repair edit": happened.NodeEdited,
}


def judge(world: World) -> None:
    """Check everything that can only be known at the end."""
    for run in world.model.runs():
        world.checker.check_again(run.run)
        world.coverage.hit(f"run {run.status}")
    world.shelf.judge(_with_first_plans(world))
    if not world.model.timeline:
        _starts_are_explained(world)
    if not world.model.timeline or world.log is not None:
        _promises_are_kept(world)
        _letters_are_handled(world)
        _ends_stay(world)
        _order_is_kept(world)
        _inputs_stay(world)
        _steps_stay(world)
    if world.log is not None:
        _record_is_right(world, world.log)
    if world.faults.are_benign and not world.config.kills:
        _leases_are_kept(world)
    if world.hooks is not None and (not world.model.timeline or world.log is not None):
        _receivers_know_all(world)
    _keys_are_stable(world)
    _effects_are_there(world)
    world.functions.judge(world.deleted)
    world.agents.judge(world.deleted)


def _record_is_right(world: World, log: LogModel) -> None:
    """I25: the record has the events of every run, in a chain that holds."""
    for run in world.model.runs():
        if log.is_deleted(run.run):
            continue
        if log.events(run.run) != world.model.events(run.run):
            world.fail(BrokenRule("I25", "its record is another one", run.run))
        found, _ = apply(log.find_break(run.tenant, run.run))
        if found is not None:
            world.fail(BrokenRule("I25", f"the chain of its record breaks at {found}", run.run))
    for name in log.orphans():
        world.fail(BrokenRule("I18", "blobs of it are left although it is gone", name))


def _with_first_plans(world: World) -> Iterator[tuple[Run, str]]:
    """All runs, with the plans that they were created with."""
    for run in world.model.runs():
        for _, _, event in world.checker.events(run.run)[:1]:
            assert isinstance(event, happened.RunCreated)
            yield run, event.plan


def _leases_are_kept(world: World) -> None:
    """A live worker that can reach the store loses no lease."""
    for run in world.model.runs():
        for seq, _, event in world.checker.events(run.run):
            if isinstance(event, happened.LeaseExpired):
                message = f"event {seq}: a healthy worker lost its lease on {event.node!r}"
                world.fail(BrokenRule("I14", message, run.run))


def _promises_are_kept(world: World) -> None:
    """I27: everything acknowledged is in the record."""
    deleted = world.deleted
    for key, run in world.callers.promises.started.items():
        if run in deleted:
            continue
        same = [r.run for r in world.model.runs() if f"{r.tenant} {r.idempotency_key}" == key]
        if same != [run]:
            world.fail(BrokenRule("I27", f"{key} was acknowledged as {run}, and there are {same}"))
    for promise in world.callers.promises.made:
        if promise.run in deleted:
            continue
        history = world.checker.events(promise.run)
        # The last event of a change is its own, except for a creation and a start.
        wanted = _EVENTS[promise.what]
        if not any(isinstance(event, wanted) for _, _, event in history[: promise.seq]):
            message = f"{promise.what} was acknowledged at event {promise.seq} and is not there"
            world.fail(BrokenRule("I27", message, promise.run))
    for run, id in world.callers.promises.signals:
        if run not in deleted and id not in world.checker.state(run).signals:
            world.fail(BrokenRule("I27", f"signal {id} was acknowledged and is not there", run))
    for run, id, decision, person in world.callers.promises.decisions:
        if run not in deleted and is_lost(run, world.checker.events(run), id, decision, person):
            message = f"{decision} by {person} on {id} was acknowledged and is not there"
            world.fail(BrokenRule("I27", message, run))
    for row in world.model.runs():
        for wrong in wrong_decisions(world.checker.events(row.run)):
            world.fail(BrokenRule("I21", wrong, row.run))


def _letters_are_handled(world: World) -> None:
    """I27: a dead letter that was retried is retried once, and one that was discarded stays so."""
    handled, deleted = world.callers.handled, world.deleted
    for message, run in retried_wrongly(
        handled, lambda run: None if run in deleted else world.checker.events(run)
    ):
        world.fail(BrokenRule("I27", message, run))
    if world.log is None:  # A log does not have discards.
        for message, run in discarded_wrongly(
            handled, lambda run: None if run in deleted else world.model.letters(run)
        ):
            world.fail(BrokenRule("I27", message, run))


def _receivers_know_all(world: World) -> None:
    """Every receiver of webhooks has got all that it wants to know."""
    assert world.hooks is not None
    for run in world.model.runs():
        if run.run not in world.deleted:
            for lost in world.hooks.find_lost(run.run, world.checker.events(run.run)):
                world.fail(BrokenRule("webhook-lost", lost, run.run))


def _ends_stay(world: World) -> None:
    """I28: an end that a client saw does not change, unless the run was retried."""
    for seen in world.callers.promises.seen:
        if seen.run in world.deleted:
            continue
        events = world.checker.events(seen.run)
        run = world.model.run(seen.run)
        assert run is not None
        retried = any(isinstance(event, happened.RunRetried) for _, _, event in events[seen.seq :])
        if not retried and run.status != seen.status:
            message = f"it was seen as {seen.status} and is {run.status}"
            world.fail(BrokenRule("I28", message, seen.run))
        if seen.status == "COMPLETED":
            state = world.checker.state(seen.run)
            undone = any(
                isinstance(event, happened.RunCompensating) for _, _, event in events[seen.seq :]
            )
            if retried or (len(events) != seen.seq and not undone):
                world.fail(BrokenRule("I28", "something followed its completion", seen.run))
            if any(b"$blob" in (t.output or b"") for t in state.tokens.values()):
                continue
            output = msgspec.json.encode(run_output(world.programs[run.plan], state))
            if output != seen.output:
                world.fail(BrokenRule("I28", "its output was seen otherwise", seen.run))


def _order_is_kept(world: World) -> None:
    """I31: what was acknowledged before another call was sent comes before it."""
    made = [promise for promise in world.callers.promises.made if promise.what != "create"]
    for first in made:
        for second in made:
            if (
                first.run == second.run
                and first.acked_at < second.sent_at
                and first.seq >= second.seq
            ):
                message = f"{first.what} at {first.seq} came before {second.what} at {second.seq}"
                world.fail(BrokenRule("I31", message, first.run))


def _keys_are_stable(world: World) -> None:
    """I30: all starts of an instance have the same key, and no other instance has it."""
    owners: dict[str, Key] = {}
    for instance, starts in world.outside.starts.items():
        keys = {start.key for start in starts}
        if not keys:
            continue
        if len(keys) > 1:
            world.fail(BrokenRule("I30", f"{instance[1:]} had {len(keys)} keys", instance[0]))
        if subject(owners.setdefault(starts[0].key, instance)) != subject(instance):
            world.fail(BrokenRule("I30", f"{instance[1:]} shares its key", instance[0]))


def _starts(world: World) -> Iterator[tuple[Key, list[Start]]]:
    """Starts in runs that were never deleted. A late start call creates a deleted run
    again."""
    for instance, starts in world.outside.starts.items():
        # Of a handler that failed before it could be counted there are none.
        if starts and instance[0] not in world.deleted:
            yield instance, starts


def _inputs_stay(world: World) -> None:
    """I30: all starts of an instance have the same inputs, none of them damaged."""
    for instance in sorted(world.outside.damaged):
        message = f"{instance[1:]} was started with a damaged content"
        world.fail(BrokenRule("I30", message, instance[0]))
    for instance, starts in _starts(world):
        token = world.model.token(instance)
        if token is not None and token.edited:
            continue  # Somebody gave it others.
        if len({start.inputs for start in starts}) != 1:
            world.fail(
                BrokenRule("I30", f"{instance[1:]} was started with two inputs", instance[0])
            )


def _starts_are_explained(world: World) -> None:
    """I29: a handler is started at most once each time its token is handed out."""
    for instance, starts in _starts(world):
        token = world.model.token(instance)
        if token is None or len(starts) > token.delivery:
            times = 0 if token is None else token.delivery
            message = f"{instance[1:]} was started {len(starts)} times, handed out {times} times"
            world.fail(BrokenRule("I29", message, instance[0]))


def _effects_are_there(world: World) -> None:
    """I29: a completed node has left exactly one effect where effects are deduplicated."""
    for run in world.model.runs():
        program = world.programs[run.plan]
        state = world.checker.state(run.run)
        for (node, scope), token in state.tokens.items():
            if program.nodes[node].type != "task" or token.outcome != "completed":
                continue
            if token.given:
                continue  # Its handler need not have been called.
            instance = (run.run, node, scope)
            starts = world.outside.starts.get(instance)
            owner = world.outside.sink.get(starts[0].key) if starts else None
            if owner is None or subject(owner) != subject(instance):
                message = f"{(node, scope)} completed and left no effect"
                world.fail(BrokenRule("I29", message, run.run))


def _steps_stay(world: World) -> None:
    """A recorded step gives the same result to every attempt."""
    for (instance, name), values in world.outside.steps.items():
        if instance[0] not in world.deleted and len(set(values)) != 1:
            message = f"step {name!r} of {instance[1:]} gave {values}"
            world.fail(BrokenRule("steps-stay", message, instance[0]))


# ── the same world without faults ───────────────────────────────────────────────────────────

#: Handlers whose output depends only on their input, unless these faults are on.
_DETERMINED = {
    "steady": (),
    "threaded": (),
    "slow": (),
    "flaky": ("fail",),
    "broken": ("fail",),
    "crashing": (),
    "poison": ("crash",),
}


def determined_results(world: World) -> dict[str, dict[str, str]]:
    """The outputs of nodes in runs that do not depend on chance, by idempotency key."""
    found = {}
    for run in world.model.runs():
        if run.status == "COMPLETED" and run.idempotency_key and _is_determined(world, run.run):
            state = world.checker.state(run.run)
            found[f"{run.tenant} {run.idempotency_key}"] = {
                f"{node} {scope}": f"{token.outcome} {(token.output or b'').decode()}"
                for (node, scope), token in sorted(state.tokens.items())
                # The run's output contains the run's id, which differs between worlds.
                if run.run.encode() not in (token.output or b"") and not node.endswith(UNDO)
            }
    return found


def _is_determined(world: World, run: str) -> bool:
    row = world.model.run(run)
    assert row is not None
    plan = world.programs[row.plan].plan
    if any(token.expiry >= world.crashes_max for token in world.model.tokens(run)):
        return False
    if any(isinstance(event, happened.NodeRepaired) for _, _, event in world.checker.events(run)):
        return False
    if any(_waits_for_signal(event) for _, _, event in world.checker.events(run)):
        # Whether a signal or the timeout comes first is a matter of time.
        return False
    for node in plan.nodes:
        if node.type in ("workflow", "flow"):
            return False
        if node.type == "agent" and not is_determined(node.config, world.faults):
            return False
        if node.need or node.timeout_ms is not None:
            return False
        each = node.foreach
        if each is not None and (each.need is not None or node.on_error != "fail"):
            # Which items came first decides.
            return False
        if node.type == "task":
            spoilers = _DETERMINED.get(node.handler or "")
            if spoilers is None or any(world.faults.of(fault) for fault in spoilers):
                return False
    return True


def _waits_for_signal(event: happened.Event) -> bool:
    return isinstance(event, happened.NodeWaiting) and event.kind in (SIGNAL_WAIT, APPROVAL_WAIT)


def differing_results(
    ours: dict[str, dict[str, str]], calm: dict[str, dict[str, str]]
) -> str | None:
    """Where two worlds disagree about runs that both completed. None: nowhere."""
    for key in sorted(ours.keys() & calm.keys()):
        for place in sorted(ours[key].keys() | calm[key].keys()):
            here, there = ours[key].get(place), calm[key].get(place)
            if here != there:
                return f"{key} {place}: {here}, and without faults {there}"
    return None
