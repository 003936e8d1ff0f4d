import asyncio
import csv
import json
import sys
from pathlib import Path

from dbos import DBOS


@DBOS.step()
async def find_files(folder: str) -> list[str]:
    return sorted(map(str, Path(folder).glob("*.csv")))


@DBOS.step()
async def clean(file: str) -> int:
    rows = list(csv.DictReader(Path(file).read_text().splitlines()))
    return sum(int(row["amount"]) for row in rows if row["amount"])


@DBOS.step()
async def load(totals: list[int], broken: int) -> dict[str, int]:
    return {"broken": broken, "files": len(totals), "total": sum(totals)}


@DBOS.workflow()
async def etl(folder: str) -> dict[str, int]:
    files = await find_files(folder)
    cleaned = await asyncio.gather(*map(clean, files), return_exceptions=True)
    totals = [total for total in cleaned if isinstance(total, int)]
    return await load(totals, len(files) - len(totals))


if __name__ == "__main__":
    DBOS(config={"name": "etl"})
    DBOS.launch()
    print(json.dumps(asyncio.run(etl(**json.loads(sys.argv[1])))))
