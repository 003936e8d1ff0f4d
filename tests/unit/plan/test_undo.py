"""Compensators in the plan: hidden nodes beside the graph."""

from __future__ import annotations

from typing import Any

import pytest

from minuet.plan.digest import decode_plan, encode_plan
from minuet.plan.plan import Read, Retry


def undo_of(compiled: Any, *nodes: dict[str, Any], **fields: Any) -> Any:
    (found,) = compiled(*nodes, **fields).plan.undos
    return found


@pytest.mark.shows("A-21")
def test_a_compensator_is_a_hidden_node_with_defaults_of_its_own(compiled: Any) -> None:
    found = undo_of(
        compiled,
        {
            "id": "a",
            "type": "task",
            "handler": "pay",
            "config": {"x": 1},
            "compensator": {"action": "stripe.refund"},
            "secrets": ["key"],
        },
        defaults={"retry": {"max_attempts": 9}, "timeout_seconds": 5},
    )

    assert (found.id, found.type, found.handler) == ("a$undo", "task", "stripe.refund")
    assert (found.undoes, found.config, found.secrets) == ("a", {"x": 1}, ("key",))
    assert (found.timeout_ms, found.retry, found.retry_by) == (60_000, Retry(), "document")
    assert found.retry.max_attempts == 3
    assert (found.nest, found.edges, found.queue) == (("$undo",), (), "task:stripe.refund")


def test_what_a_compensator_says_of_itself_counts(compiled: Any) -> None:
    found = undo_of(
        compiled,
        {
            "id": "a",
            "config": {"x": 1},
            "compensator": {
                "handler": "h",
                "config": {},
                "timeout_sec": 2,
                "retry": {"max_attempts": 7},
            },
        },
        defaults={"queue": "mine"},
    )

    assert (found.config, found.timeout_ms, found.queue) == ({}, 2_000, "mine")
    assert found.retry == Retry(max_attempts=7)


def test_a_compensator_reads_what_it_names_and_its_node_only_what_that_names(
    compiled: Any,
) -> None:
    config = {"x": "{{ first.output }}"}
    compensator = {
        "handler": "h",
        "config": {"x": "{{ output.x }} {{ second.y }} {{ third.output }}"},
    }
    made = compiled(
        {"id": "first"},
        {"id": "second", "dependencies": ["first"]},
        {"id": "third", "dependencies": ["second"], "config": config, "compensator": compensator},
    ).plan

    (undo,) = made.undos
    assert made.nodes[-1].reads == (Read(node="first"),)
    assert undo.reads == (Read(node="third"), Read(node="second"))


def test_the_compensator_of_a_foreach_undoes_its_items(compiled: Any) -> None:
    found = undo_of(
        compiled,
        {
            "id": "a",
            "foreach": {"items": [1], "as": "one"},
            "compensator": {"handler": "h", "config": {"x": "{{ one }} {{ a.output }}"}},
        },
    )

    assert (found.id, found.undoes, found.nest) == ("a$undo", "a$item", ("a$item", "$undo"))
    assert found.reads == (Read(node="a$item", keep=1), Read(node="a$items"))


@pytest.mark.parametrize(
    ("compensator", "problem"),
    [
        ({"config": {"x": "{{ other.output }}"}}, "unknown-reference"),
        ({"config": {"x": "{{ b.output }}"}}, "not-an-ancestor"),
        ({"config": {"x": "{{ item }}"}}, "bad-template"),
        ({"config": {"x": "{{ secrets.key }}"}}, "undeclared-secret"),
    ],
)
def test_mistakes_in_a_compensator_are_reported_where_they_are(
    refused: Any, compensator: dict[str, Any], problem: str
) -> None:
    nodes = (
        {"id": "a", "compensator": {"handler": "h", **compensator}},
        {"id": "b", "dependencies": ["a"]},
    )
    assert refused(*nodes) == [(problem, "nodes[0].compensator.config.x")]


@pytest.mark.parametrize(
    ("fails", "cancels", "undo_on"),
    [(True, False, "failure"), (False, True, "cancel"), (True, True, "both"), (False, False, "")],
)
@pytest.mark.shows("L-07")
def test_the_plan_says_when_its_runs_are_undone(
    compiled: Any, fails: bool, cancels: bool, undo_on: str
) -> None:
    made = compiled(
        {"id": "a", "compensator": {"handler": "h"}},
        on_failure={"compensate": fails},
        on_cancel={"compensate": cancels},
    ).plan

    assert (made.undo_on, made.format) == (undo_on, 3)
    assert decode_plan(encode_plan(made)) == made


def test_a_plan_without_compensators_is_as_before(compiled: Any) -> None:
    made = compiled({"id": "a"}).plan

    assert (made.format, made.undos) == (1, ())
    assert b"undo" not in encode_plan(made)
