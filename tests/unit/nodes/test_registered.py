"""`@minuet.node_type`: what may be registered, and what follows from its hints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

import minuet
from minuet.errors import ConfigError, HandlerError
from minuet.nodes.catalog import NODE_TYPES
from minuet.nodes.handler import REGISTERED
from minuet.nodes.loading import load_module
from minuet.nodes.spec import Call, NodeType, Wait

CONTEXT: Any = object()


class Query(msgspec.Struct):
    text: str
    limit: int = 10


class Tree(msgspec.Struct):
    children: list[Tree]


class Hits(msgspec.Struct):
    found: list[str]


def registered(name: str) -> NodeType:
    found = REGISTERED.find_type(name)
    assert found is not None
    return found


def call(config: Any) -> Call:
    return Call(config, {}, None, {})


def run(name: str, config: Any) -> Any:
    bind = registered(name).bind
    assert bind is not None
    function, arguments = bind(call(config), CONTEXT)
    return function(**arguments)


def test_a_function_stays_as_it_was_and_is_found_by_its_name() -> None:
    def find(config: dict[str, Any]) -> str:
        """Finds things.

        In a list.
        """
        return str(config["x"])

    assert minuet.node_type("find")(find) is find
    found = registered("find")

    assert (found.summary, found.description) == ("Finds things.", "In a list.")
    assert (found.version, found.kind, found.queue) == ("1", "registered", "type:find")
    assert not found.is_async
    assert found.place.startswith(__file__)
    assert run("find", {"x": 1}) == "1"


def test_what_people_see_of_it_is_kept() -> None:
    @minuet.node_type(
        "find", version="2.1", display_name="Find", description="Finds.", icon="https://x/i.svg"
    )
    async def find(config: Any) -> None:
        """Not this."""

    found = registered("find")

    assert (found.version, found.display_name, found.icon) == ("2.1", "Find", "https://x/i.svg")
    assert found.summary == "Finds."
    assert found.is_async


@pytest.mark.parametrize("capabilities", [["fast"], {"run": object()}])
def test_capabilities_that_are_not_json_are_refused(capabilities: Any) -> None:
    with pytest.raises(ConfigError, match="'find': capabilities are an object of JSON values"):

        @minuet.node_type("find", capabilities=capabilities)
        def find(config: Any) -> None: ...


def test_schemas_follow_from_the_hints() -> None:
    @minuet.node_type("find")
    def find(query: Query, ctx: minuet.Context) -> Hits | Wait:
        return Hits([query.text] * query.limit)

    found = registered("find")

    assert found.config_schema["required"] == ["text"]
    assert found.config_schema["properties"]["limit"] == {"type": "integer", "default": 10}
    assert found.config_schema["additionalProperties"] is False
    assert found.output_schema["required"] == ["found"]
    assert run("find", {"text": "a", "limit": 2}) == Hits(["a", "a"])


def test_a_schema_that_names_itself_keeps_its_definition() -> None:
    @minuet.node_type("grow")
    def grow(config: Tree) -> None: ...

    schema = registered("grow").config_schema

    assert schema["type"] == "object"
    assert schema["properties"]["children"]["items"]["$ref"] == "#/$defs/Tree"
    assert "Tree" in schema["$defs"]


def test_schemas_that_are_given_win_over_the_hints() -> None:
    config, output = {"type": "object", "required": ["x"]}, {"type": "string"}

    @minuet.node_type("find", config_schema=config, output_schema=output)
    def find(query: Query) -> Hits:
        raise AssertionError("only its schemas are used")

    found = registered("find")

    assert (found.config_schema, found.output_schema) == (config, output)


def test_without_hints_any_object_goes_in_and_anything_comes_out() -> None:
    @minuet.node_type("find")
    def find(config, ctx):  # type: ignore[no-untyped-def]
        return config, ctx

    found = registered("find")

    assert (found.config_schema, found.output_schema) == ({"type": "object"}, {})
    assert run("find", {"x": 1}) == ({"x": 1}, CONTEXT)


def test_a_call_has_everything_that_the_node_gets() -> None:
    @minuet.node_type("find")
    def find(c: minuet.Call) -> Any:
        return c

    assert run("find", {"x": 1}) == call({"x": 1})


def test_a_class_is_made_once_at_its_first_call() -> None:
    made = []

    @minuet.node_type("count")
    class Count:
        def __init__(self) -> None:
            made.append(self)
            self.calls = 0

        def run(self, config: dict[str, Any], ctx: minuet.Context) -> int:
            self.calls += 1
            return self.calls

    assert made == []
    assert [run("count", {}), run("count", {})] == [1, 2]
    assert len(made) == 1


def test_a_config_that_does_not_fit_its_hint_is_an_error() -> None:
    @minuet.node_type("find")
    def find(query: Query) -> None: ...

    with pytest.raises(HandlerError, match="node type 'find', argument 'config'"):
        run("find", {"text": 1})


@pytest.mark.parametrize("name", ["", "1x", "a b", "x" * 65, "type:x", "é", 7])
def test_a_name_that_cannot_be_written_in_a_document_is_refused(name: Any) -> None:
    with pytest.raises(ConfigError, match="cannot be the name of a node type"):
        minuet.node_type(name)


@pytest.mark.parametrize("name", NODE_TYPES)
def test_a_type_that_comes_with_minuet_cannot_be_replaced(name: str) -> None:
    with pytest.raises(ConfigError, match=f"'{name}' comes with Minuet"):
        minuet.node_type(name)


@pytest.mark.parametrize("name", ["function", "classifier", "search"])
def test_the_names_of_the_original_documents_are_free(name: str) -> None:
    minuet.node_type(name)(lambda config: None)

    assert registered(name).name == name


def test_two_types_of_one_name_are_refused_with_both_places(tmp_path: Path) -> None:
    text = 'import minuet\n\n@minuet.node_type("find")\ndef find(config): ...\n'
    for name in ("one_of_a_test.py", "two_of_a_test.py"):
        (tmp_path / name).write_text(text)
    load_module(str(tmp_path / "one_of_a_test.py"))

    with pytest.raises(ConfigError) as caught:
        load_module(str(tmp_path / "two_of_a_test.py"))

    assert f"two node types 'find', at {tmp_path}/one_of_a_test.py:3" in str(caught.value)
    assert f"and at {tmp_path}/two_of_a_test.py:3" in str(caught.value)


def test_a_function_with_other_parameters_is_refused() -> None:
    def two(a: str, b: str) -> None: ...
    def everything(**rest: Any) -> None: ...

    for function in (two, everything):
        with pytest.raises(ConfigError, match="each once and by name"):
            minuet.node_type("find")(function)


def test_a_class_without_run_is_refused() -> None:
    class Empty: ...

    with pytest.raises(ConfigError, match="the class Empty needs a method run"):
        minuet.node_type("find")(Empty)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "thing"},
        {"$ref": "https://example.com/schema.json"},
        {"type": "object", "x": object()},
    ],
)
def test_a_schema_that_cannot_be_used_is_refused(schema: Any) -> None:
    with pytest.raises(ConfigError, match="'find': output_schema cannot be used"):
        minuet.node_type("find", output_schema=schema)(lambda config: None)


def test_effects_must_be_one_of_three() -> None:
    with pytest.raises(ConfigError, match="effects must be"):
        minuet.node_type("find", effects="some")  # type: ignore[arg-type]
