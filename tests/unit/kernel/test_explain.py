from __future__ import annotations

from typing import Any

import msgspec
import pytest

from minuet.bridge.snapshot import events_of
from minuet.errors import RunError
from minuet.kernel.explain.answer import Explanation, explain
from minuet.kernel.explain.waiting import Fact
from minuet.kernel.fold import Fold, replay
from minuet.kernel.program import Program
from minuet.kernel.settle import AttemptFailed, Waiting
from minuet.store import changes, exchange, records

from .driver import Driver, outputs, program_of

DIAMOND = (
    {"id": "a"},
    {"id": "b", "dependencies": ["a"]},
    {"id": "c", "dependencies": ["a"]},
    {"id": "d", "dependencies": ["b", "c"]},
    {"id": "e", "dependencies": ["d"]},
)
BUSY = AttemptFailed({"code": "busy", "message": "busy"}, retryable=True)


def _fact(**fields: Any) -> Fact:
    return fields  # type: ignore[return-value]


def why(driver: Driver, node: str, **fact: Any) -> Explanation:
    """Explain, with what the store knows of the live tokens and what the test adds."""
    snapshot = driver.snapshot
    facts = {
        (t.node, t.scope): _fact(
            state=t.state,
            lane=t.lane,
            queue=t.queue,
            slot=t.slot,
            lease_until_ms=t.due_ms if t.state == "leased" else None,
            session=t.session,
            **fact,
        )
        for t in snapshot.tokens
        if t.state in records.LIVE_STATES
    }
    return explain(driver.program, replay(events_of(snapshot)), node, facts=facts)


def taken(driver: Driver, count: int = 9) -> dict[str, exchange.Grant]:
    return {grant.node: grant for grant in driver.take(count)}


def test_an_unknown_node_is_an_error_that_suggests_one() -> None:
    driver = Driver(program_of({"id": "charge"}, output="{{ charge.output }}"))

    with pytest.raises(RunError, match="no node 'chrage'; did you mean 'charge'"):
        why(driver, "chrage")
    with pytest.raises(RunError, match=r"no node 'zzz'$"):
        why(driver, "zzz")
    with pytest.raises(RunError, match="no node"):
        why(driver, "$output")


def test_a_run_that_has_not_started() -> None:
    told = explain(program_of({"id": "a"}), Fold(), "a")

    assert (told.status, told.summary) == ("PENDING", "'a' waits: the run has not started")


# ── missing arrivals ────────────────────────────────────────────────────────────────────


@pytest.mark.shows("D-52")
def test_a_join_says_what_has_arrived_and_what_is_missing() -> None:
    driver = Driver(program_of(*DIAMOND))
    driver.settle(*driver.take())
    driver.settle(taken(driver)["b"])

    told = why(driver, "d")

    assert told.status == "PENDING"
    assert [(m.node, m.status) for m in told.missing] == [("c", "RUNNING")]
    assert told.details == {"need": 2, "total": 2, "arrived": {"b": True}}
    assert told.summary.startswith("'d' waits for 'c': 'c' is running, attempt 1 in session")
    assert told.reasons[:2] == ("it needs all 2 arrivals", "'b' arrived live")


def test_the_causes_are_found_however_far_up_they_are() -> None:
    driver = Driver(program_of(*DIAMOND))

    told = why(driver, "e")

    assert told.summary == "'e' waits for 'd': 'a' is queued in 'noop'"
    assert [(m.node, m.reason) for m in told.missing] == [("d", "has not run yet")]
    assert "'d' has not run yet" in told.reasons


def test_a_very_long_chain_can_be_explained() -> None:
    chain: list[dict[str, Any]] = [{"id": "n0"}]
    chain += [{"id": f"n{n}", "dependencies": [f"n{n - 1}"]} for n in range(1, 3_000)]
    driver = Driver(program_of(*chain), checking=False)

    assert why(driver, "n2999").summary == "'n2999' waits for 'n2998': 'n0' is queued in 'noop'"


