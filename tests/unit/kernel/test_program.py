"""Scopes along edges, what a node waits for, and what it reads."""

from __future__ import annotations

from minuet.kernel.program import Program, Send
from minuet.types import Scope

from .driver import program_of

ROUND = {"condition": "output.again", "max_iterations": 9}


def sent(program: Program, name: str, scope: Scope, *live: str) -> dict[str, Send]:
    return {send.node: send for send in program.sends(program.nodes[name], scope, live)}


def back(program: Program, name: str, scope: Scope) -> Send:
    (send,) = program.send_back(program.nodes[name], scope)
    return send


def test_a_run_starts_with_one_token_per_entry_node() -> None:
    program = program_of(
        {"id": "a"}, {"id": "b", "loop": ROUND}, {"id": "c", "dependencies": ["a", "b"]}
    )

    assert program.entries() == (
        Send("a", (), True, 0, 0, "noop"),
        Send("b", (0,), True, 0, 0, "noop"),
    )


def test_targets_that_are_not_chosen_get_a_skip() -> None:
    program = program_of({"id": "a"}, *({"id": n, "dependencies": ["a"]} for n in "bc"))

    sends = program.sends(program.nodes["a"], (), ("c",))

    assert [(send.node, send.live) for send in sends] == [("b", False), ("c", True)]
    assert program.sends(program.nodes["a"], (), ("c",)) is sends


def test_a_join_expects_all_its_sources() -> None:
    program = program_of({"id": "a"}, {"id": "b"}, {"id": "c", "dependencies": ["a", "b"]})

    send = sent(program, "a", (), "c")["c"]

    assert (send.need, send.total) == (2, 2)
    assert program.sources(program.nodes["c"], ()) == ("a", "b")


def test_a_join_may_need_fewer_than_it_expects() -> None:
    sources = [{"id": name} for name in "abc"]
    first = program_of(*sources, {"id": "j", "dependencies": ["a", "b", "c"], "join": "any"})
    some = program_of(*sources, {"id": "j", "dependencies": ["a", "b", "c"], "join": 2})

    assert first.arrivals(first.nodes["j"], ()) == (1, 3)
    assert some.arrivals(some.nodes["j"], ()) == (2, 3)


def test_entering_a_loop_adds_a_number_and_leaving_it_drops_it() -> None:
    program = program_of(
        {"id": "a"},
        {"id": "b", "dependencies": ["a"]},
        {"id": "c", "dependencies": ["b"], "loop": {**ROUND, "loop_back_to": "b"}},
        {"id": "d", "dependencies": ["c"]},
    )

    assert sent(program, "a", (), "b")["b"].scope == (0,)
    assert sent(program, "b", (3,), "c")["c"].scope == (3,)
    assert back(program, "c", (3,)) == Send("b", (4,), True, 1, 1, "noop")
    assert sent(program, "c", (4,), "d")["d"].scope == ()


def test_inputs_from_outside_a_loop_are_awaited_once() -> None:
    program = program_of(
        {"id": "a"},
        {"id": "b"},
        {"id": "c", "dependencies": ["a"]},
        {"id": "d", "dependencies": ["c", "b"]},
        {"id": "e", "dependencies": ["d"], "loop": {**ROUND, "loop_back_to": "c"}},
    )
    c, d = program.nodes["c"], program.nodes["d"]

    assert program.arrivals(d, (0,)) == (2, 2)
    assert program.sources(d, (0,)) == ("b", "c")
    assert program.arrivals(d, (1,)) == (1, 1)
    assert program.sources(d, (1,)) == ("c",)
    assert program.sources(c, (0,)) == ("a",)
    assert program.sources(c, (1,)) == ("e",)


