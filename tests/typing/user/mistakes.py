"""Mistakes of a user. Each is reported by both checkers, on its line and as its comment says:
mypy's code, then that of pyright."""

# What merely follows from a mistake is not another one.
# mypy: disable-error-code="untyped-decorator"
# pyright: reportUntypedFunctionDecorator=false, reportUnknownMemberType=false

from __future__ import annotations

import minuet


@minuet.task
def plain(order: str, factor: int = 1) -> int:
    return len(order) * factor


@minuet.task(retries=3, timeout=30)
async def awaited(order: str, ctx: minuet.Context) -> list[str]:
    return [order, ctx.run_id]


@minuet.task(retires=3)  # expect: call-overload, reportCallIssue
def misspelt() -> None: ...


@minuet.task(effects="twice")  # expect: call-overload, reportArgumentType
def of_unknown_effects() -> None: ...


@minuet.task(timeout="30")  # expect: call-overload, reportArgumentType
def with_text_for_seconds() -> None: ...


plain(7)  # expect: arg-type, reportArgumentType
plain()  # expect: call-arg, reportCallIssue
plain("a", 1, 2)  # expect: call-arg, reportCallIssue
plain("a", note="x")  # expect: call-arg, reportCallIssue
plain("a").upper()  # expect: attr-defined, reportAttributeAccessIssue
plain.retry()  # expect: attr-defined, reportAttributeAccessIssue
plain.retries + 1  # expect: operator, reportOptionalOperand


async def handler(ctx: minuet.Context) -> None:
    text: str = plain("a")  # expect: assignment, reportAssignmentType
    number: int = await awaited("a", ctx)  # expect: assignment, reportAssignmentType
    forgotten: list[str] = awaited("a", ctx)  # expect: assignment, reportAssignmentType
    await awaited("a")  # expect: call-arg, reportCallIssue
    await awaited("a", "ctx")  # expect: arg-type, reportArgumentType
    await plain("a")  # expect: misc, reportGeneralTypeIssues
    ctx.attempts  # expect: attr-defined, reportAttributeAccessIssue
    ctx.attempt.upper()  # expect: attr-defined, reportAttributeAccessIssue
    ctx.secret(1)  # expect: arg-type, reportArgumentType
    ctx.cancelled = True  # expect: misc, reportAttributeAccessIssue
    print(text, number, forgotten)


@minuet.workflow
async def durable(ctx: minuet.Flow, orders: list[str]) -> None:
    await plain.map(7)  # expect: call-overload, reportArgumentType
    texts: list[str] = await plain.map(orders)  # expect: assignment, reportAssignmentType
    plain.map(orders).upper()  # expect: attr-defined, reportAttributeAccessIssue
    print(texts)


def runs() -> None:
    result = minuet.run("order.yaml")
    result.ouput  # expect: attr-defined, reportAttributeAccessIssue
    result.status == "DONE"  # expect: comparison-overlap, reportUnnecessaryComparison
    result.nodes[0]  # expect: index, reportArgumentType
    result.seq = 1  # expect: misc, reportAttributeAccessIssue
    minuet.run("a.yaml", stor="x")  # expect: call-overload+call-overload, reportCallIssue
    minuet.run()  # expect: call-overload, reportCallIssue
    minuet.arun("order.yaml").status  # expect: attr-defined, reportAttributeAccessIssue
    minuet.nothing  # expect: attr-defined, reportAttributeAccessIssue


async def embeds() -> None:
    async with minuet.App(concurency=1) as app:  # expect: call-arg, reportCallIssue
        run: int = await app.start("order.yaml")  # expect: assignment, reportAssignmentType
        await app.start("a", tags="x")  # expect: call-overload, reportArgumentType+reportCallIssue
        await app.wait(7)  # expect: arg-type, reportArgumentType
        await app.cancel(reason="x")  # expect: call-arg, reportCallIssue
        async for numbered in app.follow(7):  # expect: arg-type, reportArgumentType
            print(run, numbered)
    minuet.App(lease_seconds="10")  # expect: arg-type, reportArgumentType
    minuet.App(secrets={"TOKEN": 1})  # expect: arg-type, reportArgumentType
    minuet.Retry(max_attempts="3")  # expect: arg-type, reportArgumentType


def writes() -> None:
    with minuet.Workflow():  # expect: call-overload, reportCallIssue
        node = plain.named("a")("x")
        node.ouput  # expect: attr-defined, reportAttributeAccessIssue
        node.then("b")  # expect: arg-type, reportArgumentType
        node.retry("3")  # expect: arg-type, reportArgumentType
        node.loop(max_iterations=3)  # expect: call-arg, reportCallIssue
        node.on_error("ignore")  # expect: arg-type, reportArgumentType
        minuet.transform()  # expect: call-arg, reportCallIssue
        minuet.http("h", url="x", mehtod="GET")  # expect: call-arg, reportCallIssue
        plain.named(7)  # expect: arg-type, reportArgumentType
    minuet.Workflow.load("order.yaml").to_xml()  # expect: attr-defined, reportAttributeAccessIssue


def raises() -> None:
    raise minuet.Retryable("later", after="1 s")  # expect: arg-type, reportArgumentType
