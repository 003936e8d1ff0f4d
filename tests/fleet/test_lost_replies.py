"""A reply that is lost after the store has done what was asked: the call is repeated, the answer
is the same, and nothing has happened twice."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from tests import servers
from tests.proxy import Proxy

from minuet.app.stores import make_store
from minuet.clock import ManualClock
from minuet.errors import StoreUnavailableError
from minuet.store.base import Store
from minuet.store.changes import Cancel, NewRun
from minuet.store.exchange import Delivery, Done, Exchange, NewStep, Take

#: More replies than any call takes; a call that ends before is not cut.
REPLIES_MAX = 12


def to(node: str) -> Delivery:
    return Delivery(node, "", True, 1, 1, "q")


@pytest.fixture(params=["postgres", "redis"])
async def link(request: pytest.FixtureRequest) -> AsyncIterator[tuple[Store, Store, Proxy]]:
    """A store behind a link that can be cut, and the same one directly."""
    server = getattr(servers, request.param)()
    # Without anything between: the link is cut between the store and its server.
    url = servers.new_postgres_url() if request.param == "postgres" else servers.redis_url()
    clock = ManualClock()
    direct = make_store(url, clock=clock)
    await direct.open()
    proxy = await Proxy.to(server.port)
    store = make_store(url.replace(f":{server.port}/", f":{proxy.port}/"), clock=clock)
    await store.open()
    yield store, direct, proxy
    await store.close()
    await proxy.close()
    await direct.close()


async def insist(call: Callable[[], Awaitable[Any]]) -> Any:
    """Repeat a call until it is answered, as callers do."""
    for _ in range(10):
        try:
            return await call()
        except StoreUnavailableError:
            pass
    raise AssertionError("the store does not come back")


@pytest.mark.parametrize("after", range(REPLIES_MAX))
@pytest.mark.shows("Y-09")
async def test_an_exchange_whose_reply_is_lost_is_repeated_with_the_same_answer(
    link: tuple[Store, Store, Proxy], after: int
) -> None:
    store, direct, proxy = link
    new = NewRun("run", "w", "p", entries=(to("first"),))
    await store.create_runs([new])
    taken = await store.exchange(Exchange("s", 1, "lease-1", take=(Take(("q",), 5),)))
    (grant,) = taken.granted
    done = Done(grant.run, grant.node, grant.scope, grant.lease, "p", deliveries=(to("second"),))
    request = Exchange("s", 2, "lease-2", hand_in=(done,), take=(Take(("q",), 5),))

    proxy.cut_reply(after)
    reply = await insist(lambda: store.exchange(request))
    proxy.pass_on()

    assert reply.results == ("applied",)
    assert [(g.node, g.lease, g.delivery) for g in reply.granted] == [("second", "lease-2", 1)]
    again = await store.exchange(request)
    assert (again.results, again.granted) == (reply.results, reply.granted)
    snapshot = await direct.read_snapshot("default", "run")
    assert snapshot is not None
    assert [(t.node, t.state) for t in snapshot.tokens] == [("first", "done"), ("second", "leased")]
    assert (snapshot.run.counter, len(snapshot.events)) == (1, 3)


@pytest.mark.parametrize("after", range(REPLIES_MAX))
async def test_other_calls_whose_reply_is_lost_are_repeated_without_harm(
    link: tuple[Store, Store, Proxy], after: int
) -> None:
    store, direct, proxy = link
    new = NewRun("run", "w", "p", entries=(to("first"),), idempotency_key="k")

    proxy.cut_reply(after)
    (created,) = await insist(lambda: store.create_runs([new]))
    proxy.cut_reply(after)
    taken = await insist(
        lambda: store.exchange(Exchange("s", 1, "lease-1", take=(Take(("q",), 5),)))
    )
    (grant,) = taken.granted
    step = NewStep(grant.run, grant.node, grant.scope, grant.lease, "step", b"1")
    proxy.cut_reply(after)
    (kept,) = await insist(lambda: store.record_steps("default", [step]))
    proxy.cut_reply(after)
    await insist(lambda: store.sweep())
    proxy.cut_reply(after)
    ref = await insist(lambda: store.put_blob(b"data"))
    proxy.pass_on()

    assert created.run == "run"
    assert kept == b"1"
    assert await direct.get_blob(ref) == b"data"
    snapshot = await direct.read_snapshot("default", "run")
    assert snapshot is not None
    assert (snapshot.run.counter, snapshot.run.seq) == (1, 3)
    assert [t.delivery for t in snapshot.tokens] == [1]

    changed = await store.change_run("default", "run", Cancel())
    assert changed.status == "CANCELLED"


async def test_a_link_that_is_cut_is_really_cut(link: tuple[Store, Store, Proxy]) -> None:
    store, _, proxy = link
    proxy.cut_reply()
    await insist(lambda: store.put_blob(b"x"))
    assert proxy.cuts == 1