def test_nested_loops_count_apart() -> None:
    """a → [ b → [ c → d ]d → e ]e, with an input from outside and one from the outer loop."""
    program = program_of(
        {"id": "a"},
        {"id": "b", "dependencies": ["a"]},
        {"id": "c", "dependencies": ["b", "a"]},
        {"id": "d", "dependencies": ["c"], "loop": {**ROUND, "loop_back_to": "c"}},
        {"id": "e", "dependencies": ["d"], "loop": {**ROUND, "loop_back_to": "b"}},
        {"id": "f", "dependencies": ["e"]},
    )
    c = program.nodes["c"]

    assert c.nest == ("e", "d")
    assert sent(program, "a", (), "c")["c"].scope == (0, 0)
    assert back(program, "d", (2, 5)).scope == (2, 6)
    assert back(program, "e", (2,)) == Send("b", (3,), True, 1, 1, "noop")
    assert sent(program, "d", (2, 5), "e")["e"].scope == (2,)
    # At first both inputs; in a later outer round, one; in a later inner one, the back edge.
    expected = [((0, 0), ("a", "b")), ((3, 0), ("b",)), ((0, 1), ("d",)), ((3, 7), ("d",))]
    for scope, sources in expected:
        assert program.sources(c, scope) == sources
        assert program.arrivals(c, scope)[1] == len(sources)


def test_two_loops_may_share_their_entry() -> None:
    program = program_of(
        {"id": "a"},
        {"id": "b", "dependencies": ["a"], "loop": {**ROUND, "loop_back_to": "a"}},
        {"id": "c", "dependencies": ["b"], "loop": {**ROUND, "loop_back_to": "a"}},
    )
    a = program.nodes["a"]

    assert back(program, "b", (1, 2)).scope == (1, 3)
    assert back(program, "c", (1,)).scope == (2, 0)
    assert program.sources(a, (0, 0)) == ()
    assert program.sources(a, (0, 1)) == ("b",)
    assert program.sources(a, (1, 0)) == ("c",)
    assert program.sources(a, (1, 1)) == ("b",)


def test_a_join_of_each_runs_once_per_arrival() -> None:
    program = program_of(
        {"id": "a"},
        {"id": "b"},
        {"id": "c", "dependencies": ["a", "b"], "join": "each"},
        {"id": "d", "dependencies": ["c"], "loop": ROUND},
        {"id": "e", "dependencies": ["d"]},
    )
    c = program.nodes["c"]

    assert sent(program, "a", (), "c")["c"] == Send("c", (0,), True, 1, 1, "noop")
    assert sent(program, "b", (), "c")["c"] == Send("c", (1,), True, 1, 1, "noop")
    assert [program.sources(c, (number,)) for number in (0, 1)] == [("a",), ("b",)]
    assert sent(program, "c", (1,), "d")["d"].scope == (1, 0)
    assert program.sources(program.nodes["d"], (1, 0)) == ("c",)
    assert program.sources(program.nodes["d"], (1, 2)) == ("d",)
    assert sent(program, "d", (1, 2), "e")["e"].scope == (1,)


def test_reads_name_the_instance_that_encloses_the_reader() -> None:
    later = {"value": "{{ e.output if iteration else 0 }} {{ a.output }} {{ b.output }}"}
    program = program_of(
        {"id": "a"},
        {"id": "b", "dependencies": ["a"]},
        {"id": "c", "dependencies": ["b"]},
        {"id": "d", "dependencies": ["c"], "type": "transform", "config": later},
        {"id": "e", "dependencies": ["d"], "loop": {**ROUND, "loop_back_to": "b"}},
    )
    d = program.nodes["d"]

    assert dict(program.reads(d, (0,))) == {"a": (), "b": (0,)}
    assert dict(program.reads(d, (2,))) == {"a": (), "b": (2,), "e": (1,)}
    assert sent(program, "c", (2,), "d")["d"].reads == program.reads(d, (2,))


def test_a_join_that_cancels_the_rest_says_whom() -> None:
    program = program_of(
        {"id": "a"},
        {"id": "b", "dependencies": ["a"]},
        {"id": "c", "dependencies": ["a"]},
        {"id": "j", "dependencies": ["b", "c"], "join": "any", "join_rest": "cancel"},
    )

    assert set(sent(program, "b", (), "j")["j"].withdraws) == {"a", "b", "c"}


def test_a_condition_is_compiled_once() -> None:
    program = program_of({"id": "a"})
    written = {"type": "cel", "expression": "true"}

    assert program.condition(written) is program.condition(dict(written))
    assert program.condition("true").evaluate({})


def test_constant_sends_are_not_kept_without_bound() -> None:
    program = program_of({"id": "a"}, {"id": "b", "dependencies": ["a"]})
    program._constant.update({("a", (str(n),)): () for n in range(100_000)})

    assert program.sends(program.nodes["a"], (), ("b",))[0].live
    assert len(program._constant) == 100_000
