"""What scripts keep from call to call: queues, keys, texts, parts of rows. All of it is bounded."""

from __future__ import annotations

import re
from typing import Any

import pytest
from tests import servers

from minuet.clock import ManualClock
from minuet.store.exchange import Done, Exchange, Grant, Take
from minuet.store.redis import RedisStore, connection, library

from .conftest import new_run, to

QUEUES = ("q0", "q1", "q2", "q3", "q4", "q2")
TENANTS = ("a", "b")

#: The limits of what is kept.
LIMITS = re.compile(r"((?:QUEUE_KEYS|STANDING|SIZED)_MAX =|KEPT_MAX, KEPT_BYTES_MAX =) \d+")


def with_room_for_one() -> library.Library:
    """The scripts, which forget everything after each call."""
    text, count = LIMITS.subn(r"\1 1", library.source())
    assert count == 4
    return library.make(text)


async def play(run: str) -> list[Any]:
    """Two tenants' workers take turns, from queues that change; what they were granted."""
    clock = ManualClock()
    store = RedisStore(servers.redis_url(), clock=clock)
    await store.open()
    try:
        for tenant in TENANTS:
            new = new_run(f"{run}-{tenant}", tenant=tenant, entries=(to("n0", queue="q0"),))
            await store.create_runs([new])
        granted: dict[str, tuple[Grant, ...]] = dict.fromkeys(TENANTS, ())
        seen: list[Any] = []
        for seq in range(1, 9):
            for tenant in TENANTS:
                clock.advance(1)
                following = to(f"n{seq}", queue=QUEUES[seq % 5])
                done = [
                    Done(g.run, g.node, "", g.lease, "p", output=b"1", deliveries=(following,))
                    for g in granted[tenant]
                ]
                take = (Take(QUEUES[: 1 + seq % 5], 5), Take(QUEUES[seq % 5 :], 5))
                lengths = dict.fromkeys(QUEUES[seq % 3 :], 1_000 * seq)
                reply = await store.exchange(
                    Exchange(
                        *(tenant, seq, f"{tenant}{seq}"),
                        tenant=tenant,
                        hand_in=tuple(done),
                        take=take,
                        lease_ms_by_queue=lengths,
                    )
                )
                granted[tenant] = reply.granted
                seen.append((reply.results, [(g.node, g.lease) for g in reply.granted]))
                tokens = await store.read_tokens(tenant, f"{run}-{tenant}")
                seen.append(sorted((t.node, t.state, t.queue, t.due_ms or 0) for t in tokens))
        for tenant in TENANTS:
            events = await store.read_events(tenant, f"{run}-{tenant}", 0, 100)
            seen.append([bytes(event.data) for event in events])
        return seen
    finally:
        await store.close()


async def test_nothing_depends_on_what_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = await play("r")
    monkeypatch.setattr(connection, "library", with_room_for_one)

    forgotten = await play("r")

    assert forgotten == kept
    assert sum(bool(grants) for _, grants in kept[0:32:2]) == 16
