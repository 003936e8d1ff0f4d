"""What is encoded on the way out is rebuilt by its annotation on the way in."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import functools
import pathlib
import uuid
from collections.abc import Awaitable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, NamedTuple, TypedDict, TypeVar

import jsonschema_rs
import msgspec
import pydantic
import pydantic.dataclasses
import pytest

from minuet.bridge.values import encode, encode_value
from minuet.errors import HandlerError
from minuet.nodes.handler import Task
from minuet.nodes.values import (
    annotations_of,
    as_it_is,
    decoder,
    decoders,
    properties_of,
    result_decoder,
    schema_of,
)

if TYPE_CHECKING:
    from somewhere import Unseen  # type: ignore[import-not-found]

T = TypeVar("T")


class Colour(enum.Enum):
    RED = "red"


class Size(enum.Enum):
    SMALL = 1.5
    LARGE = decimal.Decimal("2.5")


class Rights(enum.Flag):
    READ = 1
    WRITE = 2


@dataclasses.dataclass(frozen=True)
class Money:
    amount: decimal.Decimal
    currency: str = "EUR"


@dataclasses.dataclass
class Line:
    name: str
    price: Money
    at: datetime.date | None = None
    tags: set[str] = dataclasses.field(default_factory=set)


class Point(msgspec.Struct):
    x: int
    y: int


class Circle(msgspec.Struct, tag=True):
    radius: float


class Square(msgspec.Struct, tag=True):
    side: float


class Pair(NamedTuple):
    a: int
    b: decimal.Decimal


class Address(TypedDict):
    street: str
    since: datetime.date


class Order(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True)

    number: int
    placed: datetime.date
    lines: list[Line] = []
    place: pathlib.PurePosixPath | None = None
    note: str = pydantic.Field(default="", alias="theNote")


@pydantic.dataclasses.dataclass
class Weight:
    grams: int = pydantic.Field(gt=0)


@dataclasses.dataclass
class Paid:
    by: str


@dataclasses.dataclass
class Refunded:
    by: str
    reason: str


@dataclasses.dataclass
class Entry:
    """A field of it is a union that JSON alone does not decide, and one is of the class itself."""

    what: Paid | Refunded
    before: Entry | None = None
    number: int = dataclasses.field(default=0, init=False)


@dataclasses.dataclass
class Box(Generic[T]):
    content: T


@dataclasses.dataclass
class Everything:
    """Classes of one kind inside those of another."""

    order: Order
    point: Point
    pair: Pair
    path: pathlib.PurePosixPath
    shapes: list[Circle | Square]


def entry() -> Entry:
    made = Entry(Refunded("a", "late"), before=Entry(Paid("b")))
    made.number = 7
    return made


LINE = Line("lamp", Money(decimal.Decimal("80.10")), datetime.date(2026, 5, 1), {"new"})
ORDER = Order(
    number=7,
    placed=datetime.date(2026, 5, 1),
    lines=[LINE],
    place=pathlib.PurePosixPath("a/b"),
    theNote="x",
)

#: Annotations and a value of each.
VALUES: list[tuple[Any, Any]] = [
    (int, 3),
    (float, 1.5),
    (str, "x"),
    (bool, True),
    (None, None),
    (dict, {"a": 1}),
    (dict[str, Any], {"a": [1]}),
    (list, [1]),
    (datetime.datetime, datetime.datetime(2026, 5, 1, 12, 30, tzinfo=datetime.UTC)),
    (datetime.datetime, datetime.datetime(2026, 5, 1, 12, 30, 1, 5)),
    (datetime.date, datetime.date(2026, 5, 1)),
    (datetime.time, datetime.time(12, 30)),
    (datetime.timedelta, datetime.timedelta(days=-1, microseconds=7)),
    (uuid.UUID, uuid.UUID(int=7)),
    (decimal.Decimal, decimal.Decimal("19.90")),
    (pathlib.PurePosixPath, pathlib.PurePosixPath("a/b")),
    (pathlib.Path, pathlib.Path("a/b")),
    (Colour, Colour.RED),
    (Size, Size.SMALL),
    (Size, Size.LARGE),
    (Rights, Rights.READ | Rights.WRITE),
    (set[Colour], {Colour.RED}),
    (frozenset[int], frozenset({1, 2})),
    (tuple[int, Money], (1, Money(decimal.Decimal(1)))),
    (tuple[datetime.date, ...], (datetime.date(2026, 5, 1),)),
    (Sequence[Point], [Point(1, 2)]),
    (Mapping[str, Point], {"a": Point(1, 2)}),
    (Money, Money(decimal.Decimal("1.50"))),
    (Line, LINE),
    (list[Line], [LINE, LINE]),
    (dict[str, Money], {"a": Money(decimal.Decimal(1))}),
    (Line | None, LINE),
    (Line | None, None),
    (Point, Point(1, 2)),
    (Circle | Square, Square(2.0)),
    (Pair, Pair(1, decimal.Decimal("2.5"))),
    (Address, Address(street="x", since=datetime.date(2026, 5, 1))),
    (Order, ORDER),
    (list[Order | None], [ORDER, None]),
    (Weight, Weight(3)),
    (dict[str, list[Weight]], {"a": [Weight(3)]}),
    (Literal["a", 1], 1),
    (Literal[True, "auto"], True),
    (Literal[Colour.RED, "auto"], Colour.RED),
    (Annotated[Line, "whatever"], LINE),
    (Paid | Refunded, Paid("a")),
    (Paid | Refunded, Refunded("a", "late")),
    (list[Paid | Refunded | None], [Refunded("a", "late"), None, Paid("b")]),
    (Paid | dict[str, Any], {"by": "a", "and": "more"}),
    (datetime.datetime | datetime.date, datetime.date(2026, 5, 1)),
    (datetime.date | datetime.datetime, datetime.datetime(2026, 5, 1, 12)),
    (uuid.UUID | str, "no id"),
    (Order | Point, Point(1, 2)),
    (Order | Point, ORDER),
    (Entry, entry()),
    (list[Entry], [entry()]),
    (Box[Line], Box(LINE)),
    (
        Everything,
        Everything(ORDER, Point(1, 2), Pair(1, decimal.Decimal(2)), pathlib.PurePosixPath("x"), []),
    ),
]


@pytest.mark.parametrize(("annotation", "value"), VALUES, ids=[str(one) for one, _ in VALUES])
def test_a_value_that_was_kept_has_its_type_again(annotation: Any, value: Any) -> None:
    kept = msgspec.json.decode(encode_value(value))

    found = decoder(annotation)(kept, "it")

    assert found == value
    assert type(found) is type(value)
    # What is rebuilt is kept in the same way.
    assert encode_value(found) == encode_value(value)


@pytest.mark.parametrize("annotation", [Any, object, Annotated[Any, "x"], "not evaluated"])
def test_what_takes_any_json_costs_nothing(annotation: Any) -> None:
    assert decoder(annotation) is as_it_is
    assert decoders({"a": annotation, "b": int}).keys() == {"b"}


@pytest.mark.parametrize(
    ("annotation", "value"),
    [(dict, {"a": {}}), (dict[str, Any], {"a": 1}), (list, [[]]), (list[Any], [1]), (str, "x")],
)
def test_plain_json_is_not_copied(annotation: Any, value: Any) -> None:
    assert decoder(annotation)(value, "it") is value


class Opaque:
    """Nothing says how it is made from JSON."""


@pytest.mark.parametrize("annotation", [Opaque, list[Opaque], Opaque | None, dict[str, Opaque]])
def test_a_class_that_cannot_be_made_from_json_leaves_json_as_it_is(annotation: Any) -> None:
    value = [{"a": 1}] if annotation == list[Opaque] else {"a": {"b": 1}}

    assert decoder(annotation)(value, "it") == value


#: Annotation, value, and what the message says after whose it is.
WRONG: list[tuple[Any, Any, str]] = [
    (int, "1", ": Expected `int`, got `str`"),
    (dict, [], ": Expected `object`, got `array`"),
    (
        list[Line],
        [{"name": "a", "price": {"amount": "x"}}],
        " at [0].price.amount: Invalid decimal",
    ),
    (Line, {"name": "a"}, ": Object missing required field `price`"),
    (Colour, "blue", ": Invalid enum value 'blue'"),
    (Size, 2, ": Invalid enum value 2"),
    (Literal[True], 1, ": Expected `bool`, got `int`"),
    (Literal[Colour.RED, "auto"], "blue", ": Expected one of 'red', 'auto'"),
    (pathlib.Path, 1, ": Expected `str`, got `int`"),
    (dict[str, list[pathlib.Path]], {"a": ["x", 1]}, " at [...][1]: Expected `str`, got `int`"),
    (Annotated[int, msgspec.Meta(gt=0)], 0, ": Expected `int` >= 1"),
    (Order, {"number": 1}, " at placed: Field required"),
    (list[Order], [{"number": 1}], " at [0].placed: Field required"),
    (
        Order,
        {"number": "secret"},
        ": at number: Input should be a valid integer; at placed: Field required",
    ),
    (
        Order,
        {"number": 1, "placed": "2026-05-01", "lines": [{"name": 1}]},
        ": at lines[0].name: Input should be a valid string; at lines[0].price: Field required",
    ),
    (Weight, {"grams": 0}, " at grams: Input should be greater than 0"),
    (
        list[Paid | Refunded],
        [{"reason": "x"}],
        " at [0]: not `Paid`: Object missing required field `by`; "
        "not `Refunded`: Object missing required field `by`",
    ),
    (list[Entry], [{"what": {}}], " at [0].what: not `Paid`: Object missing required field `by`"),
    (Entry, {}, ": Object missing required field `what`"),
    (Entry, [], ": Expected `object`, got `array`"),
]


@pytest.mark.parametrize(("annotation", "value", "message"), WRONG)
def test_a_wrong_value_is_refused_with_its_place_and_what_was_expected(
    annotation: Any, value: Any, message: str
) -> None:
    decode = decoder(annotation)

    with pytest.raises(HandlerError) as refused:
        decode(value, "handler 'work', argument 'a'")

    assert str(refused.value).startswith(f"handler 'work', argument 'a'{message}")
    assert "secret" not in str(refused.value), "a pydantic model would show the value"


def test_an_argument_of_a_handler_is_rebuilt_and_refused_by_name() -> None:
    def price(lines: list[Line], discount: Money | None = None) -> None: ...

    task = Task(price)
    context: Any = None
    config = {"lines": encode([LINE])[1], "discount": {"amount": "1"}}

    assert task.bind(config, context) == {"lines": [LINE], "discount": Money(decimal.Decimal(1))}
    with pytest.raises(HandlerError, match=r"handler 'price', argument 'lines' at \[0\]\.name: "):
        task.bind({"lines": [{"name": 1}]}, context)


def test_an_annotation_that_only_a_type_checker_sees_does_not_spoil_the_others() -> None:
    def work(a: Unseen, b: datetime.date) -> Money: ...  # type: ignore[empty-body]

    assert annotations_of(work) == {"b": datetime.date, "return": Money}


def test_hints_may_name_what_is_defined_below_the_handler() -> None:
    names: dict[str, Any] = {"Task": Task, "dataclass": dataclasses.dataclass}
    exec(
        "@Task\ndef work(item: 'Later') -> None: ...\n\n@dataclass\nclass Later:\n    a: int\n",
        names,
    )
    context: Any = None

    assert names["work"].bind({"item": {"a": 1}}, context) == {"item": names["Later"](1)}


# ── results ─────────────────────────────────────────────────────────────────────────────


def returns_money() -> Money: ...  # type: ignore[empty-body]
async def returns_money_later() -> Money: ...  # type: ignore[empty-body]
def returns_coroutine() -> Coroutine[Any, Any, Money]: ...  # type: ignore[empty-body]
def returns_awaitable() -> Awaitable[Money]: ...  # type: ignore[empty-body]


class Service:
    def money(self) -> Money: ...  # type: ignore[empty-body]
    def __call__(self) -> Money: ...  # type: ignore[empty-body]


@pytest.mark.parametrize(
    "function",
    [
        returns_money,
        returns_money_later,
        returns_coroutine,
        returns_awaitable,
        functools.partial(returns_money),
        Service().money,
        Service(),
        Task(returns_money),
        Money,
    ],
)
def test_a_result_has_the_type_that_the_function_returns(function: Any) -> None:
    assert result_decoder(function)({"amount": "1.5"}, "it") == Money(decimal.Decimal("1.5"))
    assert result_decoder(function) is result_decoder(function)


@pytest.mark.parametrize("function", [lambda: 1, len, print, {}.get, Service.__init__])
def test_a_result_without_an_annotation_is_json(function: Any) -> None:
    assert result_decoder(function)({"amount": "1.5"}, "it") == {"amount": "1.5"}


# ── schemas ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("annotation", "value"), VALUES, ids=[str(one) for one, _ in VALUES])
def test_a_value_fits_the_schema_of_its_annotation(annotation: Any, value: Any) -> None:
    kept = msgspec.json.decode(encode_value(value))

    jsonschema_rs.validate(schema_of(annotation), kept)


def test_the_fields_of_an_object_may_share_classes() -> None:
    schema = {"type": "object", **properties_of({"one": Line, "all": list[Line], "what": Entry})}
    line = encode(LINE)[1]

    jsonschema_rs.validate(schema, {"one": line, "all": [line], "what": encode(entry())[1]})
    with pytest.raises(jsonschema_rs.ValidationError):
        jsonschema_rs.validate(schema, {"all": [{"name": "a"}]})


def test_fields_of_two_classes_of_one_name_are_not_checked() -> None:
    other: Any = dataclasses.make_dataclass("Line", [("other", int)])

    assert properties_of({"one": list[Line], "two": list[other]}) == {
        "properties": {"one": {}, "two": {}}
    }


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (Line, {"name": "a"}),
        (Order, {"number": 1}),
        (Everything, {**encode(VALUES[-1][1])[1], "order": {"number": 1}}),
        (Paid | Refunded, {"reason": "x"}),
        (pathlib.Path, 1),
        (Literal[True], 1),
    ],
)
def test_a_value_that_does_not_fit_is_refused_by_the_schema(annotation: Any, value: Any) -> None:
    with pytest.raises(jsonschema_rs.ValidationError):
        jsonschema_rs.validate(schema_of(annotation), value)
