"""Records of the wrong type are refused before anything is written, on every store."""

from __future__ import annotations

from typing import Any

import pytest

from minuet.errors import InputError
from minuet.store.changes import Cancel, Pause
from minuet.store.records import WorkerRecord

from .conftest import World

#: Fields of a run that it could not be read back with.
FIELDS: dict[str, dict[str, Any]] = {
    "a key that is a number": {"idempotency_key": 7},
    "a key with half a pair": {"idempotency_key": "a\ud800"},
    "tags in a list": {"tags": ["a"]},
    "a tag that is bytes": {"tags": {"a": b"x"}},
    "a tag that is no number": {"tags": {"a": float("nan")}},
    "a tag of 65 bits": {"tags": {"a": 2**64}},
    "a workflow that is a number": {"workflow": 1},
    "a deadline that is a text": {"deadline_ms": "soon"},
    "an input that is a text": {"input": "null"},
}


@pytest.mark.parametrize("case", FIELDS)
async def test_a_run_that_could_not_be_read_back_is_not_created(world: World, case: str) -> None:
    good, bad = world.new("a"), world.new("a", **FIELDS[case])

    with pytest.raises(InputError):
        await world.store.create_runs([good, bad])

    assert await world.store.list_runs("a") == []
    await world.create(good)
    assert (await world.take_one()).run == good.run


@pytest.mark.parametrize(
    "change",
    [Cancel(404), Cancel("x", by=1), Cancel("\ud800"), Pause(by=b"me")],  # type: ignore[arg-type]
    ids=["number", "by", "surrogate", "bytes"],
)
async def test_a_change_that_could_not_be_read_back_is_not_made(world: World, change: Any) -> None:
    run = await world.start("a")

    with pytest.raises(InputError):
        await world.store.change_run("a", run, change)

    assert await world.events(run) == ["run.created", "run.started"]
    assert (await world.run(run)).status == "RUNNING"


@pytest.mark.parametrize(
    "fields",
    [{"name": 7}, {"capabilities": {"a": float("nan")}}, {"queues": "q"}, {"pid": None}],
    ids=["name", "capabilities", "queues", "pid"],
)
async def test_a_worker_that_could_not_be_listed_is_not_registered(
    world: World, fields: dict[str, Any]
) -> None:
    with pytest.raises(InputError):
        await world.store.register_worker(WorkerRecord("w", "a", **fields))

    assert await world.store.list_workers("a") == []
