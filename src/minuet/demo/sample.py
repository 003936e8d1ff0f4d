"""The handlers of the sample that `minuet dev` starts with: they take their time, and one fails."""

from __future__ import annotations

import asyncio
from typing import Any

from minuet.nodes.context import Context


async def receive(number: int, items: list[dict[str, Any]], ctx: Context) -> dict[str, Any]:
    """Take an order in."""
    ctx.log.info("order %s has %s items", number, len(items))
    await asyncio.sleep(0.8)
    return {"number": number, "total": sum(item["price"] for item in items)}


async def charge(total: float, ctx: Context) -> dict[str, Any]:
    """Charge the card; the service does not answer at first."""
    await asyncio.sleep(0.7)
    if ctx.attempt == 1:
        ctx.log.warning("no answer from the card service")
        raise ConnectionError("the card service did not answer")
    return {"total": total, "paid": True}


async def reserve(name: str) -> dict[str, Any]:
    """Put an item aside."""
    await asyncio.sleep(0.6)
    return {"item": name, "reserved": True}


async def pack(name: str, ctx: Context) -> dict[str, Any]:
    """Pack an item: this takes long enough to kill the worker meanwhile."""
    ctx.log.info("packing %s", name)
    await asyncio.sleep(2)
    return {"item": name, "packed": True}


async def ship(number: int) -> dict[str, Any]:
    """Send the boxes."""
    await asyncio.sleep(0.8)
    return {"parcel": f"P-{number}"}


async def refund(total: float) -> dict[str, Any]:
    """Give the money back."""
    await asyncio.sleep(0.5)
    return {"refunded": total}
