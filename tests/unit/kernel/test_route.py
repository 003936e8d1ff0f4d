from __future__ import annotations

from typing import Any

import pytest

from minuet.kernel.program import Program
from minuet.kernel.route import Routing, condition_variables, innermost, route, route_failure
from minuet.types import Json, Scope

from .driver import program_of

A = {"id": "a"}


def below(*names: str) -> list[dict[str, Any]]:
    return [{"id": name, "dependencies": ["a"]} for name in names]


def routed(program: Program, output: Json, scope: Scope = (), name: str = "a") -> Routing:
    variables = {"ctx": {"before": {"output": 7}}, "input": {"limit": 5}, "run": {}}
    return route(program, program.nodes[name], scope, output, variables)


def branch(*rules: tuple[str, list[str]], default: list[str] | None = None) -> dict[str, Any]:
    written = [{"condition": condition, "next_nodes": to} for condition, to in rules]
    return {"branch": {"rules": written, "default": default or []}}


# ── static ──────────────────────────────────────────────────────────────────────────────


def test_a_plain_node_sends_to_all_its_dependents() -> None:
    program = program_of(A, *below("b", "c"))

    assert routed(program, {}) == Routing(("b", "c"))


@pytest.mark.shows("E-07")
def test_a_disabled_branch_leaves_the_dependents_in_force() -> None:
    off = {"enabled": False, "rules": [{"condition": "true", "next_nodes": ["b"]}]}
    program = program_of({**A, "branch": off}, *below("b", "c"))

    assert routed(program, {}).live == ("b", "c")


# ── branch ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.shows("E-01")
def test_the_first_rule_that_holds_wins() -> None:
    rules = branch(("output.n > 9", ["b"]), ("output.n > 1", ["c"]), ("output.n > 0", ["d"]))
    program = program_of({**A, **rules}, *below("b", "c", "d"))

    assert [routed(program, {"n": n}).live for n in (10, 5, 1)] == [("b",), ("c",), ("d",)]


@pytest.mark.shows("E-01", "E-02")
def test_a_rule_may_choose_several_nodes() -> None:
    program = program_of({**A, **branch(("true", ["b", "d"]))}, *below("b", "c", "d"))

    assert routed(program, {}).live == ("b", "d")


@pytest.mark.shows("E-03")
def test_no_rule_holds_so_the_default_is_taken() -> None:
    rules = branch(("output.n > 9", ["b"]), default=["c"])
    program = program_of({**A, **rules}, *below("b", "c"))

    assert routed(program, {"n": 1}) == Routing(("c",), notes=[{"default": ("c",)}])


@pytest.mark.shows("E-04")
def test_a_branch_replaces_the_static_dependents() -> None:
    program = program_of(
        {**A, **branch(("true", ["b"])), "dependents": ["c"]}, *below("b"), {"id": "c"}
    )

    assert routed(program, {}).live == ("b",)


@pytest.mark.shows("E-08")
def test_a_rule_that_cannot_be_evaluated_does_not_match_and_is_noted() -> None:
    rules = branch(("output.missing > 9", ["b"]), ("true", ["c"]))
    program = program_of({**A, **rules}, *below("b", "c"))

    routing = routed(program, {})

    assert routing.live == ("c",)
    assert routing.notes is not None
    assert routing.notes[0]["rule"] == 0
    assert "missing" in routing.notes[0]["error"]
    assert routing.notes[1] == {"rule": 1, "to": ("c",)}


def test_rules_see_the_input_and_the_outputs_of_other_nodes() -> None:
    rules = branch(("ctx.before.output == 7 && input.limit == 5 && iteration == 0", ["b"]))
    nodes = ({"id": "before"}, {"id": "a", "dependencies": ["before"], **rules})
    program = program_of(*nodes, *below("b"))

    assert routed(program, {}).live == ("b",)


def test_a_node_sees_its_own_output_under_both_names() -> None:
    program = program_of(A)

    seen = condition_variables(program.nodes["a"], 3, {"ctx": None, "input": 1})

    assert seen == {"input": 1, "output": 3, "ctx": {"a": {"output": 3}}}


def test_the_iteration_is_that_of_the_innermost_construct() -> None:
    assert innermost((4, 2)) == 2
    assert innermost(()) == 0


# ── agents ──────────────────────────────────────────────────────────────────────────────

AGENT = {"branch": {"type": "agent_driven", "available_next_nodes": ["b", "c"], "default": ["d"]}}


@pytest.mark.shows("E-20")
def test_an_agent_chooses_among_what_it_is_offered() -> None:
    program = program_of({**A, **AGENT}, *below("b", "c", "d"))

    assert routed(program, {"next_nodes": ["c", "b", "c"]}).live == ("c", "b")


@pytest.mark.shows("E-18")
@pytest.mark.parametrize("choice", ["d", "nobody", ["b"], 3])
def test_an_agent_that_chooses_anything_else_is_refused(choice: Json) -> None:
    program = program_of({**A, **AGENT}, *below("b", "c", "d"))

    routing = routed(program, {"next_nodes": ["b", choice]})

    assert routing.live == ()
    assert routing.error == {
        "code": "unauthorized_route",
        "message": f"agent tried to route to unauthorized node: {choice}",
    }


