import json
import sys
from collections import Counter

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.func import entrypoint, task
from langgraph.types import RetryPolicy

CALLS = Counter()


def answer(what: str) -> int:
    CALLS[what] += 1
    if CALLS[what] % 2:
        raise ConnectionError("the airline is busy")
    return CALLS[what] // 2


class Expired(Exception):
    pass


BUSY = RetryPolicy(max_attempts=3, retry_on=ConnectionError)


@task(retry_policy=BUSY)
def quote(flight: str) -> int:
    return 100 + answer("quote")


@task(retry_policy=BUSY)
def book(flight: str, price: int) -> str:
    if answer("book") < 2:
        raise Expired(f"{price} is no longer offered")
    return f"{flight} for {price}"


with SqliteSaver.from_conn_string("booking.db") as checkpointer:

    @entrypoint(checkpointer=checkpointer)
    def booking(flight: str) -> str | None:
        for _ in range(3):
            price = quote(flight).result()
            try:
                return book(flight, price).result()
            except Expired:
                print("a new offer is needed")
        return None

    config = {"configurable": {"thread_id": "1"}}
    print(json.dumps(booking.invoke(json.loads(sys.argv[1])["flight"], config)))
