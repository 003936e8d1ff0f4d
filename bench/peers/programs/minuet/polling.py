import json
import sys
from collections import Counter

import minuet

ASKED = Counter()


@minuet.task
async def submit(report: str) -> str:
    return f"{report}-1"


@minuet.task
async def ask(job: str) -> int | None:
    ASKED[job] += 1
    return 12 if ASKED[job] == 3 else None


@minuet.workflow
async def polling(ctx: minuet.Flow, report: str, every: float) -> int | None:
    job = await submit(report)
    for _ in range(10):
        await ctx.sleep(every)
        if (rows := await ask(job)) is not None:
            return rows
    return None


if __name__ == "__main__":
    print(json.dumps(minuet.run(polling, json.loads(sys.argv[1])).output))