def test_a_join_of_some_says_how_many_it_needs() -> None:
    sources = [{"id": name} for name in "xyz"]
    program = program_of(*sources, {"id": "j", "dependencies": ["x", "y", "z"], "join": 2})
    driver = Driver(program)
    driver.settle(taken(driver)["x"])

    assert why(driver, "j").reasons[0] == "it needs 2 of 3 arrivals"


def test_a_skipped_arrival_is_told() -> None:
    branch = {"rules": [{"condition": "true", "next_nodes": ["c"]}], "default": ["b"]}
    driver = Driver(program_of({"id": "a", "branch": branch}, *DIAMOND[1:]))
    driver.settle(*driver.take())
    driver.settle(taken(driver)["b"])

    assert "'b' arrived skipped" in why(driver, "d").reasons


def test_a_paused_run_is_told() -> None:
    driver = Driver(program_of(*DIAMOND))
    driver.change(changes.Pause())

    assert why(driver, "a").summary == "'a' is held back: the run is paused"
    assert why(driver, "a").reasons == ("the run is paused: nothing is handed out",)
    assert why(driver, "d").reasons[-1] == "the run is paused"


LOOP = {"condition": "output.again", "max_iterations": 5, "loop_back_to": "a"}


def looping() -> Driver:
    """The loop of `b` is in its second iteration."""
    program = program_of(
        {"id": "a"},
        {"id": "b", "dependencies": ["a"]},
        {"id": "c", "dependencies": ["a"]},
        {"id": "d", "dependencies": ["b", "c"], "loop": LOOP},
        {"id": "e", "dependencies": ["d"]},
        {"id": "f", "dependencies": ["e"]},
    )
    driver = Driver(program, outputs({"d": [{"again": True}, {"again": False}]}))
    for _ in range(3):
        driver.settle(*driver.take(9))
    return driver


def test_an_exit_of_a_loop_waits_for_the_loop_to_end() -> None:
    driver = looping()

    told = why(driver, "e")

    assert told.missing[0].reason == "is in the loop of 'd', in iteration 2 of at most 5"
    assert told.summary == "'e' waits for 'd': 'a'[1] is queued in 'noop'"
    assert why(driver, "f").summary == "'f' waits for 'e': 'a'[1] is queued in 'noop'"


def test_a_join_inside_a_loop_waits_within_its_iteration() -> None:
    driver = looping()
    driver.settle(*driver.take())
    driver.settle(taken(driver)["b"])

    told = why(driver, "d")

    assert told.scope == (1,)
    assert told.details["arrived"] == {"b": True}
    assert [m.node for m in told.missing] == ["c"]
    assert "'c'[1] is running" in told.summary


def test_a_parent_in_a_later_iteration_leads_on_to_its_own_parents() -> None:
    """`d` has one arrival of iteration 1; its other parent ran in iteration 0 and will again."""
    program = program_of(
        {"id": "a"},
        {"id": "b", "dependencies": ["a"]},
        {"id": "c", "dependencies": ["b"]},
        {"id": "d", "dependencies": ["a", "c"], "loop": LOOP},
    )
    driver = Driver(program, outputs({"d": [{"again": True}, {"again": False}]}))
    for _ in range(5):
        driver.settle(*driver.take(9))

    told = why(driver, "d")

    assert told.scope == (1,)
    assert told.summary == "'d'[1] waits for 'c': 'b'[1] is queued in 'noop'"


def test_a_join_whose_parents_were_withdrawn_says_so() -> None:
    program = program_of(
        {"id": "x"},
        {"id": "a"},
        {"id": "b"},
        {"id": "c", "dependencies": ["a", "b"]},
        {"id": "j", "dependencies": ["x", "c"], "join": "any", "join_rest": "cancel"},
    )
    driver = Driver(program)
    grants = taken(driver)
    driver.settle(grants["a"])
    driver.settle(grants["x"])

    told = why(driver, "c")

    assert told.missing[0].status == "CANCELLED"
    assert told.summary == "'c' waits for 'b': 'b' is CANCELLED"
    assert why(driver, "b").summary == "'b' was withdrawn: the join at 'j' did not wait for it"
    driver.run()
    assert why(driver, "c").summary == (
        "'c' was never reached: a join did not wait for the path that leads to it"
    )


# ── live tokens ─────────────────────────────────────────────────────────────────────────


