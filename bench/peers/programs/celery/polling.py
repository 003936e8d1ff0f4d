import json
import sys
from collections import Counter
from typing import Any

from celery import Celery, chain

app = Celery("polling")
ASKED = Counter()


@app.task(autoretry_for=(ConnectionError,), max_retries=2)
def submit(report: str) -> str:
    return f"{report}-1"


@app.task(bind=True, max_retries=9)
def ask(self: Any, job: str, every: float) -> int:
    ASKED[job] += 1
    if ASKED[job] < 3:
        raise self.retry(countdown=every)
    return 12


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    job = chain(submit.s(given["report"]), ask.s(given["every"])).apply_async()
    print(json.dumps(job.get(timeout=60)))
