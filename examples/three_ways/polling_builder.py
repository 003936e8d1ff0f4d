"""A job elsewhere, as a graph in Python: waiting for the next question holds no worker."""

import json
import sys

from polling import ask, submit

import minuet

with minuet.Workflow("polling") as polling:
    job = submit.named()(report=polling.input.report)
    pause = minuet.wait("pause", seconds="{{ input.every | default(5) }}")
    answer = ask.named()(job=job.output)
    give_up = minuet.noop("give_up")

    job.then(pause).then(answer)
    answer.loop(while_=~answer.output.done, max_iterations=10, back_to=pause, timeout=give_up)
    polling.set(output="{{ none if give_up.output is defined else ask.rows }}")

if __name__ == "__main__":
    print(json.dumps(minuet.run(polling, json.loads(sys.argv[1])).output))
