import asyncio
import csv
import json
import sys
from datetime import timedelta
from pathlib import Path

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.common import RetryPolicy
from temporalio.envconfig import ClientConfig
from temporalio.worker import Worker


@activity.defn
async def find_files(folder: str) -> list[str]:
    return sorted(map(str, Path(folder).glob("*.csv")))


@activity.defn
async def clean(file: str) -> int:
    rows = list(csv.DictReader(Path(file).read_text().splitlines()))
    return sum(int(row["amount"]) for row in rows if row["amount"])


@activity.defn
async def load(totals: list[int], broken: int) -> dict[str, int]:
    return {"broken": broken, "files": len(totals), "total": sum(totals)}


OPTIONS = {"start_to_close_timeout": timedelta(seconds=10)}
ONCE = RetryPolicy(maximum_attempts=1)


@workflow.defn
class Etl:
    @workflow.run
    async def run(self, folder: str) -> dict[str, int]:
        files = await workflow.execute_activity(find_files, folder, **OPTIONS)
        cleaned = await asyncio.gather(
            *(
                workflow.execute_activity(clean, file, retry_policy=ONCE, **OPTIONS)
                for file in files
            ),
            return_exceptions=True,
        )
        totals = [total for total in cleaned if isinstance(total, int)]
        args = [totals, len(files) - len(totals)]
        return await workflow.execute_activity(load, args=args, **OPTIONS)


async def main() -> None:
    client = await Client.connect(**ClientConfig.load_client_connect_config())
    folder = json.loads(sys.argv[1])["folder"]
    activities = [find_files, clean, load]
    async with Worker(client, task_queue="etl", workflows=[Etl], activities=activities):
        result = await client.execute_workflow(Etl.run, folder, id="etl", task_queue="etl")
        print(json.dumps(result))


if __name__ == "__main__":
    asyncio.run(main())
