"""Files that are found at run time, as a durable function: each is a step, all run at once."""

import json
import sys

from etl import Report, clean, find_files, load

import minuet


@minuet.workflow
async def etl(ctx: minuet.Flow, folder: str) -> Report:
    files = await find_files.step(folder)
    cleaned = await clean.map(files, return_exceptions=True)
    parts = [part for part in cleaned if not isinstance(part, Exception)]
    return await load.step(parts, len(files))


if __name__ == "__main__":
    print(json.dumps(minuet.run(etl, json.loads(sys.argv[1])).output))
