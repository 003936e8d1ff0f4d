"""What is left in a store after all that happened, and whether it is sound."""

from __future__ import annotations

import asyncio
import collections
from pathlib import Path
from typing import Any

from tests.events import read_events
from tests.fault import workload

from minuet.app.app import App
from minuet.app.results import RunResult
from minuet.store.sqlite import SqliteStore


def undisturbed(document: dict[str, Any]) -> RunResult:
    """How a run of the document ends when nothing goes wrong."""

    async def go() -> RunResult:
        async with App("memory://", handlers=[workload]) as app:
            return await app.run(document, {"seed": 1}, timeout=60)

    return asyncio.run(go())


def start_runs(db: Path, document: dict[str, Any], count: int = 1) -> list[str]:
    """Start runs and leave them to others."""

    async def go() -> list[str]:
        async with App(SqliteStore(db), handlers=[workload], worker=False) as app:
            return [run.id for run in await app.start_many(document, [{"seed": 1}] * count)]

    return asyncio.run(go())


class Outcome:
    """Everything about the runs of a store, read while nobody works on it."""

    def __init__(self, db: Path) -> None:
        self.findings: list[Any] = []
        self.results: dict[str, RunResult] = {}
        #: Events of each run, as plain data.
        self.events: dict[str, list[dict[str, Any]]] = {}
        asyncio.run(self._read(db))

    async def _read(self, db: Path) -> None:
        async with App(SqliteStore(db), worker=False) as app:
            async for run_id, findings in app.doctor.examine():
                self.findings += findings
                self.results[run_id] = await app.runs.show(run_id)
                self.events[run_id] = await read_events(app, run_id)

    def instances(self, run_id: str, type: str) -> collections.Counter[tuple[str, str]]:
        """How many events of a type each node instance has."""
        return collections.Counter(
            (event["node"], event.get("scope", ""))
            for event in self.events[run_id]
            if event["type"] == type
        )

    @property
    def statuses(self) -> dict[str, str]:
        return {run_id: result.status for run_id, result in self.results.items()}


def final_state(result: RunResult) -> dict[str, Any]:
    """What must be the same however often a run was disturbed."""
    return {
        "status": result.status,
        "output": result.output,
        "nodes": {
            name: (node.status, node.output, node.instances, node.attempts)
            for name, node in result.nodes.items()
        },
    }
