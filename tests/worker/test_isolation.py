"""`isolation: process`: attempts that are killed, crash or leak, and the worker that lives on."""

from __future__ import annotations

import os
from typing import Any

import pytest

from ..scenario.harness import QUICK_RETRY, open_scene, task, workflow
from .isolated import HANDLERS

ONCE = {"max_attempts": 1}


def isolated(handler: str, **fields: Any) -> dict[str, Any]:
    return task(handler, **{"isolation": "process", "retry": ONCE, **fields})


def scene(**options: Any) -> Any:
    return open_scene("memory://", HANDLERS, **options)


@pytest.mark.parametrize("handler", ["add", "add_async"])
async def test_an_attempt_runs_in_another_process_that_stays_for_the_next(handler: str) -> None:
    async with scene() as s:
        document = workflow(isolated(handler, config={"a": 2}))
        first = (await s.run(document)).nodes[handler].output
        second = (await s.run(document)).nodes[handler].output

    assert first["sum"] == 3
    assert first["pid"] == second["pid"] != os.getpid()


@pytest.mark.parametrize(
    ("handler", "config", "how"),
    [
        ("leave", {"code": 0}, "it ended with exit code 0"),
        ("leave", {"code": 3}, "it ended with exit code 3"),
        ("crash", {}, "it was ended by signal 11 (SIGSEGV)"),
    ],
)
async def test_a_handler_that_kills_its_process_has_failed_and_the_worker_lives(
    handler: str, config: dict[str, Any], how: str
) -> None:
    async with scene() as s:
        poison = await s.run(workflow(isolated(handler, config=config, retry=QUICK_RETRY)))
        healthy = await s.run(workflow(isolated("add", config={"a": 1})))

    assert (poison.status, poison.nodes[handler].attempts) == ("FAILED", 3)
    assert (poison.error["code"], poison.error["type"]) == ("process_died", "ProcessDied")
    assert how in poison.error["message"]
    assert healthy.status == "COMPLETED"
