"""The handlers of the demo. They take their time and note each start in a ledger.

The ledger is like a shop's bookkeeping: it is outside of the store, so it shows how often a
handler was really started, whatever the store says.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any

import msgspec

from minuet.demo import LEDGER
from minuet.nodes.context import Context


async def receive(order: dict[str, Any], ctx: Context) -> dict[str, Any]:
    """Take an order in."""
    await work(ctx, 0.4)
    return {"items": order["items"]}


async def price(items: list[dict[str, Any]], ctx: Context) -> dict[str, Any]:
    """Add up what it costs."""
    await work(ctx, 0.8)
    return {"total": sum(item["price"] for item in items)}


async def reserve(items: list[dict[str, Any]], ctx: Context) -> dict[str, Any]:
    """Put the items aside."""
    await work(ctx, 0.6)
    return {"reserved": len(items)}


async def inspect(total: int, ctx: Context) -> dict[str, Any]:
    """Review an expensive order."""
    await work(ctx, 0.6)
    return {"approved": True, "total": total}


async def pick(items: list[dict[str, Any]], box: int, ctx: Context) -> dict[str, Any]:
    """Fetch the item of this box."""
    await work(ctx, 0.4)
    return {"item": items[box]["name"], "left": len(items) - box - 1}


async def pack(item: str, left: int, ctx: Context) -> dict[str, Any]:
    """Close this box."""
    await work(ctx, 0.5)
    return {"box": ctx.scope[-1] + 1, "item": item, "left": left}


async def invoice(number: int, total: int, ctx: Context) -> dict[str, Any]:
    """Write the invoice."""
    await work(ctx, 1.2)
    return {"invoice": f"INV-{number}", "total": total}


async def ship(number: int, boxes: int, ctx: Context) -> dict[str, Any]:
    """Send all boxes."""
    await work(ctx, 0.6)
    return {"parcel": f"P-{number}", "boxes": boxes}


async def notify(parcel: str, ctx: Context) -> dict[str, Any]:
    """Notify the customer."""
    await work(ctx, 0.3)
    return {"message": f"Parcel {parcel} is on its way."}


async def work(ctx: Context, seconds: float) -> None:
    """Note the start, take some time, note the end."""
    note(ctx, "start")
    await asyncio.sleep(seconds)
    note(ctx, "end")


def note(ctx: Context, what: str) -> None:
    """Append a line to the ledger, whole or not at all."""
    path = os.environ.get(LEDGER)
    if not path:
        return
    entry = {"what": what, "node": ctx.node_id, "scope": ctx.scope_text, "pid": os.getpid()}
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(file, msgspec.json.encode(entry) + b"\n")
    finally:
        os.close(file)
