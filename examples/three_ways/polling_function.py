"""A job elsewhere, as a durable function: waiting for the next question holds no worker."""

import json
import sys

from polling import ask, submit

import minuet


@minuet.workflow
async def polling(ctx: minuet.Flow, report: str, every: float = 5) -> int | None:
    job = await submit(report)
    for _ in range(10):
        await ctx.sleep(every)
        answer = await ask(job)
        if answer["done"]:
            return answer["rows"]
    return None


if __name__ == "__main__":
    print(json.dumps(minuet.run(polling, json.loads(sys.argv[1])).output))
