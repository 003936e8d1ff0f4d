from __future__ import annotations

from typing import Any

import msgspec
import pytest

from minuet import events
from minuet.bridge.snapshot import events_of
from minuet.errors import InvariantError
from minuet.events import Event
from minuet.kernel.fold import Fold, NumberedEvent, State, fold, replay
from minuet.kernel.settle import AttemptFailed, Waiting
from minuet.store import changes, exchange, records

from .driver import RUN, Driver, finish, outputs, program_of

CREATED = events.RunCreated("example", "plan-1")
BUSY = AttemptFailed({"code": "busy", "message": "busy"}, retryable=True)
STARTED = events.RunStarted([("a", "", 1, 0, 0)], 1)


def numbered(*told: Event) -> list[NumberedEvent]:
    return [(number, 1000 + number, event) for number, event in enumerate(told, start=1)]


def diamond(**fields: Any) -> Driver:
    program = program_of(
        {"id": "a"},
        {"id": "b", "dependencies": ["a"]},
        {"id": "c", "dependencies": ["a"]},
        {"id": "d", "dependencies": ["b", "c"]},
    )
    return Driver(program, outputs(fields))


@pytest.mark.shows("O-09", "O-10")
def test_the_state_at_every_event_is_the_state_that_was_stored_then() -> None:
    driver = diamond()
    stored: dict[int, State] = {driver.state.seq: driver.state}
    while driver.state.status == "RUNNING":
        driver.step()
        stored[driver.state.seq] = driver.state
    history = events_of(driver.snapshot)

    assert len(stored) > 3
    for seq, state in stored.items():
        assert fold(history, upto=seq) == state


def test_events_go_through_text_unharmed() -> None:
    driver = diamond(b={"x": [1, 2.5, None, "ü"]})
    driver.run()

    history = events_of(driver.snapshot)

    again = [(n, at, events.decode_event(events.encode_event(e))) for n, at, e in history]
    assert fold(again) == driver.state


@pytest.mark.shows("D-29")
def test_a_chain_moves_the_counter_from_one_to_one_to_zero() -> None:
    program = program_of(
        {"id": "a"}, {"id": "b", "dependencies": ["a"]}, {"id": "c", "dependencies": ["b"]}
    )
    driver = Driver(program)
    driver.run()

    counters = [e.counter for _, _, e in events_of(driver.snapshot) if hasattr(e, "counter")]

    assert counters == [1, 1, 1, 0]


@pytest.mark.shows("D-45")
def test_a_diamond_ends_with_every_node_settled_once() -> None:
    driver = diamond()

    state = driver.run()

    assert (state.status, state.counter) == ("COMPLETED", 0)
    assert sorted(driver.ran) == [("a", ()), ("b", ()), ("c", ()), ("d", ())]
    assert driver.inputs["d", ()] == ["b", "c"]
    join = state.joins["d", ""]
    assert (join.live, join.skipped, join.fired) == (2, 0, True)
    assert join.sources == {"b": True, "c": True}


def test_a_retried_attempt_shows_its_error_and_when_it_is_due() -> None:
    program = program_of({"id": "a", "retry": {"jitter": False}})
    driver = Driver(program, outputs({"a": BUSY}))
    driver.settle(*driver.take())

    detail = replay(events_of(driver.snapshot)).details["a", ""]

    assert detail.error == {"code": "busy", "message": "busy"}
    assert detail.due_ms == driver.clock.now_ms() + 1000
    assert driver.state.tokens["a", ""].attempt == 2


def test_steps_pauses_and_waits_are_history() -> None:
    program = program_of({"id": "a"})
    driver = Driver(program, outputs({"a": Waiting("signal", "paid", due_ms=10**15)}))
    (grant,) = driver.take()
    step = exchange.NewStep(grant.run, "a", "", grant.lease, "charge", b'{"id":1}')
    finish(driver.store.record_steps(records.DEFAULT_TENANT, [step]))
    driver.check()
    driver.change(changes.Pause())
    driver.settle(grant)

    state = driver.state
    token = state.tokens["a", ""]
    assert state.status == "PAUSED"
    assert state.steps == {("a", "", "charge"): b'{"id":1}'}
    assert (token.state, token.wait, token.wait_key, token.due_ms) == (
        "waiting",
        "signal",
        "paid",
        10**15,
    )

    driver.change(changes.Resume())
    finish(driver.store.resolve(records.DEFAULT_TENANT, (RUN, "a", ""), b'"yes"'))
    driver.check()
    assert driver.run().status == "COMPLETED"


