"""Node types, their config schemas, and the schema of a workflow's input."""

from __future__ import annotations

from typing import Any

import pytest

from minuet.errors import DocumentError


def wait(**config: Any) -> dict[str, Any]:
    return {"id": "a", "type": "wait", "config": config}


@pytest.mark.shows("A-22")
@pytest.mark.parametrize("type_", ["noop", "decision", "transform"])
def test_any_node_type_may_loop_and_branch(nodes_of: Any, type_: str) -> None:
    nodes = nodes_of(
        {
            "id": "a",
            "type": type_,
            "loop": {"condition": "false"},
            "branch": {"rules": [], "default": ["b"]},
        },
        {"id": "b"},
    )

    assert nodes["a"].queue == type_
    assert nodes["a"].loop is not None
    assert nodes["a"].branch is not None


def test_an_unknown_type_is_refused_with_a_suggestion(compiled: Any) -> None:
    with pytest.raises(DocumentError) as caught:
        compiled({"id": "a", "type": "decison"})

    (found,) = caught.value.diagnostics
    assert (found.code, found.path) == ("unknown-node-type", "nodes[0].type")
    assert found.hint == 'did you mean "decision"?'


def test_a_type_of_a_later_version_is_refused_as_such(compiled: Any) -> None:
    with pytest.raises(DocumentError) as caught:
        compiled({"id": "a", "type": "http"})

    (found,) = caught.value.diagnostics
    assert (found.code, found.path) == ("node-type-unavailable", "nodes[0].type")
    assert found.message == 'node type "http" comes in a later version'


def test_a_type_that_needs_a_handler_must_have_one(refused: Any, nodes_of: Any) -> None:
    assert refused({"id": "a", "type": "task"}) == [("missing-handler", "nodes[0]")]
    assert nodes_of({"id": "a", "type": "task", "handler": "f"})["a"].handler == "f"


@pytest.mark.shows("B-27", "Z-05")
@pytest.mark.parametrize(
    ("config", "path"),
    [
        ({"seconds": "long"}, "nodes[0].config.seconds"),
        ({"seconds": -1}, "nodes[0].config.seconds"),
        ({"seconds": 13}, "nodes[0].config"),
        ({}, "nodes[0].config"),
        ({"seconds": 1, "secnds": "{{ input.x }}"}, "nodes[0].config"),
        ({"seconds": 1, "labels": ["{{ input.x }}", 7]}, "nodes[0].config.labels[1]"),
        ({"seconds": 1, "labels": ["{{ input.x }}", "b", "c"]}, "nodes[0].config.labels"),
        ({"seconds": 1, "labels": {"x": "{{ input.x }}"}}, "nodes[0].config.labels"),
    ],
)
def test_config_must_fit_its_type(refused: Any, config: dict[str, Any], path: str) -> None:
    assert refused(wait(**config)) == [("bad-config", path)]


@pytest.mark.parametrize(
    "config",
    [
        {"seconds": 0.5},
        {"seconds": "{{ input.x }}"},
        {"seconds": 1, "labels": "{{ input.x }}"},
        {"seconds": 13, "labels": ["{{ input.x }}"]},
    ],
    ids=["fits", "template", "template for a list", "template beside"],
)
def test_config_that_may_fit_when_rendered_is_accepted(
    nodes_of: Any, config: dict[str, Any]
) -> None:
    assert nodes_of(wait(**config))["a"].config == config


def test_config_in_a_blob_is_not_checked(nodes_of: Any) -> None:
    reference = {"type_url": "svc/Config@1", "cas_ref": f"cas://sha256:{'0' * 64}"}

    node = nodes_of({"id": "a", "type": "wait", "config_ref": reference})["a"]

    assert node.config is None
    assert node.config_ref == reference["cas_ref"]
    assert node.extra == {"type_url": "svc/Config@1"}


@pytest.mark.parametrize(
    ("schema", "path"),
    [
        ({"type": "objekt"}, "input.type"),
        ({"properties": {"x": {"minimum": "1"}}}, "input.properties.x.minimum"),
        ({"$ref": "http://localhost:1/schema.json"}, "input.$ref"),
        ({"$ref": "file:///etc/hostname"}, "input.$ref"),
    ],
    ids=["type", "deep", "remote reference", "file reference"],
)
def test_a_bad_input_schema_is_refused(refused: Any, schema: dict[str, Any], path: str) -> None:
    assert refused({"id": "a"}, input=schema) == [("bad-input-schema", path)]


def test_a_good_input_schema_is_kept(compiled: Any) -> None:
    schema = {"type": "object", "properties": {"x": {"$ref": "#/$defs/x"}}, "$defs": {"x": {}}}

    assert compiled({"id": "a"}, input=schema).plan.input_schema == schema


@pytest.mark.parametrize(
    ("node", "fields", "path"),
    [
        ({"human_config": {"approvers": ["a"]}}, {}, "nodes[0].human_config"),
        ({"agent_config": {"model": "m"}}, {}, "nodes[0].agent_config"),
        ({"rejection_path": ["b"]}, {}, "nodes[0].rejection_path"),
        ({}, {"on_failure": {"compensate": True}}, "on_failure.compensate"),
        ({}, {"on_cancel": {"compensate": True}}, "on_cancel.compensate"),
        ({}, {"limits": {"budget": {"tokens": 5}}}, "limits.budget"),
    ],
)
def test_what_does_nothing_is_a_warning(compiled: Any, node: Any, fields: Any, path: str) -> None:
    result = compiled({"id": "a", **node}, {"id": "b", "dependencies": ["a"]}, **fields)

    assert [(d.code, d.severity, d.path) for d in result.diagnostics] == [
        ("no-effect", "warning", path)
    ]
