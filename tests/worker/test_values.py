"""Python's types as JSON: in inputs, outputs and steps, and back by type hints."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import enum
import json
import pathlib
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minuet
from minuet.bridge.values import _BASES, CONVERSIONS, encode, encode_value
from minuet.errors import InputError, OutputError

from ..scenario.harness import QUICK_RETRY, open_scene, task, workflow


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Line:
    name: str
    price: decimal.Decimal


class Point(msgspec.Struct):
    x: int
    y: int


class Order(pydantic.BaseModel):
    number: int
    placed: datetime.date


#: What the examples of the page may name.
NAMES: dict[str, Any] = {
    **{name: getattr(datetime, name) for name in ("date", "datetime", "time", "timedelta", "UTC")},
    "UUID": uuid.UUID,
    "Decimal": decimal.Decimal,
    "PurePosixPath": pathlib.PurePosixPath,
    "defaultdict": collections.defaultdict,
    "numpy": numpy,
    **{kind.__name__: kind for kind in (Colour, Line, Point, Order)},
}


def page(root: Path) -> str:
    return (root / "docs/reference/values.md").read_text("utf-8")


def examples(text: str) -> dict[str, Any]:
    """Of the page's first table: the expressions, and what they are kept as."""
    rows = [line.split("|")[1:4] for line in text.split("## ")[0].splitlines() if "`" in line]
    cells = [[cell.strip().strip("`") for cell in row] for row in rows if len(row) == 3]
    return {example: json.loads(kept) for _, example, kept in cells}


def test_the_page_says_what_becomes_of_every_type(root: Path) -> None:
    text = page(root)
    found = examples(text)

    assert len(found) == 16
    for example, kept in found.items():
        value = eval(example, dict(NAMES))
        assert json.loads(encode_value(value)) == kept, example
        # Inside of everything else it is the same.
        assert json.loads(encode_value({"a": [(value,)]})) == {"a": [[kept]]}
    for kind in [*(kind for kind, _ in CONVERSIONS), *(kind for kind, _ in _BASES)]:
        assert f"`{kind.__name__}`" in text, f"{kind} is not on the page"


def test_every_type_that_the_page_refuses_is_refused(root: Path) -> None:
    for value in (float("nan"), 2**63, b"x", numpy.array([1]), {1: 1}):
        with pytest.raises(OutputError) as refused:
            encode({"lines": [value]})
        assert str(refused.value).startswith("the value at lines[0] is ")
        assert ": " in str(refused.value), "it says what to do"
    with pytest.raises(OutputError) as refused:
        encode({"lines": [0, 1, 2, {"photo": b""}]})
    assert f"    {refused.value}\n" in page(root)


class Named(NamedTuple):
    a: int
    b: decimal.Decimal


class Text(str):
    __slots__ = ()


class Number(int, enum.Enum):
    ONE = 1


class Name(enum.StrEnum):
    KEY = "key"


class Tagged(msgspec.Struct, tag="tagged", rename="camel", omit_defaults=True):
    first_name: str
    paths: list[pathlib.PurePath] = []
    unset: int | msgspec.UnsetType = msgspec.UNSET


class Row(msgspec.Struct, array_like=True):
    at: datetime.date
    value: float = 1.0


class Nested(pydantic.BaseModel):
    line: Line
    colours: list[Colour]
    secret: pydantic.SecretStr


BERLIN = datetime.timezone(datetime.timedelta(hours=2))

ODD: list[tuple[Any, Any]] = [
    (Named(1, decimal.Decimal("2.50")), [1, "2.50"]),
    (Text("x"), "x"),
    (Number.ONE, 1),
    ({Name.KEY: Name.KEY, Text("t"): 1}, {"key": "key", "t": 1}),
    (collections.OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
    (collections.Counter("aab"), {"a": 2, "b": 1}),
    (
        Tagged("A", [pathlib.PurePosixPath("p")]),
        {"type": "tagged", "firstName": "A", "paths": ["p"]},
    ),
    (Tagged("A"), {"type": "tagged", "firstName": "A"}),
    (Row(datetime.date(2026, 5, 1)), ["2026-05-01", 1.0]),
    (
        Nested(line=Line("a", decimal.Decimal(1)), colours=[Colour.RED], secret="s"),  # type: ignore[arg-type]
        {"line": {"name": "a", "price": "1"}, "colours": ["red"], "secret": "**********"},
    ),
    (frozenset({(2, "b"), (1, "a")}), [[1, "a"], [2, "b"]]),
    ({datetime.date(2026, 5, 1), None, 3}, ["2026-05-01", 3, None]),
    (numpy.int64(5), 5),
    (numpy.bool_(True), True),
    (numpy.str_("x"), "x"),
    (numpy.datetime64("2026-05-01"), "2026-05-01"),
    (datetime.datetime(2026, 5, 1, tzinfo=BERLIN), "2026-05-01T00:00:00+02:00"),
]


@pytest.mark.parametrize(("value", "kept"), ODD, ids=[type(value).__name__ for value, _ in ODD])
def test_an_odd_value_is_kept_in_one_way(value: Any, kept: Any) -> None:
    data, plain = encode(value)

    assert json.loads(data) == plain == kept
    assert type(plain) is type(kept)


@pytest.mark.parametrize(
    ("value", "where"),
    [
        (Line("a", decimal.Decimal("NaN")), "price"),
        ({"p": [Tagged("A", [b"raw"])]}, "p[0].paths[0]"),  # type: ignore[list-item]
        ([numpy.float64("nan")], "[0]"),
        ({"s": {float("inf")}}, "s[0]"),
        (numpy.longdouble(1), ""),
        (Path("\udcff"), ""),
    ],
)
def test_what_is_odd_inside_is_refused_where_it_is(value: Any, where: str) -> None:
    with pytest.raises(OutputError) as refused:
        encode(value)

    assert (f" at {where} is" if where else "the value ") in str(refused.value)


@pytest.mark.parametrize("kind", [list, tuple, lambda pair: {"a": pair[0], "b": pair[1]}])
def test_a_small_value_that_would_be_large_json_is_refused_before_it_is_written(kind: Any) -> None:
    value: Any = "x"
    for _ in range(60):
        value = kind([value, value])

    with pytest.raises(OutputError, match="store large data with ctx"):
        encode(value, bytes_max=100_000)


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | st.datetimes()
    | st.dates()
    | st.times()
    | st.timedeltas()
    | st.uuids()
    | st.decimals(allow_nan=False, allow_infinity=False)
    | st.sampled_from([Colour.RED, Number.ONE, numpy.int32(3), pathlib.PurePosixPath("a/b")])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(st.text(), inner)
        | st.frozensets(SCALARS)
        | st.builds(Line, st.text(), inner)
    ),
    max_leaves=20,
)


