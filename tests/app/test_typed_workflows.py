"""Workflows that say what they take and give: checked on the way in, rebuilt on the way out."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
from typing import Any, TypedDict

import msgspec
import pydantic
import pytest

import minuet
from minuet.errors import DocumentError, InputError, OutputError


@dataclasses.dataclass
class Line:
    name: str
    price: decimal.Decimal


@dataclasses.dataclass
class Order:
    placed: datetime.date
    lines: list[Line]


@dataclasses.dataclass
class Receipt:
    total: decimal.Decimal
    paid: datetime.date


class Model(pydantic.BaseModel):
    placed: datetime.date
    lines: list[Line]


class Struct(msgspec.Struct):
    placed: datetime.date
    lines: list[Line]


class Typed(TypedDict):
    placed: datetime.date
    lines: list[Line]


@minuet.task(name="total_of_typed_workflows")
def total(order: Order) -> Receipt:
    return Receipt(sum((line.price for line in order.lines), decimal.Decimal()), order.placed)


LINES = [Line("lamp", decimal.Decimal("80.10")), Line("bulb", decimal.Decimal("2.40"))]
DAY = datetime.date(2026, 5, 1)
RECEIPT = Receipt(decimal.Decimal("82.50"), DAY)


def make(kind: Any = Order, output: Any = Receipt) -> minuet.Workflow[Any, Any]:
    with minuet.Workflow("order", input=kind, output=output) as order:
        priced = total.named("total")(order=order.input)
    return order.set(output=priced.output)


@pytest.mark.parametrize("kind", [Order, Model, Struct, Typed])
def test_an_input_of_a_class_and_an_output_of_another(kind: Any) -> None:
    result = minuet.run(make(kind), kind(placed=DAY, lines=LINES), store="memory://")

    assert result.output == RECEIPT
    # What is printed or sent is JSON.
    assert result.to_json()["output"] == {"total": "82.50", "paid": "2026-05-01"}
    assert result.nodes["total"].output == {"total": "82.50", "paid": "2026-05-01"}


@pytest.mark.parametrize("kind", [Order, Model, Struct, Typed])
def test_the_document_has_the_schema_of_the_class(kind: Any) -> None:
    workflow = make(kind)

    assert workflow.to_dict()["input"]["properties"].keys() == {"placed", "lines"}
    with pytest.raises(InputError, match='"placed" is a required property'):
        minuet.run(workflow, {"lines": []}, store="memory://")
    with pytest.raises(InputError, match=r"lines\[0\]"):
        minuet.run(workflow, {"placed": "2026-05-01", "lines": [7]}, store="memory://")
    # What was written is an ordinary document.
    loaded = minuet.Workflow.load(workflow.to_yaml())
    assert minuet.run(loaded, Order(DAY, LINES), store="memory://").output["total"] == "82.50"


async def test_a_handle_rebuilds_the_output_of_a_run_that_completed(store_url: str) -> None:
    workflow = make()
    async with minuet.App(store_url) as app:
        run = await app.start(workflow, Order(DAY, LINES))
        assert (await run.wait()).output == RECEIPT
        assert (await run.result()).output == RECEIPT
        assert (await run.show()).output == RECEIPT
        assert (await app.run(workflow, Order(DAY, []))).output.total == 0
        several = await app.start_many(workflow, [Order(DAY, LINES)] * 3)
        assert [(await one.wait()).output for one in several] == [RECEIPT] * 3
        created = await app.runs.create(workflow)
        assert (await created.show()).status == "PENDING"
        await app.runs.trigger(created, Order(DAY, LINES))
        assert (await created.wait()).output == RECEIPT
        # The id alone does not know the class.
        assert (await app.wait(run.id)).output == {"total": "82.50", "paid": "2026-05-01"}


async def test_the_output_of_a_run_that_failed_is_not_rebuilt() -> None:
    @minuet.task(name="fail_of_typed_workflows")
    def fail() -> None:
        raise minuet.NonRetryable("no")

    with minuet.Workflow("order", output=Receipt) as order:
        failed = fail.named("fail")()
    order.set(output=failed.output)

    async with minuet.App("memory://") as app:
        result = await (await app.start(order)).wait()

    assert result.status == "FAILED"
    assert result.to_json()["output"] is None


@minuet.workflow(name="charge_of_typed_workflows")
async def charge(ctx: minuet.Flow, placed: datetime.date, lines: list[Line]) -> Receipt:
    return Receipt(sum((line.price for line in lines), decimal.Decimal()), placed)


def test_a_durable_function_gives_what_it_is_annotated_to_return() -> None:
    result = minuet.run(charge, Order(DAY, LINES), store="memory://")

    assert result.output == RECEIPT
    assert result.to_json()["output"] == {"total": "82.50", "paid": "2026-05-01"}


class Count(TypedDict):
    total: int


def test_an_output_that_is_not_of_its_class_says_which_run_and_where() -> None:
    with pytest.raises(OutputError, match=r"the output of run \S+ at total: Expected `int`"):
        minuet.run(make(output=Count), Order(DAY, LINES), store="memory://")


@pytest.mark.parametrize(
    ("fields", "hint"),
    [
        ({"output": "{{ a.output }}"}, r"\.set\(output=…\)"),
        ({"output": {"a": 1}}, r"\.set\(output=…\)"),
        ({"input": object}, "pass a dataclass"),
        ({"input": 7}, "pass a dataclass"),
    ],
)
def test_what_is_not_a_class_is_refused_with_a_hint(fields: dict[str, Any], hint: str) -> None:
    with pytest.raises(DocumentError, match=hint):
        minuet.Workflow("order", **fields)