def test_a_queued_node_names_its_queue_and_whether_anybody_serves_it() -> None:
    driver = Driver(program_of({"id": "a"}))

    assert why(driver, "a").summary == "'a' is queued in 'noop'"
    assert why(driver, "a", workers=0).summary == (
        "'a' is queued, and no registered worker serves the queue 'noop'; no worker is registered"
    )
    assert why(driver, "a", workers=2).details["workers"] == 2


def test_the_store_need_not_be_asked() -> None:
    driver = Driver(program_of({"id": "a"}))
    driver.take()
    folded = replay(events_of(driver.snapshot))

    assert explain(driver.program, folded, "a").summary == "'a' is queued in 'noop'"
    bare: dict[tuple[str, str], Fact] = {("a", ""): {"state": "leased"}}
    assert explain(driver.program, folded, "a", facts=bare).summary == "'a' is running, attempt 1"


def test_a_running_node_says_where_and_until_when() -> None:
    driver = Driver(program_of({"id": "a"}))
    driver.take()

    told = why(driver, "a")

    assert told.status == "RUNNING"
    assert told.summary == (
        "'a' is running, attempt 1 in session session-1, leased until 2023-11-14T22:13:50.000Z"
    )


def test_a_node_that_lost_its_worker_says_so() -> None:
    driver = Driver(program_of({"id": "a"}))
    driver.take()
    driver.lose()

    assert why(driver, "a").summary == "'a' is queued in 'noop', after 1 expired leases"


def test_a_node_that_is_tried_again_says_when_and_after_what() -> None:
    driver = Driver(program_of({"id": "a", "retry": {"jitter": False}}), outputs({"a": BUSY}))
    driver.settle(*driver.take())

    told = why(driver, "a")

    assert told.summary == "'a' is tried again (2) at 2023-11-14T22:13:21.000Z after: busy"
    assert told.details["error"] == {"code": "busy", "message": "busy"}
    assert (told.details["attempt"], told.details["max_attempts"]) == (2, 3)


def test_a_node_that_waits_for_a_slot_names_the_key() -> None:
    driver = Driver(program_of({"id": "a"}, {"id": "b"}))
    for grant in driver.take(2):
        token = (grant.run, grant.node, grant.scope, grant.lease)
        driver.exchange(exchange.Slot(*token, key="customer-7", limit=1))

    assert why(driver, "b").summary == (
        "'b' waits for a free slot under the concurrency key 'customer-7'"
    )


@pytest.mark.parametrize(
    ("waiting", "phrase"),
    [
        (
            Waiting("signal", "paid"),
            "has waited for signal 'paid' since 2023-11-14T22:13:20.000Z",
        ),
        (Waiting("timer", due_ms=0), "waits for a timer until 1970-01-01T00:00:00.000Z"),
    ],
)
def test_a_waiting_node_says_for_what(waiting: Waiting, phrase: str) -> None:
    driver = Driver(
        program_of({"id": "a"}, {"id": "b", "dependencies": ["a"]}), outputs({"a": waiting})
    )
    driver.settle(*driver.take())

    assert why(driver, "a").summary == f"'a' {phrase}"
    assert why(driver, "b").summary == f"'b' waits for 'a': 'a' {phrase}"


def test_a_fan_out_that_goes_on_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("minuet.kernel.settle.SENDS_PER_EXCHANGE_MAX", 2)
    leaves = [{"id": f"leaf{n}", "dependencies": ["a"]} for n in range(3)]
    driver = Driver(program_of({"id": "a"}, *leaves))
    driver.settle(*driver.take())

    assert why(driver, "a").summary == "'a' is queued in 'noop', to send the rest of its output"


def test_a_skip_that_is_on_its_way_is_told() -> None:
    branch = {"rules": [{"condition": "false", "next_nodes": ["b"]}]}
    driver = Driver(program_of({"id": "a", "branch": branch}, {"id": "b", "dependencies": ["a"]}))
    driver.settle(*driver.take())

    assert why(driver, "b").summary == (
        "'b' is being skipped: 'a' followed its default, which does not lead to 'b' "
        "('false' did not hold)"
    )


