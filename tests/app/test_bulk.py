"""Several runs are changed by one call, each on its own."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from minuet.app.actions import BULK_ACTIONS, BulkAction
from minuet.app.app import App
from minuet.app.bulk import refusal_of
from minuet.errors import InputError, RunConflictError
from minuet.ids import SeededIds
from minuet.store.records import Run
from minuet.types import RunStatus

WAITING = {
    "name": "waiting",
    "nodes": [{"id": "gate", "type": "wait", "config": {"signal": "go"}}],
}
BAD = {
    "name": "bad",
    "nodes": [{"id": "bad", "type": "transform", "config": {"expression": "1 / 0"}}],
}


async def test_each_run_is_changed_on_its_own() -> None:
    async with App("memory://", ids=SeededIds()) as app:
        one, two = await app.start_many(WAITING, [None, None])
        await app.cancel(one)
        found = await app.runs.change_many("cancel", [one, two, "nothing", two], reason="twice")
        after = await app.runs.get(two)

    assert [(item.run_id, item.is_changed, item.status) for item in found.runs] == [
        (one, False, "CANCELLED"),
        (two, True, "CANCELLED"),
        ("nothing", False, None),
    ]
    assert "is CANCELLED and cannot be cancelled" in found.runs[0].why
    assert "nothing" in found.runs[2].why
    assert after.error is not None
    assert after.error["message"] == "twice"


async def test_a_preview_changes_nothing_and_says_what_would_be() -> None:
    async with App("memory://", ids=SeededIds()) as app:
        runs = await app.start_many(WAITING, [None] * 3)
        await app.runs.pause(runs[0])
        before = [(await app.runs.get(run)).seq for run in runs]
        found = await app.runs.change_many("pause", query="workflow:waiting", dry_run=True)
        after = [(await app.runs.get(run)).seq for run in runs]

    assert before == after
    assert [item.is_changed for item in found.runs] == [True, True, False]
    assert found.is_preview


async def test_a_filter_changes_the_newest_and_says_where_to_go_on() -> None:
    async with App("memory://", ids=SeededIds()) as app:
        runs = await app.start_many(WAITING, [None] * 3)
        first = await app.runs.change_many("cancel", query="status:running", limit=2)
        rest = await app.runs.change_many("cancel", query="status:running", before=first.next)

    assert [item.run_id for item in first.runs] == [runs[2], runs[1]]
    assert first.next == runs[1]
    assert [item.run_id for item in rest.runs] == [runs[0]]
    assert rest.next is None


async def test_runs_are_retried_and_deleted() -> None:
    async with App("memory://") as app:
        failed = await app.start(BAD)
        await app.wait(failed)
        waiting = await app.start(WAITING)
        retried = await app.runs.change_many("retry", query="status:failed")
        await app.wait(failed)
        deleted = await app.runs.change_many("delete", [failed, waiting])
        left = [run.run for run in await app.runs.list()]

    assert [(item.is_changed, item.status) for item in retried.runs] == [(True, "RUNNING")]
    assert [(item.is_changed, item.status) for item in deleted.runs] == [
        (True, None),
        (False, "RUNNING"),
    ]
    assert left == [waiting]


@pytest.mark.parametrize("arguments", [{}, {"run_ids": ["x"], "query": "y"}, {"query": "  "}])
async def test_either_ids_or_a_filter_say_which(arguments: dict[str, Any]) -> None:
    async with App("memory://", worker=False) as app:
        with pytest.raises(InputError, match="either ids or a filter"):
            await app.runs.change_many("cancel", **arguments)


async def in_status(app: App, status: RunStatus) -> Run:
    """A run that is in a status."""
    if status == "PENDING":
        return await app.runs.get(await app.runs.create(WAITING))
    run = await app.start(BAD if status == "FAILED" else WAITING)
    if status == "PAUSED":
        await app.runs.pause(run)
    elif status == "CANCELLED":
        await app.cancel(run)
    elif status == "COMPLETED":
        await app.signal(run, "go")
    if status in ("FAILED", "COMPLETED"):
        await app.wait(run)
    return await app.runs.get(run)


@pytest.mark.parametrize("status", sorted({*get_args(RunStatus)} - {"COMPENSATING"}))
@pytest.mark.parametrize("action", BULK_ACTIONS)
async def test_a_preview_refuses_what_the_store_refuses(
    action: BulkAction, status: RunStatus
) -> None:
    async with App("memory://") as app:
        run = await in_status(app, status)
        assert run.status == status
        told = refusal_of(action, run)
        refused = ""
        try:
            if action == "delete":
                await app.runs.delete([run.run])
            else:
                await getattr(app.runs, action)(run.run)
        except RunConflictError as error:
            refused = str(error)

    assert bool(told) == bool(refused), (told, refused)
