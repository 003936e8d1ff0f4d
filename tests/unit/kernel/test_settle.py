from __future__ import annotations

from typing import Any

import msgspec
import pytest

from minuet.kernel import settle as module
from minuet.kernel.program import Program
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
    fanout_limit,
    hops_limit,
    pass_on,
    settle,
)
from minuet.types import Scope

from .driver import Driver, outputs, program_of

ERROR = {"code": "timeout", "message": "no answer"}


def settled(program: Program, outcome: Outcome, scope: Scope = (), **rest: Any) -> Settlement:
    variables: dict[str, Any] = {"ctx": {}, "input": None, "run": {}}
    return settle(program, program.nodes["a"], scope, outcome, variables=variables, **rest)


def fan(count: int, **fields: Any) -> list[dict[str, Any]]:
    """Node `a` and this many nodes below it."""
    leaves = [{"id": f"leaf{n}", "dependencies": ["a"]} for n in range(count)]
    return [{"id": "a", **fields}, *leaves]


def live(settlement: Settlement) -> list[str]:
    assert isinstance(settlement, Sent)
    return [send.node for send in settlement.sends if send.live]


def test_a_result_is_sent_on() -> None:
    made = settled(program_of(*fan(2)), Succeeded({"x": 1}))

    assert isinstance(made, Sent)
    assert (made.outcome, made.output, made.cursor) == ("completed", {"x": 1}, None)
    assert live(made) == ["leaf0", "leaf1"]


def test_a_skip_is_passed_on_to_everybody() -> None:
    made = settled(program_of(*fan(2)), Skipped())

    assert isinstance(made, Sent)
    assert made.outcome == "skipped"
    assert [(send.node, send.live) for send in made.sends] == [("leaf0", False), ("leaf1", False)]


def test_a_skipped_loop_skips_both_its_exits_and_does_not_go_back() -> None:
    loop = {"condition": "true", "max_iterations": 2, "timeout_path": ["leaf1"]}
    made = settled(program_of(*fan(2, loop=loop)), Skipped(), (0,))

    assert isinstance(made, Sent)
    assert [(send.node, send.live) for send in made.sends] == [("leaf0", False), ("leaf1", False)]


def test_waiting_is_left_as_it_is() -> None:
    waiting = Waiting("timer", delay_ms=5)

    assert settled(program_of(*fan(1)), waiting) is waiting


def test_a_loop_that_goes_on_delivers_only_to_its_entry() -> None:
    loop = {"condition": "true", "max_iterations": 2}
    made = settled(program_of(*fan(1, loop=loop)), Succeeded({}), (0,))

    assert isinstance(made, Sent)
    assert [(send.node, send.scope, send.live) for send in made.sends] == [("a", (1,), True)]


# ── failures ────────────────────────────────────────────────────────────────────────────


@pytest.mark.shows("J-10", "J-13")
def test_a_failure_that_may_pass_is_tried_again_until_the_attempts_are_used_up() -> None:
    program = program_of(*fan(1, retry={"jitter": False}))
    failed = AttemptFailed(ERROR, retryable=True)

    assert settled(program, failed, attempt=1) == Retried(ERROR, 1000)
    assert settled(program, failed, attempt=2) == Retried(ERROR, 2000)
    assert settled(program, failed, attempt=3) == NodeFailed(ERROR, None)


def test_jitter_comes_from_outside() -> None:
    program = program_of(*fan(1))

    made = settled(program, AttemptFailed(ERROR, retryable=True), fraction=0.4)

    assert made == Retried(ERROR, 1100)


@pytest.mark.shows("J-31")
def test_a_failure_that_cannot_pass_is_a_dead_letter_at_once() -> None:
    made = settled(program_of(*fan(1)), AttemptFailed(ERROR))

    assert made == NodeFailed(ERROR, "non_retryable")


