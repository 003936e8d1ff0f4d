import csv
import json
import sys
from pathlib import Path

from prefect import flow, task


@task
def find_files(folder: str) -> list[str]:
    return sorted(map(str, Path(folder).glob("*.csv")))


@task
def clean(file: str) -> int:
    rows = list(csv.DictReader(Path(file).read_text().splitlines()))
    return sum(int(row["amount"]) for row in rows if row["amount"])


@task
def load(totals: list[int], broken: int) -> dict[str, int]:
    return {"broken": broken, "files": len(totals), "total": sum(totals)}


@flow(persist_result=True)
def etl(folder: str) -> dict[str, int]:
    files = find_files(folder)
    cleaned = clean.map(files).result(raise_on_failure=False)
    totals = [total for total in cleaned if isinstance(total, int)]
    return load(totals, len(files) - len(totals))


if __name__ == "__main__":
    print(json.dumps(etl(**json.loads(sys.argv[1]))))
