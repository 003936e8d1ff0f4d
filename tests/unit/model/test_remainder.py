"""A document with unreadable fields: what could be read is offered for a further look."""

from __future__ import annotations

from typing import Any

import pytest

from minuet.app.compiling import compile_source
from minuet.errors import DocumentError
from minuet.model import read_document


def refuse(text: str) -> DocumentError:
    with pytest.raises(DocumentError) as caught:
        read_document(text)
    return caught.value


def test_the_remainder_lacks_the_fields_that_are_wrong() -> None:
    error = refuse(
        "name: w\nlimits: 7\nnodes:\n  - {id: a, handlr: x}\n  - {id: b, dependencies: [1]}\n"
    )

    assert error.remainder is not None
    assert [node.id for node in error.remainder.workflow.nodes] == ["a", "b"]
    assert error.remainder.workflow.nodes[1].dependencies == ()


@pytest.mark.parametrize(
    "text",
    [
        "name: w\nnodes: 7\n",
        "name: w\nnodes:\n  - {type: noop}\n",
        "name: w\nnodes:\n  - {id: a b}\n",
        "name: w\nnodes: [{id: a, id: b}]\n",
        "nodes: [",
    ],
)
def test_there_is_no_remainder_of_a_document_whose_nodes_are_not_known(text: str) -> None:
    assert refuse(text).remainder is None


def test_problems_of_reading_and_of_meaning_are_told_together(tmp_path: Any) -> None:
    path = tmp_path / "w.yaml"
    path.write_text(
        "name: w\n"
        "nodes:\n"
        "  - {id: a, type: noop, handlr: x}\n"
        "  - {id: b, type: noop, dependencies: [aa]}\n"
        "  - id: c\n"
        "    type: decision\n"
        "    dependencies: [b]\n"
        "    branch: {rules: [{when: 'output.x >', next_nodes: [d]}], default: [d]}\n"
        "  - {id: d, type: noop}\n"
    )

    with pytest.raises(DocumentError) as caught:
        compile_source(path)

    told = [(d.code, d.line) for d in caught.value.diagnostics]
    assert told == [("unknown-field", 3), ("unknown-node", 4), ("bad-condition", 8)]


def test_a_node_with_unreadable_fields_is_not_blamed_for_their_absence() -> None:
    document = {"name": "w", "nodes": [{"id": "a", "handlr": "x"}]}

    with pytest.raises(DocumentError) as caught:
        compile_source(document)

    assert [d.code for d in caught.value.diagnostics] == ["unknown-field"]


def test_a_sound_remainder_adds_nothing() -> None:
    document = {"name": "w", "colour": "red", "nodes": [{"id": "a", "type": "noop"}]}
    assert refuse('{"name": "w", "colour": "red", "nodes": [{"id": "a"}]}').remainder is not None

    with pytest.raises(DocumentError) as caught:
        compile_source(document)

    assert [d.code for d in caught.value.diagnostics] == ["unknown-field"]
