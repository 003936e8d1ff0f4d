"""What handlers return that cannot be kept, and what only looks odd."""

from __future__ import annotations

import decimal
import enum
from typing import Any

import pytest

import minuet
from minuet.bridge.values import DEPTH_MAX, OUTPUT_BYTES_MAX
from minuet.errors import InputError

from ..scenario.harness import QUICK_RETRY, node, task, workflow


class Colour(enum.Enum):
    RED = 1


class Odd(enum.Enum):
    RAW = b"raw"


def cycle() -> Any:
    value: dict[str, Any] = {}
    value["self"] = [value]
    return value


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


REFUSED: dict[str, Any] = {
    "NaN": float("nan"),
    "Infinity": float("inf"),
    "-Infinity inside": {"a": [1, {"b": float("-inf")}]},
    "bytes": b"raw",
    "NaN as a Decimal": decimal.Decimal("NaN"),
    "enum of bytes": Odd.RAW,
    "bytes in a set": {b"raw"},
    "cycle": cycle(),
    "2**64": 2**64,
    "2**63": 2**63,
    "a million digits": 10**1_000_000,
    "one level too deep": nested(DEPTH_MAX + 1),
    "10,000 levels": nested(10_000),
    "number as key": {1: "x"},
    "None as key": {None: "x"},
    "tuple as key": {(1, 2): "x"},
    "lone surrogate": "\ud800",
    "lone surrogate in a key": {"\udfff": 1},
    "function": len,
    "object": object(),
    "class": Colour,
    "exception": ValueError("x"),
    "generator": (n for n in range(0)),
    "too large": "x" * (OUTPUT_BYTES_MAX - 1),
}


@pytest.mark.parametrize("kind", ["async", "sync"])
@pytest.mark.parametrize("name", REFUSED)
async def test_an_output_that_is_no_json_fails_its_node_at_once(
    scene: Any, name: str, kind: str
) -> None:
    attempts = []

    def make(ctx: minuet.Context) -> Any:
        attempts.append(ctx.attempt)
        return REFUSED[name]

    async def make_async(ctx: minuet.Context) -> Any:
        return make(ctx)

    handler = make if kind == "sync" else make_async
    async with scene({"make": handler}) as s:
        result = await s.run(workflow(task("make", retry=QUICK_RETRY), node("below", "make")))

        assert result.status == "FAILED"
        assert result.error is not None
        assert (result.error["code"], result.error["node"]) == ("invalid-output", "make")
        assert len(result.error["message"]) < 500
        assert attempts == [1]
        assert await s.order(result.run_id) == []
        # The worker lives.
        assert (await s.run(workflow(node("a")))).status == "COMPLETED"


@pytest.mark.parametrize(
    ("value", "where"),
    [
        ({"a": [1, {"b": float("nan")}]}, "a[1].b"),
        ([[b"x"]], "[0][0]"),
        ({"x" * 1000: {1: 2}}, "x"),
    ],
)
async def test_a_refusal_says_where_the_trouble_is(scene: Any, value: Any, where: str) -> None:
    async def make() -> Any:
        return value

    async with scene({"make": make}) as s:
        result = await s.run(workflow(task("make")))

        assert f"at {where}" in result.error["message"]
        assert len(result.error["message"]) < 500


KEPT: dict[str, Any] = {
    "nothing": None,
    "false": False,
    "zero": 0,
    "empty text": "",
    "empty list": [],
    "negative zero": -0.0,
    "largest integer": 2**63 - 1,
    "smallest integer": -(2**63),
    "tiny": 5e-324,
    "huge": 1.7976931348623157e308,
    "NUL": "a\0b",
    "controls": "".join(map(chr, range(32))),
    "line separators": "\u2028\u2029",
    "emoji": "🎼" * 10,
    "not normalised": "e\u0301é",
    "right to left": "\u202eabc",
    "script": "</script><img src=x onerror=alert(1)>",
    "sql": "'; DROP TABLE runs; --",
    "prototype": {"__proto__": {"x": 1}, "constructor": 1, "__class__": 2},
    "revival": {"lc": 1, "type": "constructor", "id": ["os", "system"], "py/object": "x"},
    "odd keys": {"": 1, " ": 2, "a.b": 3, "{{ x }}": 4, "\0": 5, "$blob ": 6},
    "deep": nested(DEPTH_MAX),
    "wide": list(range(10_000)),
    "ten megabytes": "x" * 10_000_000,
    "template": "{{ input.secret }} {% for x in y %} ${HOME} %(x)s",
    "tuple": (1, [2, (3,)]),
}


def plain(value: Any) -> Any:
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


@pytest.mark.parametrize("name", KEPT)
async def test_an_odd_value_comes_back_as_it_was(scene: Any, name: str) -> None:
    seen = []

    async def make() -> Any:
        return KEPT[name]

    async def show(ctx: minuet.Context) -> None:
        seen.append(ctx.inputs["make"])

    async with scene({"make": make, "show": show}) as s:
        result = await s.run(workflow(task("make"), task("show", "make")))

        assert result.status == "COMPLETED"
        expected = plain(KEPT[name])
        assert result.nodes["make"].output == expected
        assert repr(seen[0])[:5000] == repr(expected)[:5000]


@pytest.mark.parametrize("schema", [None, {"type": "object"}], ids=["no schema", "a schema"])
@pytest.mark.parametrize("name", [name for name in REFUSED if name != "generator"])
async def test_an_input_that_is_no_json_is_refused_before_anything_starts(
    scene: Any, name: str, schema: Any
) -> None:
    fields = {} if schema is None else {"input": schema}
    async with scene() as s:
        with pytest.raises(InputError):
            await s.app.start(workflow(node("a"), **fields), {"x": REFUSED[name]})

        assert not s.store.runs


async def test_one_large_text_many_times_is_refused_before_it_is_written(scene: Any) -> None:
    async def make() -> str:
        return "x" * 1_000_000

    many = "{{ [" + ", ".join(["make.output"] * 300) + "] }}"
    document = workflow(
        task("make"), node("many", "make", type="transform", config={"value": many})
    )
    async with scene({"make": make}) as s:
        result = await s.run(document)

        assert result.status == "FAILED"
        assert result.error["code"] == "invalid-output"
        assert "more than 16,777,216 bytes" in result.error["message"]
