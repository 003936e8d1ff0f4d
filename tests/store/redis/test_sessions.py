"""What is kept of a session's last call."""

from __future__ import annotations

from typing import Any

import msgspec
import redis
from tests import servers

from minuet.store.exchange import Done
from minuet.store.redis import RedisStore

from .conftest import Worker, new_run, to


def as_earlier_versions_kept_it(row: bytes) -> bytes:
    """The same row with the time at its end."""
    values = msgspec.msgpack.decode(b"\x97" + row)
    return msgspec.msgpack.encode([*values[:2], *values[3:], values[2]])[1:]


async def test_a_session_goes_on_from_what_an_earlier_version_kept_of_it() -> None:
    client: Any = redis.Redis(port=servers.redis().port)
    store = RedisStore(servers.redis_url())
    await store.open()
    try:
        await store.create_runs([new_run("r1", "a")])
        worker = Worker(store)
        request = worker.request()
        before = await store.exchange(request)
        (key,) = client.keys(f"{store._address.prefix}:*:session:*")
        ((tenant, row),) = client.hgetall(key).items()
        client.hset(key, tenant, as_earlier_versions_kept_it(row))

        again = await store.exchange(request)
        (grant,) = again.granted
        done = Done("r1", "a", "", grant.lease, "p", output=b"1", deliveries=(to("b"),))
        after = await worker.exchange(done)
    finally:
        await store.close()

    assert again.granted == before.granted
    assert after.results == ("applied",)
    assert [one.node for one in after.granted] == ["b"]
