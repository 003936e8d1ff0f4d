"""A process that takes its share of a join's parents and hands them in when it is told to.

    python -m tests.fleet.racer URL

It reads `take N` (take N tokens and say `ready`) and `go` (hand them in, a few at a time, and
say how many were applied), until its input ends.
"""

from __future__ import annotations

import asyncio
import os
import sys

from minuet.app.stores import make_store
from minuet.store.exchange import Delivery, Done, Exchange, Grant, Take

#: Items in one exchange: several exchanges each, so that the processes really interleave.
ITEMS = 25


class Racer:
    def __init__(self, url: str, parents: int) -> None:
        self.store = make_store(url)
        self._join = Delivery("join", "", True, parents, parents, "q")
        self._session, self._seq = os.urandom(16).hex(), 0

    def request(self, **fields: object) -> Exchange:
        self._seq += 1
        return Exchange(self._session, self._seq, os.urandom(16).hex(), **fields)  # type: ignore[arg-type]

    async def take(self, count: int) -> list[Grant]:
        granted: list[Grant] = []
        while len(granted) < count:
            take = (Take(("parents",), count - len(granted)),)
            granted += (await self.store.exchange(self.request(take=take))).granted
        return granted

    async def hand_in(self, granted: list[Grant]) -> int:
        applied = 0
        for first in range(0, len(granted), ITEMS):
            items = tuple(
                Done(g.run, g.node, g.scope, g.lease, "p", deliveries=(self._join,))
                for g in granted[first : first + ITEMS]
            )
            reply = await self.store.exchange(self.request(hand_in=items))
            applied += reply.results.count("applied")
        return applied


async def main(url: str, parents: int) -> None:
    racer = Racer(url, parents)
    await racer.store.open()
    granted: list[Grant] = []
    while order := (await asyncio.to_thread(sys.stdin.readline)).split():
        if order[0] == "take":
            granted = await racer.take(int(order[1]))
            answer = "ready"
        else:
            answer = str(await racer.hand_in(granted))
        sys.stdout.write(answer + "\n")
        sys.stdout.flush()
    await racer.store.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
