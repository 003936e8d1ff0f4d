"""DBOS with FastAPI: one process has both, as its documentation shows it."""

from __future__ import annotations

import sqlite3
import sys
from pathlib import Path

import uvicorn
from dbos import DBOS
from fastapi import FastAPI

from bench.peers.engines.dbos import chain
from bench.peers.processes import HOST, free_port
from bench.peers.services.waiting import end_with_input, say

app = FastAPI()


@app.post("/start", status_code=201)
async def start(length: int) -> dict[str, str]:
    handle = await DBOS.start_workflow_async(chain, length)
    return {"id": handle.get_workflow_id()}


@app.post("/run")
async def run(length: int) -> dict[str, int]:
    handle = await DBOS.start_workflow_async(chain, length)
    return await handle.get_result()


def main() -> None:
    folder, url, _ = sys.argv[1:]
    database = Path(folder, "bench.db")
    if not url:
        # As shipped it uses the rollback journal, which is slower.
        with sqlite3.connect(database) as connection:
            connection.execute("PRAGMA journal_mode=WAL")
        connection.close()
    config = {"name": "bench", "system_database_url": url or f"sqlite:///{database}"}
    DBOS(config={**config, "application_version": "1", "log_level": "ERROR"})
    DBOS.launch()
    port = free_port()
    end_with_input()
    say(f"http://{HOST}:{port}")
    uvicorn.run(app, host=HOST, port=port, log_level="error", access_log=False)


if __name__ == "__main__":
    main()
