"""Names of 100 kB: each store keeps them or refuses them, and all do the same."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from minuet.errors import RunConflictError, StoreError
from minuet.store.changes import NewPlan, Start
from minuet.store.exchange import Done, Slot, Waiting
from minuet.store.identifiers import NAME_BYTES_MAX
from minuet.store.records import WorkerRecord


def long_name(seed: int = 1, size: int = 100_000) -> str:
    """Text that no index can squeeze."""
    return Random(seed).randbytes(size // 2).hex()


def name(grant: Any) -> tuple[str, str, str, str]:
    return (grant.run, grant.node, grant.scope, grant.lease)


@pytest.mark.parametrize("field", ["run", "tenant", "workflow", "idempotency_key"])
async def test_a_run_with_a_long_name_is_refused(world: Any, field: str) -> None:
    with pytest.raises(RunConflictError, match="at most 1020 are possible") as refused:
        await world.store.create_runs([world.new("a", **{field: long_name()})])

    assert len(str(refused.value)) < 1_000
    await world.start("a")
    await world.finish(await world.take_one())


@pytest.mark.parametrize("field", ["node", "scope", "queue"])
async def test_a_delivery_with_a_long_name_is_refused(world: Any, field: str) -> None:
    delivery = world.to(**{"node": "b", field: long_name()})
    with pytest.raises(RunConflictError, match="at most 1020 are possible"):
        await world.store.create_runs([world.new(delivery)])
    pending, run = await world.start(entries=None), await world.start("a")
    for target, change in (
        (pending, Start((delivery,))),
        (run, NewPlan("p", (("a", "", delivery),))),
    ):
        with pytest.raises(RunConflictError, match="at most 1020 are possible"):
            await world.change(target, change)

    grant = await world.take_one()
    assert await world.hand_in(world.done(grant, delivery)) == ("limit",)

    assert await world.hand_in(world.done(grant)) == ("applied",)


async def test_a_long_idempotency_key_that_can_be_kept_is_kept(world: Any) -> None:
    key = long_name(size=NAME_BYTES_MAX)
    (first,) = await world.create(world.new("a", idempotency_key=key))
    (again,) = await world.store.create_runs([world.new("a", idempotency_key=key)])

    assert again.run == first.run


async def test_long_concurrency_keys_limit_as_short_ones_do(world: Any) -> None:
    same, other = long_name(1), long_name(1)[:-1] + "!"
    for _ in range(3):
        await world.start("a")
    first, second, third = await world.take()

    results = await world.hand_in(
        Slot(*name(first), key=same), Slot(*name(second), key=same), Slot(*name(third), key=other)
    )

    assert results == ("held", "applied", "held")
    assert await world.hand_in(Slot(*name(first), key=same)) == ("held",)
    await world.finish(first)
    assert (await world.take_one()).run == second.run


async def test_a_long_key_to_wait_for_is_refused(world: Any) -> None:
    run = await world.start("a")
    grant = await world.take_one()

    assert await world.hand_in(Waiting(*name(grant), kind="signal", key=long_name())) == ("limit",)

    assert (await world.token(run, "a")).state == "leased"
    kept = long_name(size=NAME_BYTES_MAX)
    assert await world.hand_in(Waiting(*name(grant), kind="signal", key=kept)) == ("applied",)
    assert [t.wait_key for t in await world.store.list_waiting("a", "signal", key=kept)] == [kept]


async def test_a_step_with_a_long_name_is_refused(world: Any) -> None:
    await world.start("a")
    grant = await world.take_one()

    with pytest.raises(StoreError, match="at most 1020 are possible"):
        await world.record(grant, long_name())

    kept = long_name(size=NAME_BYTES_MAX)
    assert await world.record(grant, kept) == b"1"
    await world.finish(grant)


async def test_a_worker_with_a_long_id_is_refused_and_other_long_texts_are_kept(world: Any) -> None:
    with pytest.raises(StoreError, match="at most 1020 are possible"):
        await world.store.register_worker(WorkerRecord(long_name(), "a"))

    texts: dict[str, Any] = {"name": long_name(2), "host": long_name(3), "queues": (long_name(4),)}
    await world.store.register_worker(WorkerRecord("w", "a", **texts))
    (entry,) = await world.store.list_workers("a")
    assert (entry.record.name, entry.record.host) == (texts["name"], texts["host"])


async def test_long_tags_reasons_and_errors_are_kept(world: Any) -> None:
    run = await world.start("a", tags={long_name(1): long_name(2)})

    assert (await world.run(run)).tags == {long_name(1): long_name(2)}
    grant = await world.take_one()
    done = Done(*name(grant), plan="p", error={"code": long_name(3), "message": long_name(4)})
    assert await world.hand_in(done) == ("applied",)


async def test_asking_for_long_names_finds_nothing(world: Any) -> None:
    long = long_name()

    assert await world.store.read_run("a", long) is None
    assert await world.store.list_runs("a", workflow=long) == []
    assert await world.store.list_waiting("a", long, key=long) == []
    assert await world.take(queues=(long,)) == []
    assert await world.store.find_queues("a", long) == []
