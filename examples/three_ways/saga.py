"""The tasks of the order: each stands for a call of another service."""

import minuet


@minuet.task
async def reserve(order: str) -> str:
    if order.startswith("gone"):
        raise minuet.NonRetryable("out of stock")
    return "shelf A7"


@minuet.task
async def charge(order: str, amount: int) -> int:
    if amount > 1000:
        raise minuet.NonRetryable("the card was declined")
    return amount


@minuet.task(retries=2)
async def ship(order: str, country: str) -> dict[str, str]:
    if country == "XX":
        # This may pass, so it is tried again: three times in all.
        raise minuet.Retryable("the carrier does not answer", after=0.01)
    return {"parcel": f"{country}-{order}"}


@minuet.task
async def refund(order: str, amount: int) -> int:
    return amount


@minuet.task
async def release(order: str) -> None: ...
