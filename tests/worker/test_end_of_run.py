"""Handlers that still work on a run that is over are told at once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import minuet

from ..scenario.harness import task, workflow


@pytest.mark.shows("K-19")
async def test_a_running_handler_is_told_when_its_run_is_cancelled(scene: Any) -> None:
    begun, told = asyncio.Event(), asyncio.Event()

    async def work(ctx: minuet.Context) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            told.set()

    async with scene({"work": work}, lease_seconds=3600) as s:
        run_id = await s.app.start(workflow(task("work")))
        await begun.wait()

        await s.app.cancel(run_id)

        async with asyncio.timeout(60):
            await told.wait()


async def test_a_running_handler_is_told_when_another_node_fails_the_run(scene: Any) -> None:
    begun, told = asyncio.Event(), asyncio.Event()

    async def work(ctx: minuet.Context) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            told.set()

    async def fail() -> None:
        await begun.wait()
        raise minuet.NonRetryable("no")

    async with scene({"work": work, "fail": fail}, lease_seconds=3600) as s:
        run_id = await s.app.start(workflow(task("work"), task("fail")))

        async with asyncio.timeout(60):
            await told.wait()

        assert (await s.app.wait(run_id)).status == "FAILED"
