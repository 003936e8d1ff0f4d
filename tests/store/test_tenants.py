"""Nothing of another tenant is seen or changed, by any verb."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from minuet.errors import RunConflictError, RunNotFoundError
from minuet.store.changes import Cancel, SendSignal
from minuet.store.exchange import Failed, Slot, Take, Waiting


@pytest.fixture
async def theirs(world: Any) -> Any:
    """A token of tenant b, taken by b."""
    await world.start("a", tenant="b", idempotency_key="k")
    (grant,) = await world.take(tenant="b", session="theirs")
    return grant


@pytest.mark.shows("U-19", "Z-06")
async def test_tokens_of_another_tenant_are_not_handed_out(world: Any) -> None:
    await world.start("a", tenant="b")

    assert await world.take() == []


@pytest.mark.shows("U-19")
async def test_results_for_another_tenant_are_stale(world: Any, theirs: Any) -> None:
    name = (theirs.run, theirs.node, theirs.scope, theirs.lease)
    before = await world.snapshot(theirs.run)

    results = await world.hand_in(
        world.done(theirs, "b"), Failed(*name), Waiting(*name), Slot(*name, key="k")
    )

    assert results == ("stale",) * 4
    assert await world.snapshot(theirs.run) == before


@pytest.mark.shows("U-19")
async def test_leases_of_another_tenant_are_not_renewed(world: Any, theirs: Any, held: Any) -> None:
    reply = await world.exchange(world.request(renew=(held(theirs),)))

    assert reply.revoked == (held(theirs),)


async def test_a_repeated_call_of_another_tenant_shows_nothing(world: Any) -> None:
    await world.start("a", tenant="b")
    request = world.request(tenant="b", take=(Take(("q",), 1),))
    assert (await world.exchange(request)).granted

    reply = await world.exchange(msgspec.structs.replace(request, tenant="a"))

    assert reply.granted == ()
    assert reply.runs == {}


@pytest.mark.shows("Z-06")
async def test_runs_of_another_tenant_cannot_be_changed(world: Any, theirs: Any) -> None:
    key = (theirs.run, theirs.node, theirs.scope)
    with pytest.raises(RunNotFoundError):
        await world.change(theirs.run, Cancel())

    assert not await world.resolve(key)
    assert await world.record(theirs, "one") == "lost"
    assert not await world.store.discard_dead_letter("a", theirs.run, 1)
    await world.store.change_run("b", theirs.run, Cancel())
    assert await world.store.delete_runs("a", [theirs.run]) == 0


@pytest.mark.shows("Z-06")
async def test_runs_of_another_tenant_are_not_seen(world: Any, theirs: Any) -> None:
    store, run = world.store, theirs.run
    assert await store.read_run("a", run) is None
    assert await store.list_runs("a") == []
    assert await store.list_runs("a", statuses=("RUNNING",), workflow="w") == []
    assert await store.read_events("a", run) == []
    assert await store.read_tokens("a", run) == []
    await store.change_run("b", run, SendSignal("paid", "1"))
    assert await store.read_signals("a", run) == []
    assert await store.read_steps("a", (run, "a", "")) == {}
    assert await store.read_snapshot("a", run) is None
    assert await store.list_waiting("a", "timer") == []
    assert await store.list_dead_letters("a", run=run, status=None) == []


async def test_an_idempotency_key_belongs_to_its_tenant(world: Any, theirs: Any) -> None:
    (run,) = await world.create(world.new("a", idempotency_key="k"))

    assert run.run != theirs.run


async def test_the_id_of_another_tenants_run_tells_nothing_about_it(
    world: Any, theirs: Any
) -> None:
    new = msgspec.structs.replace(world.new("a"), run=theirs.run)

    (conflict,) = await world.store.create_runs([new])

    assert isinstance(conflict, RunConflictError)
    assert (conflict.status, conflict.seq) == ("", 0)


async def test_slots_belong_to_their_tenant(world: Any, theirs: Any) -> None:
    await world.start("a")
    mine = await world.take_one()

    def slot(grant: Any) -> Slot:
        return Slot(grant.run, grant.node, grant.scope, grant.lease, key="k", limit=1)

    assert await world.hand_in(slot(theirs), tenant="b", session="theirs") == ("held",)
    assert await world.hand_in(slot(mine)) == ("held",)


async def test_everybody_who_has_runs_is_listed_once(world: Any) -> None:
    assert await world.store.list_tenants() == []
    for tenant in ("b", "a", "b", "ünï c"):
        await world.start("n", tenant=tenant)
    assert await world.store.list_tenants() == ["a", "b", "ünï c"]

    (run,) = await world.store.list_runs("a")
    await world.change(run.run, Cancel())
    assert await world.store.list_tenants() == ["a", "b", "ünï c"]
    await world.store.delete_runs("a", [run.run])
    assert await world.store.list_tenants() == ["b", "ünï c"]
