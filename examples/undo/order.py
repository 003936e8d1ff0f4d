"""The handlers of order.yaml. Each stands for a call to another service.

What they have done is written to the file `ledger.txt`. A step may be repeated after a crash, and
so may a compensator. Each line has the key that is the same for every attempt, and what is there is
not written again.
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
    record(ctx, f"reserved {order}")
    return {"shelf": "A7"}


@minuet.task
def release(order: str, shelf: str, ctx: minuet.Context) -> None:
    record(ctx, f"released {order} on {shelf}")


@minuet.task
def charge(order: str, amount: int, ctx: minuet.Context) -> dict:
    record(ctx, f"charged {order} {amount}")
    return {"payment": f"pay-{order}"}


@minuet.task
def refund(order: str, amount: int, output: dict, ctx: minuet.Context) -> None:
    if amount == 13:
        raise minuet.NonRetryable(f"{output['payment']} is too old to be refunded")
    record(ctx, f"refunded {order} {amount}")


@minuet.task
def ship(order: str, country: str, ctx: minuet.Context) -> dict:
    if country == "XX":
        raise minuet.NonRetryable("nobody delivers there")
    record(ctx, f"shipped {order}")
    return {"parcel": f"{country}-{order}"}


@minuet.task
def call_back(parcel: str, ctx: minuet.Context) -> None:
    record(ctx, f"called back {parcel}")
