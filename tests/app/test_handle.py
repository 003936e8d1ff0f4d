"""A handle is a run's id, with verbs."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import pytest

from minuet import RunHandle
from minuet.app.app import App
from minuet.errors import NotOpenError, RunFailed, RunTimeoutError, StartError
from minuet.store.changes import Cancel
from minuet.store.memory import MemoryStore
from minuet.store.records import EventRecord

DOCUMENT = {"name": "plain", "nodes": [{"id": "only", "type": "noop"}]}
WAITING = {"name": "waits", "nodes": [{"id": "long", "type": "wait", "config": {"seconds": 3600}}]}


async def test_a_handle_waits_and_answers(store_url: str) -> None:
    async with App(store_url) as app:
        run = await app.runs.start(DOCUMENT, {"a": 1}, tags={"t": 1})

        result = await run.wait(timeout=60)
        assert (result.run_id, result.status) == (run.id, "COMPLETED")
        assert await run.result() == result == await run.show()
        assert (await run.get()).tags == {"t": 1}
        assert [event["type"] for event in await run.events(after=2)][-1] == "run.completed"
        assert [seq async for seq, _, _ in run.follow()] == list(range(1, result.seq + 1))
        assert (await run.explain("only")).status == "COMPLETED"


class Hurried(MemoryStore):
    """Its runs end just before their events are read."""

    async def read_events(
        self, tenant: str, run: str, after_seq: int = 0, limit: int = 1000
    ) -> list[EventRecord]:
        found = await self.read_run(tenant, run)
        if found is not None and found.status == "RUNNING":
            await self.change_run(tenant, run, Cancel())
        return await super().read_events(tenant, run, after_seq, limit)


async def test_the_row_and_the_nodes_of_a_run_are_of_the_same_moment() -> None:
    async with App(Hurried(), worker=False) as app:
        run = await app.start(WAITING)

        row, found = await app.runs.show_row(run)
        assert (row.status, found.status, found.seq) == ("RUNNING", "RUNNING", row.seq)
        row, found = await app.runs.show_row(run)
        assert (row.status, found.status, found.seq) == ("CANCELLED", "CANCELLED", row.seq)


async def test_a_handle_changes_its_run() -> None:
    async with App("memory://", worker=False) as app:
        run = await app.runs.start(WAITING)

        assert (await run.pause()).status == "PAUSED"
        assert (await run.resume()).status == "RUNNING"
        with pytest.raises(RunTimeoutError):
            await run.result(timeout=0.001)
        assert (await run.cancel(reason="enough")).status == "CANCELLED"
        with pytest.raises(RunFailed) as failed:
            await run.result()
        assert failed.value.error["message"] == "enough"
        assert (await run.retry()).generation == 2


async def test_a_handle_is_its_id_wherever_an_id_is_wanted() -> None:
    async with App("memory://", worker=False) as app:
        run = await app.start(DOCUMENT)

        assert run == run.id == str(run) == f"{run}"
        assert type(run.id) is str
        assert {run.id: 1}[run] == 1
        assert json.dumps({"run": run}) == json.dumps({"run": run.id})
        assert repr(run) == f"<run {run.id}>"
        assert (await app.runs.get(run)).run == (await app.runs.get(run.id)).run == run.id
        assert await app.runs.find(run[:-1]) == run
        again = app.runs.handle(run.id)
        assert (await again.get()).status == "RUNNING"


@pytest.mark.parametrize(
    "make", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))]
)
async def test_a_copy_of_a_handle_is_the_id_alone(make: Any) -> None:
    async with App("memory://", worker=False) as app:
        run = await app.start(DOCUMENT)

        assert make(run) == run
        assert type(make(run)) is str


async def test_what_is_stored_of_a_handle_is_the_id(store_url: str) -> None:
    async with App(store_url) as app:
        first = await app.start(DOCUMENT)
        second = await app.start(DOCUMENT, {"after": first}, tags={"after": first})

        assert (await second.result(timeout=60)).tags == {"after": first.id}
        assert json.loads((await second.get()).input) == {"after": first.id}


async def test_many_runs_are_many_handles() -> None:
    async with App("memory://") as app:
        started = await app.start_many(DOCUMENT, [1, 2])
        created = await app.runs.create(DOCUMENT)
        keys = ["same", "same"]
        with pytest.raises(StartError) as refused:
            await app.start_many(DOCUMENT, [1, 2], idempotency_keys=keys)

        assert all(isinstance(run, RunHandle) for run in [*started, created])
        assert isinstance(refused.value.answers[0], RunHandle)
        assert [(await run.result(timeout=60)).status for run in started] == ["COMPLETED"] * 2


async def test_a_handle_outlives_its_app_only_as_an_id() -> None:
    async with App("memory://") as app:
        run = await app.start(DOCUMENT)

    with pytest.raises(NotOpenError):
        await run.wait()
