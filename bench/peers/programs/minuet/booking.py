import json
import sys
from collections import Counter

import minuet

CALLS = Counter()


def answer(what: str) -> int:
    CALLS[what] += 1
    if CALLS[what] % 2:
        raise ConnectionError("the airline is busy")
    return CALLS[what] // 2


class Expired(minuet.NonRetryable):
    pass


@minuet.task
async def quote(flight: str) -> int:
    return 100 + answer("quote")


@minuet.task
async def book(flight: str, price: int) -> str:
    if answer("book") < 2:
        print("a new offer is needed")
        raise Expired(f"{price} is no longer offered")
    return f"{flight} for {price}"


@minuet.workflow
async def booking(ctx: minuet.Flow, flight: str) -> str | None:
    for _ in range(3):
        price = await quote(flight)
        try:
            return await book(flight, price)
        except Expired:
            continue
    return None


if __name__ == "__main__":
    print(json.dumps(minuet.run(booking, json.loads(sys.argv[1])).output))
