"""A worker over HTTP, with nothing but Python's standard library.

python worker.py http://127.0.0.1:7800
"""

import json
import sys
import urllib.request

URL = sys.argv[1] + "/api/v1/workers"


def call(path, body):
    request = urllib.request.Request(URL + path, json.dumps(body).encode())
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def shout(text):
    return {"text": text.upper() + "!"}


me = call("", {"name": "python", "executors": ["shout"], "concurrency": 1})
seq, done, draining = 0, [], False
while not draining:
    seq += 1
    body = {"seq": seq, "done": done, "take": 1, "wait_ms": 20_000}
    reply = call(f"/{me['worker_id']}/exchange", body)
    done, draining = [], reply["draining"]
    for task in reply["tasks"]:
        try:
            done.append({"task": task["task"], "result": shout(**task["config"])})
        except Exception as error:
            failed = {"type": type(error).__name__, "message": str(error), "retryable": False}
            done.append({"task": task["task"], "error": failed})
