"""The handlers of saga.yaml. Each stands for a call to another service.

What they have done is written to the file `ledger.txt`. A step may be repeated after a crash, so
each line has the key that is the same for every attempt, and what is there is not written again.
"""

from pathlib import Path

import minuet

LEDGER = Path("ledger.txt")


def record(ctx: minuet.Context, text: str) -> None:
    done = LEDGER.read_text().splitlines() if LEDGER.exists() else []
    line = f"{text} {ctx.idempotency_key}"
    if line not in done:
        LEDGER.write_text("\n".join([*done, line]) + "\n")


@minuet.task
def reserve(order: str, ctx: minuet.Context) -> dict:
    if order.startswith("gone"):
        raise minuet.NonRetryable("out of stock")
    record(ctx, f"reserved {order}")
    return {"shelf": "A7"}


@minuet.task
def charge(order: str, amount: int, ctx: minuet.Context) -> dict:
    if amount > 1000:
        raise minuet.NonRetryable("the card was declined")
    record(ctx, f"charged {order} {amount}")
    return {"charged": amount}


@minuet.task
def ship(order: str, country: str, ctx: minuet.Context) -> dict:
    if country == "XX":
        # This may pass, so it is tried again: three times in all.
        raise ConnectionError("the carrier does not answer")
    record(ctx, f"shipped {order}")
    return {"parcel": f"{country}-{order}"}


@minuet.task
def refund(order: str, amount: int, ctx: minuet.Context) -> dict:
    record(ctx, f"refunded {order} {amount}")
    return {"refunded": amount}


@minuet.task
def release(order: str, ctx: minuet.Context) -> dict:
    record(ctx, f"released {order}")
    return {}
