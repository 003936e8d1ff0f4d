import json
import sys
from contextlib import ExitStack

from dbos import DBOS


@DBOS.step()
def reserve(order: str) -> None:
    if order == "gone":
        raise ValueError("out of stock")
    print("reserved", order)


@DBOS.step()
def release(order: str) -> None:
    print("released", order)


@DBOS.step()
def charge(order: str, amount: int) -> None:
    if amount > 1000:
        raise ValueError("the card was declined")
    print("charged", order, amount)


@DBOS.step()
def refund(order: str, amount: int) -> None:
    print("refunded", order, amount)


@DBOS.step(retries_allowed=True, max_attempts=3)
def ship(order: str, country: str) -> str:
    if country == "XX":
        raise ConnectionError("the carrier does not answer")
    print("shipped", order)
    return f"{country}-{order}"


@DBOS.workflow()
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
    DBOS(config={"name": "saga"})
    DBOS.launch()
    print(json.dumps(saga(**json.loads(sys.argv[1]))))