def test_a_node_that_only_skips_can_reach_will_be_skipped() -> None:
    branch = {"rules": [{"condition": "false", "next_nodes": ["b"]}]}
    driver = Driver(
        program_of(
            {"id": "a", "branch": branch},
            {"id": "b", "dependencies": ["a"]},
            {"id": "c", "dependencies": ["b"]},
            {"id": "d", "dependencies": ["b", "c"]},
            {"id": "slow"},
            {"id": "open", "dependencies": ["d", "slow"]},
        )
    )
    driver.settle(taken(driver)["a"])

    for node in ("c", "d"):
        told = why(driver, node)
        assert told.status == "SKIPPED"
        assert told.summary == (
            f"'{node}' will be skipped: 'a' followed its default, which does not lead to 'b' "
            "('false' did not hold)"
        )
    assert why(driver, "open").status == "PENDING"


# ── ended tokens ────────────────────────────────────────────────────────────────────────


def test_a_completed_node_says_so_and_what_its_branch_decided() -> None:
    branch = {"rules": [{"condition": "true", "next_nodes": ["b"]}]}
    driver = Driver(program_of({"id": "a", "branch": branch}, {"id": "b", "dependencies": ["a"]}))
    driver.settle(*driver.take())

    told = why(driver, "a")

    assert told.summary == "'a' completed in attempt 1"
    assert told.details["notes"] == [{"rule": 1, "to": ["b"]}]
    assert told.reasons == ("'a' followed rule 1: 'true' held, which leads to 'b'",)
    assert why(driver, "b").reasons == ()


def test_a_failure_is_told_with_its_error() -> None:
    driver = Driver(program_of(*DIAMOND, {"id": "x"}), outputs({"a": ValueError("broken")}))
    grants = taken(driver)
    driver.settle(grants["a"])

    told = why(driver, "a")
    assert told.summary == "'a' failed in attempt 1, and it took the run with it"
    assert told.reasons == ("its error: broken",)
    assert why(driver, "d").summary == (
        "'d' will not run: a node above it failed, and node 'a' failed: broken"
    )
    assert why(driver, "x").summary == (
        "'x' was cut off when the run ended: node 'a' failed: broken"
    )


def test_a_node_of_a_retried_run_is_queued_and_still_tells_its_error() -> None:
    driver = Driver(program_of({"id": "a"}), outputs({"a": ValueError("broken")}))
    driver.run()
    driver.change(changes.RetryRun())

    told = why(driver, "a")

    assert (told.status, told.summary) == ("QUEUED", "'a' is queued in 'noop'")
    assert told.reasons == ("its error: broken",)


def test_a_handled_failure_says_that_the_run_went_on() -> None:
    driver = Driver(
        program_of({"id": "a", "on_error": "continue"}), outputs({"a": ValueError("no")})
    )
    driver.run()

    assert why(driver, "a").summary == "'a' failed in attempt 1, and its on_error went on"


def test_a_cancelled_run_is_told() -> None:
    driver = Driver(program_of(*DIAMOND))
    driver.change(changes.Cancel("deadline_exceeded"))

    assert why(driver, "a").summary == (
        "'a' was cut off when the run ended: it was cancelled (deadline_exceeded)"
    )
    assert why(driver, "d").summary == (
        "'d' was not reached before the run ended: it was cancelled (deadline_exceeded)"
    )


def test_a_live_token_of_a_node_that_a_patch_removed_does_not_matter() -> None:
    driver = Driver(program_of(*DIAMOND))
    folded = replay(events_of(driver.snapshot))

    told = explain(program_of({"id": "x"}, {"id": "y", "dependencies": ["x"]}), folded, "y")

    assert told.summary == "'y' waits for 'x': 'x' has not run yet"


