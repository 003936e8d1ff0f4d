import json
import sys
from contextlib import AsyncExitStack

import minuet


@minuet.task
async def reserve(order: str) -> None:
    if order == "gone":
        raise minuet.NonRetryable("out of stock")
    print("reserved", order)


@minuet.task
async def release(order: str) -> None:
    print("released", order)


@minuet.task
async def charge(order: str, amount: int) -> None:
    if amount > 1000:
        raise minuet.NonRetryable("the card was declined")
    print("charged", order, amount)


@minuet.task
async def refund(order: str, amount: int) -> None:
    print("refunded", order, amount)


@minuet.task(retries=2)
async def ship(order: str, country: str) -> str:
    if country == "XX":
        raise ConnectionError("the carrier does not answer")
    print("shipped", order)
    return f"{country}-{order}"


@minuet.workflow
async def saga(ctx: minuet.Flow, order: str, amount: int, country: str) -> str | None:
    try:
        async with AsyncExitStack() as undo:
            await reserve(order)
            undo.push_async_callback(release, order)
            await charge(order, amount)
            undo.push_async_callback(refund, order, amount)
            parcel = await ship(order, country)
            undo.pop_all()
            return parcel
    except Exception:
        return None


if __name__ == "__main__":
    print(json.dumps(minuet.run(saga, json.loads(sys.argv[1])).output))
