"""Rules for child runs: who may start one, what its relatives must learn, and how long it stays."""

from __future__ import annotations

from collections.abc import Container, Iterator
from itertools import count
from typing import Any

from minuet.events import RunRetried, decode_event
from minuet.simulation.coverage import Coverage
from minuet.simulation.model import ModelStore
from minuet.simulation.rules import Found
from minuet.store.changes import NewRun
from minuet.store.families import child_id
from minuet.store.records import CHILD_SIGNAL, Key, Run
from minuet.types import CLOSED, TERMINAL


def _instance_of(run: Run) -> Key:
    """The node instance that has started a run."""
    return (run.parent or "", run.parent_node, run.parent_scope)


def is_needed(model: ModelStore, name: str) -> bool:
    """Whether a run that is there and over must stay, because of its relatives."""
    run = model.run(name)
    parent = model.run(run.parent) if run is not None and run.parent else None
    is_kept = parent is not None and parent.status not in TERMINAL
    return run is not None and (run.unreported or is_kept)


def child_rules(
    model: ModelStore, coverage: Coverage, known: Container[str], request: Any
) -> Iterator[Found]:
    """I22: a node instance has one child run, which was started under the instance's lease."""
    for new in request if isinstance(request, tuple | list) else ():
        if not isinstance(new, NewRun) or new.parent is None:
            continue
        coverage.hit("child run started")
        instance = (new.parent.run, new.parent.node, new.parent.scope)
        born = [
            run
            for run in model.runs()
            if _instance_of(run) == instance and run.parent_number == new.parent_number
        ]
        if len(born) > 1:
            yield "I22", f"{instance[1:]} has {len(born)} child runs", new.parent.run
        if new.run in known or not born:
            continue
        token = model.token(instance)
        if token is None or (token.state, token.lease) != ("leased", new.parent.lease):
            yield "I22", "its child run was started without a lease", new.parent.run


def report_rules(
    model: ModelStore, coverage: Coverage, reopened: Container[str], name: str
) -> Iterator[Found]:
    """I22: when a run counts as reported, its relatives know what happened to it. A failover may
    have lost the end of a child run after that: those are `reopened`."""
    run = model.run(name)
    if run is None:
        return
    waiting = [
        token
        for token in (model.tokens(run.parent) if run.parent is not None else ())
        if (token.state, token.wait, token.wait_key) == ("waiting", "child", name)
    ]
    if waiting and run.status in TERMINAL:
        yield "I22", "it is over, and its parent waits for it", name
    if run.parent_number and run.status in TERMINAL and not _is_signalled(model, run):
        yield "I22", "it is over, and its parent has no signal of that", name
    for token in model.tokens(name):
        if token.outcome not in ("cancelled", "superseded", "failed"):
            continue
        for child in _children_of(model, token.key):
            coverage.hit("child run cut off")
            if child.status in CLOSED or child.run in reopened:
                continue
            # People may retry the only child of a node that failed with it, and any that was over
            # when the parent ended.
            is_left = token.outcome == "failed" and not child.parent_number
            if not is_left and not _is_retried(model, child, run):
                yield "I22", f"it no longer waits for {child.run}, which is open", name


def _is_signalled(model: ModelStore, run: Run) -> bool:
    """Whether the function that has started a run has a signal of its end, or needs none. One that
    was over at that time, and goes on since, looks at its child runs first."""
    parent = model.run(run.parent or "")
    if parent is None or parent.status in CLOSED or parent.generation > 1:
        return True
    ids = {signal.id for signal in model.signals(parent.run)}
    return f"{CHILD_SIGNAL}{run.run}:{run.generation}" in ids


def _is_retried(model: ModelStore, child: Run, parent: Run) -> bool:
    """Whether a child run was retried after the end of its parent."""
    if parent.ended_ms is None or child.generation == 1:
        return False
    retried = (
        record.at_ms
        for record in reversed(model.events(child.run))
        if isinstance(decode_event(record.data), RunRetried)
    )
    return next(retried) >= parent.ended_ms


def _children_of(model: ModelStore, instance: Key) -> Iterator[Run]:
    for number in count():
        child = model.run(child_id(instance, number))
        if child is not None:
            yield child
        elif number:
            return
