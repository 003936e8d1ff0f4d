"""Branches in a plan."""

from __future__ import annotations

from typing import Any

import pytest

from minuet.plan.plan import Branch, Rule


def test_a_conditional_branch_keeps_its_rules_in_order(nodes_of: Any) -> None:
    nodes = nodes_of(
        {
            "id": "a",
            "branch": {
                "rules": [
                    {"condition": "output.x > 1", "next_nodes": ["b", "c"]},
                    {"when": "output.x > 0", "next_nodes": ["c"]},
                ],
                "default": ["d"],
            },
        },
        *({"id": name} for name in "bcd"),
    )

    assert nodes["a"].branch == Branch(
        rules=(
            Rule(condition="output.x > 1", targets=("b", "c")),
            Rule(condition="output.x > 0", targets=("c",)),
        ),
        default=("d",),
    )


@pytest.mark.shows("B-19")
def test_an_agent_driven_branch_compiles(compiled: Any) -> None:
    plan = compiled(
        {
            "id": "a",
            "branch": {"type": "agent_driven", "available_next_nodes": ["b"], "default": ["c"]},
        },
        {"id": "b"},
        {"id": "c"},
    ).plan

    assert plan.nodes[0].branch == Branch(type="agent_driven", available=("b",), default=("c",))
    assert plan.terminals == ("b", "c")


@pytest.mark.shows("E-07")
@pytest.mark.parametrize("fields", [{}, {"branch": {"enabled": False, "default": ["b"]}}])
def test_without_an_enabled_branch_routing_is_static(nodes_of: Any, fields: dict[str, Any]) -> None:
    node = nodes_of({"id": "a", "dependents": ["b"], **fields}, {"id": "b"})["a"]

    assert node.branch is None
    assert [(edge.target, edge.roles) for edge in node.edges] == [("b", ("static",))]


@pytest.mark.parametrize("branch", [{"rules": []}, {"type": "agent_driven"}])
def test_a_branch_without_a_choice_is_refused(refused: Any, branch: dict[str, Any]) -> None:
    assert refused({"id": "a", "branch": branch}) == [("empty-branch", "nodes[0].branch")]


@pytest.mark.parametrize(
    "fields", [{}, {"loop": {"condition": "false", "break_path": ["c"]}}], ids=["plain", "loop"]
)
def test_a_dependent_that_no_rule_names_is_a_warning(compiled: Any, fields: dict[str, Any]) -> None:
    result = compiled(
        {"id": "a", "branch": {"rules": [], "default": ["b"]}, "on_error": ["d"], **fields},
        *({"id": name, "dependencies": ["a"]} for name in "bcd"),
    )

    (found,) = result.diagnostics
    assert (found.code, found.severity) == ("branch-never-chooses", "warning")
    assert '"c"' in found.message


def test_a_branch_that_leads_nowhere_is_left_out(nodes_of: Any) -> None:
    branch = {"rules": [{"condition": "true", "next_nodes": []}]}

    assert nodes_of({"id": "a", "branch": branch})["a"].branch is None
