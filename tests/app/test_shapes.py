"""The JSON that programs read has the fields that were promised."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from minuet.app import shapes
from minuet.app.app import App
from minuet.app.workers import WorkerView
from minuet.errors import (
    DocumentError,
    InputError,
    MinuetError,
    RunConflictError,
    RunNotFoundError,
)
from minuet.outcomes import OUTCOMES

LOOP = {
    "name": "loop",
    "nodes": [
        {
            "id": "count",
            "type": "transform",
            "config": {"value": {"n": "{{ iteration }}"}},
            "loop": {"while": "output.n < 2", "max_iterations": 5},
        },
    ],
}

MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")

#: By what it is: the fields that programs may rely on.
RUN = {
    *("run_id", "workflow", "version", "tag", "plan", "status", "input", "output", "error"),
    *("nodes", "counter", "seq", "generation", "tags", "parent", "deadline_at", "dlq_count"),
    *("created_at", "started_at", "ended_at", "last_event_at", "duration_ms"),
}
NODE = {"status", "output", "attempts", "error", "started_at", "ended_at", "instances"}
EVENT = {"seq", "type", "at", "data", "cause"}
PROBLEM = {"type", "title", "status", "detail", "code", "instance"}
WORKER = {
    *("id", "name", "host", "pid", "version", "status", "concurrency", "busy", "queues"),
    *("executors", "capabilities", "last_seen_at"),
}


async def test_a_run_has_its_fields_and_times_are_written_for_everybody() -> None:
    async with App("memory://") as app:
        run = await app.start(LOOP, {"a": 1}, tags={"t": 1})
        result = await run.result(timeout=60)
        shape = shapes.run(await run.get(), result, await app.runs.instances(run))

    assert shape.keys() >= RUN
    assert (shape["input"], shape["tags"], shape["output"]) == ({"a": 1}, {"t": 1}, result.output)
    assert shape["nodes"].keys() == {"count"}
    assert shape["nodes"]["count"].keys() >= NODE
    assert shape["nodes"]["count"]["instances"] == 3
    assert list(shape["instances"]) == ["count[0]", "count[1]", "count[2]"]
    times = [shape[name] for name in ("created_at", "started_at", "ended_at", "last_event_at")]
    assert all(MOMENT.fullmatch(time) for time in times)
    assert times == sorted(times)
    assert shape["deadline_at"] is None
    json.dumps(shape, allow_nan=False)


async def test_the_row_of_a_run_says_the_same_as_its_history() -> None:
    async with App("memory://") as app:
        run = await app.start(LOOP)
        result = await run.result(timeout=60)
        row = shapes.row(await run.get())
        whole = shapes.run(await run.get(), result)

    assert {name: whole[name] for name in row} == row


async def test_events_have_their_data_and_what_led_to_them() -> None:
    async with App("memory://") as app:
        run = await app.start(LOOP)
        await run.result(timeout=60)
        events = await run.events()
        late = await run.events(after=3)
        causes = await app.runs.causes(run)

    assert all(event.keys() == EVENT for event in events)
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert {event["seq"]: event["cause"] for event in events} == causes
    assert late == events[3:]
    assert events[2]["data"]["node"] == "count"
    assert all(MOMENT.fullmatch(event["at"]) for event in events)


def view(**fields: Any) -> WorkerView:
    usual: dict[str, Any] = {
        "id": "w",
        "name": "n",
        "status": "healthy",
        "draining": False,
        "silent_ms": 5,
        "registered_ms": 0,
        "heartbeat_ms": 1_700_000_000_123,
        "host": "h",
        "pid": 7,
        "version": "1",
        "session": "s",
        "concurrency": 4,
        "running": 2,
        "queues": ("q",),
        "executors": ("e",),
        "capabilities": {"gpu": 1},
    }
    return WorkerView(**{**usual, **fields})


@pytest.mark.parametrize(
    ("status", "draining", "expected"),
    [
        ("healthy", False, "healthy"),
        ("healthy", True, "draining"),
        ("stale", True, "stale"),
        ("dead", True, "dead"),
    ],
)
def test_a_worker_has_its_fields_and_one_status(status: str, draining: bool, expected: str) -> None:
    shape = shapes.worker(view(status=status, draining=draining))

    assert shape.keys() >= WORKER
    assert (shape["status"], shape["draining"], shape["busy"]) == (expected, draining, 2)
    assert shape["last_seen_at"] == "2023-11-14T22:13:20.123Z"


@pytest.mark.parametrize("at_ms", [0, 999, 1_700_000_000_123, 4_102_444_800_000])
def test_a_moment_keeps_its_milliseconds(at_ms: int) -> None:
    written = shapes.moment(at_ms)

    assert written is not None
    assert MOMENT.fullmatch(written)
    assert written.endswith(f".{at_ms % 1000:03d}Z")
    assert shapes.moment(None) is None


async def test_a_problem_says_what_it_is_and_how_it_is_answered() -> None:
    async with App("memory://", worker=False) as app:
        with pytest.raises(DocumentError) as broken:
            app.workflows.compile({"name": "x", "nodes": [{"id": "a", "handler": "h", "typ": 1}]})
    found: list[MinuetError] = [
        broken.value,
        InputError(["a is missing"]),
        RunNotFoundError("r"),
        RunConflictError("r", "is over", status="COMPLETED", seq=4),
    ]

    problems = [shapes.problem(error, instance="/runs/r") for error in found]

    assert all(problem.keys() >= PROBLEM for problem in problems)
    assert [problem["status"] for problem in problems] == [422, 422, 404, 409]
    for error, problem in zip(found, problems, strict=True):
        assert (problem["code"], problem["title"]) == (error.code, OUTCOMES[type(error)].title)
    (diagnostic,) = problems[0]["diagnostics"]
    assert {"path", "line", "column", "code", "message", "hint"} <= diagnostic.keys()
    assert problems[1]["problems"] == ["a is missing"]
    assert (problems[3]["run_status"], problems[3]["seq"]) == ("COMPLETED", 4)
