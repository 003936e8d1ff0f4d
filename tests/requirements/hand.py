"""A worker played by a test: it takes and hands in when it is told to."""

from __future__ import annotations

from typing import Any

from minuet.store.exchange import Exchange, Grant, Held, Item, Reply, Take

LEASE_MS = 30_000


class Hand:
    """Takes from every queue that the store has something in, or from those named."""

    def __init__(self, scene: Any, session: str, *queues: str) -> None:
        self.scene, self.session, self.queues, self.seq = scene, session, queues, 0

    async def exchange(self, **fields: Any) -> Reply:
        self.seq += 1
        request = Exchange(self.session, self.seq, f"{self.session}-{self.seq}", LEASE_MS, **fields)
        return await self.scene.store.exchange(request)  # type: ignore[no-any-return]

    async def take(self, limit: int = 1000) -> dict[str, Grant]:
        """What is granted, by node."""
        queues = self.queues or tuple(q.queue for q in await self.scene.store.list_queues())
        reply = await self.exchange(take=(Take(queues, limit),))
        return {grant.node: grant for grant in reply.granted}

    async def renew(self, grant: Grant) -> bool:
        held = Held(grant.run, grant.node, grant.scope, grant.lease)
        return not (await self.exchange(renew=(held,))).revoked

    async def item(self, grant: Grant, output: Any = None) -> Item:
        return await self.scene.result_of(grant, output)  # type: ignore[no-any-return]

    async def finish(self, grant: Grant, output: Any = None) -> str:
        item = await self.item(grant, output)
        (result,) = (await self.exchange(hand_in=(item,))).results
        return result