@given(VALUES)
def test_what_is_kept_is_plain_and_is_what_everybody_reads(value: Any) -> None:
    data, plain = encode(value)

    # The same bytes again, and nothing left to convert.
    assert encode(plain) == (data, plain)
    assert msgspec.json.decode(data) == plain


async def test_inputs_outputs_and_steps_are_encoded_alike(scene: Any) -> None:
    value = {"at": datetime.datetime(2026, 5, 1, tzinfo=datetime.UTC), "ids": {uuid.UUID(int=7)}}
    kept = {"at": "2026-05-01T00:00:00Z", "ids": ["00000000-0000-0000-0000-000000000007"]}
    seen: dict[str, Any] = {}

    async def work(ctx: minuet.Context) -> Any:
        seen["input"] = ctx.input
        seen["step"] = await ctx.step("one", lambda: value)
        return value

    # A condition sees what is kept, and not what the handler returned.
    branch = {"rules": [{"condition": "output.ids[0].endsWith('7')", "next_nodes": ["after"]}]}
    document = workflow(
        task("work", branch=branch),
        {"id": "after", "type": "noop"},
        input={"type": "object", "properties": {"at": {"type": "string"}}},
    )
    async with scene({"work": work}) as s:
        result = await s.run(document, value)

        assert seen == {"input": kept, "step": kept}
        assert result.nodes["work"].output == kept
        assert result.nodes["after"].status == "COMPLETED"


async def test_a_type_hint_gives_the_type_back() -> None:
    seen: list[Any] = []

    def make() -> Any:
        return {
            "at": datetime.datetime(2026, 5, 1, 12),
            "amount": decimal.Decimal("1.50"),
            "path": pathlib.PurePosixPath("a/b"),
            "order": Order(number=7, placed=datetime.date(2026, 5, 1)),
            "colours": {Colour.RED},
        }

    def take(
        at: datetime.datetime,
        amount: decimal.Decimal,
        path: pathlib.PurePosixPath,
        order: Order,
        colours: set[Colour],
    ) -> None:
        seen.extend((at, amount, path, order, colours))

    config = {n: f"{{{{ make.{n} }}}}" for n in ("at", "amount", "path", "order", "colours")}
    async with open_scene("memory://", {"make": make, "take": take}) as s:
        result = await s.run(workflow(task("make"), task("take", "make", config=config)))

    assert result.status == "COMPLETED", result.error
    assert seen == list(make().values())


async def test_a_model_that_does_not_fit_fails_its_node_and_says_why() -> None:
    ran = []

    def take(order: Order) -> None:
        ran.append(order)

    document = workflow(task("take", config={"order": {"number": "x"}}, retry=QUICK_RETRY))
    async with open_scene("memory://", {"take": take}) as s:
        result = await s.run(document)

    assert result.error is not None
    assert result.error["code"] == "handler-error"
    assert "placed" in result.error["message"]
    assert ran == []


async def test_an_input_that_cannot_be_kept_says_where_and_what_to_do() -> None:
    async with open_scene("memory://") as s:
        document = workflow({"id": "a", "type": "noop"}, input={"type": "object"})
        with pytest.raises(InputError, match=r"at x\[0\] is of type bytes.*use base64"):
            await s.app.start(document, {"x": [b"photo"]})


def test_neither_pydantic_nor_numpy_is_imported() -> None:
    code = (
        "import sys, datetime; from minuet.bridge.values import encode;"
        "encode({'a': {datetime.date(2026, 1, 1)}});"
        "print([name for name in ('numpy', 'pydantic') if name in sys.modules])"
    )
    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )

    assert printed.stdout == "[]\n"
