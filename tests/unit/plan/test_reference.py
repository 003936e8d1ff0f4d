"""What templates and conditions read."""

from __future__ import annotations

from typing import Any

import pytest

from minuet.plan.plan import Read


def chain(last: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"id": "a"},
        {"id": "b", "dependencies": ["a"]},
        {"id": "other"},
        {"id": "z", "dependencies": ["b"], **last},
    ]


def value(text: Any) -> dict[str, Any]:
    return {"type": "transform", "config": {"value": text}}


@pytest.mark.parametrize(
    "last",
    [
        value("{{ a.x }} and {{ b.y }} of {{ input.z }}"),
        value({"deep": [{"list": "{{ a.x }}"}], "plain": 3, "more": "{{ b.y }}"}),
        {"type": "transform", "config": {"expression": "ctx.a.output.x + ctx.b.output.y"}},
        {"loop": {"condition": "ctx.a.output.x > ctx.b.output.y && output.z"}},
        {"branch": {"rules": [{"condition": "ctx.a.output == ctx.b.output", "next_nodes": []}]}},
        {"concurrency": {"key": "{{ a.x }}-{{ b.y }}"}},
    ],
    ids=["template", "deep template", "expression", "loop", "branch", "concurrency"],
)
def test_what_is_named_is_read(nodes_of: Any, last: dict[str, Any]) -> None:
    assert nodes_of(*chain(last))["z"].reads == (Read(node="a"), Read(node="b"))


@pytest.mark.parametrize(
    ("last", "path"),
    [
        (value(["{{ bb.x }}"]), "nodes[3].config.value[0]"),
        ({"loop": {"condition": "ctx.bb.output.x"}}, "nodes[3].loop.condition"),
        ({"concurrency": {"key": "{{ bb.x }}"}}, "nodes[3].concurrency.key"),
        (
            {"type": "transform", "config": {"expression": "ctx.bb.output"}},
            "nodes[3].config.expression",
        ),
    ],
    ids=["template", "condition", "concurrency", "expression"],
)
def test_a_name_that_is_no_node_is_refused(refused: Any, last: dict[str, Any], path: str) -> None:
    assert refused(*chain(last)) == [("unknown-reference", path)]


@pytest.mark.parametrize(
    ("last", "path"),
    [
        (value("{{ other.x }}"), "nodes[3].config.value"),
        (value("{{ z.x }}"), "nodes[3].config.value"),
        ({"loop": {"condition": "ctx.other.output.x"}}, "nodes[3].loop.condition"),
    ],
    ids=["unrelated", "itself", "condition"],
)
def test_a_node_that_does_not_come_before_cannot_be_read(
    refused: Any, last: dict[str, Any], path: str
) -> None:
    assert refused(*chain(last)) == [("not-an-ancestor", path)]


def test_a_later_node_cannot_be_read(refused: Any) -> None:
    found = refused({"id": "a", **value("{{ b.x }}")}, {"id": "b", "dependencies": ["a"]})

    assert found == [("not-an-ancestor", "nodes[0].config.value")]


def test_a_missing_edge_is_not_blamed_on_the_reader(refused: Any) -> None:
    found = refused({"id": "a"}, {"id": "b", "dependencies": ["aa"], **value("{{ a.x }}")})

    assert found == [("unknown-node", "nodes[1].dependencies[0]")]


def test_a_condition_may_name_its_own_node(nodes_of: Any) -> None:
    nodes = nodes_of({"id": "a", "loop": {"condition": "ctx.a.output.x > 1"}})

    assert nodes["a"].reads == ()


def test_reads_keep_the_scope_that_both_share(nodes_of: Any) -> None:
    nodes = nodes_of(
        {"id": "a"},
        {"id": "b", "dependencies": ["a"], **value("{{ a.x }}")},
        {
            "id": "l",
            "dependencies": ["b"],
            **value("{{ a.x }} {{ b.x }}"),
            "loop": {"condition": "ctx.b.output.x", "loop_back_to": "b"},
        },
        {"id": "z", "dependencies": ["l"], **value("{{ b.x }}")},
    )

    assert nodes["b"].reads == (Read(node="a"),)
    assert nodes["l"].reads == (Read(node="a"), Read(node="b", keep=1))
    assert nodes["z"].reads == (Read(node="b"),)


