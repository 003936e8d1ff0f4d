from __future__ import annotations

from typing import Any

import pytest

from minuet.bridge.snapshot import events_of
from minuet.kernel.fold import State, TokenView, replay
from minuet.kernel.settle import AttemptFailed, Succeeded, Waiting
from minuet.kernel.view import NodeView, Step, node_views, path, run_output
from minuet.store import changes

from .driver import Driver, outputs, program_of

CHAIN = (
    {"id": "a"},
    {"id": "b", "dependencies": ["a"]},
    {"id": "c", "dependencies": ["b"]},
)


def views(driver: Driver) -> dict[str, NodeView]:
    snapshot = driver.snapshot
    folded = replay(events_of(snapshot))
    leased = frozenset((t.node, t.scope) for t in snapshot.tokens if t.state == "leased")
    return node_views(driver.program, folded.state, folded.details, leased)


def statuses(driver: Driver) -> dict[str, str]:
    return {name: view.status for name, view in views(driver).items()}


@pytest.mark.shows("D-20", "D-23", "D-24")
def test_a_node_goes_from_pending_over_queued_and_running_to_completed() -> None:
    driver = Driver(program_of(*CHAIN))
    seen = [statuses(driver)["b"]]
    driver.settle(*driver.take())
    seen.append(statuses(driver)["b"])
    held = driver.take()
    seen.append(statuses(driver)["b"])
    driver.settle(*held)
    seen.append(statuses(driver)["b"])

    assert seen == ["PENDING", "QUEUED", "RUNNING", "COMPLETED"]


def test_nodes_come_in_the_order_of_the_plan_without_the_hidden_one() -> None:
    driver = Driver(program_of(*CHAIN, output="{{ c.output }}"))

    assert "$output" in driver.program.nodes
    assert list(views(driver)) == ["a", "b", "c"]


def test_a_completed_node_shows_its_output_attempts_and_times() -> None:
    driver = Driver(program_of(*CHAIN), outputs({"a": {"x": 1}}))
    start = driver.clock.now_ms()
    (grant,) = driver.take()
    driver.clock.advance(5)
    driver.settle(grant)

    view = views(driver)["a"]

    assert (view.status, view.output, view.attempts) == ("COMPLETED", b'{"x":1}', 1)
    assert (view.started_ms, view.ended_ms) == (start, start + 5)


def test_attempts_count_those_that_were_begun() -> None:
    busy = AttemptFailed({"code": "busy", "message": "busy"}, retryable=True)
    driver = Driver(program_of(*CHAIN), outputs({"a": busy}))
    assert views(driver)["a"].attempts == 0
    (grant,) = driver.take()
    assert views(driver)["a"].attempts == 1
    driver.settle(grant)

    view = views(driver)["a"]
    assert (view.status, view.attempts) == ("QUEUED", 1)
    assert view.error == {"code": "busy", "message": "busy"}


def test_a_node_that_waits_says_so() -> None:
    driver = Driver(program_of(*CHAIN), outputs({"a": Waiting("signal", "paid")}))
    driver.settle(*driver.take())

    assert statuses(driver)["a"] == "WAITING"


@pytest.mark.shows("K-02")
def test_everything_below_a_failure_has_failed_too_and_the_rest_is_cancelled() -> None:
    program = program_of(
        *CHAIN,
        {"id": "x"},
        {"id": "y", "dependencies": ["x"]},
        {"id": "z", "dependencies": ["y"]},
        {"id": "j", "dependencies": ["c", "z"]},
    )
    driver = Driver(program, outputs({"a": ValueError("broken")}))
    by_name = {grant.node: grant for grant in driver.take(2)}
    driver.settle(by_name["a"])

    seen = views(driver)

    assert {name: view.status for name, view in seen.items()} == {
        **dict.fromkeys("abcj", "FAILED"),
        **dict.fromkeys("xyz", "CANCELLED"),
    }
    assert seen["a"].error == {"code": "broken", "message": "broken"}
    assert {seen[name].reason for name in "bcj"} == {"upstream_failed"}
    assert {seen[name].reason for name in "xyz"} == {"run_ended"}


def test_a_failure_above_a_node_that_a_patch_removed_is_no_problem() -> None:
    program = program_of({"id": "a"})
    state = State(
        status="FAILED",
        tokens={("gone", ""): TokenView("gone", "", state="dead", outcome="failed")},
    )

    assert node_views(program, state)["a"] == NodeView("a", "CANCELLED", reason="run_ended")


def test_a_loop_does_not_carry_a_failure_back() -> None:
    loop = {"condition": "true", "max_iterations": 9, "loop_back_to": "a"}
    program = program_of({"id": "a"}, {"id": "b", "dependencies": ["a"], "loop": loop})
    driver = Driver(program, outputs({"b": ValueError("broken")}))
    driver.run()

    assert statuses(driver) == {"a": "COMPLETED", "b": "FAILED"}


@pytest.mark.shows("K-16")
def test_nodes_of_a_cancelled_run_are_cancelled() -> None:
    driver = Driver(program_of(*CHAIN))
    driver.settle(*driver.take())
    driver.change(changes.Cancel())

    assert statuses(driver) == {"a": "COMPLETED", "b": "CANCELLED", "c": "CANCELLED"}


def test_a_handled_failure_is_failed_in_a_run_that_completes() -> None:
    nodes = ({"id": "a", "on_error": "continue"}, *CHAIN[1:])
    driver = Driver(program_of(*nodes), outputs({"a": ValueError("broken")}))

    assert driver.run().status == "COMPLETED"
    view = views(driver)["a"]
    assert (view.status, view.error) == ("FAILED", {"code": "broken", "message": "broken"})


