"""Prefect: its server, and a process that serves the flow as a deployment. A run is started by
`create_flow_run`, and runs in a process of its own."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from bench.peers.engines.prefect import open_server
from bench.peers.harness import Options
from bench.peers.processes import Program, says
from bench.peers.services.waiting import say, wait_for_input

SERVING = "Your flow 'chain' is being served"


def main() -> None:
    folder, database, _ = sys.argv[1:]
    with open_server(Options(folder, url=database)) as url:
        flow = Program(
            Path(folder, "flow"),
            [sys.executable, "-m", "bench.peers.services.prefect", "serve"],
            says(SERVING),
            {"PREFECT_API_URL": f"{url}/api", "PREFECT_RUNNER_POLL_FREQUENCY": "1"},
        )
        try:
            flow.start()
            say(url)
            wait_for_input()
        finally:
            flow.stop()


def serve() -> None:
    from prefect import flow, task

    @task(persist_result=True)
    async def step(i: int) -> dict[str, int]:
        return {"i": i}

    @flow
    async def chain(length: int) -> dict[str, int]:
        result = {}
        for i in range(length):
            result = await step(i)
        return result

    os.environ.setdefault("PREFECT_LOGGING_LEVEL", "INFO")
    chain.serve(name="bench", limit=16)


if __name__ == "__main__":
    serve() if sys.argv[1:] == ["serve"] else main()