@pytest.mark.shows("K-11", "K-12")
def test_a_retry_of_the_run_takes_up_what_failed_and_keeps_what_completed() -> None:
    table: dict[str, Any] = {"b": ValueError("broken"), "a": {"x": 1}}
    driver = diamond()
    driver.handler = outputs(table)
    assert driver.run().status == "FAILED"
    del table["b"]
    driver.ran.clear()
    driver.held.clear()

    driver.change(changes.RetryRun())
    assert driver.state.generation == 2
    state = driver.run()

    assert state.status == "COMPLETED"
    assert ("a", ()) not in driver.ran
    assert msgspec.json.decode(state.tokens["a", ""].output or b"") == {"x": 1}
    assert {node for node, _ in driver.ran} >= {"b", "d"}


def test_a_patched_run_has_the_new_plan_and_its_deliveries() -> None:
    patched = events.RunPatched("plan-2", [("a", ("b", "", 1, 1, 1))], 2)

    state = fold(numbered(CREATED, STARTED, patched))

    assert state.plan == "plan-2"
    assert set(state.tokens) == {("a", ""), ("b", "")}
    assert state.counter == 2


def test_patched_deliveries_of_two_nodes_meet_at_one_join() -> None:
    to = [("a", ("j", "", 1, 2, 2)), ("b", ("j", "", 1, 2, 2))]

    state = fold(numbered(CREATED, STARTED, events.RunPatched("plan-2", to, 2)))

    assert state.joins["j", ""].sources == {"a": True, "b": True}
    assert state.tokens["j", ""].state == "ready"


def test_the_input_may_come_with_the_start() -> None:
    given = events.RunStarted([("a", "", 1, 0, 0)], 1, None, msgspec.Raw(b'{"x":1}'))

    assert fold(numbered(CREATED, STARTED)).input == b"null"
    assert fold(numbered(CREATED, given)).input == b'{"x":1}'


def test_a_cancelled_run_cuts_its_tokens_off() -> None:
    driver = diamond()
    driver.settle(*driver.take())
    driver.change(changes.Cancel("enough", "me"))

    state = driver.state

    assert state.error == {"code": "enough", "message": "enough"}
    assert {t.outcome for t in state.tokens.values()} == {"completed", "cancelled"}
    assert state.live() == 0


def test_a_lease_that_expired_is_counted() -> None:
    driver = diamond()
    driver.take()
    driver.lose()

    assert driver.state.tokens["a", ""].expiry == 1


def completed(node: str, *to: events.Sent, **rest: Any) -> events.NodeCompleted:
    return events.NodeCompleted(node, "", to=list(to), **rest)


@pytest.mark.parametrize(
    ("history", "message"),
    [
        ([(2, 0, CREATED)], "event 2 follows event 0"),
        (numbered(STARTED), "cannot happen to a run that is not created"),
        (numbered(CREATED, STARTED, completed("x")), "no token"),
        (numbered(CREATED, STARTED, completed("a"), completed("a")), "whose token is done"),
        (numbered(CREATED, STARTED, completed("a", ("a", "", 1, 1, 1))), "has a token already"),
        (
            numbered(
                CREATED,
                STARTED,
                completed("a", ("j", "", 1, 2, 3), more=True),
                events.NodeSent("a", "", [("j", "", 1, 2, 3)]),
            ),
            "arrived twice",
        ),
        (numbered(CREATED, STARTED, completed("a", withdrawn=[("x", "")])), "no live token"),
        (numbered(CREATED, STARTED, completed("a", withdrawn=[("a", "")])), "no live token"),
        (
            numbered(CREATED, STARTED, events.RunCancelled(), events.RunRetried(2, [("x", "")])),
            "neither failed nor was cut off",
        ),
    ],
)
def test_an_event_that_cannot_follow_is_refused(history: list[NumberedEvent], message: str) -> None:
    with pytest.raises(InvariantError, match=message):
        fold(history)


def test_a_fold_can_be_continued() -> None:
    driver = diamond()
    driver.run()
    history = events_of(driver.snapshot)
    growing = Fold()

    for recorded in history:
        growing.apply(*recorded)

    assert growing.state == fold(history)
