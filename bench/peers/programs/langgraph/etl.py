import csv
import json
import sys
from pathlib import Path

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.func import entrypoint, task


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


with SqliteSaver.from_conn_string("etl.db") as checkpointer:

    @entrypoint(checkpointer=checkpointer)
    def etl(input: dict) -> dict[str, int]:
        files = find_files(input["folder"]).result()
        cleaned = [clean(file) for file in files]
        totals = [one.result() for one in cleaned if one.exception() is None]
        return load(totals, len(files) - len(totals)).result()

    config = {"configurable": {"thread_id": "1"}}
    print(json.dumps(etl.invoke(json.loads(sys.argv[1]), config)))
