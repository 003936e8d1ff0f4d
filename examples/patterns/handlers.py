"""What the nodes of these workflows do that must not run at the same time."""

import asyncio

import minuet

active = 0


@minuet.task(effects="none")
async def alone() -> dict[str, int]:
    """Say how many run at once, this one included."""
    global active
    active += 1
    at_once = active
    await asyncio.sleep(0.01)
    active -= 1
    return {"at_once": at_once}
