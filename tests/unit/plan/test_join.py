"""Needs of joins, and what an early one cancels."""

from __future__ import annotations

from typing import Any

import pytest


def diamond(**join: Any) -> list[dict[str, Any]]:
    return [
        {"id": "s"},
        {"id": "a", "dependencies": ["s"]},
        {"id": "b", "dependencies": ["s"]},
        {"id": "c", "dependencies": ["s"]},
        {"id": "j", "dependencies": ["a", "b", "c"], **join},
    ]


@pytest.mark.parametrize(
    ("join", "need"),
    [
        ({}, 0),
        ({"wait_for_all": True}, 0),
        ({"join": "all"}, 0),
        ({"join": "any"}, 1),
        ({"wait_for_all": False}, 1),
        ({"join": 2}, 2),
        ({"join": 3}, 3),
    ],
)
def test_a_join_needs_what_it_says(nodes_of: Any, join: dict[str, Any], need: int) -> None:
    node = nodes_of(*diamond(**join))["j"]

    assert (node.need, node.expects) == (need, (3,))


def test_a_node_that_starts_with_the_run_waits_for_nothing(nodes_of: Any) -> None:
    assert nodes_of({"id": "a", "join": "any"})["a"].need == 0


def test_a_join_cannot_need_more_than_can_arrive(refused: Any) -> None:
    assert refused(*diamond(join=4)) == [("join-need-too-large", "nodes[4].join")]


def test_a_join_in_a_loop_must_get_its_need_in_every_round(refused: Any) -> None:
    found = refused(
        {"id": "side"},
        {"id": "e"},
        {
            "id": "l",
            "dependencies": ["e", "side"],
            "join": 2,
            "loop": {"condition": "false", "loop_back_to": "e"},
        },
    )

    assert found == [("join-need-too-large", "nodes[2].join")]


def test_a_need_below_one_is_refused(catalog: Any) -> None:
    # The reader refuses it too; workflows built in Python come without one.
    from minuet.errors import DocumentError
    from minuet.model import workflow as model
    from minuet.model.document import Document
    from minuet.plan.compile import compile_workflow

    workflow = model.Workflow(name="x", nodes=(model.Node(id="a", type="noop", join=0),))
    with pytest.raises(DocumentError, match="bad-join"):
        compile_workflow(Document(workflow, {}, "x", ""), catalog)


@pytest.mark.parametrize("join", ["any", 2])
def test_an_early_join_cancels_what_leads_only_to_it(nodes_of: Any, join: Any) -> None:
    nodes = nodes_of(
        {"id": "s"},
        {"id": "a", "dependencies": ["s"]},
        {"id": "b1", "dependencies": ["s"]},
        {"id": "b2", "dependencies": ["b1"]},
        {"id": "c", "dependencies": ["s"]},
        {"id": "j", "dependencies": ["a", "b2", "c"], "join": join, "join_rest": "cancel"},
        {"id": "elsewhere", "dependencies": ["c"]},
        {"id": "after", "dependencies": ["j", "s"]},
    )

    assert nodes["j"].cancels == ("a", "b1", "b2")


def test_an_early_join_that_all_else_leads_to_cancels_it_all(nodes_of: Any) -> None:
    assert nodes_of(*diamond(join="any", join_rest="cancel"))["j"].cancels == ("s", "a", "b", "c")


@pytest.mark.parametrize(
    "join", [{"join": "any"}, {"join": "all", "join_rest": "cancel"}], ids=["absorb", "all"]
)
def test_other_joins_cancel_nothing(nodes_of: Any, join: dict[str, Any]) -> None:
    assert nodes_of(*diamond(**join))["j"].cancels == ()


def test_a_join_in_a_loop_cancels_only_inside_it(nodes_of: Any) -> None:
    nodes = nodes_of(
        {"id": "side"},
        {"id": "e"},
        {"id": "a", "dependencies": ["e"]},
        {"id": "b", "dependencies": ["e", "side"], "loop": {"condition": "false"}},
        {
            "id": "j",
            "dependencies": ["a", "b"],
            "join": "any",
            "join_rest": "cancel",
            "loop": {"condition": "false", "loop_back_to": "e"},
        },
    )

    assert nodes["j"].cancels == ("e", "a", "b")
