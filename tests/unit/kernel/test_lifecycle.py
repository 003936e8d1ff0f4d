from __future__ import annotations

import itertools
from typing import get_args

import pytest

from minuet import events
from minuet.errors import InvariantError
from minuet.kernel.lifecycle import (
    NODE_TRANSITIONS,
    RUN_EVENTS,
    TOKEN_EVENTS,
    NodeStatus,
    check_node_transition,
    next_run_status,
    next_token_state,
)
from minuet.types import RunStatus

NODE_STATUSES = get_args(NodeStatus)
RUN_STATUSES = ("", *get_args(RunStatus))
TOKEN_STATES = ("ready", "waiting", "done", "dead")

#: The transitions that the original documents allow.
SEEDS = {
    "PENDING": {"QUEUED", "CANCELLED"},
    "QUEUED": {"RUNNING", "CANCELLED", "FAILED"},
    "RUNNING": {"COMPLETED", "FAILED"},
    "COMPLETED": set(),
}


@pytest.mark.shows("D-20", "D-21", "D-23")
def test_the_node_states_and_transitions_of_the_seeds_are_there() -> None:
    assert {"PENDING", "QUEUED", "RUNNING", "COMPLETED", "FAILED", "CANCELLED"} <= set(
        NODE_STATUSES
    )
    for before, allowed in SEEDS.items():
        for after in allowed:
            check_node_transition(before, after)  # type: ignore[arg-type]
    assert NODE_TRANSITIONS["COMPLETED"] == ()


@pytest.mark.shows("D-22")
@pytest.mark.parametrize(
    ("before", "after"),
    [
        pair
        for pair in itertools.permutations(NODE_STATUSES, 2)
        if pair[1] not in NODE_TRANSITIONS[pair[0]]
    ],
)
def test_every_other_node_transition_is_refused(before: NodeStatus, after: NodeStatus) -> None:
    with pytest.raises(InvariantError, match=f"from {before} to {after}"):
        check_node_transition(before, after)


@pytest.mark.parametrize("status", NODE_STATUSES)
def test_a_node_may_stay_as_it_is(status: NodeStatus) -> None:
    check_node_transition(status, status)


def test_a_failed_node_is_left_only_by_a_retry_of_its_run() -> None:
    assert set(NODE_TRANSITIONS["FAILED"]) == {"QUEUED", "PENDING"}


@pytest.mark.shows("D-26", "D-27")
def test_a_run_goes_from_pending_over_running_to_its_end() -> None:
    status = ""
    seen = []
    for event in ("run.created", "run.started", "node.completed", "run.completed"):
        status = next_run_status(status, event)
        seen.append(status)

    assert seen == ["PENDING", "RUNNING", "RUNNING", "COMPLETED"]


@pytest.mark.shows("K-05", "K-06")
@pytest.mark.parametrize("event", RUN_EVENTS)
@pytest.mark.parametrize("status", RUN_STATUSES)
def test_run_events_happen_only_in_the_states_of_the_table(status: str, event: str) -> None:
    allowed, after = RUN_EVENTS[event]
    if status in allowed:
        assert next_run_status(status, event) == (after or status)
        return
    with pytest.raises(InvariantError, match=event):
        next_run_status(status, event)


@pytest.mark.parametrize("event", sorted(set(RUN_EVENTS) - {"run.retried", "run.compensating"}))
def test_nothing_but_a_retry_and_an_undo_happens_to_a_run_that_is_over(event: str) -> None:
    for status in ("COMPLETED", "FAILED", "CANCELLED"):
        if (status, event) == ("FAILED", "node.edited"):
            # What is to be retried may get another config before.
            assert next_run_status(status, event) == status
            continue
        with pytest.raises(InvariantError):
            next_run_status(status, event)


@pytest.mark.parametrize("event", TOKEN_EVENTS)
@pytest.mark.parametrize("state", TOKEN_STATES)
def test_token_events_happen_only_in_the_states_of_the_table(state: str, event: str) -> None:
    allowed, after = TOKEN_EVENTS[event]
    if state in allowed:
        assert next_token_state(state, event, "a") == (after or state)
        return
    with pytest.raises(InvariantError, match="whose token is"):
        next_token_state(state, event, "a")


@pytest.mark.shows("D-21")
@pytest.mark.parametrize("state", ["done", "dead"])
def test_nothing_happens_to_a_token_that_has_ended(state: str) -> None:
    for event in TOKEN_EVENTS:
        if (state, event) == ("dead", "node.edited"):
            assert next_token_state(state, event, "a") == state
            continue
        with pytest.raises(InvariantError):
            next_token_state(state, event, "a")


def test_the_tables_know_every_event() -> None:
    kinds = {str(kind.__struct_config__.tag) for kind in get_args(events.Event)}

    assert set(RUN_EVENTS) == kinds
    of_runs = ("run.", "signal.")
    assert set(TOKEN_EVENTS) == {kind for kind in kinds if not kind.startswith(of_runs)}
