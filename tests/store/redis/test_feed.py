"""The change feed on Redis: what was trimmed or lost is noticed."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests import servers

from minuet.errors import PositionError
from minuet.store.redis import RedisStore

from .conftest import new_run


@pytest.fixture
async def store() -> AsyncIterator[RedisStore]:
    made = RedisStore(servers.redis_url())
    await made.open()
    yield made
    await made.close()


def feed_of(store: RedisStore) -> str:
    return f"{store._partitions.names[0]}:feed"


async def test_a_position_from_before_the_first_event_counts_until_something_is_trimmed(
    store: RedisStore,
) -> None:
    begin = (await store.read_feed(None)).position
    await store.create_runs([new_run("r1", "a"), new_run("r2", "a")])
    await store.create_runs([new_run("r3", "a")])
    assert len((await store.read_feed(begin)).entries) == 6
    await store._connection.command("XTRIM", feed_of(store), "MAXLEN", 1)

    with pytest.raises(PositionError):
        await store.read_feed(begin)


async def test_a_position_whose_entry_was_trimmed_is_lost(store: RedisStore) -> None:
    await store.create_runs([new_run("r1", "a")])
    position = (await store.read_feed(None)).position
    await store.create_runs([new_run("r2", "a")])
    assert len((await store.read_feed(position)).entries) == 2
    await store._connection.command("XTRIM", feed_of(store), "MAXLEN", 1)

    with pytest.raises(PositionError):
        await store.read_feed(position)


async def test_a_position_that_the_server_does_not_remember_is_lost(store: RedisStore) -> None:
    """As after a crash that lost the last steps: what was seen of them is not true any more."""
    begin = (await store.read_feed(None)).position
    await store.create_runs([new_run("r1", "a")])
    await store.create_runs([new_run("r2", "a")])
    page = await store.read_feed(begin)
    (last,) = await store._connection.command("XREVRANGE", feed_of(store), "+", "-", "COUNT", "1")
    await store._connection.command("XDEL", feed_of(store), last[0])
    await store.create_runs([new_run("r3", "a")])

    for position in (page.position, page.entries[-2].position):
        with pytest.raises(PositionError):
            await store.read_feed(position)
    # What was read before it counts still.
    assert [e.event.run for e in (await store.read_feed(page.entries[1].position)).entries] == [
        *("r3", "r3")
    ]
