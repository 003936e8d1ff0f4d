"""Follow a run while workers elsewhere execute it."""

from __future__ import annotations

import asyncio

from minuet.app.app import Facade
from minuet.app.finder import Run
from minuet.cli.progress import Progress, make_progress
from minuet.errors import RunTimeoutError
from minuet.types import TERMINAL


async def follow_run(app: Facade, run_id: str, timeout: float | None = None) -> Run:
    """Show the progress of a run until it is over; RunTimeoutError if that takes too long."""
    progress = make_progress()
    try:
        progress.begin(await app.runs.watch(run_id))
        drawing = asyncio.create_task(_draw(app, run_id, progress))
        try:
            async with asyncio.timeout(timeout):
                return await _follow(app, run_id, progress)
        except TimeoutError:
            raise RunTimeoutError(run_id, timeout or 0) from None
        finally:
            drawing.cancel()
            await asyncio.gather(drawing, return_exceptions=True)
    finally:
        progress.close()


async def _follow(app: Facade, run_id: str, progress: Progress) -> Run:
    after = 0
    while True:
        async for seq, at_ms, event in app.follow(run_id, after=after):
            progress.add(run_id, seq, at_ms, event)
            after = seq
        run = await app.runs.get(run_id)
        if run.status in TERMINAL:
            return run


async def _draw(app: Facade, run_id: str, progress: Progress) -> None:
    """Draw the picture again and again, if there is one."""
    while True:
        pause = progress.refresh({})
        if not pause:
            return
        progress.refresh({run_id: await app.runs.held(run_id)})
        await asyncio.sleep(max(pause, 0.5))
