"""A node with a foreach, as nodes of the plan."""

from __future__ import annotations

from typing import Any

import pytest

from minuet.plan.digest import decode_plan, encode_plan
from minuet.plan.plan import author_of, authored
from minuet.plan.render import to_graph, to_mermaid

EACH = {"id": "each", "handler": "f", "foreach": {"items": "{{ input.list }}"}}


def test_a_foreach_becomes_its_list_its_item_and_what_gathers(compiled: Any) -> None:
    plan = compiled(
        {"id": "a", "handler": "f"},
        {**EACH, "dependencies": ["a"], "retry": 5, "on_error": "continue"},
        {"id": "b", "handler": "f", "dependencies": ["each"]},
    ).plan

    nodes = {node.id: node for node in plan.nodes}
    assert list(nodes) == ["a", "each$items", "each$item", "each", "b"]
    assert [edge.target for edge in nodes["a"].edges] == ["each$items"]
    assert [edge.target for edge in nodes["each"].edges] == ["b"]
    assert (nodes["each$item"].handler, nodes["each$item"].retry.max_attempts) == ("f", 5)
    assert nodes["each$item"].nest == ("each$item",)
    assert (nodes["each"].on_error, nodes["each"].handler) == ("continue", None)
    assert plan.constructs == {"each$item": "map"}


def test_only_a_plan_with_a_foreach_has_the_newer_format(compiled: Any) -> None:
    with_one = compiled(EACH).plan
    without = compiled({"id": "a", "handler": "f"}).plan

    assert (with_one.format, without.format) == (2, 1)
    assert decode_plan(encode_plan(with_one)) == with_one


def test_each_part_reads_only_what_it_names(compiled: Any) -> None:
    plan = compiled(
        {"id": "a", "handler": "f"},
        {"id": "b", "handler": "f", "dependencies": ["a"]},
        {
            "id": "each",
            "handler": "f",
            "dependencies": ["b"],
            "foreach": {"items": "{{ a.output }}"},
            "config": {"x": "{{ b.output }} {{ item }}"},
            "loop": {"while": "ctx.a.output == 1", "max_iterations": 2},
        },
    ).plan

    nodes = {node.id: node for node in plan.nodes}
    assert [read.node for read in nodes["each$items"].reads] == ["a"]
    assert [read.node for read in nodes["each$item"].reads] == ["b"]
    assert [(read.node, read.every) for read in nodes["each"].reads] == [
        ("each$item", True),
        ("a", False),
    ]
    (back,) = [edge for edge in nodes["each"].edges if edge.roles == ("back",)]
    assert back.target == "each$items"


@pytest.mark.parametrize("name", ["input", "item_index", "nodes", "a"])
def test_items_cannot_have_the_name_of_something_else(refused: Any, name: str) -> None:
    foreach = {"items": [1], "as": name}

    found = refused({"id": "a", "handler": "f"}, {"id": "b", "handler": "f", "foreach": foreach})

    assert found == [("foreach-name-taken", "nodes[1].foreach.as")]


@pytest.mark.parametrize("items", ["orders", "input.orders", "a: {{ input.orders }}"])
def test_a_text_that_gives_no_list_is_refused(refused: Any, items: str) -> None:
    found = refused({**EACH, "foreach": {"items": items}})

    assert found == [("foreach-not-a-list", "nodes[0].foreach.items")]


@pytest.mark.parametrize("text", ["{{ item }}", "{{ item_index + 1 }}"])
def test_an_item_has_no_value_outside_its_node(refused: Any, text: str) -> None:
    path = "nodes[0].config.x"

    assert refused({"id": "a", "handler": "f", "config": {"x": text}}) == [("bad-template", path)]
    in_list = {"id": "a", "handler": "f", "foreach": {"items": text}}
    assert refused(in_list) == [("bad-template", "nodes[0].foreach.items")]


def test_pictures_show_one_node(compiled: Any) -> None:
    plan = compiled(EACH, {"id": "b", "handler": "f", "dependencies": ["each"]}).plan

    assert [node.id for node in authored(plan)] == ["each", "b"]
    assert "$" not in to_mermaid(plan)
    graph = to_graph(plan)
    assert [(n["id"], n["handler"], n["is_entry"]) for n in graph["nodes"]] == [
        ("each", "f", True),
        ("b", "f", False),
    ]
    assert [(edge["from"], edge["to"], edge["roles"]) for edge in graph["edges"]] == [
        ("each", "b", ["static"])
    ]
    assert (author_of("each$item"), author_of("$output")) == ("each", "$output")
