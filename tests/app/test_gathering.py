"""Starts that come together are one call of the store; what an answer says of them is the same."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from minuet.app.app import App
from minuet.errors import RunConflictError, StoreUnavailableError, WorkflowNotFoundError
from minuet.store.changes import NewRun
from minuet.store.gathering import TOGETHER_MAX
from minuet.store.memory import MemoryStore
from minuet.store.records import DeployedWorkflow, Run

DOCUMENT: dict[str, Any] = {
    "name": "plain",
    "limits": {"deadline_s": 600},
    "nodes": [
        {"id": "one", "handler": "x"},
        {"id": "two", "handler": "x", "foreach": {"items": "{{ input.items }}"}},
        {
            "id": "again",
            "handler": "x",
            "loop": {"while": "output.more", "max_iterations": 3},
        },
        {"id": "last", "type": "noop", "dependencies": ["one", "two", "again"]},
    ],
}


class Slow(MemoryStore):
    """Waits with its answers until the gate is open, and counts what it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.began = asyncio.Event()
        self.created: list[int] = []
        self.read = 0
        self.refuses = ""

    async def create_runs(self, runs: Sequence[NewRun]) -> list[Run | RunConflictError]:
        self.created.append(len(runs))
        self.began.set()
        await self.gate.wait()
        if self.refuses == "all":
            raise StoreUnavailableError("gone")
        if any(new.input == b'"bad"' for new in runs):
            raise ValueError("this cannot be stored")
        return await super().create_runs(runs)

    async def read_workflow(
        self, tenant: str, name: str, at: int | str | None = None
    ) -> DeployedWorkflow | None:
        self.read += 1
        found = await super().read_workflow(tenant, name, at)
        if self.read == 1:
            await self.gate.wait()
        return found


async def start_all(store: Slow, app: App, inputs: list[Any]) -> list[Any]:
    """Start runs while the first one is under way."""
    first = asyncio.ensure_future(app.start(DOCUMENT, inputs[0]))
    await store.began.wait()
    rest = [asyncio.ensure_future(app.start(DOCUMENT, one)) for one in inputs[1:]]
    # Each has got as far as it gets alone.
    for _ in range(100):
        await asyncio.sleep(0)
    store.gate.set()
    return list(await asyncio.gather(first, *rest, return_exceptions=True))


async def test_starts_that_come_together_are_created_together() -> None:
    store = Slow()
    async with App(store, worker=False) as app:
        runs = await start_all(store, app, list(range(TOGETHER_MAX + 6)))

        assert store.created == [1, TOGETHER_MAX, 5]
        inputs = [(await app.runs.show(run)).run_id for run in runs]
        assert inputs == runs
        assert [(await app.runs.get(run)).input for run in runs] == [
            str(number).encode() for number in range(len(runs))
        ]


async def test_a_start_that_cannot_be_stored_does_no_harm_to_others() -> None:
    store = Slow()
    async with App(store, worker=False) as app:
        first, second, bad, last = await start_all(store, app, [1, 2, "bad", 3])

        assert isinstance(bad, ValueError)
        assert {run.run for run in await app.runs.list()} == {first, second, last}


async def test_all_hear_that_the_store_is_gone_and_the_next_start_is_tried() -> None:
    store = Slow()
    async with App(store, worker=False) as app:
        store.refuses = "all"
        answers = await start_all(store, app, [1, 2, 3])
        assert [type(one) for one in answers] == [StoreUnavailableError] * 3
        assert store.created == [1, 2]
        store.refuses = ""
        assert (await app.start(DOCUMENT, 4)).row is not None


async def test_a_caller_that_gives_up_takes_nobody_along() -> None:
    store = Slow()
    async with App(store, worker=False) as app:
        first = asyncio.ensure_future(app.start(DOCUMENT, 1))
        await store.began.wait()
        others = [asyncio.ensure_future(app.start(DOCUMENT, one)) for one in (2, 3)]
        for _ in range(100):
            await asyncio.sleep(0)
        first.cancel()
        others[0].cancel()
        store.gate.set()
        run = await others[1]

        assert (await app.runs.get(run)).input == b"3"


async def test_where_a_tag_points_is_read_after_the_question_and_once_for_many() -> None:
    store = Slow()
    store.gate.set()
    async with App(store, worker=False) as app:
        await app.workflows.deploy(DOCUMENT)
        store.gate.clear()
        store.read = 0
        early = asyncio.ensure_future(app.workflows.startable("plain"))
        for _ in range(10):
            await asyncio.sleep(0)
        # The read that is under way has found version 1 already.
        await app.workflows.deploy({**DOCUMENT, "description": "better"})
        before = store.read
        late = [asyncio.ensure_future(app.workflows.startable("plain")) for _ in range(5)]
        for _ in range(10):
            await asyncio.sleep(0)
        late[0].cancel()
        store.gate.set()

        assert (await early).version == 1
        assert [(await one).version for one in late[1:]] == [2] * 4
        assert store.read == before + 1
        for _ in range(2):
            with pytest.raises(WorkflowNotFoundError):
                await app.workflows.startable("nothing")


async def test_what_is_said_of_a_started_run_is_what_its_history_says(store_url: str) -> None:
    async with App(store_url, worker=False) as app:
        run = await app.start(DOCUMENT, {"items": [1, 2]}, tags={"a": 1})
        assert run.row is not None
        assert run.row == await app.runs.get(run)
        assert await app.runs.show_started(run.row) == await app.runs.show(run)
        again = await app.start(DOCUMENT, {"items": [1, 2]}, tags={"a": 1}, idempotency_key="k")
        await app.runs.pause(again)
        same = await app.start(DOCUMENT, {"items": [1, 2]}, idempotency_key="k")
        assert same.row is not None
        assert (same, same.row.status) == (again, "PAUSED")
        assert await app.runs.show_started(same.row) == await app.runs.show(again)
        assert app.runs.handle(run).row is None
