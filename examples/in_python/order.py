"""An order, written in Python: the same document that a YAML file would hold.

python order.py              run it
python order.py --yaml       print the document
"""

from __future__ import annotations

import sys
from typing import Any

import minuet


@minuet.task
def fetch_order(order_id: int) -> dict[str, Any]:
    return {
        "id": order_id,
        "lines": [{"name": "lamp", "price": 400}, {"name": "desk", "price": 800}],
    }


@minuet.task
def price(lines: list[dict[str, Any]]) -> dict[str, int]:
    return {"total": sum(line["price"] for line in lines)}


@minuet.task(retries=4)
async def check_credit(total: int, ctx: minuet.Context) -> dict[str, Any]:
    ctx.log.info("checking %s", total)
    return {"ok": True, "total": total}


@minuet.task
def ship(order_id: int, name: str) -> dict[str, str]:
    return {"parcel": f"{name}-{order_id}"}


with minuet.Workflow("order", input={"type": "object", "required": ["order_id"]}) as order:
    fetched = fetch_order.named("fetch")(order_id=order.input.order_id)
    priced = price.named("price")(lines=fetched.output.lines)
    check = check_credit.named("check")(total=priced.output.total)
    shipped = ship.named("ship")(order_id=fetched.output.id, name=fetched.output.lines[0].name)

    # Large orders are checked first; the others are shipped at once.
    priced.branch((priced.output.total > 1000, check), default=shipped)
    check.then(shipped)
    order.set(output=shipped.output.parcel)


if __name__ == "__main__":
    if "--yaml" in sys.argv:
        print(order.to_yaml(), end="")
    else:
        print(minuet.run(order, {"order_id": 7}).output)
