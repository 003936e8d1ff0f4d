"""Runs every program of examples/three_ways in each way, and prints what came of it as JSON.

A program of its own: the tasks of examples must not meet those of other tests.
"""

from __future__ import annotations

import asyncio
import importlib
import io
import json
import runpy
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import minuet
from minuet.events import NodeCompleted, StepRecorded
from minuet.plan.plan import item_id, items_id

#: The inputs of each program.
CASES: dict[str, list[dict[str, Any]]] = {
    "saga": [
        {"order": "o1", "amount": 40},
        {"order": "o2", "amount": 4000},
        {"order": "o3", "amount": 40, "country": "XX"},
        {"order": "gone", "amount": 40},
    ],
    "etl": [{"folder": "../etl/data"}],
    "booking": [{"flight": "LH1"}, {"flight": "full"}],
    "polling": [{"report": "sales", "every": 0.01}, {"report": "endless", "every": 0.01}],
}

WAYS = ("function", "builder", "yaml")


def output_of(folder: Path, program: str, way: str, given: dict[str, Any]) -> Any:
    # The services that the tasks play begin anew.
    sys.modules.pop(program, None)
    if way == "yaml":
        handlers = [str(folder / f"{program}.py")]
        return minuet.run(str(folder / f"{program}.yaml"), given, handlers=handlers).output
    sys.argv = [f"{program}_{way}.py", json.dumps(given)]
    printed = io.StringIO()
    with redirect_stdout(printed):
        runpy.run_path(str(folder / sys.argv[0]), run_name="__main__")
    return json.loads(printed.getvalue())


async def history_of_last(tasks: set[str]) -> list[str]:
    """The tasks of the last run that ended, in this order, with the attempts that they took."""
    async with minuet.App(worker=False) as app:
        (run,) = await app.runs.list(limit=1)
        found: list[str] = []
        # The instances of a node with `foreach`; the node itself only gathers their outputs.
        gathered: set[str] = set()
        async for _, _, event in app.follow(run.run):
            if isinstance(event, StepRecorded):
                step = json.loads(bytes(event.value))
                name, attempts = step.get("name", ""), step.get("attempts", 1)
            elif isinstance(event, NodeCompleted) and event.node not in gathered:
                name, attempts = event.node, event.attempt
                for task in tasks:
                    if name in (items_id(task), item_id(task)):
                        gathered.add(task)
                    if name == item_id(task):
                        name = task
            else:
                continue
            if name in tasks:
                found.append(f"{name} {attempts}")
        return found


def main(folder: Path) -> None:
    sys.path.insert(0, str(folder))
    ended: list[dict[str, Any]] = []
    for program, inputs in CASES.items():
        for given in inputs:
            for way in WAYS:
                output = output_of(folder, program, way, given)
                module = sys.modules.get(program) or importlib.import_module(program)
                tasks = {one.name for one in vars(module).values() if isinstance(one, minuet.Task)}
                history = asyncio.run(history_of_last(tasks))
                found = {"output": output, "history": history}
                ended.append({"program": program, "input": given, "way": way, **found})
    sys.stdout.write(json.dumps(ended))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
