"""The schema and the pages about documents say what the reader does."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path
from typing import Any, get_args

import jsonschema_rs
import msgspec
import pytest

from minuet.errors import DocumentError
from minuet.model import document_schema, read_document
from minuet.model.problem import Code
from minuet.model.reference import schema_text, with_tables
from minuet.model.schema import parts
from minuet.model.text import parse

FENCED = re.compile(r"^```\w+\n(.*?)^```$", re.M | re.S)

#: A schema sees plain data, so text that is not even that is left out; and it sees every
#: field by itself, so it cannot see contradictions.
BROKEN = runpy.run_path(str(Path(__file__).with_name("broken_documents.py")))["BROKEN"]
PLAIN_BUT_WRONG = {
    name: text
    for name, (text, expected) in BROKEN.items()
    if not parse(text).problems.count and "contradiction" not in expected[0]
}


@pytest.fixture(scope="module")
def validator() -> Any:
    return jsonschema_rs.validator_for(document_schema())


def test_schema_in_the_docs_is_current(root: Path) -> None:
    path = root / "docs/reference/workflow.schema.json"

    assert path.read_text("utf-8") == schema_text(), "run `make docs`"


def test_tables_in_the_docs_are_current(root: Path) -> None:
    page = (root / "docs/reference/document.md").read_text("utf-8")

    assert page == with_tables(page), "run `make docs`"


def test_schema_is_a_valid_schema() -> None:
    assert jsonschema_rs.meta.is_valid(document_schema())


def test_every_field_of_the_model_is_in_the_table() -> None:
    for part in parts():
        declared = {field.attribute for field in part.fields if not field.helper}
        known = {field.name for field in msgspec.structs.fields(part.cls)}
        # A node has fewer limits than a document.
        assert declared == known or part.title == "NodeLimits"


def test_example_in_the_docs_loads_and_fits_the_schema(root: Path, validator: Any) -> None:
    page = (root / "docs/reference/document.md").read_text("utf-8")

    (example,) = FENCED.findall(page)

    assert validator.is_valid(read_document(example).raw)


@pytest.mark.parametrize("text", PLAIN_BUT_WRONG.values(), ids=PLAIN_BUT_WRONG)
def test_schema_refuses_what_the_reader_refuses(validator: Any, text: str) -> None:
    assert not validator.is_valid(parse(text).value)


@pytest.mark.parametrize(
    "node",
    [
        {"node_id": "a", "retry_config": 3, "timeout": 1, "placement": {}},
        {"id": "a", "config_ref": "sha256:x", "wait_for_all": True},
        {"id": "a", "loop": {"while": "x"}, "branch": {"rules": [{"when": "x", "next_nodes": []}]}},
        {"id": "a", "human_config": {"timeout_hours": 1, "escalation_policy": "auto_approve"}},
        {"id": "a", "compensator": {"action": "x", "timeout_sec": 1, "retry": {"jitter": True}}},
        {"id": "a", "join": 2, "on_error": ["b"], "foreach": {"items": "{{ input }}"}},
    ],
    ids=str,
)
def test_schema_accepts_what_the_reader_accepts(validator: Any, node: dict[str, Any]) -> None:
    data = {"name": "w", "nodes": [node]}

    read_document(json.dumps(data))
    assert validator.is_valid(data)


@pytest.fixture(scope="module")
def sections(root: Path) -> dict[str, str]:
    """The sections of the page about errors, by code."""
    page = (root / "docs/errors.md").read_text("utf-8")
    found = re.findall(r"^### (\S+)\n(.*?)(?=^##|\Z)", page, re.M | re.S)
    assert len(found) == len(dict(found)), "two sections for one code"
    return dict(found)


def test_every_code_has_a_section(sections: dict[str, str]) -> None:
    assert set(get_args(Code)) <= set(sections)


@pytest.mark.parametrize("code", get_args(Code))
def test_example_of_an_error_has_that_error(sections: dict[str, str], code: str) -> None:
    for text in FENCED.findall(sections[code]):
        with pytest.raises(DocumentError) as raised:
            read_document(text)

        assert code in {diagnostic.code for diagnostic in raised.value.diagnostics}
