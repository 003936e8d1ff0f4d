"""Handlers as a user writes them: each keeps its parameters and its result."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypedDict, TypeVar, assert_type

import minuet


class Order(TypedDict):
    lines: list[int]


Value = TypeVar("Value")


@minuet.task
def plain(order: Order, factor: int = 1) -> int:
    return sum(order["lines"]) * factor


@minuet.task
async def awaited(order: Order) -> list[int]:
    return order["lines"]


@minuet.task(retries=3, timeout=30)
def with_options(order: Order, *, note: str = "") -> str:
    return note


@minuet.task(name="charge", retries=3, timeout=30, effects="once", overlap=True)
async def with_all_options(order: Order, *, note: str = "") -> str:
    return note


@minuet.task
def with_context(order: Order, ctx: minuet.Context) -> str:
    return ctx.run_id


@minuet.task(retries=3)
async def awaited_with_context(ctx: minuet.Context, **config: Any) -> dict[str, Any]:
    return config


@minuet.task()
def generic(value: Value) -> list[Value]:
    return [value]


def function(order: Order) -> int:
    return len(order["lines"])


registered = minuet.task(function)
made = minuet.Task(function, name="counted", retries=2, timeout=1.5, effects="none")


def keeps_results(order: Order, ctx: minuet.Context) -> None:
    assert_type(plain(order), int)
    assert_type(plain(order, 2), int)
    assert_type(plain(order, factor=2), int)
    assert_type(with_options(order, note="x"), str)
    assert_type(with_context(order, ctx), str)
    assert_type(with_context(order, ctx=ctx), str)
    assert_type(generic("a"), list[str])
    assert_type(registered(order), int)
    assert_type(made(order), int)


async def keeps_results_of_coroutines(order: Order, ctx: minuet.Context) -> None:
    assert_type(await awaited(order), list[int])
    assert_type(await with_all_options(order, note="x"), str)
    assert_type(await awaited_with_context(ctx, a=1), dict[str, Any])


def is_a_task_and_a_callable() -> None:
    task: minuet.Task[[Order], int] = registered
    any_task: minuet.Task[..., Any] = plain
    call: Callable[[Order], int] = plain
    later: Callable[[Order], Coroutine[Any, Any, list[int]]] = awaited
    print(task, any_task, call, later)


def has_typed_attributes() -> None:
    assert_type(plain.name, str)
    assert_type(plain.retries, int | None)
    assert_type(plain.timeout, float | None)
    assert_type(plain.overlap, bool)
    assert_type(plain.is_async, bool)
    assert_type(registered.function(Order(lines=[])), int)


@minuet.task(retries=3)
async def either_way(order: Order, factor: int = 1, ctx: minuet.Context | None = None) -> str:
    return ctx.run_id * factor if ctx else ""


@minuet.workflow
async def durable(ctx: minuet.Flow, orders: list[Order]) -> None:
    for order in orders:
        assert_type(await either_way(order), str)
        assert_type(await either_way(order, factor=2), str)
        assert_type(await either_way.step(order), str)
    assert_type(await awaited.map(orders), list[list[int]])
    assert_type(await plain.map(orders, factor=2, max_parallel=5), list[int])
    assert_type(await plain.map((order for order in orders), 2), list[int])
    assert_type(await plain.map(orders, return_exceptions=True), list[int | Exception])
    assert_type(await awaited.map(orders, return_exceptions=True), list[list[int] | Exception])
    assert_type(await either_way.map(orders), list[str])
    async with asyncio.TaskGroup() as group:
        later = group.create_task(plain.map(orders))
    assert_type(later.result(), list[int])


async def outside(ctx: minuet.Context, order: Order) -> None:
    assert_type(await either_way(order, ctx=ctx), str)
