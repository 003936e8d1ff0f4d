"""Every JSON and YAML example of the original documents is accounted for, and loads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from minuet.model import Document, read_document
from minuet.model.document import dump_document

FENCE = "`" * 3

#: Examples by document and line: those that are nodes …
NODES = {
    "003:742", "003:1200", "003:1252", "003:1331", "003:1406", "003:1480", "003:1999",
    "003:3252", "003:3479",
}  # fmt: skip
#: … parts of nodes (a loop, or a condition, which is put into a rule) …
PARTS = {"003:1682"}
CONDITIONS = {
    "003:1654", "003:1665", "003:1705", "003:1722", "003:1735", "003:1754", "003:1774",
    "003:1791", "003:1818", "003:1850",
}  # fmt: skip
#: … a patch that adds a node and an edge …
PATCHES = {"003:2259"}
#: … and those that are no part of a workflow document at all.
OTHERS = {
    "001:82": "the config of an llm node",
    "003:242": "the result of a node",
    "003:1043": "events",
    "003:2168": "a job of an agent",
    "003:2194": "the result of an agent's job",
    "003:2237": "a call of a tool",
    "003:2293": "a call of a tool",
    "003:2307": "a call of a tool",
    "003:2323": "a call of a tool",
    "003:2583": "an event",
    "003:3371": "alert rules",
    "003:3462": "a token",
}


@pytest.fixture(scope="module")
def examples(shared: Path) -> dict[str, str]:
    """The examples by document and line."""
    found = {}
    for path in sorted((shared / "seeds").glob("*.txt")):
        start: int | None = None
        lines = path.read_text("utf-8").splitlines()
        for number, line in enumerate(lines, 1):
            if line.strip() in (f"{FENCE}json", f"{FENCE}yaml"):
                start = number
            elif line.strip() == FENCE and start is not None:
                found[f"{path.name[:3]}:{start}"] = "\n".join(lines[start : number - 1])
                start = None
    return found


def load(*nodes: str) -> Document:
    return read_document('{"name": "seed", "nodes": [' + ",\n".join(nodes) + "]}")


def load_node(text: str) -> Any:
    return load(text).workflow.nodes[0]


def test_every_example_is_accounted_for(examples: dict[str, str]) -> None:
    assert set(examples) == NODES | PARTS | CONDITIONS | PATCHES | set(OTHERS)


@pytest.mark.parametrize("place", sorted(NODES))
def test_node_example_loads_and_reads_the_same_after_dumping(
    examples: dict[str, str], place: str
) -> None:
    document = load(examples[place])

    again = read_document(json.dumps(dump_document(document.workflow)))

    assert again.workflow == document.workflow
    assert document.workflow.nodes[0].id in examples[place]


def test_loop_example_loads(examples: dict[str, str]) -> None:
    (place,) = PARTS

    node = load_node('{"id": "a", ' + examples[place].lstrip()[1:])

    assert node.loop.max_iterations == 3
    assert node.loop.condition["invert"] is True


@pytest.mark.parametrize("place", sorted(CONDITIONS))
def test_condition_example_loads_as_written(examples: dict[str, str], place: str) -> None:
    rule = examples[place].rstrip().removesuffix("}") + ', "next_nodes": ["b"]}'

    node = load_node('{"id": "a", "branch": {"rules": [' + rule + "]}}")

    assert node.branch.rules[0].condition == json.loads(examples[place])["condition"]


@pytest.mark.shows("A-10")
def test_patch_example_adds_a_node_and_an_edge(examples: dict[str, str]) -> None:
    (place,) = PATCHES
    node, edge = json.loads(examples[place])["args"]["patch_spec"]["operations"]

    data = {"name": "seed", "nodes": [node["value"]], "edges": [edge["value"]]}
    workflow = read_document(json.dumps(data)).workflow

    assert workflow.nodes[0].id == "send_email"
    assert workflow.nodes[0].config["action"] == "email"
    assert (workflow.edges[0].source, workflow.edges[0].target) == ("process_data", "send_email")


def test_task_example_has_all_its_fields(examples: dict[str, str]) -> None:
    node = load_node(examples["003:1200"])

    assert (node.id, node.type) == ("validate_customer", "task")
    assert node.config_ref.cas_ref == "cas://sha256:cfg001"
    assert node.config_ref.type_url == "svc.validate/Config@1"
    assert node.dependents == ("kyc_check", "credit_check")
    assert (node.retry.max_attempts, node.retry.backoff_ms) == (3, 1000)
    assert (node.limits.deadline_s, node.limits.max_hops) == (30, 100)


def test_join_example_waits_for_all(examples: dict[str, str]) -> None:
    node = load_node(examples["003:742"])

    assert (node.join, node.dependencies) == ("all", ("fetch_user", "fetch_orders"))


@pytest.mark.shows("A-15")
def test_loop_node_example_has_all_its_fields(examples: dict[str, str]) -> None:
    loop = load_node(examples["003:1252"]).loop

    assert loop.condition == {"type": "cel", "expression": "output.status != 200"}
    assert (loop.max_iterations, loop.loop_back_to) == (5, "call_external_api")
    assert (loop.break_path, loop.timeout_path) == (("process_response",), ("error_dlq",))


@pytest.mark.shows("A-16")
def test_branch_example_keeps_its_rules_in_order(examples: dict[str, str]) -> None:
    branch = load_node(examples["003:1331"]).branch

    assert branch.type == "conditional"
    assert [rule.next_nodes for rule in branch.rules] == [
        ("enterprise_sales", "send_gift"),
        ("standard_sales",),
        ("nurture_campaign",),
    ]
    assert branch.default == ("manual_review",)


@pytest.mark.shows("A-17")
def test_agent_example_has_all_its_fields(examples: dict[str, str]) -> None:
    node = load_node(examples["003:1406"])

    assert node.branch.type == "agent_driven"
    assert node.branch.available_next_nodes[-1] == "disqualify"
    assert node.branch.default == ("manual_review",)
    assert (node.agent_config.model, node.agent_config.temperature) == ("gpt-4", 0.3)
    assert node.agent_config.available_tools == ("search_database", "call_api")


def test_human_example_has_all_its_fields(examples: dict[str, str]) -> None:
    human = load_node(examples["003:1480"]).human_config

    assert human.timeout_seconds == 48 * 3600
    assert human.approvers == ("sales-manager@company.com",)
    assert human.escalation_policy == "approve"
    assert human.approval_ui_url == "https://approvals.company.com"


@pytest.mark.shows("A-07")
def test_payment_example_has_a_loop_and_a_branch(examples: dict[str, str]) -> None:
    node = load_node(examples["003:1999"])

    assert node.config_ref.cas_ref == "cas://sha256:payment_config"
    assert node.loop.timeout_path == ("refund_customer",)
    assert node.branch.default == ("manual_review",)


@pytest.mark.shows("A-21")
def test_compensator_example_has_all_its_fields(examples: dict[str, str]) -> None:
    compensator = load_node(examples["003:3252"]).compensator

    assert (compensator.handler, compensator.timeout_seconds) == ("stripe.refund", 60)
    assert compensator.retry.max_attempts == 3
