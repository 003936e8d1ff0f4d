"""Steps of a handler: one that it goes on with is in the log, whatever the hot half loses."""

from __future__ import annotations

from typing import Any

from tests.store.logged.conftest import QUEUE, Another, Pair, make_rows

from minuet.store.logged import LoggedStore
from minuet.store.records import DEFAULT_TENANT, Exchange, Held, Take


class LosesTheFirstStep(Another):
    """A server whose place another takes, which has all but the first step: the lease, too."""

    async def record_step(self, tenant: str, held: Held, name: str, value: bytes) -> bytes | None:
        before = await self._hot.read_snapshot(tenant, held.run)
        kept: bytes | None = await self._hot.record_step(tenant, held, name, value)
        if self.name == "the first":
            now = await self._hot.read_run(tenant, held.run)
            assert await self._hot.put_run(tenant, before, now.seq)
            self.name = "the second"
        return kept


async def test_a_step_that_was_lost_with_its_server_is_kept_again(pair: Pair) -> None:
    hot: Any = LosesTheFirstStep(pair.hot, "the first")
    store = LoggedStore(hot, pair.log, make_rows)
    store.start()
    new = pair.new_run()
    await store.create_runs([new])
    reply = await store.exchange(Exchange("s", 1, "lease", take=(Take((QUEUE,), 1),)))
    (grant,) = reply.granted
    held = Held(grant.run, grant.node, grant.scope, grant.lease)

    assert await store.record_step(DEFAULT_TENANT, held, "one", b"1") == b"1"

    assert hot.name == "the second"
    assert await pair.hot.read_steps(DEFAULT_TENANT, (new.run, "a", "")) == {"one": b"1"}
    assert await pair.is_logged(new.run)
    await store.close()
