"""Steps of a handler: one that it goes on with is in the log, whatever the hot half loses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.store.logged.conftest import QUEUE, Another, Pair, make_rows

from minuet.store.changes import SendSignal
from minuet.store.exchange import Exchange, NewStep, Refusal, Take
from minuet.store.logged import LoggedStore
from minuet.store.records import DEFAULT_TENANT


class LosesTheFirstStep(Another):
    """A server whose place another takes, which has all but the first step: the lease, too."""

    async def record_steps(self, tenant: str, steps: Sequence[NewStep]) -> list[bytes | Refusal]:
        run = steps[0].run
        before = await self._hot.read_snapshot(tenant, run)
        kept: list[bytes | Refusal] = await self._hot.record_steps(tenant, steps)
        if self.name == "the first":
            now = await self._hot.read_run(tenant, run)
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
    await store.change_run(DEFAULT_TENANT, new.run, SendSignal("paid", "p"))
    (signal,) = await store.read_signals(DEFAULT_TENANT, new.run)
    step = NewStep(grant.run, grant.node, grant.scope, grant.lease, "one", b"1", signal.seq)
    lost = NewStep(grant.run, grant.node, grant.scope, "another lease", "two", b"2")

    assert await store.record_steps(DEFAULT_TENANT, [lost, step]) == ["lost", b"1"]

    assert hot.name == "the second"
    assert await pair.hot.read_steps(DEFAULT_TENANT, (new.run, "a", "")) == {"one": b"1"}
    assert await store.read_signals(DEFAULT_TENANT, new.run) == []
    assert await pair.is_logged(new.run)
    await store.close()