# ── skips ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        (
            "output.score > input.limit && output.ok",
            "'output.score > input.limit' is false with output.score = 4, input.limit = 5",
        ),
        (
            "size(output.tags) > 1 || !output.ok",
            "'size(output.tags) > 1' is false with size(output.tags) = 1; "
            "'!output.ok' is false with output.ok = True",
        ),
        ("output.tags[0] + 'x' == 'x'", "did not hold with output.tags[0] = 'a', "
         "output.tags[0] + 'x' = 'ax'"),
        ("output.score > 9 && output.none", "'output.score > 9' is false with output.score = 4"),
    ],
)  # fmt: skip
def test_a_skipped_node_names_the_parts_of_the_rule_that_did_not_hold(
    condition: str, said: str
) -> None:
    branch = {"rules": [{"condition": condition, "next_nodes": ["b"]}], "default": ["c"]}
    program = program_of(
        {"id": "a", "branch": branch},
        {"id": "b", "dependencies": ["a"]},
        {"id": "c", "dependencies": ["a"]},
    )
    output = {"score": 4, "ok": True, "tags": ["a"]}
    driver = Driver(program, outputs({"a": output}), run_input={"limit": 5})
    driver.run()

    assert said in why(driver, "b").summary


def test_a_skipped_node_names_the_rule_that_did_not_hold_and_its_operands() -> None:
    rules = [
        {"condition": "output.missing > 3", "next_nodes": ["c"]},
        {"condition": "output.score > input.limit", "next_nodes": ["b"]},
        {"condition": "ctx.first.output.ok", "next_nodes": ["c"]},
    ]
    program = program_of(
        {"id": "first"},
        {"id": "a", "dependencies": ["first"], "branch": {"rules": rules}},
        {"id": "b", "dependencies": ["a"]},
        {"id": "c", "dependencies": ["a"]},
        {"id": "z", "dependencies": ["b"]},
    )
    table = {"a": {"score": 4}, "first": {"ok": True}}
    driver = Driver(program, outputs(table), run_input={"limit": 5})
    driver.run()

    told = why(driver, "z")

    assert told.status == "SKIPPED"
    assert told.summary == (
        "'z' was skipped: 'a' followed rule 3, 'ctx.first.output.ok', which does not lead to 'b' "
        "('output.score > input.limit' did not hold with input.limit = 5, output.score = 4)"
    )
    (decision,) = told.details["decisions"]
    assert decision["node"] == "a"
    assert [rule.get("result") for rule in decision["rules"]] == [None, False, True]
    assert "missing" in decision["rules"][0]["error"]


def test_a_rule_that_failed_is_told() -> None:
    rules = [{"condition": "output.missing > 3", "next_nodes": ["b"]}]
    program = program_of(
        {"id": "a", "branch": {"rules": rules, "default": ["c"]}},
        {"id": "b", "dependencies": ["a"]},
        {"id": "c", "dependencies": ["a"]},
    )
    driver = Driver(program)
    driver.run()

    summary = why(driver, "b").summary
    assert "'a' followed its default, which does not lead to 'b'" in summary
    assert "'output.missing > 3' failed: " in summary


def test_a_branch_that_names_a_node_nowhere_is_told() -> None:
    rules = [{"condition": "true", "next_nodes": ["c"]}]
    program = program_of(
        {"id": "a", "branch": {"rules": rules}, "on_error": ["b"]},
        {"id": "b", "dependencies": ["a"]},
        {"id": "c", "dependencies": ["a"]},
    )
    driver = Driver(program)
    driver.run()

    assert why(driver, "b").summary == (
        "'b' was skipped: 'a' followed rule 1, 'true', which does not lead to 'b'"
    )


def test_an_agent_that_chose_otherwise_is_told() -> None:
    branch = {"type": "agent_driven", "available_next_nodes": ["b", "c"]}
    program = program_of(
        {"id": "a", "branch": branch},
        {"id": "b", "dependencies": ["a"]},
        {"id": "c", "dependencies": ["a"]},
    )
    driver = Driver(program, outputs({"a": {"next_nodes": ["c"]}}))
    driver.run()

    assert why(driver, "b").summary == "'b' was skipped: 'a' did not choose 'b', but 'c'"


def exits(*, branch: bool = False) -> Program:
    loop = {"condition": "output.again", "max_iterations": 2, "timeout_path": ["late"]}
    rules = {"rules": [{"condition": "output.pick", "next_nodes": ["b"]}], "default": ["c"]}
    return program_of(
        {"id": "a", "loop": loop, **({"branch": rules} if branch else {})},
        {"id": "b", "dependencies": ["a"]},
        {"id": "c", "dependencies": ["a"]},
        {"id": "late"},
    )


