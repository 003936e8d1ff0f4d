import json
import sys
from contextlib import ExitStack

from prefect import flow, task


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


@task(retries=2)
def ship(order: str, country: str) -> str:
    if country == "XX":
        raise ConnectionError("the carrier does not answer")
    print("shipped", order)
    return f"{country}-{order}"


@flow(persist_result=True)
def saga(order: str, amount: int, country: str) -> str | None:
    try:
        with ExitStack() as undo:
            reserve(order)
            undo.callback(release, order)
            charge(order, amount)
            undo.callback(refund, order, amount)
            parcel = ship(order, country)
            undo.pop_all()
            return parcel
    except Exception:
        return None


if __name__ == "__main__":
    print(json.dumps(saga(**json.loads(sys.argv[1]))))
