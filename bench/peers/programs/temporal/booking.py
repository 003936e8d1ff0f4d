import asyncio
import json
import sys
from collections import Counter
from datetime import timedelta

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.common import RetryPolicy
from temporalio.envconfig import ClientConfig
from temporalio.exceptions import ActivityError, ApplicationError
from temporalio.worker import Worker

CALLS = Counter()


def answer(what: str) -> int:
    CALLS[what] += 1
    if CALLS[what] % 2:
        raise ConnectionError("the airline is busy")
    return CALLS[what] // 2


@activity.defn
async def quote(flight: str) -> int:
    return 100 + answer("quote")


@activity.defn
async def book(flight: str, price: int) -> str:
    if answer("book") < 2:
        raise ApplicationError(f"{price} is no longer offered", type="Expired", non_retryable=True)
    return f"{flight} for {price}"


OPTIONS = {
    "start_to_close_timeout": timedelta(seconds=10),
    "retry_policy": RetryPolicy(maximum_attempts=3),
}


@workflow.defn
class Booking:
    @workflow.run
    async def run(self, flight: str) -> str | None:
        for _ in range(3):
            price = await workflow.execute_activity(quote, flight, **OPTIONS)
            try:
                return await workflow.execute_activity(book, args=[flight, price], **OPTIONS)
            except ActivityError as error:
                if not isinstance(error.cause, ApplicationError) or error.cause.type != "Expired":
                    raise
                print("a new offer is needed")
        return None


async def main() -> None:
    client = await Client.connect(**ClientConfig.load_client_connect_config())
    flight = json.loads(sys.argv[1])["flight"]
    async with Worker(client, task_queue="booking", workflows=[Booking], activities=[quote, book]):
        result = await client.execute_workflow(
            Booking.run, flight, id="booking", task_queue="booking"
        )
        print(json.dumps(result))


if __name__ == "__main__":
    asyncio.run(main())
