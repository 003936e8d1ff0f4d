import csv
import json
import sys
from pathlib import Path

import minuet


@minuet.task
def find_files(folder: str) -> list[str]:
    return sorted(map(str, Path(folder).glob("*.csv")))


@minuet.task(retries=0)
def clean(file: str) -> int:
    rows = list(csv.DictReader(Path(file).read_text().splitlines()))
    return sum(int(row["amount"]) for row in rows if row["amount"])


@minuet.task
def load(totals: list[int], broken: int) -> dict[str, int]:
    return {"broken": broken, "files": len(totals), "total": sum(totals)}


@minuet.workflow
async def etl(ctx: minuet.Flow, folder: str) -> dict[str, int]:
    files = await find_files.step(folder)
    cleaned = await clean.map(files, return_exceptions=True)
    totals = [total for total in cleaned if isinstance(total, int)]
    return await load.step(totals, len(files) - len(totals))


if __name__ == "__main__":
    print(json.dumps(minuet.run(etl, json.loads(sys.argv[1])).output))
