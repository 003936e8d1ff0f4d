"""Read dead letters in their order, and make again what their nodes were given.

A token is granted with what it needs, and a store keeps that only as the outputs of other nodes.
So the run is put into a store in memory, in which this one token is ready, and the token is taken
there: by the same rules as the first time.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from msgspec.structs import replace

from minuet.clock import ManualClock
from minuet.store.base import Store
from minuet.store.exchange import Exchange, Grant, RunHeader, Take
from minuet.store.memory import MemoryStore
from minuet.store.records import (
    FIRST_PLACE,
    LIVE_STATES,
    DeadLetter,
    Key,
    Snapshot,
    Token,
)

_NAME = "regrant"


async def grant_again(store: Store, tenant: str, key: Key) -> tuple[Grant, RunHeader] | None:
    """The grant of a token, as it was or would be taken, and the header of its run; None: they are
    not there."""
    rows = await store.read_snapshot(tenant, key[0])
    return None if rows is None else await _grant(rows, key)


async def letter_pages(
    store: Store,
    tenant: str,
    run: str | None,
    status: str | None,
    page: int,
    behind: DeadLetter | None = None,
) -> AsyncIterator[list[DeadLetter]]:
    """Dead letters, the oldest first, by at most this many at once; those that come behind one."""
    after = FIRST_PLACE if behind is None else behind.place
    while found := await store.list_dead_letters(
        tenant, run=run, status=status, after=after, limit=page
    ):
        yield found
        after = found[-1].place


async def _grant(rows: Snapshot, key: Key) -> tuple[Grant, RunHeader] | None:
    queues = [token.queue for token in rows.tokens if token.key == key]
    if not queues:
        return None
    run = replace(
        rows.run,
        status="RUNNING",
        counter=1,
        ended_ms=None,
        deadline_ms=None,
        error=None,
        idempotency_key=None,
    )
    tokens = tuple(_only(token, key) for token in rows.tokens)
    memory = MemoryStore(clock=ManualClock())
    await memory.put_run(run.tenant, replace(rows, run=run, tokens=tokens), None)
    take = Take(tuple(queues), 1)
    reply = await memory.exchange(Exchange(_NAME, 1, _NAME, tenant=run.tenant, take=(take,)))
    return reply.granted[0], reply.runs[run.run]


def _only(token: Token, key: Key) -> Token:
    """The token as a row of a run in which this one is ready, and no other is live."""
    if token.key == key:
        return replace(
            token, state="ready", outcome="", due_ms=0, lane="", slot="", lease="", cursor=0
        )
    if token.state in LIVE_STATES:
        return replace(token, state="dead", outcome="cancelled", lane="", slot="")
    return token
