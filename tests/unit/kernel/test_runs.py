"""Random workflows, run to their end in a random order with random outcomes."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from minuet.bridge.snapshot import events_of
from minuet.errors import DocumentError
from minuet.kernel.explain.answer import explain
from minuet.kernel.fold import replay
from minuet.kernel.program import Program
from minuet.kernel.scope import decode, show
from minuet.kernel.settle import AttemptFailed, Outcome, Sent, Succeeded, Waiting
from minuet.kernel.view import node_views, path, plan_nodes, run_output
from minuet.model.document import read_mapping
from minuet.plan.compile import compile_workflow
from minuet.store import changes, exchange
from minuet.types import TERMINAL, Scope

from .documents import Maker
from .driver import CATALOG, Driver, Handler, outputs, program_of

FINAL = {"COMPLETED", "FAILED", "CANCELLED", "SKIPPED"}

seeds = st.integers(0, 10**9)


def random_handler(chance: random.Random, *, trouble: float) -> Handler:
    def handle(node: str, scope: Scope, attempt: int) -> Outcome:
        luck = chance.random()
        if luck < trouble:
            retryable = chance.random() < 0.7
            return AttemptFailed({"code": "unlucky", "message": "unlucky"}, retryable)
        if luck < trouble + 0.05:
            return Waiting("timer", delay_ms=10)
        return Succeeded({"pick": chance.randint(0, 3), "again": chance.random() < 0.5})

    return handle


def compiled(document: dict[str, Any]) -> Program:
    return Program(compile_workflow(read_mapping(document), CATALOG).plan, "plan-1")


def random_program(chance: random.Random) -> Program:
    """A plan of nested blocks, with a few more edges where the compiler allows them."""
    maker = Maker(chance, 14)
    document = maker.document()
    program = compiled(document)
    nodes = {node["id"]: node for node in document["nodes"]}
    for source, target in maker.extra_edges(chance.choice((0, 0, 3))):
        before = nodes[target]["dependencies"]
        nodes[target]["dependencies"] = [*before, source]
        try:
            program = compiled(document)
        except DocumentError:
            nodes[target]["dependencies"] = before
    return program


def random_driver(seed: int) -> Driver:
    chance = random.Random(seed)
    program = random_program(chance)
    trouble = chance.choice((0.0, 0.02, 0.2))
    return Driver(program, random_handler(chance, trouble=trouble), chance=chance)


@pytest.mark.slow
@pytest.mark.shows("D-02", "D-17", "D-22", "D-29", "D-36", "D-40", "D-54", "E-05")
@pytest.mark.shows("O-02", "O-03", "O-09")
@given(seeds, st.sampled_from((1, 2_000)))
@settings(max_examples=80)
def test_random_runs_end_and_keep_all_invariants(seed: int, part: int) -> None:
    """Also when every delivery of a fan-out goes out alone."""
    driver = random_driver(seed)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("minuet.kernel.settle.SENDS_PER_EXCHANGE_MAX", part)
        state = driver.run()

    assert state.counter == 0
    assert all(view.status in FINAL for view in node_views(driver.program, state).values())
    ended = [
        (node, scope)
        for node, scope, made in driver.settled
        if isinstance(made, Sent) and made.cursor is None
    ]
    assert len(ended) == len(set(ended))
    assert len(driver.ran) == len(set(driver.ran))
    steps = [step for step in path(events_of(driver.snapshot)) if step.outcome != "sent"]
    assert len(steps) == len(driver.ran) + (state.status == "FAILED")
    run_output(driver.program, state)


@pytest.mark.slow
@given(seeds)
@settings(max_examples=30)
def test_random_runs_survive_dying_workers_pauses_and_retries(seed: int) -> None:
    driver = random_driver(seed)
    chance = driver.chance
    trouble = 12
    while driver.state.status not in TERMINAL or trouble:
        status = driver.state.status
        luck = chance.random()
        if trouble and status in ("FAILED", "CANCELLED"):
            driver.held.clear()
            driver.change(changes.RetryRun())
            trouble -= 1
        elif status == "COMPLETED":
            break
        elif status == "PAUSED" and (luck < 0.3 or not driver.held):
            driver.change(changes.Resume())
        elif trouble and luck < 0.05:
            driver.lose()
            trouble -= 1
        elif trouble and luck < 0.1 and status == "RUNNING":
            driver.change(changes.Pause())
            trouble -= 1
        elif trouble and luck < 0.12:
            driver.change(changes.Cancel())
            trouble -= 1
        elif status != "PAUSED" or driver.held:
            driver.step()

    assert driver.state.status in TERMINAL


@pytest.mark.slow
@given(seeds)
@settings(max_examples=12)
def test_every_node_can_be_explained_at_every_moment(seed: int) -> None:
    driver = random_driver(seed)
    while True:
        folded = replay(events_of(driver.snapshot))
        views = node_views(driver.program, folded.state, folded.details)
        for node in plan_nodes(driver.program):
            told = explain(driver.program, folded, node.id)
            assert repr(node.id) in told.summary
            assert not told.summary.endswith(": ")
            if not views[node.id].instances:
                assert told.status == views[node.id].status
            is_open = driver.state.status not in TERMINAL and told.status == "PENDING"
            if is_open and not views[node.id].instances:
                assert told.missing
            for one in views[node.id].instances:
                each = explain(driver.program, folded, f"{node.id}{show(one.scope)}")
                assert (each.scope, each.status) == (one.scope, one.status)
        if driver.state.status in TERMINAL:
            break
        driver.step()


# ── what the seeds promise, one by one ──────────────────────────────────────────────────


@pytest.mark.shows("D-01", "D-24", "D-30")
def test_a_run_starts_with_the_nodes_that_depend_on_nothing() -> None:
    program = program_of({"id": "a"}, {"id": "b"}, {"id": "c", "dependencies": ["a", "b"]})
    driver = Driver(program)

    assert driver.state.counter == 2
    assert set(driver.state.tokens) == {("a", ""), ("b", "")}
    assert node_views(program, driver.state)["c"].status == "PENDING"


@pytest.mark.shows("D-04", "D-53")
def test_children_of_one_parent_are_ready_at_once() -> None:
    program = program_of(
        {"id": "a"}, {"id": "b", "dependencies": ["a"]}, {"id": "c", "dependencies": ["a"]}
    )
    driver = Driver(program)
    driver.settle(*driver.take())

    assert [grant.node for grant in driver.take(5)] == ["b", "c"]


@pytest.mark.shows("D-06", "D-09", "D-10", "D-11", "D-45")
def test_a_join_waits_for_all_and_gets_all_outputs() -> None:
    program = program_of(
        *({"id": name} for name in "abc"), {"id": "j", "dependencies": ["a", "b", "c"]}
    )
    driver = Driver(program, outputs({"a": 1, "b": 2, "c": 3}))
    for grant in driver.take(3):
        assert ("j", "") not in driver.state.tokens
        driver.settle(grant)

    (grant,) = driver.take(5)

    assert [(given.node, given.data) for given in grant.inputs] == [
        ("a", b"1"),
        ("b", b"2"),
        ("c", b"3"),
    ]


@pytest.mark.shows("D-17")
def test_parents_that_finish_in_the_same_call_start_their_child_once() -> None:
    program = program_of({"id": "a"}, {"id": "b"}, {"id": "c", "dependencies": ["a", "b"]})
    driver = Driver(program)

    driver.settle(*driver.take(2))

    assert [grant.node for grant in driver.take(5)] == ["c"]


@pytest.mark.shows("D-15", "D-33")
def test_a_result_handed_in_twice_changes_nothing() -> None:
    program = program_of({"id": "a"}, {"id": "b", "dependencies": ["a"]})
    driver = Driver(program)
    (grant,) = driver.take()
    assert driver.settle(grant) == ["applied"]
    before = driver.state

    assert driver.settle(grant) == ["duplicate"]

    assert driver.state == before


@pytest.mark.shows("E-05", "D-54")
def test_only_what_a_branch_chooses_runs_and_a_join_below_does_not_hang() -> None:
    rules = [{"condition": "output.x > 1", "next_nodes": ["b", "c"]}]
    program = program_of(
        {"id": "a", "branch": {"rules": rules, "default": ["d"]}},
        *({"id": name, "dependencies": ["a"]} for name in "bcd"),
        {"id": "e", "dependencies": ["b", "c", "d"]},
    )
    driver = Driver(program, outputs({"a": {"x": 2}}))

    state = driver.run()

    assert state.status == "COMPLETED"
    assert sorted({node for node, _ in driver.ran}) == ["a", "b", "c", "e"]
    assert driver.inputs["e", ()] == ["b", "c"]
    assert node_views(program, state)["d"].status == "SKIPPED"


@pytest.mark.shows("E-13", "E-16")
def test_every_iteration_is_work_of_its_own() -> None:
    program = program_of(
        {"id": "a"},
        {
            "id": "b",
            "dependencies": ["a"],
            "loop": {"condition": "output.n < 3", "max_iterations": 5, "loop_back_to": "a"},
        },
        {"id": "c", "dependencies": ["b"]},
    )
    driver = Driver(program, lambda node, scope, attempt: Succeeded({"n": sum(scope) + 1}))

    state = driver.run()

    assert state.status == "COMPLETED"
    assert driver.ran == [
        *(("a", (0,)), ("b", (0,)), ("a", (1,)), ("b", (1,)), ("a", (2,)), ("b", (2,))),
        ("c", ()),
    ]


@pytest.mark.shows("K-01", "K-04", "K-15")
def test_a_failure_ends_the_run_and_nothing_more_starts() -> None:
    program = program_of({"id": "a"}, {"id": "b"}, {"id": "c", "dependencies": ["a"]}, {"id": "d"})
    driver = Driver(program, outputs({"a": ValueError("broken")}))
    first, second = driver.take(2)
    driver.settle(first)

    assert driver.state.status == "FAILED"
    assert driver.take(5) == []
    assert driver.settle(second) == ["closed"]


@pytest.mark.shows("K-03", "K-06")
def test_a_result_that_comes_after_the_failure_is_ignored() -> None:
    program = program_of({"id": "a"}, {"id": "b"}, {"id": "c", "dependencies": ["b"]})
    driver = Driver(program, outputs({"a": ValueError("broken")}))
    first, second = driver.take(2)
    driver.settle(first)
    before = driver.state

    driver.settle(second)

    assert driver.state == before


def test_a_join_that_does_not_wait_withdraws_the_rest() -> None:
    program = program_of(
        {"id": "a"},
        {"id": "b"},
        {"id": "j", "dependencies": ["a", "b"], "join": "any", "join_rest": "cancel"},
    )
    driver = Driver(program)
    first, second = driver.take(2)
    driver.settle(first)

    assert driver.state.tokens[second.node, ""].outcome == "superseded"
    assert driver.settle(second) == ["closed"]
    assert driver.run().status == "COMPLETED"


def test_what_arrives_after_a_join_fired_is_absorbed() -> None:
    program = program_of(
        {"id": "a"}, {"id": "b"}, {"id": "j", "dependencies": ["a", "b"], "join": "any"}
    )
    driver = Driver(program)
    first, second = driver.take(2)
    driver.settle(first)
    (joined,) = driver.take(5)
    driver.settle(joined)
    assert driver.state.status == "RUNNING"

    driver.settle(second)

    assert driver.state.status == "COMPLETED"
    assert [node for node, _ in driver.ran].count("j") == 1


def test_some_live_arrivals_are_enough_when_all_have_arrived() -> None:
    """Two are needed, one is live: what was skipped cannot be waited for."""
    rules = [{"condition": "true", "next_nodes": ["b"]}]
    program = program_of(
        {"id": "a", "branch": {"rules": rules, "default": ["c"]}},
        {"id": "b", "dependencies": ["a"]},
        {"id": "c", "dependencies": ["a"]},
        {"id": "j", "dependencies": ["b", "c"], "join": 2},
    )
    driver = Driver(program)

    assert driver.run().status == "COMPLETED"
    assert driver.inputs["j", ()] == ["b"]


def test_an_each_join_runs_once_per_arrival_and_everything_below_it_too() -> None:
    program = program_of(
        {"id": "a"},
        {"id": "b"},
        {"id": "j", "dependencies": ["a", "b"], "join": "each"},
        {"id": "k", "dependencies": ["j"]},
    )
    driver = Driver(program)
    driver.run()

    assert sorted(driver.ran) == [
        ("a", ()),
        ("b", ()),
        ("j", (0,)),
        ("j", (1,)),
        ("k", (0,)),
        ("k", (1,)),
    ]


@pytest.mark.shows("D-35")
def test_a_run_that_waits_is_not_over() -> None:
    program = program_of({"id": "a"})
    driver = Driver(program, outputs({"a": Waiting("approval", "x")}))
    driver.settle(*driver.take())

    assert (driver.state.status, driver.state.counter) == ("RUNNING", 1)


@pytest.mark.shows("D-41")
def test_a_branch_that_chooses_nothing_ends_the_run() -> None:
    rules = [{"condition": "false", "next_nodes": ["b"]}]
    program = program_of(
        {"id": "a", "branch": {"rules": rules}}, {"id": "b", "dependencies": ["a"]}
    )

    assert Driver(program).run().status == "COMPLETED"


@pytest.mark.shows("D-50")
def test_hops_count_the_way_from_the_start() -> None:
    program = program_of(
        {"id": "a"}, {"id": "b", "dependencies": ["a"]}, {"id": "c", "dependencies": ["b"]}
    )
    driver = Driver(program)
    hops = {}
    while driver.state.status == "RUNNING":
        for grant in driver.take(5):
            hops[grant.node] = grant.hop
            driver.settle(grant)

    assert hops == {"a": 0, "b": 1, "c": 2}


class Watching(Driver):
    """Keeps what came with the token that renders the output."""

    output_grant: exchange.Grant | None = None

    def take(self, limit: int = 1) -> list[exchange.Grant]:
        granted = super().take(limit)
        for grant in granted:
            if grant.node == self.program.plan.output_node:
                self.output_grant = grant
        return granted


@pytest.mark.slow
@given(seeds)
@example(618)  # What it names ends once more after it is to be rendered.
@settings(max_examples=120)
def test_the_output_is_rendered_from_the_last_outputs_of_what_it_names(seed: int) -> None:
    chance = random.Random(seed)
    document = Maker(chance, 14).document()
    names = [node["id"] for node in document["nodes"]]
    named = chance.sample(names, min(len(names), chance.randint(0, 4)))
    document["output"] = [f"{{{{ nodes['{name}'].output }}}}" for name in named]
    try:
        program = compiled(document)
    except DocumentError:
        return  # an `each` join has many last outputs
    trouble = chance.choice((0.0, 0.02, 0.2))
    driver = Watching(program, random_handler(chance, trouble=trouble), chance=chance)

    state = driver.run()

    if state.status != "COMPLETED":
        return
    grant = driver.output_grant
    assert grant is not None
    assert not grant.skip
    # Where a join takes the first that comes, others may end after the output is to be rendered.
    sent_last = max(
        seq
        for seq, _, event in events_of(driver.snapshot)
        for sent in getattr(event, "to", ())
        if sent[0] == program.plan.output_node
    )
    latest: dict[str, Any] = {}
    for (name, _), token in sorted(state.tokens.items(), key=lambda item: decode(item[0][1])):
        is_known = token.state == "done" and token.outcome != "skipped"
        if name in named and is_known and token.event <= sent_last:
            latest[name] = token.scope
    assert {output.node: output.scope for output in grant.reads} == latest
