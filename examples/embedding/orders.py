"""Minuet in a program: start runs, wait for them, query them.

The runs live in orders.db, not in this process. If the program crashes, start it again: it
continues the runs that were left open.
"""

import asyncio
import sys

import minuet

WORKFLOW = {
    "name": "order",
    "input": {"type": "object", "required": ["quantity"]},
    "nodes": [
        {"id": "price", "handler": "price", "config": {"quantity": "{{ input.quantity }}"}},
        {
            "id": "discount",
            "type": "transform",
            "dependencies": ["price"],
            "config": {"expression": "ctx.price.output.total > 100 ? 10 : 0"},
        },
    ],
    "output": {"total": "{{ price.total }}", "discount": "{{ discount.output }}"},
}


@minuet.task(retries=3, timeout=10)
async def price(quantity: int, ctx: minuet.Context) -> dict:
    ctx.log.info("pricing %d pieces", quantity)
    return {"total": quantity * 30}


async def main(store: str) -> None:
    async with minuet.App(store) as app:
        await app.runs.prepare(await app.runs.list_open())
        for run in await app.runs.list_open():
            print("left open:", (await app.wait(run.run)).status)

        first = await app.start(WORKFLOW, {"quantity": 2}, idempotency_key="order-1")
        again = await app.start(WORKFLOW, {"quantity": 2}, idempotency_key="order-1")
        print("the same run:", first == again)

        for quantity in (2, 5):
            result = await app.run(WORKFLOW, {"quantity": quantity}, timeout=30)
            print(quantity, "pieces:", result.output)

        for event in await app.runs.events(first):
            print(event["seq"], event["type"], event["data"].get("node", ""))


def show_problems() -> None:
    try:
        minuet.run({"name": "broken", "nodes": [{"id": "a", "type": "no-op"}]})
    except minuet.DocumentError as error:
        print(error.diagnostics[0].code, "-", error.diagnostics[0].hint)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "sqlite:///orders.db"))
    show_problems()