def test_a_loop_that_was_left_explains_the_exit_not_taken() -> None:
    driver = Driver(exits(), outputs({"a": [{"again": True}, {"again": False}]}))
    driver.run()

    told = why(driver, "late")

    assert told.summary == (
        "'late' was skipped: the loop at 'a' was left after iteration 2, as its condition did "
        "not hold; 'late' is its other way out"
    )
    assert told.details["decisions"][0]["loop"]["operands"] == {"output.again": False}


def test_a_loop_that_was_used_up_explains_the_exit_not_taken() -> None:
    for branch in (False, True):
        driver = Driver(exits(branch=branch), outputs({"a": {"again": True, "pick": True}}))
        driver.run()

        assert why(driver, "b").summary == (
            "'b' was skipped: the loop at 'a' used up its 2 iterations; 'b' is its other way out"
        )


def test_the_branch_of_a_loop_explains_what_it_did_not_choose() -> None:
    driver = Driver(exits(branch=True), outputs({"a": {"again": False, "pick": True}}))
    driver.run()

    assert "'a' followed rule 1, 'output.pick'" in why(driver, "c").summary
    assert "was left after iteration 1" in why(driver, "late").summary


def test_a_completed_node_names_the_rules_that_led_to_it_and_their_operands() -> None:
    rules = [
        {"condition": "output.amount > 5000", "next_nodes": ["big"]},
        {"condition": "output.amount > 1000", "next_nodes": ["medium"]},
    ]
    program = program_of(
        {"id": "a", "branch": {"rules": rules, "default": ["small"]}},
        *({"id": name, "dependencies": ["a"]} for name in ("big", "medium", "small")),
        {"id": "end", "dependencies": ["big", "medium", "small"]},
    )
    reasons = {}
    for amount in (1500, 10):
        driver = Driver(program, outputs({"a": {"amount": amount}}))
        driver.run()
        reasons[amount] = {node: why(driver, node).reasons for node in ("a", "medium", "small")}
        assert why(driver, "end").reasons == ()

    first = "rule 1 of 'a' did not match: 'output.amount > 5000' did not hold with output.amount = "
    second = first.replace("rule 1", "rule 2").replace("5000", "1000")
    chosen = (
        "'a' followed rule 2: 'output.amount > 1000' held with output.amount = 1500, "
        "which leads to 'medium'"
    )
    default = "'a' followed its default: no rule matched, which leads to 'small'"
    assert reasons[1500]["a"] == reasons[1500]["medium"] == (chosen, f"{first}1500")
    assert reasons[10]["a"] == reasons[10]["small"] == (default, f"{first}10", f"{second}10")


def test_each_instance_of_a_loop_says_what_its_condition_saw() -> None:
    loop = {"condition": "output.n < 2", "max_iterations": 5, "loop_back_to": "a"}
    driver = Driver(
        program_of(
            {"id": "a"},
            {"id": "b", "dependencies": ["a"], "loop": loop},
            {"id": "c", "dependencies": ["b"]},
        ),
        outputs({"b": [{"n": 0}, {"n": 1}, {"n": 2}]}),
    )
    driver.run()

    goes_on = (
        "the loop at 'b'[{0}] goes on after iteration {1} of at most 5: "
        "'output.n < 2' held with output.n = {0}"
    )
    assert why(driver, "b[0]").reasons == (goes_on.format(0, 1),)
    assert why(driver, "'b'[1]").reasons == (goes_on.format(1, 2),)
    left = (
        "the loop at 'b'[2] was left after iteration 3: "
        "'output.n < 2' did not hold with output.n = 2"
    )
    assert why(driver, "b").reasons == why(driver, "'b[2]'").reasons == (left,)
    assert why(driver, "a[1]").reasons == (goes_on.format(0, 1),)
    assert why(driver, "c").reasons == (left,)
    listed = r"'b' has no instance \[3\]; it has b\[0\], b\[1\], b\[2\]"
    with pytest.raises(RunError, match=listed):
        why(driver, "b[3]")
    with pytest.raises(RunError, match=r"'c' has no instance \[0\]; it has c$"):
        why(driver, "c[0]")