@pytest.mark.shows("E-21")
@pytest.mark.parametrize("output", [{}, {"next_nodes": []}, {"next_nodes": "b"}, "b", None])
def test_an_agent_that_chooses_nothing_gets_the_default(output: Json) -> None:
    program = program_of({**A, **AGENT}, *below("b", "c", "d"))

    assert routed(program, output).live == ("d",)


# ── loops ───────────────────────────────────────────────────────────────────────────────

LOOP = {"condition": "output.again", "max_iterations": 3}


@pytest.mark.shows("E-10")
def test_a_loop_goes_back_while_its_condition_holds() -> None:
    program = program_of({**A, "loop": LOOP}, *below("b"))

    assert routed(program, {"again": True}, (0,)) == Routing(
        back=True, notes=[{"loop": "again", "iteration": 1}]
    )


@pytest.mark.shows("E-11")
def test_a_loop_breaks_to_its_break_path_and_its_dependents() -> None:
    loop = {**LOOP, "break_path": ["c"], "timeout_path": ["d"]}
    program = program_of({**A, "loop": loop}, *below("b"), {"id": "c"}, {"id": "d"})

    routing = routed(program, {"again": False}, (1,))

    assert set(routing.live) == {"b", "c"}
    assert not routing.back


@pytest.mark.shows("E-12")
def test_a_loop_that_may_go_round_no_more_takes_the_timeout_path() -> None:
    program = program_of({**A, "loop": {**LOOP, "timeout_path": ["d"]}}, *below("b"), {"id": "d"})

    assert routed(program, {"again": True}, (1,)).back
    assert routed(program, {"again": True}, (2,)) == Routing(("d",), notes=[{"loop": "timeout"}])


def test_a_loop_without_a_timeout_path_fails_when_it_may_go_round_no_more() -> None:
    program = program_of({**A, "loop": LOOP}, *below("b"))

    error = routed(program, {"again": True}, (2,)).error

    assert error is not None
    assert error["code"] == "loop_exhausted"


def test_a_loop_condition_that_cannot_be_evaluated_fails_the_node() -> None:
    program = program_of({**A, "loop": LOOP}, *below("b"))

    error = routed(program, {}, (0,)).error

    assert error is not None
    assert error["code"] == "condition-error"
    assert "loop at 'a'" in error["message"]


def test_the_branch_of_a_loop_decides_when_the_loop_breaks() -> None:
    rules = branch(("output.n == 1 && iteration == 1", ["b"]), default=["c"])
    program = program_of({**A, "loop": LOOP, **rules}, *below("b", "c"))

    assert routed(program, {"again": True, "n": 1}, (0,)).back
    assert routed(program, {"again": False, "n": 1}, (1,)).live == ("b",)
    assert routed(program, {"again": False, "n": 1}, (0,)).live == ("c",)


@pytest.mark.shows("E-13")
def test_a_loop_counts_its_own_iterations_and_not_those_around_it() -> None:
    inner = {"condition": "iteration < 1", "max_iterations": 9}
    outer = {"condition": "iteration < 1", "max_iterations": 9, "loop_back_to": "a"}
    program = program_of({**A, "loop": inner}, {"id": "z", "dependencies": ["a"], "loop": outer})

    assert program.nodes["a"].nest == ("z", "a")
    assert routed(program, {}, (5, 0)).back
    assert not routed(program, {}, (0, 1)).back
    assert routed(program, {}, (0,), "z").back


# ── failures ────────────────────────────────────────────────────────────────────────────


def test_a_failure_goes_nowhere_unless_the_node_says_so() -> None:
    program = program_of(A, *below("b"))

    assert route_failure(program.nodes["a"]) is None


def test_a_failure_goes_on_as_if_nothing_had_happened() -> None:
    plain = program_of({**A, "on_error": "continue"}, *below("b"))
    looping = program_of(
        {**A, "on_error": "continue", "loop": {**LOOP, "timeout_path": ["d"]}},
        *below("b"),
        {"id": "d"},
    )

    assert route_failure(plain.nodes["a"]) == Routing(("b",), notes=[{"on_error": "continue"}])
    assert route_failure(looping.nodes["a"]) == Routing(("b",), notes=[{"on_error": "continue"}])


def test_a_failed_branch_goes_on_to_its_default() -> None:
    rules = branch(("true", ["b"]), default=["c"])
    program = program_of({**A, **rules, "on_error": "continue"}, *below("b", "c"))

    routing = route_failure(program.nodes["a"])

    assert routing is not None
    assert routing.live == ("c",)


def test_a_failure_takes_the_path_that_the_node_names() -> None:
    program = program_of({**A, "on_error": ["e"]}, *below("b"), {"id": "e"})

    routing = route_failure(program.nodes["a"])

    assert routing == Routing(("e",), notes=[{"on_error": "path"}])
    assert routed(program, {}).live == ("b",)
