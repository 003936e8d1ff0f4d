import json
import sys
import time
from collections import Counter

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.func import entrypoint, task
from langgraph.types import RetryPolicy

ASKED = Counter()


@task(retry_policy=RetryPolicy())
def submit(report: str) -> str:
    return f"{report}-1"


@task(retry_policy=RetryPolicy())
def ask(job: str) -> int | None:
    ASKED[job] += 1
    return 12 if ASKED[job] == 3 else None


with SqliteSaver.from_conn_string("polling.db") as checkpointer:

    @entrypoint(checkpointer=checkpointer)
    def polling(input: dict) -> int | None:
        job = submit(input["report"]).result()
        for _ in range(10):
            time.sleep(input["every"])
            if (rows := ask(job).result()) is not None:
                return rows
        return None

    config = {"configurable": {"thread_id": "1"}}
    print(json.dumps(polling.invoke(json.loads(sys.argv[1]), config)))
