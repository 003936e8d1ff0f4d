import asyncio
import json
import sys
from contextlib import AsyncExitStack
from datetime import timedelta

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.common import RetryPolicy
from temporalio.envconfig import ClientConfig
from temporalio.exceptions import ActivityError, ApplicationError
from temporalio.worker import Worker


@activity.defn
async def reserve(order: str) -> None:
    if order == "gone":
        raise ApplicationError("out of stock", non_retryable=True)
    print("reserved", order)


@activity.defn
async def release(order: str) -> None:
    print("released", order)


@activity.defn
async def charge(order: str, amount: int) -> None:
    if amount > 1000:
        raise ApplicationError("the card was declined", non_retryable=True)
    print("charged", order, amount)


@activity.defn
async def refund(order: str, amount: int) -> None:
    print("refunded", order, amount)


@activity.defn
async def ship(order: str, country: str) -> str:
    if country == "XX":
        raise ConnectionError("the carrier does not answer")
    print("shipped", order)
    return f"{country}-{order}"


OPTIONS = {"start_to_close_timeout": timedelta(seconds=10)}
THRICE = RetryPolicy(maximum_attempts=3)


@workflow.defn
class Saga:
    @workflow.run
    async def run(self, order: str, amount: int, country: str) -> str | None:
        try:
            async with AsyncExitStack() as undo:
                await workflow.execute_activity(reserve, order, **OPTIONS)
                undo.push_async_callback(workflow.execute_activity, release, order, **OPTIONS)
                both = [order, amount]
                await workflow.execute_activity(charge, args=both, **OPTIONS)
                undo.push_async_callback(workflow.execute_activity, refund, args=both, **OPTIONS)
                parcel = await workflow.execute_activity(
                    ship, args=[order, country], retry_policy=THRICE, **OPTIONS
                )
                undo.pop_all()
                return parcel
        except ActivityError:
            return None


async def main() -> None:
    client = await Client.connect(**ClientConfig.load_client_connect_config())
    given = json.loads(sys.argv[1])
    activities = [reserve, release, charge, refund, ship]
    async with Worker(client, task_queue="saga", workflows=[Saga], activities=activities):
        args = [given["order"], given["amount"], given["country"]]
        result = await client.execute_workflow(Saga.run, args=args, id="saga", task_queue="saga")
        print(json.dumps(result))


if __name__ == "__main__":
    asyncio.run(main())
