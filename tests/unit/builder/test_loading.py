"""A document that is loaded is written as it was; what has not changed keeps its text."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import minuet
from minuet.model import dump_document, read_document, read_file, read_mapping
from minuet.simulation.documents import Maker

from ...conftest import ROOT

#: Every document of the examples and the demo.
FILES = sorted((*ROOT.glob("examples/**/*.yaml"), *ROOT.glob("src/minuet/demo/**/*.yaml")))


def seeds(shared: Path) -> Iterator[Any]:
    """The nodes in the original texts that can be read, each in a document."""
    for file in sorted((shared / "seeds").glob("*.txt")):
        text = file.read_text("utf-8")
        for part in re.findall(r"^\s*`{3,}json\s*$(.*?)^\s*`{3,}\s*$", text, re.M | re.S):
            try:
                data = {"name": "w", "nodes": [json.loads(part)]}
                read_mapping(data)
            except (ValueError, minuet.DocumentError):
                continue
            yield data


def test_there_are_documents() -> None:
    assert len(FILES) >= 7


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_file_is_written_as_it_was(file: Path) -> None:
    workflow = minuet.Workflow.load(file)

    assert workflow.to_yaml() == file.read_text("utf-8")
    assert workflow.to_dict() == read_file(file).raw
    assert minuet.Workflow.load(workflow.to_dict()).to_dict() == workflow.to_dict()


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_file_that_is_written_again_says_the_same(file: Path) -> None:
    data = minuet.Workflow.load(file).to_dict()

    again = minuet.Workflow.load(minuet.Workflow.load(data).to_yaml())

    assert again.to_dict() == data
    assert again.read().workflow == read_file(file).workflow


def test_the_original_documents_are_written_as_they_were(shared: Path) -> None:
    found = list(seeds(shared))
    for data in found:
        workflow = minuet.Workflow.load(data)
        assert workflow.to_dict() == data
        assert minuet.Workflow.load(workflow.to_yaml()).to_dict() == data
    assert len(found) >= 5


def test_text_and_data_can_be_loaded() -> None:
    text = "name: w\nnodes:\n  - id: a # the first\n"

    assert minuet.Workflow.load(text).to_yaml() == text
    assert (
        minuet.Workflow.load(read_document(text).raw).to_yaml() == "name: w\nnodes:\n  - {id: a}\n"
    )


def test_json_that_has_not_changed_stays_json() -> None:
    text = '{"name": "w",\n "nodes": [{"id": "a"}]}\n'
    workflow = minuet.Workflow.load(text)

    assert workflow.to_yaml() == text
    workflow.set(description="d")
    assert workflow.to_yaml() == "name: w\nnodes:\n  - {id: a}\ndescription: d\n"


def test_a_document_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(minuet.DocumentError, match="cannot be read"):
        minuet.Workflow.load(tmp_path / "none.yaml")
    with pytest.raises(minuet.DocumentError, match=r"2:1: error\[unknown-field\]"):
        minuet.Workflow.load("name: w\nnods: []\nnodes: []\n")


ORDER = """\
# An order.
name: order   # its name
limits: {max_hops: 10}   # few

nodes:
  # First
  - id: a   # the first
    type: noop
    # how long
    timeout: 5   # seconds

  # Second
  - id: b
    handler: h
    config:
      text: |
        several
        lines

    depends_on: [a]

