"""A worker that is asked to stop."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

import minuet
from minuet.worker import draining

from ..scenario.harness import PATIENCE, open_scene, task, workflow


@pytest.mark.shows("H-09", "H-10", "H-11")
@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_a_stopping_worker_finishes_what_runs_and_takes_nothing_new(
    scene: Any, kind: str
) -> None:
    started, go = threading.Event(), threading.Event()
    ran: list[str] = []

    def hold(ctx: minuet.Context) -> str:
        ran.append(ctx.node_id)
        started.set()
        go.wait(PATIENCE)
        return "done"

    async def hold_async(ctx: minuet.Context) -> str:
        ran.append(ctx.node_id)
        started.set()
        await asyncio.to_thread(go.wait, PATIENCE)
        return "done"

    document = workflow(task("first", handler="hold"), task("next", "first", handler="hold"))
    async with scene({"hold": hold if kind == "sync" else hold_async}) as s:
        run_id = await s.app.start(document)
        await asyncio.to_thread(started.wait, PATIENCE)
        s.app.worker.stop()
        go.set()
        await s.app.working
        result = await s.app.runs.show(run_id)

        assert ran == ["first"]
        assert result.nodes["first"].status == "COMPLETED"
        assert result.nodes["next"].status == "QUEUED"
        assert result.status == "RUNNING"


@pytest.mark.shows("H-10", "H-11")
@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_what_does_not_finish_in_time_is_given_back_at_once(scene: Any, kind: str) -> None:
    started, told = threading.Event(), threading.Event()

    def hold(ctx: minuet.Context) -> None:
        started.set()
        while not ctx.cancelled:
            threading.Event().wait(0.002)
        told.set()

    async def hold_async() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            told.set()

    handlers = {"hold": hold if kind == "sync" else hold_async}
    async with scene(handlers, drain_seconds=0.02) as s:
        run_id = await s.app.start(workflow(task("hold")))
        await asyncio.to_thread(started.wait, PATIENCE)
        s.app.worker.stop()
        await s.app.working
        (token,) = await s.store.read_tokens("default", run_id)
        told_in_time = await asyncio.to_thread(told.wait, PATIENCE)

        assert told_in_time
        # Nobody has to wait for a lease to run out, and nothing counts against the node.
        assert (token.state, token.attempt, token.expiry) == ("ready", 1, 0)
        assert (await s.app.runs.get(run_id)).status == "RUNNING"


async def test_a_handler_that_refuses_to_stop_does_not_hold_the_worker(
    scene: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(draining, "RELEASE_MS", 20)
    started, go = asyncio.Event(), asyncio.Event()

    async def stubborn() -> None:
        started.set()
        while not go.is_set():
            try:
                await go.wait()
            except asyncio.CancelledError:
                pass

    async with scene({"stubborn": stubborn}, drain_seconds=0) as s:
        run_id = await s.app.start(workflow(task("stubborn")))
        await started.wait()
        s.app.worker.stop()
        async with asyncio.timeout(PATIENCE):
            await s.app.working
        (token,) = await s.store.read_tokens("default", run_id)
        go.set()

        assert token.state == "leased"


async def test_a_stopped_worker_ends_its_session(scene: Any) -> None:
    from minuet.errors import SessionError
    from minuet.store.exchange import Exchange

    async with scene() as s:
        session = s.app.worker._session.id
        await s.run(workflow({"id": "a", "type": "noop"}))
        s.app.worker.stop()
        await s.app.working

        with pytest.raises(SessionError):
            await s.store.exchange(Exchange(session, 100, "lease"))


async def test_an_app_can_be_left_while_a_run_waits(store_url: str) -> None:
    async with open_scene(store_url) as s:
        run_id = await s.app.start(
            workflow({"id": "w", "type": "wait", "config": {"seconds": 3600}})
        )
        await s.until(run_id, lambda run: run.seq == 3)
        result = await s.app.runs.show(run_id)

        assert result.nodes["w"].status == "WAITING"
