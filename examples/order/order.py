"""The handlers of order.yaml. `minuet run` finds this file by its name."""

import minuet


@minuet.task
def price(items: list[dict]) -> dict:
    return {"total": sum(item["price"] * item["quantity"] for item in items)}


@minuet.task(retries=2)
async def stock(items: list[dict]) -> dict:
    return {"available": all(item["quantity"] <= 100 for item in items)}


@minuet.task
def approve(customer: str, total: int, ctx: minuet.Context) -> dict:
    # Handlers may run more than once. A service that gets this key can ignore repeated calls.
    return {"approved_for": customer, "total": total, "key": ctx.idempotency_key}


@minuet.task
def pack(items: list[dict], box: int) -> dict:
    return {"box": box + 1, "item": items[box]["name"], "left": len(items) - box - 1}


@minuet.task
def ship(customer: str, boxes: int, total: int) -> dict:
    return {"status": "shipped", "customer": customer, "boxes": boxes, "total": total}
