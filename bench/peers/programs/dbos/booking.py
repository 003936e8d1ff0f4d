import json
import sys
from collections import Counter

from dbos import DBOS

CALLS = Counter()


def answer(what: str) -> int:
    CALLS[what] += 1
    if CALLS[what] % 2:
        raise ConnectionError("the airline is busy")
    return CALLS[what] // 2


class Expired(Exception):
    pass


def is_busy(error: BaseException) -> bool:
    return isinstance(error, ConnectionError)


@DBOS.step(retries_allowed=True)
def quote(flight: str) -> int:
    return 100 + answer("quote")


@DBOS.step(retries_allowed=True, should_retry=is_busy)
def book(flight: str, price: int) -> str:
    if answer("book") < 2:
        raise Expired(f"{price} is no longer offered")
    return f"{flight} for {price}"


@DBOS.workflow()
def booking(flight: str) -> str | None:
    for _ in range(3):
        price = quote(flight)
        try:
            return book(flight, price)
        except Expired:
            print("a new offer is needed")
    return None


if __name__ == "__main__":
    DBOS(config={"name": "booking"})
    DBOS.launch()
    print(json.dumps(booking(**json.loads(sys.argv[1]))))