# The end
output: "{{ b.output }}"
# really
"""


def load() -> minuet.Workflow:
    return minuet.Workflow.load(ORDER)


def test_a_changed_field_replaces_its_lines() -> None:
    order = load()
    order["a"].timeout(7)

    assert order.to_yaml() == ORDER.replace("    timeout: 5   # seconds\n", "    timeout: 7\n")


def test_a_new_field_comes_after_the_others() -> None:
    order = load()
    order["a"].retry(3)
    order["b"].set(secrets=["KEY"])

    text = ORDER.replace("# seconds\n", "# seconds\n    retry: {max_attempts: 3}\n")
    text = text.replace("depends_on: [a]\n", "depends_on: [a]\n    secrets: [KEY]\n")
    assert order.to_yaml() == text


def test_a_new_node_comes_after_the_others() -> None:
    order = load()
    with order:
        minuet.transform("c", order["b"].output).then(minuet.noop("d"))

    added = (
        "    depends_on: [a]\n"
        "  - id: c\n"
        "    type: transform\n"
        "    config: {value: '{{ b.output }}'}\n"
        "    dependencies: [b]\n"
        "  - id: d\n"
        "    type: noop\n"
        "    dependencies: [c]\n"
    )
    assert order.to_yaml() == ORDER.replace("    depends_on: [a]\n", added)


def test_a_new_field_and_a_new_node_at_one_place_keep_their_order() -> None:
    order = load()
    order["b"].timeout(5)
    with order:
        minuet.noop("c")

    added = "    depends_on: [a]\n    timeout_seconds: 5\n  - {id: c, type: noop}\n"
    assert order.to_yaml() == ORDER.replace("    depends_on: [a]\n", added)


def test_a_changed_edge_keeps_the_spelling_of_the_author() -> None:
    order = load()
    with order:
        minuet.noop("c").then(order["b"])

    assert "    depends_on: [a, c]\n" in order.to_yaml()
    assert order.to_dict()["nodes"][1]["depends_on"] == ["a", "c"]


def test_a_changed_block_of_text_is_replaced() -> None:
    order = load()
    order["b"].set(config={"text": "one line"})

    old = "    config:\n      text: |\n        several\n        lines\n\n"
    assert order.to_yaml() == ORDER.replace(old, "    config: {text: one line}\n")


def test_fields_of_the_workflow_can_change() -> None:
    order = load()
    order.set(limits={"max_hops": 20}, description="d")

    text = ORDER.replace("limits: {max_hops: 10}   # few", "limits: {max_hops: 20}")
    text = text.replace('output: "{{ b.output }}"\n', 'output: "{{ b.output }}"\ndescription: d\n')
    assert order.to_yaml() == text


def test_setting_a_join_replaces_the_older_spelling() -> None:
    workflow = minuet.Workflow.load({"name": "w", "nodes": [{"id": "a", "wait_for_all": False}]})
    workflow["a"].set(join="all")

    assert workflow.to_dict()["nodes"] == [{"id": "a", "join": "all"}]


@pytest.mark.parametrize(
    "text",
    [
        "--- {name: w, nodes: [{id: a}, {id: b}]}\n",
        "name: w\nnodes: [{id: a}, {id: b}]\n",
        "name: w\nnodes:\n- {id: a}\n- {id: b}",
        "name: w\nnodes:\n-\n  id: a\n-\n  id: b\n",
        "name: w\nnodes:\n- &x\n  id: a\n  config: &c {x: 1}\n- id: b\n  config: *c\n",
        "---\nname: w\nnodes:\n    -   id: a\n        type: noop\n    -   id: b\n...\n",
        "nodes:\n  - id: a\n  - type: noop\n    id: b\nname: w\n",
        "name: w\r\nnodes:\r\n  - id: a\r\n  - id: b\r\n",
    ],
)
def test_every_style_can_be_changed(text: str) -> None:
    workflow = minuet.Workflow.load(text)
    workflow["a"].set(type="wait", config={"seconds": 1})
    workflow["b"].timeout(3).set(type="noop")
    with workflow:
        minuet.noop("c")
    workflow.set(description="a: b")

    assert minuet.Workflow.load(workflow.to_yaml()).to_dict() == workflow.to_dict()


@pytest.mark.slow
@given(st.integers(0, 10_000), st.sampled_from(["timeout_seconds", "secrets", "retry"]))
def test_random_documents_can_be_changed(seed: int, field: str) -> None:
    data = read_mapping(Maker(random.Random(seed), 8).document("random")).raw
    text = minuet.Workflow.load(data).to_yaml()
    workflow = minuet.Workflow.load(text)
    assert workflow.to_dict() == data
    value = {"timeout_seconds": 3, "secrets": ["S"], "retry": {"max_attempts": 2}}[field]
    for node in workflow:
        node.set(**{field: value})

    changed = workflow.to_yaml()

    assert minuet.Workflow.load(changed).to_dict() == workflow.to_dict()
    assert dump_document(read_document(changed).workflow)["name"] == data["name"]