def test_a_skip_is_shown_as_soon_as_it_is_decided() -> None:
    branch = {"rules": [{"condition": "false", "next_nodes": ["b"]}]}
    driver = Driver(program_of({"id": "a", "branch": branch}, *CHAIN[1:]))
    assert set(statuses(driver).values()) == {"QUEUED", "PENDING"}
    driver.settle(*driver.take())
    held = driver.take()
    assert [statuses(driver)[str(node["id"])] for node in CHAIN[1:]] == ["SKIPPED"] * len(CHAIN[1:])
    driver.settle(*held)

    view = views(driver)["b"]
    assert (view.status, view.attempts, view.reason) == ("SKIPPED", 0, "all_arrivals_skipped")
    assert view.started_ms is None


def test_what_a_join_withdrew_is_cancelled_and_what_was_never_reached_is_skipped() -> None:
    program = program_of(
        {"id": "a"},
        {"id": "b"},
        {"id": "c", "dependencies": ["b"]},
        {"id": "j", "dependencies": ["a", "c"], "join": "any", "join_rest": "cancel"},
    )
    driver = Driver(program)
    by_name = {grant.node: grant for grant in driver.take(2)}
    driver.settle(by_name["a"])
    driver.run()

    seen = views(driver)
    assert (seen["b"].status, seen["b"].reason) == ("CANCELLED", "withdrawn_by_join")
    assert (seen["c"].status, seen["c"].reason) == ("SKIPPED", "not_reached")


def test_a_node_in_a_loop_shows_its_latest_iteration() -> None:
    loop = {"condition": "output.again", "max_iterations": 5}
    table: dict[str, Any] = {"a": [{"again": True}, {"again": True}, ValueError("broken")]}
    driver = Driver(program_of({"id": "a", "loop": loop}), outputs(table))
    driver.run()

    view = views(driver)["a"]

    assert (view.status, view.scope) == ("FAILED", (2,))
    assert [(one.scope, one.status) for one in view.instances] == [
        ((0,), "COMPLETED"),
        ((1,), "COMPLETED"),
        ((2,), "FAILED"),
    ]
    assert view.output == b'{"again":true}'


def test_a_node_below_an_each_join_shows_what_most_needs_attention() -> None:
    program = program_of(
        {"id": "a"}, {"id": "b"}, {"id": "j", "dependencies": ["a", "b"], "join": "each"}
    )
    driver = Driver(program)
    driver.settle(*driver.take(2))
    first, second = driver.take(2)
    assert statuses(driver)["j"] == "RUNNING"
    driver.settle(second)
    assert statuses(driver)["j"] == "RUNNING"
    driver.settle(first)
    assert statuses(driver)["j"] == "COMPLETED"


# ── output ──────────────────────────────────────────────────────────────────────────────


def test_the_output_is_that_of_the_last_nodes_that_completed() -> None:
    branch = {"rules": [{"condition": "true", "next_nodes": ["b"]}], "default": ["c"]}
    program = program_of(
        {"id": "a", "branch": branch},
        {"id": "b", "dependencies": ["a"]},
        {"id": "c", "dependencies": ["a"]},
        {"id": "d", "on_error": "continue"},
    )
    driver = Driver(program, outputs({"b": {"x": 1}, "d": ValueError("broken")}))

    assert run_output(program, driver.run()) == {"b": {"x": 1}}


def test_the_output_of_a_loop_is_that_of_its_last_iteration() -> None:
    loop = {"condition": "iteration < 11", "max_iterations": 20}
    program = program_of({"id": "a", "loop": loop})
    driver = Driver(program, lambda node, scope, attempt: Succeeded(scope[0]))

    assert run_output(program, driver.run()) == {"a": 11}


def test_a_document_says_what_the_output_is() -> None:
    program = program_of(*CHAIN, output="{{ c.output }}")
    driver = Driver(program, outputs({"$output": "made"}))

    assert run_output(program, driver.run()) == "made"


def test_the_output_is_made_although_all_last_nodes_were_skipped() -> None:
    branch = {"rules": [{"condition": "false", "next_nodes": ["b"]}]}
    program = program_of({"id": "a", "branch": branch}, *CHAIN[1:], output="{{ a.output }}")

    assert run_output(program, Driver(program, outputs({"$output": "made"})).run()) == "made"


# ── path ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.shows("D-51", "O-08")
def test_the_path_tells_what_ran_in_order_and_where_it_led() -> None:
    branch = {"rules": [{"condition": "true", "next_nodes": ["b"]}], "default": ["c"]}
    program = program_of(
        {"id": "a", "branch": branch},
        {"id": "b", "dependencies": ["a"], "on_error": "continue"},
        {"id": "c", "dependencies": ["a"]},
        {"id": "d", "dependencies": ["b", "c"]},
    )
    table = {"b": ValueError("handled"), "d": ValueError("broken")}
    driver = Driver(program, outputs(table))
    driver.run()

    steps = path(events_of(driver.snapshot))

    assert [(step.node, step.outcome, step.to) for step in steps] == [
        ("a", "completed", (("b", ()),)),
        ("b", "failed", (("d", ()),)),
        ("d", "failed", ()),
    ]
    assert steps == sorted(steps, key=lambda step: step.seq)
    assert isinstance(steps[0], Step)


def test_the_path_tells_a_large_fan_out_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("minuet.kernel.settle.SENDS_PER_EXCHANGE_MAX", 2)
    leaves = [{"id": f"leaf{n}", "dependencies": ["a"]} for n in range(3)]
    driver = Driver(program_of({"id": "a"}, *leaves))
    driver.settle(*driver.take())
    driver.settle(*(grant for grant in driver.take(9) if grant.node == "a"))

    steps = path(events_of(driver.snapshot))

    assert [(step.outcome, len(step.to)) for step in steps] == [("completed", 2), ("sent", 1)]
