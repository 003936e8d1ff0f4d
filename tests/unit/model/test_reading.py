"""A correct document becomes the model's values, whatever spelling its author chose."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from minuet.model import Diagnostic, Position, read_document, read_file, read_mapping
from minuet.model.workflow import Budget, Limits, Loop, Node, NodeLimits, Placement, Retry, Workflow


def read_node(**fields: Any) -> Node:
    data = {"name": "w", "nodes": [{"id": "a", **fields}]}
    return read_mapping(data).workflow.nodes[0]


@pytest.mark.shows("A-02")
@pytest.mark.parametrize("spelling", ["id", "node_id"])
def test_node_is_identified_by_either_spelling(spelling: str) -> None:
    workflow = read_document(f"name: w\nnodes:\n  - {spelling}: a\n").workflow

    assert workflow == Workflow(name="w", nodes=(Node(id="a"),))


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ({"depends_on": ["b"]}, {"dependencies": ["b"]}),
        ({"retry_config": {"max_attempts": 2}}, {"retry": {"max_attempts": 2}}),
        ({"retry": 2}, {"retry": {"max_attempts": 2}}),
        ({"timeout": 5}, {"timeout_seconds": 5}),
        ({"placement": {"allowed_nodes": ["x"]}},
         {"placement_constraints": {"allowed_nodes": ["x"]}}),
        ({"wait_for_all": True}, {"join": "all"}),
        ({"wait_for_all": False}, {"join": "any"}),
        ({"wait_for_all": True, "join": "all"}, {"join": "all"}),
        ({"wait_for_all": False, "join": 2}, {"join": 2}),
        ({"join": "each", "wait_for_all": False}, {"join": "each"}),
        ({"loop": {"while": "x"}}, {"loop": {"condition": "x"}}),
        ({"loop": {"while": "x", "enabled": True}}, {"loop": {"condition": "x"}}),
        ({"loop": {"while": "x", "enabled": False}}, {}),
        ({"loop": {"while": "x", "loop_back_to": "self"}}, {"loop": {"condition": "x"}}),
        ({"branch": {"enabled": False}}, {}),
        ({"branch": {"rules": [{"when": "x", "next_nodes": []}]}},
         {"branch": {"rules": [{"condition": "x", "next_nodes": []}]}}),
        ({"config_ref": "sha256:c"}, {"config_ref": "cas://sha256:c"}),
        ({"config_ref": "sha256:c"}, {"config_ref": {"cas_ref": "cas://sha256:c"}}),
        ({"compensator": {"action": "undo", "timeout_sec": 6, "retry": 3}},
         {"compensator": {"handler": "undo", "timeout_seconds": 6, "retry": {"max_attempts": 3}}}),
        ({"human_config": {"timeout_hours": 2}}, {"human_config": {"timeout_seconds": 7200}}),
        ({"human_config": {"timeout_hours": 0.5}}, {"human_config": {"timeout_seconds": 1800}}),
        *(
            (
                {"human_config": {"escalation_policy": seed}},
                {"human_config": {"escalation_policy": policy}},
            )
            for seed, policy in {
                "auto_approve": "approve",
                "auto_approve_after_timeout": "approve",
                "auto_reject": "reject",
                "auto_reject_after_timeout": "reject",
            }.items()
        ),
    ],
    ids=str,
)  # fmt: skip
def test_spellings_of_a_field_mean_the_same(
    written: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert read_node(**written) == read_node(**expected)


@pytest.mark.parametrize(
    ("fields", "attribute", "value"),
    [
        ({}, "join", "all"),
        ({}, "on_error", "fail"),
        ({"join": 3}, "join", 3),
        ({"on_error": "continue"}, "on_error", "continue"),
        ({"on_error": ["b", "c"]}, "on_error", ("b", "c")),
        ({"rejection_path": ["b"]}, "rejection_path", ("b",)),
        ({"retry": {"multiplier": 2, "jitter": False}}, "retry",
         Retry(multiplier=2.0, jitter=False)),
        ({"limits": {"deadline_s": 0.5, "max_fanout": 2}}, "limits",
         NodeLimits(deadline_s=0.5, max_fanout=2)),
        ({"loop": {"while": {"type": "anything", "x": None}}}, "loop",
         Loop(condition={"type": "anything", "x": None})),
        ({"placement": {"requires_executors": ["gpu"],
                        "requires_capabilities": {"memory_gb": 16},
                        "max_parallel_per_node": 2,
                        "forbidden_nodes": ["w1"]}}, "placement",
         Placement(requires_executors=("gpu",), requires_capabilities={"memory_gb": 16},
                   max_parallel_per_node=2, forbidden_nodes=("w1",))),
        ({"secrets": ["api_key"]}, "secrets", ("api_key",)),
        ({"foreach": {"items": [1, None, {"x": []}]}}, "config", {}),
    ],
    ids=str,
)  # fmt: skip
def test_field_has_the_value_that_was_written(
    fields: dict[str, Any], attribute: str, value: Any
) -> None:
    assert getattr(read_node(**fields), attribute) == value


@pytest.mark.shows("A-22")
@pytest.mark.parametrize(
    "node_type", ["task", "agent", "human", "classifier", "search", "function", "http", "other"]
)
def test_node_of_any_type_carries_a_loop_and_a_branch(node_type: str) -> None:
    node = read_node(type=node_type, loop={"while": "x"}, branch={"default": ["b"]})

    assert node.type == node_type
    assert node.loop is not None
    assert node.branch is not None


def test_config_is_kept_as_written() -> None:
    config = {"anything": [1, 2.5, None, True, {"depends_on": "x", "": "{{ input.x }}"}]}

    assert read_node(config=config).config == config


def test_fields_of_the_whole_document_are_read() -> None:
    workflow = read_document(
        "$schema: workflow.schema.json\n"
        "name: Prüfung 7\n"
        "description: d\n"
        "input: {type: object}\n"
        "limits: {max_iterations: 5, budget: {tokens: 10, usd: 0.5}}\n"
        "defaults: {retry: 2, timeout: 9, queue: gpu}\n"
        "on_failure: {compensate: true}\n"
        "dlq_policy: all\n"
        'output: "{{ a.output }}"\n'
        "nodes: [{id: a}, {id: b}]\n"
        "edges: [{from: a, to: b}]\n"
    ).workflow

    assert (workflow.name, workflow.description) == ("Prüfung 7", "d")
    assert workflow.input == {"type": "object"}
    assert workflow.limits == Limits(max_iterations=5, budget=Budget(tokens=10, usd=0.5))
    assert workflow.defaults.retry == Retry(max_attempts=2)
    assert (workflow.defaults.timeout_seconds, workflow.defaults.queue) == (9.0, "gpu")
    assert (workflow.on_failure.compensate, workflow.dlq_policy) == (True, "all")
    assert workflow.output == "{{ a.output }}"
    assert (workflow.edges[0].source, workflow.edges[0].target) == ("a", "b")


def test_python_data_is_copied_so_that_later_changes_do_not_show() -> None:
    data: dict[str, Any] = {"name": "w", "nodes": ({"id": "a", "config": {"x": [1]}},)}

    document = read_mapping(data, source="builder")
    data["nodes"][0]["config"]["x"].append(2)

    assert document.raw == {"name": "w", "nodes": [{"id": "a", "config": {"x": [1]}}]}
    assert document.workflow.nodes[0].config == {"x": [1]}
    assert document.source == "builder"


def test_file_is_read_under_its_name(tmp_path: Path) -> None:
    path = tmp_path / "w.json"
    path.write_bytes(b'\xef\xbb\xbf{"name": "w", "nodes": []}')

    document = read_file(path)

    assert (document.source, document.workflow) == (str(path), Workflow(name="w"))
    assert document.raw == {"name": "w", "nodes": []}


YAML = """\
name: w
limits:
  budget: {tokens: 1}
