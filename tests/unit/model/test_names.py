"""Names, ids and labels in documents: no character that a store cannot hold, and bounded."""

from __future__ import annotations

import json
from typing import Any

import pytest

from minuet.errors import DocumentError
from minuet.model import read_document, read_mapping

Place = tuple[str | int, ...]

#: Every place of a document where something has a name.
PLACES: list[Place] = [
    ("name",),
    ("defaults", "queue"),
    ("nodes", 0, "id"),
    ("nodes", 0, "type"),
    ("nodes", 0, "handler"),
    ("nodes", 0, "dependencies", 0),
    ("nodes", 0, "secrets", 0),
    ("nodes", 0, "on_error", 0),
    ("nodes", 0, "loop", "loop_back_to"),
    ("nodes", 0, "branch", "rules", 0, "next_nodes", 0),
    ("nodes", 0, "compensator", "handler"),
    ("nodes", 0, "retry", "no_retry_on", 0),
    ("nodes", 0, "human_config", "approvers", 0),
    ("nodes", 0, "agent_config", "model"),
    ("nodes", 0, "agent_config", "available_tools", 0),
    ("nodes", 0, "placement", "requires_executors", 0),
    ("nodes", 0, "placement", "allowed_nodes", 0),
    ("nodes", 0, "placement", "forbidden_nodes", 0),
    ("edges", 0, "from"),
]


def document(place: Place, name: str) -> dict[str, Any]:
    """A document that is right but for one name."""
    node = {
        "id": "a",
        "type": "task",
        "handler": "h",
        "dependencies": ["b"],
        "secrets": ["s"],
        "on_error": ["b"],
        "loop": {"while": "true", "loop_back_to": "b"},
        "branch": {"rules": [{"when": "true", "next_nodes": ["b"]}]},
        "compensator": {"handler": "h"},
        "retry": {"no_retry_on": ["E"]},
        "human_config": {"approvers": ["p"], "title": "t"},
        "agent_config": {"model": "m", "available_tools": ["t"]},
        "placement": {
            "requires_executors": ["x"],
            "allowed_nodes": ["w"],
            "forbidden_nodes": ["v"],
        },
    }
    made: Any = {
        "name": "w",
        "defaults": {"queue": "q"},
        "nodes": [node],
        "edges": [{"from": "a", "to": "b"}],
    }
    inner = made
    for part in place[:-1]:
        inner = inner[part]
    inner[place[-1]] = name
    return dict(made)


def refused(call: Any, source: Any) -> tuple[str, str]:
    with pytest.raises(DocumentError) as caught:
        call(source)
    (found,) = caught.value.diagnostics
    return found.code, found.path


def test_the_document_is_right_but_for_the_name() -> None:
    assert read_mapping(document(("name",), "w")).workflow.name == "w"


@pytest.mark.parametrize("name", ["a\0b", "a\ud800", "\udfffa"], ids=ascii)
@pytest.mark.parametrize("place", PLACES, ids=str)
def test_a_name_with_a_character_that_no_store_holds_is_refused(place: Place, name: str) -> None:
    written = document(place, name)
    text = json.dumps(written)

    assert refused(read_mapping, written)[0] == "bad-character"
    assert refused(read_document, text)[0] == "bad-character"
    # To YAML's own reader, half a character is a mistake in the text.
    assert refused(read_document, f"---\n{text}")[0] in ("bad-character", "syntax")


@pytest.mark.parametrize(
    "name",
    ["x" * 300, "x" * 1_000_000, "", "a\x1bb", "a\x85b"],
    ids=["long", "huge", "empty", "escape", "next line"],
)
@pytest.mark.parametrize("place", PLACES, ids=str)
def test_a_name_that_is_too_long_or_controls_a_terminal_is_refused(place: Place, name: str) -> None:
    code, path = refused(read_mapping, document(place, name))

    assert code in ("wrong-value", "bad-id")
    assert path.endswith((str(place[-1]), f"[{place[-1]}]"))


def test_positions_point_at_the_name() -> None:
    with pytest.raises(DocumentError) as caught:
        read_document('name: w\nnodes:\n  - id: "a\\0"\n')

    (found,) = caught.value.diagnostics
    assert (found.code, found.line, found.column) == ("bad-character", 3, 9)
