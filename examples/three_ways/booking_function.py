"""A retry around retries, as a durable function: tasks retry calls, a loop repeats both."""

import json
import sys

from booking import Expired, Seat, book, quote

import minuet


@minuet.workflow
async def booking(ctx: minuet.Flow, flight: str) -> Seat | None:
    for _ in range(4):
        offer = await quote(flight)
        try:
            return await book(offer)
        except Expired as error:
            ctx.log.info("%s", error)
    return None


if __name__ == "__main__":
    print(json.dumps(minuet.run(booking, json.loads(sys.argv[1])).output))
