"""An order as a durable function: what was done before a failure is undone, the last one first."""

import json
import sys
from contextlib import AsyncExitStack

from saga import charge, refund, release, reserve, ship

import minuet


@minuet.workflow
async def saga(ctx: minuet.Flow, order: str, amount: int, country: str = "DE") -> str | None:
    try:
        async with AsyncExitStack() as undo:
            await reserve(order)
            undo.push_async_callback(release, order)
            await charge(order, amount)
            undo.push_async_callback(refund, order, amount)
            shipped = await ship(order, country)
            undo.pop_all()
    except Exception as error:
        ctx.log.warning("%s is rejected: %s", order, error)
        return None
    return shipped["parcel"]


if __name__ == "__main__":
    print(json.dumps(minuet.run(saga, json.loads(sys.argv[1])).output))
