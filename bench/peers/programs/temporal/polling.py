import asyncio
import json
import sys
from collections import Counter
from datetime import timedelta

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.envconfig import ClientConfig
from temporalio.worker import Worker

ASKED = Counter()


@activity.defn
async def submit(report: str) -> str:
    return f"{report}-1"


@activity.defn
async def ask(job: str) -> int | None:
    ASKED[job] += 1
    return 12 if ASKED[job] == 3 else None


OPTIONS = {"start_to_close_timeout": timedelta(seconds=10)}


@workflow.defn
class Polling:
    @workflow.run
    async def run(self, report: str, every: float) -> int | None:
        job = await workflow.execute_activity(submit, report, **OPTIONS)
        for _ in range(10):
            await workflow.sleep(every)
            if (rows := await workflow.execute_activity(ask, job, **OPTIONS)) is not None:
                return rows
        return None


async def main() -> None:
    client = await Client.connect(**ClientConfig.load_client_connect_config())
    given = json.loads(sys.argv[1])
    args = [given["report"], given["every"]]
    async with Worker(client, task_queue="polling", workflows=[Polling], activities=[submit, ask]):
        result = await client.execute_workflow(
            Polling.run, args=args, id="polling", task_queue="polling"
        )
        print(json.dumps(result))


if __name__ == "__main__":
    asyncio.run(main())