nodes:
  - node_id: a
    depends_on: [x, y]
    retry: 3
    wait_for_all: false
    placement:
      allowed_nodes:
        - host
    loop:
      while: x
    branch: {rules: [{when: x, next_nodes: [b]}]}
    human_config: {timeout_hours: 2}
    compensator: {action: undo, timeout_sec: 3}
    config: {deep: [{er: 1}]}
    foreach: {items: [1], as: row}
    timeout: 3
    config_ref: sha256:c
edges:
  - {from: a, to: b}
"""


@pytest.mark.parametrize(
    ("path", "line", "column", "written"),
    [
        ((), 1, 1, ""),
        (("name",), 1, 7, "name"),
        (("limits",), 2, 1, "limits"),
        (("limits", "budget", "tokens"), 3, 20, "limits.budget.tokens"),
        (("nodes", 0), 5, 5, "nodes[0]"),
        (("nodes", 0, "id"), 5, 14, "nodes[0].node_id"),
        (("nodes", 0, "node_id"), 5, 14, "nodes[0].node_id"),
        (("nodes", 0, "dependencies", 1), 6, 21, "nodes[0].depends_on[1]"),
        (("nodes", 0, "retry"), 7, 12, "nodes[0].retry"),
        (("nodes", 0, "retry", "max_attempts"), 7, 12, "nodes[0].retry.max_attempts"),
        (("nodes", 0, "join"), 8, 19, "nodes[0].wait_for_all"),
        (("nodes", 0, "placement"), 9, 5, "nodes[0].placement"),
        (("nodes", 0, "placement", "allowed_nodes", 0), 11, 11,
         "nodes[0].placement.allowed_nodes[0]"),
        (("nodes", 0, "loop", "condition"), 13, 14, "nodes[0].loop.while"),
        (("nodes", 0, "branch", "rules", 0, "condition"), 14, 29,
         "nodes[0].branch.rules[0].when"),
        (("nodes", 0, "branch", "rules", 0, "next_nodes", 0), 14, 45,
         "nodes[0].branch.rules[0].next_nodes[0]"),
        (("nodes", 0, "human_config", "timeout_seconds"), 15, 35,
         "nodes[0].human_config.timeout_hours"),
        (("nodes", 0, "compensator", "handler"), 16, 27, "nodes[0].compensator.action"),
        (("nodes", 0, "compensator", "timeout_seconds"), 16, 46,
         "nodes[0].compensator.timeout_sec"),
        (("nodes", 0, "config", "deep", 0, "er"), 17, 26, "nodes[0].config.deep[0].er"),
        (("nodes", 0, "foreach", "as_"), 18, 31, "nodes[0].foreach.as"),
        (("nodes", 0, "foreach", "items", 0), 18, 23, "nodes[0].foreach.items[0]"),
        (("nodes", 0, "timeout_seconds"), 19, 14, "nodes[0].timeout"),
        (("nodes", 0, "config_ref", "cas_ref"), 20, 17, "nodes[0].config_ref.cas_ref"),
        (("edges", 0, "source"), 22, 12, "edges[0].from"),
        (("edges", 0, "target"), 22, 19, "edges[0].to"),
        # What was not written is shown at what is around it.
        (("nodes", 0, "handler"), 5, 5, "nodes[0].handler"),
        (("nodes", 0, "loop", "max_iterations"), 12, 5, "nodes[0].loop.max_iterations"),
        (("nodes", 7, "id"), 4, 1, "nodes[7].id"),
        (("defaults", "retry", "jitter"), 1, 1, "defaults.retry.jitter"),
        (("nothing", "at all"), 1, 1, 'nothing["at all"]'),
    ],
    ids=str,
)  # fmt: skip
def test_part_is_located_in_the_spelling_of_its_author(
    path: tuple[str | int, ...], line: int, column: int, written: str
) -> None:
    document = read_document(YAML)

    assert document.locate(path) == Position(line, column)
    assert document.diagnose("some-code", "message", path, hint="hint") == Diagnostic(
        code="some-code", message="message", path=written, line=line, column=column, hint="hint"
    )


def test_part_of_a_json_document_is_located() -> None:
    document = read_document(
        '// a comment\n{"name": "w", /* another\n */ "nodes": [\n'
        '\t{"id": "a", "description": 1}]}'.replace(', "description": 1', ', "type":\n "noop"')
    )

    assert document.locate(("nodes", 0, "id")) == Position(4, 9)
    assert document.locate(("nodes",)) == Position(3, 14)
    # Its value begins on another line, so the key is shown.
    assert document.locate(("nodes", 0, "type")) == Position(4, 14)


def test_part_of_an_alias_is_located_where_it_was_written() -> None:
    document = read_document(
        "name: w\nnodes:\n  - {id: a, retry: &r {max_attempts: 2}}\n  - {id: b, retry: *r}\n"
    )

    assert document.workflow.nodes[1].retry == Retry(max_attempts=2)
    assert document.locate(("nodes", 1, "retry")) == Position(4, 20)
    assert document.locate(("nodes", 1, "retry", "max_attempts")) == Position(3, 38)


def test_document_without_text_has_no_positions() -> None:
    document = read_mapping({"name": "w", "nodes": []})

    assert document.locate(("name",)) is None
    assert document.diagnose("c", "m", ("name",), severity="warning") == Diagnostic(
        code="c", message="m", path="name", severity="warning"
    )
