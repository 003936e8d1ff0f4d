"""Workflows with the types of what they take and give."""

# What merely follows from a mistake is not another one.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypedDict, assert_type

import minuet


@dataclass
class Order:
    number: int


@dataclass
class Receipt:
    total: Decimal


class Question(TypedDict):
    text: str


typed = minuet.Workflow("order", input=Order, output=Receipt)
takes = minuet.Workflow("order", input=Order)
gives = minuet.Workflow("order", output=list[Receipt])
asks = minuet.Workflow("ask", input=Question, description="of a TypedDict", limits={"max_hops": 3})
plain = minuet.Workflow("order", input={"type": "object"})

assert_type(typed, minuet.Workflow[Order, Receipt])
assert_type(takes, minuet.Workflow[Order, Any])
assert_type(gives, minuet.Workflow[Any, list[Receipt]])
assert_type(asks, minuet.Workflow[Question, Any])
assert_type(plain, minuet.Workflow)
assert_type(minuet.Workflow.load("order.yaml"), minuet.Workflow)
assert_type(typed.set(output="{{ ship.output }}"), minuet.Workflow[Order, Receipt])

with minuet.Workflow("order", input=Order, output=Receipt) as written:
    assert_type(written, minuet.Workflow[Order, Receipt])
    minuet.noop("end")


def script() -> None:
    result = minuet.run(typed, Order(7), store="memory://")
    assert_type(result, minuet.RunResult[Receipt])
    assert_type(result.output.total, Decimal)
    assert_type(minuet.run(takes, Order(7)).output, Any)
    assert_type(minuet.run(gives).output[0], Receipt)
    assert_type(minuet.run(gives, {"anything": 1}).output, list[Receipt])
    assert_type(minuet.run(asks, Question(text="why?")), minuet.RunResult)
    assert_type(minuet.run(plain, {"anything": 1}), minuet.RunResult)
    assert_type(minuet.run(plain), minuet.RunResult)
    for source in ("order.yaml", "name: a\nnodes: []"):
        assert_type(minuet.run(source, Order(7)), minuet.RunResult)
    assert_type(minuet.run({"name": "a"}, {"anything": 1}), minuet.RunResult)


def either(workflow: str | minuet.Workflow[Order, Receipt]) -> minuet.RunResult:
    return minuet.run(workflow, Order(7))


async def program(app: minuet.App) -> None:
    assert_type(await minuet.arun(typed, Order(7)), minuet.RunResult[Receipt])
    assert_type(await app.run(typed, Order(7)), minuet.RunResult[Receipt])
    run = await app.start(typed, Order(7), tags={"a": 1})
    assert_type(run, minuet.RunHandle[Receipt])
    assert_type((await run.wait(timeout=5)).output, Receipt)
    assert_type((await run.result()).output, Receipt)
    assert_type((await run.show()).output, Receipt)
    assert_type(await app.start_many(typed, [Order(7)]), list[minuet.RunHandle[Receipt]])
    assert_type(await app.runs.start(typed, Order(7)), minuet.RunHandle[Receipt])
    assert_type(await app.runs.create(typed), minuet.RunHandle[Receipt])
    assert_type(await app.start("order.yaml", Order(7)), minuet.RunHandle)
    assert_type(await app.start(gives), minuet.RunHandle[list[Receipt]])
    assert_type(app.runs.handle("01"), minuet.RunHandle)


# ── mistakes ────────────────────────────────────────────────────────────────────────────────


async def mistakes(app: minuet.App) -> None:
    minuet.run(typed, {"number": 7})  # expect: misc, reportArgumentType+reportCallIssue
    minuet.run(typed)  # expect: arg-type, reportArgumentType+reportCallIssue
    minuet.run(asks, "why?")  # expect: misc, reportArgumentType+reportCallIssue
    minuet.run(typed, Order(7)).output.amount  # expect: attr-defined, reportAttributeAccessIssue
    minuet.run(gives).output.total  # expect: attr-defined, reportAttributeAccessIssue
    await minuet.arun(typed, "7")  # expect: misc, reportArgumentType+reportCallIssue
    await app.start(typed, 7)  # expect: misc, reportArgumentType+reportCallIssue
    await app.run(typed, "7")  # expect: misc, reportArgumentType+reportCallIssue
    await app.start_many(typed, ["7"])  # expect: misc, reportArgumentType+reportCallIssue
    run = await app.start(typed, Order(7))
    (await run.wait()).output.amount  # expect: attr-defined, reportAttributeAccessIssue
    minuet.run(7)  # expect: call-overload, reportArgumentType+reportCallIssue
    minuet.Workflow("order", input=7)  # expect: call-overload, reportArgumentType+reportCallIssue
    minuet.Workflow("a", output="b")  # expect: call-overload, reportArgumentType+reportCallIssue
