import json
import sys
from collections import Counter
from typing import Any

from prefect import flow, task

CALLS = Counter()


def answer(what: str) -> int:
    CALLS[what] += 1
    if CALLS[what] % 2:
        raise ConnectionError("the airline is busy")
    return CALLS[what] // 2


class Expired(Exception):
    pass


def is_busy(task: Any, run: Any, state: Any) -> bool:
    return isinstance(state.result(raise_on_failure=False), ConnectionError)


# With the same arguments, the second call in a run would answer what the first one did.
@task(retries=2)
def quote(flight: str, round: int) -> int:
    return 100 + answer("quote")


@task(retries=2, retry_condition_fn=is_busy)
def book(flight: str, price: int) -> str:
    if answer("book") < 2:
        raise Expired(f"{price} is no longer offered")
    return f"{flight} for {price}"


@flow(persist_result=True)
def booking(flight: str) -> str | None:
    for round in range(3):
        price = quote(flight, round)
        try:
            return book(flight, price)
        except Expired:
            print("a new offer is needed")
    return None


if __name__ == "__main__":
    print(json.dumps(booking(**json.loads(sys.argv[1]))))