def test_a_body_may_read_the_round_before(nodes_of: Any) -> None:
    nodes = nodes_of(
        {"id": "o", **value("{{ i.x }}")},
        {"id": "i", "dependencies": ["o"], **value("{{ i.x }} {{ inner.x }} {{ outer.x }}")},
        {"id": "j", "dependencies": ["i"]},
        {"id": "k", "dependencies": ["i"], **value("{{ j.x }}")},
        {
            "id": "inner",
            "dependencies": ["j", "k"],
            "loop": {"condition": "false", "loop_back_to": "i"},
        },
        {
            "id": "outer",
            "dependencies": ["inner"],
            "loop": {"condition": "false", "loop_back_to": "o"},
        },
    )

    assert nodes["o"].reads == (Read(node="i", keep=1, previous=True),)
    assert nodes["k"].reads == (Read(node="j", keep=2, previous=True),)
    assert nodes["i"].reads == (
        Read(node="i", keep=2, previous=True),
        Read(node="inner", keep=2, previous=True),
        Read(node="outer", keep=1, previous=True),
    )


@pytest.mark.parametrize(
    ("last", "code", "path"),
    [
        (value({"x": "{{ a. }}"}), "bad-template", "nodes[3].config.value.x"),
        (value("{% for %}"), "bad-template", "nodes[3].config.value"),
        (value("{{ item.x }}"), "bad-template", "nodes[3].config.value"),
        ({"loop": {"condition": "1 +"}}, "bad-condition", "nodes[3].loop.condition"),
        (
            {"branch": {"rules": [{"condition": "1 +", "next_nodes": []}]}},
            "bad-condition",
            "nodes[3].branch.rules[0].condition",
        ),
        (
            {"loop": {"condition": {"type": "nonsense"}}},
            "bad-condition",
            "nodes[3].loop.condition",
        ),
        (
            {"type": "transform", "config": {"expression": "1 +"}},
            "bad-expression",
            "nodes[3].config.expression",
        ),
    ],
    ids=["template", "statement", "item", "loop", "branch", "object", "expression"],
)
def test_text_that_does_not_compile_is_refused(
    refused: Any, last: dict[str, Any], code: str, path: str
) -> None:
    assert refused(*chain(last)) == [(code, path)]


def test_conditions_written_as_objects_are_read_too(nodes_of: Any) -> None:
    condition = {"type": "cel", "expression": "ctx.a.output.x && ctx.b.output.x"}

    nodes = nodes_of(*chain({"loop": {"condition": condition}}))

    assert nodes["z"].reads == (Read(node="a"), Read(node="b"))


def test_a_text_that_is_used_twice_is_refused_at_both_places(refused: Any) -> None:
    nodes = [{"id": name, "loop": {"condition": "1 +"}} for name in "ab"]

    assert [path for _, path in refused(*nodes)] == [
        "nodes[0].loop.condition",
        "nodes[1].loop.condition",
    ]


@pytest.mark.slow
def test_many_far_reads_are_found(nodes_of: Any) -> None:
    count = 5000
    nodes: list[dict[str, Any]] = [{"id": "n0"}, {"id": "apart"}]
    nodes += [
        {
            "id": f"n{n}",
            "dependencies": [f"n{n - 1}"],
            **value(f"{{{{ n0.x }}}} {{{{ n{n // 2}.x }}}}"),
        }
        for n in range(1, count)
    ]

    found = nodes_of(*nodes)

    assert found["n1"].reads == (Read(node="n0"),)
    assert all(
        found[f"n{n}"].reads == (Read(node="n0"), Read(node=f"n{n // 2}")) for n in range(2, count)
    )
