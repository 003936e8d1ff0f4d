import json
import sys
from contextlib import ExitStack

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.func import entrypoint, task
from langgraph.types import RetryPolicy


@task
def reserve(order: str) -> None:
    if order == "gone":
        raise ValueError("out of stock")
    print("reserved", order)


@task
def release(order: str) -> None:
    print("released", order)


@task
def charge(order: str, amount: int) -> None:
    if amount > 1000:
        raise ValueError("the card was declined")
    print("charged", order, amount)


@task
def refund(order: str, amount: int) -> None:
    print("refunded", order, amount)


@task(retry_policy=RetryPolicy(max_attempts=3))
def ship(order: str, country: str) -> str:
    if country == "XX":
        raise ConnectionError("the carrier does not answer")
    print("shipped", order)
    return f"{country}-{order}"


with SqliteSaver.from_conn_string("saga.db") as checkpointer:

    @entrypoint(checkpointer=checkpointer)
    def saga(input: dict) -> str | None:
        order, amount = input["order"], input["amount"]
        try:
            with ExitStack() as undo:
                reserve(order).result()
                undo.callback(lambda: release(order).result())
                charge(order, amount).result()
                undo.callback(lambda: refund(order, amount).result())
                parcel = ship(order, input["country"]).result()
                undo.pop_all()
                return parcel
        except Exception:
            return None

    config = {"configurable": {"thread_id": "1"}}
    print(json.dumps(saga.invoke(json.loads(sys.argv[1]), config)))