@pytest.mark.shows("J-14")
def test_by_policy_used_up_attempts_are_a_dead_letter_too() -> None:
    program = program_of(*fan(1), dlq_policy="all")

    assert settled(program, AttemptFailed(ERROR, True), attempt=3) == NodeFailed(
        ERROR, "max_retries_exceeded"
    )


def test_a_failure_may_bring_its_own_reason_for_a_dead_letter() -> None:
    made = settled(program_of(*fan(1)), AttemptFailed(ERROR, reason="crash_loop"))

    assert made == NodeFailed(ERROR, "crash_loop")


def test_a_handled_failure_is_sent_on_as_output() -> None:
    made = settled(program_of(*fan(1, on_error="continue")), AttemptFailed(ERROR))

    assert isinstance(made, Sent)
    assert (made.outcome, made.output, made.error) == ("failed", {"error": ERROR}, ERROR)
    assert live(made) == ["leaf0"]


def test_a_failure_that_has_a_path_takes_only_that() -> None:
    made = settled(program_of(*fan(2, on_error=["leaf1"])), AttemptFailed(ERROR))

    assert live(made) == ["leaf1"]


def test_a_routing_that_fails_is_a_failure_of_the_node() -> None:
    loop = {"condition": "true", "max_iterations": 1}

    made = settled(program_of(*fan(1, loop=loop)), Succeeded({}), (0,))

    assert isinstance(made, NodeFailed)
    assert (made.error["code"], made.dead_letter) == ("loop_exhausted", "non_retryable")


# ── limits ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.shows("K-23")
def test_a_hop_that_reaches_the_limit_breaks_the_run() -> None:
    program = program_of(*fan(1), limits={"max_hops": 5})

    assert live(settled(program, Succeeded({}), hop=3)) == ["leaf0"]
    made = settled(program, Succeeded({}), hop=4)
    assert isinstance(made, NodeFailed)
    assert (made.error["code"], made.dead_letter) == ("exceeded_max_hops", "limit")
    assert made.error["message"] == (
        "max_hops is 5: 5 node instances have run one after the other, the last of them 'a', "
        "and another would follow"
    )


def test_the_last_node_of_a_run_may_stand_at_the_last_hop() -> None:
    program = program_of({"id": "a"}, limits={"max_hops": 5})

    assert isinstance(settled(program, Succeeded({}), hop=99), Sent)


def test_rendering_the_output_is_no_hop_and_no_fan_out() -> None:
    program = program_of(
        {"id": "a"},
        {"id": "leaf0", "dependencies": ["a"]},
        limits={"max_hops": 2, "max_fanout": 1},
        output="{{ a.n }}",
    )

    assert live(settled(program, Succeeded({}), hop=0)) == ["$output", "leaf0"]
    made = settle(program, program.nodes["leaf0"], (), Succeeded({}), variables={}, hop=1)
    assert live(made) == ["$output"]


def test_going_round_a_loop_counts_hops() -> None:
    loop = {"condition": "true", "max_iterations": 100}
    program = program_of(*fan(1, loop=loop), limits={"max_hops": 5})

    made = settled(program, Succeeded({}), (4,), hop=4)

    assert isinstance(made, NodeFailed)
    assert made.error["code"] == "exceeded_max_hops"


@pytest.mark.shows("K-24")
def test_starting_too_many_nodes_at_once_breaks_the_run() -> None:
    program = program_of(*fan(3), limits={"max_fanout": 2})

    made = settled(program, Succeeded({}))

    assert isinstance(made, NodeFailed)
    assert (made.error["code"], made.dead_letter) == ("exceeded_max_fanout", "limit")


def test_skips_are_no_fan_out() -> None:
    branch = {"rules": [{"condition": "true", "next_nodes": ["leaf0"]}], "default": ["leaf1"]}
    program = program_of(*fan(2, branch=branch), limits={"max_fanout": 1})

    assert live(settled(program, Succeeded({}))) == ["leaf0"]


