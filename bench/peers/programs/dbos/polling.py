import json
import sys
from collections import Counter

from dbos import DBOS

ASKED = Counter()


@DBOS.step(retries_allowed=True)
def submit(report: str) -> str:
    return f"{report}-1"


@DBOS.step(retries_allowed=True)
def ask(job: str) -> int | None:
    ASKED[job] += 1
    return 12 if ASKED[job] == 3 else None


@DBOS.workflow()
def polling(report: str, every: float) -> int | None:
    job = submit(report)
    for _ in range(10):
        DBOS.sleep(every)
        if (rows := ask(job)) is not None:
            return rows
    return None


if __name__ == "__main__":
    DBOS(config={"name": "polling"})
    DBOS.launch()
    print(json.dumps(polling(**json.loads(sys.argv[1]))))