def test_error_paths_explain_themselves() -> None:
    program = program_of(
        {"id": "a", "on_error": ["e"]}, {"id": "b", "dependencies": ["a"]}, {"id": "e"}
    )
    fine, failed = Driver(program), Driver(program, outputs({"a": ValueError("no")}))
    fine.run()
    failed.run()

    assert (
        why(fine, "e").summary == "'e' was skipped: 'a' completed, and 'e' is only for its errors"
    )
    assert (
        why(failed, "b").summary == "'b' was skipped: 'a' failed, and its on_error leads elsewhere"
    )


def test_a_skip_with_several_reasons_tells_them_all() -> None:
    branch = {"rules": [{"condition": "false", "next_nodes": ["j"]}]}
    program = program_of(
        {"id": "a", "branch": branch},
        {"id": "b", "branch": branch},
        {"id": "j", "dependencies": ["a", "b"]},
        {"id": "k", "dependencies": ["j", "b"]},
    )
    driver = Driver(program)
    driver.run()

    told = why(driver, "k")

    assert told.summary.startswith("'k' was skipped: 'b' followed its default")
    assert any(reason.startswith("'a' followed its default") for reason in told.reasons)
    assert len(told.reasons) == 1


def test_an_edge_that_no_outcome_takes_is_told_plainly() -> None:
    """A rejection path of a node type that has not rejected."""
    program = program_of({"id": "a"}, {"id": "b", "dependencies": ["a"]})
    source = program.nodes["a"]
    (edge,) = source.edges
    reject = msgspec.structs.replace(edge, roles=("reject",))
    nodes = (msgspec.structs.replace(source, edges=(reject,)), program.nodes["b"])
    program = Program(msgspec.structs.replace(program.plan, nodes=nodes), "plan-1")
    driver = Driver(program)
    driver.run()

    assert why(driver, "b").summary == "'b' was skipped: 'a' completed without choosing 'b'"


def test_a_skip_whose_sources_a_patch_removed_is_told_plainly() -> None:
    branch = {"rules": [{"condition": "false", "next_nodes": ["b"]}]}
    driver = Driver(program_of({"id": "a", "branch": branch}, {"id": "b", "dependencies": ["a"]}))
    driver.run()
    folded = replay(events_of(driver.snapshot))

    told = explain(program_of({"id": "x"}, {"id": "b", "dependencies": ["x"]}), folded, "b")

    assert told.summary == "'b' was skipped: every arrival was skipped"


def test_the_operands_are_those_of_the_iteration_that_decided() -> None:
    """The branch inside a loop reads a node outside it and the loop's earlier rounds."""
    branch = {
        "rules": [{"condition": "ctx.a.output.n + iteration > 10", "next_nodes": ["c"]}],
        "default": ["d"],
    }
    program = program_of(
        {"id": "a"},
        {"id": "b", "dependencies": ["a"], "branch": branch},
        {"id": "c", "dependencies": ["b"]},
        {"id": "d", "dependencies": ["b", "c"], "loop": {**LOOP, "loop_back_to": "b"}},
    )
    table = {"a": {"n": 3}, "d": [{"again": True}, {"again": False}]}
    driver = Driver(program, outputs(table))
    driver.run()

    told = why(driver, "c")

    assert told.scope == (1,)
    (decision,) = told.details["decisions"]
    assert decision["scope"] == (1,)
    assert decision["rules"][0]["operands"] == {"ctx.a.output.n": 3, "iteration": 1}


def test_the_operands_are_those_of_the_arrival_that_decided() -> None:
    rules = [{"condition": "output.n > 10", "next_nodes": ["x"]}]
    program = program_of(
        {"id": "a"},
        {"id": "b"},
        {"id": "j", "dependencies": ["a", "b"], "join": "each", "branch": {"rules": rules}},
        {"id": "x", "dependencies": ["j"]},
    )
    driver = Driver(program, outputs({"j": [{"n": 1}, {"n": 2}]}))
    driver.run()

    told = why(driver, "x")

    assert told.scope == (0,)
    assert told.details["decisions"][0]["rules"][0]["operands"] == {"output.n": 1}