def test_the_smallest_limit_wins() -> None:
    own = program_of(*fan(1, limits={"max_hops": 3, "max_fanout": 4}), limits={"max_hops": 9})
    node = own.nodes["a"]

    assert (hops_limit(own.plan, node), fanout_limit(own.plan, node)) == (3, 4)
    plain = program_of(*fan(1))
    assert hops_limit(plain.plan, plain.nodes["a"]) == module.HOPS_MAX
    assert fanout_limit(plain.plan, plain.nodes["a"]) == module.FANOUT_MAX


def test_a_handled_failure_keeps_the_limits_too() -> None:
    program = program_of(*fan(1, on_error="continue"), limits={"max_hops": 5})

    made = settled(program, AttemptFailed(ERROR), hop=4)

    assert isinstance(made, NodeFailed)
    assert (made.error["code"], made.error["cause"]) == ("exceeded_max_hops", ERROR)


# ── large fan-outs ──────────────────────────────────────────────────────────────────────


def test_a_large_fan_out_goes_out_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SENDS_PER_EXCHANGE_MAX", 4)
    program = program_of(*fan(9))

    parts, cursor = [], 0
    while True:
        made = settled(program, Succeeded({"x": 1}), cursor=cursor)
        assert isinstance(made, Sent)
        assert made.output == {"x": 1}
        parts.append([send.node for send in made.sends])
        if made.cursor is None:
            break
        cursor = made.cursor

    assert [len(part) for part in parts] == [4, 4, 1]
    assert [name for part in parts for name in part] == [f"leaf{n}" for n in range(9)]


def test_parts_end_where_the_fan_out_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SENDS_PER_EXCHANGE_MAX", 4)

    made = settled(program_of(*fan(8)), Succeeded({}), cursor=4)

    assert isinstance(made, Sent)
    assert made.cursor is None


def test_a_run_with_a_large_fan_out_runs_every_node_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SENDS_PER_EXCHANGE_MAX", 4)
    leaves = [f"leaf{n}" for n in range(9)]
    driver = Driver(
        program_of(*fan(9), {"id": "end", "dependencies": leaves}), outputs({"a": {"x": 1}})
    )

    assert driver.run().status == "COMPLETED"
    assert sorted(node for node, _ in driver.ran) == sorted(["a", "end", *leaves])
    assert driver.inputs["end", ()] == leaves


@pytest.mark.parametrize(
    ("nodes", "is_known"),
    [
        pytest.param(fan(0), True, id="the last node"),
        pytest.param(fan(3), True, id="a fan-out"),
        pytest.param(fan(3, limits={"max_hops": 3}), True, id="few hops"),
        pytest.param(fan(3, limits={"max_fanout": 2}), False, id="too wide"),
        pytest.param(fan(9), False, id="in parts"),
        pytest.param(
            fan(1, branch={"rules": [{"condition": "true", "next_nodes": ["leaf0"]}]}),
            False,
            id="a branch",
        ),
        pytest.param(fan(1, loop={"condition": "false"}), False, id="a loop"),
    ],
)
def test_what_a_node_passes_on_is_what_is_settled(
    monkeypatch: pytest.MonkeyPatch, nodes: list[dict[str, Any]], is_known: bool
) -> None:
    monkeypatch.setattr(module, "SENDS_PER_EXCHANGE_MAX", 4)
    program = program_of(*nodes)
    node = program.nodes["a"]
    for hop in (0, 1, 2, 3, 99_998, 99_999, 100_000):
        made = pass_on(program, node, hop)

        if made is not None:
            passed = Sent("completed", made, {"x": 1})
            assert passed == settled(program, Succeeded({"x": 1}), hop=hop)
        assert (made is not None) == (is_known and hop + 1 < hops_limit(program.plan, node))


def test_what_people_decide_is_not_passed_on_unseen() -> None:
    program = program_of(*fan(1))
    asking = msgspec.structs.replace(program.nodes["a"], type="human")

    assert pass_on(program, asking, 0) is None
