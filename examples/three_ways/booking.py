"""The tasks of the booking, and an airline that is busy now and then."""

from collections import Counter
from typing import TypedDict

import minuet


class Offer(TypedDict):
    flight: str
    price: int


class Seat(TypedDict):
    flight: str
    price: int
    seat: str


class Expired(minuet.NonRetryable):
    """An offer has expired. Booking it once more does not help: a new offer is needed."""


#: How often the airline was called.
CALLS: Counter[str] = Counter()


def answer(what: str) -> int:
    """Each second call of the airline finds it busy; the number of the answer."""
    CALLS[what] += 1
    if CALLS[what] % 2:
        raise minuet.Retryable("the airline is busy", after=0.01)
    return CALLS[what] // 2


@minuet.task
async def quote(flight: str) -> Offer:
    return {"flight": flight, "price": 100 + answer("quote")}


@minuet.task
async def book(offer: Offer) -> Seat:
    if answer("book") < 3 or offer["flight"] == "full":
        raise Expired(f"the offer for {offer['price']} has expired")
    return {**offer, "seat": "12A"}
