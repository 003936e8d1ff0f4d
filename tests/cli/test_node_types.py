"""Node types that users register, from the command line."""

from __future__ import annotations

from typing import Any

import pytest

from minuet.cli import unserved

TYPES = '''
import minuet
import msgspec


class Query(msgspec.Struct):
    text: str
    limit: int = 2


@minuet.node_type(
    "search",
    version="2",
    display_name="Search",
    icon="https://x/i.svg",
    capabilities={"languages": ["en", "de"]},
    image="registry.test/search:2",
    effects="none",
)
def search(query: Query, ctx: minuet.Context) -> list[str]:
    """Finds texts."""
    return ctx.step("find", lambda: [query.text] * query.limit)
'''
DOCUMENT = """
name: look
input: {type: object, properties: {text: {type: string}}, required: [text]}
nodes:
  - {id: look, type: search, config: {text: "{{ input.text }}"}}
"""


@pytest.fixture
def look(folder: Any) -> Any:
    folder.write("look.yaml", DOCUMENT)
    folder.write("types.py", TYPES)
    return folder


def test_run_has_the_types_of_its_handlers(look: Any, minuet: Any) -> None:
    called = minuet("run", "look.yaml", "--handlers", "types.py", "-i", "text=x", "--json")

    assert called.code == 0
    assert called.json["output"] == {"look": ["x", "x"]}


def test_run_refuses_a_type_that_is_not_here_and_suggests_one(look: Any, minuet: Any) -> None:
    look.write("look.yaml", DOCUMENT.replace("search", "serch"))

    alone = minuet("run", "look.yaml", "-i", "text=x")
    beside = minuet("run", "look.yaml", "--handlers", "types.py", "-i", "text=x")

    assert (alone.code, beside.code) == (2, 2)
    assert 'error[unknown-node-type]: there is no node type "serch"' in alone.err
    assert "hint: register it with @minuet.node_type and name its module" in alone.err
    assert 'hint: did you mean "search"?' in beside.err
    assert not look.store.exists()


def test_validate_warns_of_a_type_that_is_not_here(look: Any, minuet: Any) -> None:
    unknown = minuet("validate", "look.yaml", "--json")
    known = minuet("validate", "look.yaml", "--handlers", "types.py", "--json")

    assert (unknown.code, known.code) == (0, 0)
    (found,) = unknown.json["files"][0]["diagnostics"]
    assert (found["code"], found["severity"]) == ("unknown-node-type", "warning")
    assert known.json["files"][0]["diagnostics"] == []


@pytest.mark.shows("C-21")
def test_node_types_lists_what_handlers_register(look: Any, minuet: Any) -> None:
    listed = {one["name"]: one for one in minuet("node-types", "--json").json}
    more = minuet("node-types", "--handlers", "types.py", "--json").json
    text = minuet("node-types", "search", "--handlers", "types.py").out

    assert {"task", "transform"} <= listed.keys()
    assert "search" not in listed
    (found,) = [one for one in more if one["name"] == "search"]
    assert {key: found[key] for key in found if not key.endswith("_schema")} == {
        "name": "search",
        "version": "2",
        "display_name": "Search",
        "summary": "Finds texts.",
        "description": "",
        "icon": "https://x/i.svg",
        "image": "registry.test/search:2",
        "queue": "type:search",
        "capabilities": {
            "supports_retry": True,
            "takes_secrets": True,
            "languages": ["en", "de"],
        },
        "output": "any JSON",
        "example": {},
        "created_at": None,
    }
    assert listed["transform"]["capabilities"] == {"supports_retry": False, "takes_secrets": False}
    assert found["config_schema"]["required"] == ["text"]
    assert found["output_schema"] == {"type": "array", "items": {"type": "string"}}
    assert text.startswith("search (Search), version 2: Finds texts.\n")
    assert f"defined at: {look.path}/types.py:" in text


def test_an_unknown_name_gets_a_suggestion_among_all_types(look: Any, minuet: Any) -> None:
    called = minuet("node-types", "serch", "--handlers", "types.py")

    assert called.code == 2
    assert "there is no node type 'serch': did you mean 'search'?" in called.err


def test_start_leaves_it_to_a_worker_that_has_it(
    look: Any, minuet: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unserved, "FIRST_S", 0.01)

    started = minuet("start", "look.yaml", "-i", "text=x", "--wait", "--timeout", "1")
    run_id = minuet("runs", "list", "--json").json[0]["run_id"]
    why = minuet("runs", "why", run_id, "look")
    refused = minuet("resume")
    resumed = minuet("resume", "--handlers", "types.py", "--json")

    assert started.code == 3
    assert "node look waits: no live worker has node type 'search'" in started.err
    assert "no worker has node type 'search'" in why.out
    assert refused.code == 2
    assert "needs the node type 'search', which is not here" in refused.err
    assert resumed.json["output"] == {"look": ["x", "x"]}


@pytest.mark.parametrize("options", [[], ["--handlers", "types.py"]])
def test_simulate_plays_it(look: Any, minuet: Any, options: list[str]) -> None:
    called = minuet("simulate", "look.yaml", *options, "--seeds", "30", "--json")

    codes = {found["code"] for found in called.json["findings"]}
    # A stub fails at times; the real one does not, and declares that it may run again.
    assert codes <= ({"unhandled-failure", "repeated"} if not options else set())
    assert called.json["ends"]["COMPLETED"] > 0
