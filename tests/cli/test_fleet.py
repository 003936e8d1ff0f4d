"""`minuet workers` and `minuet queues`, and workers of different kinds as real processes."""

from __future__ import annotations

import time
from typing import Any

import pytest

from ..programs import Program
from .test_signals import HOLD, read_until
from .test_worker import HANDLERS, start_worker, stop

GPU = """
name: gpu
nodes:
  - id: twice
    handler: double
    config: {number: 21}
    placement_constraints: {requires_capabilities: {gpu: 1, labels: [ssd]}}
"""

PATIENCE_S = 60.0


def until(ask: Any, holds: Any) -> Any:
    """Ask until the answer is as wanted."""
    end = time.monotonic() + PATIENCE_S
    while True:
        answer = ask()
        if holds(answer):
            return answer
        assert time.monotonic() < end, answer


def workers(minuet: Any) -> list[Any]:
    called = minuet("workers", "list", "--json")
    # Without a store there is nobody.
    return called.json if called.code == 0 else []


def node_status(minuet: Any, run_id: str, node: str) -> str:
    return minuet("runs", "show", run_id, "--json").json["nodes"][node]["status"]  # type: ignore[no-any-return]


def hire(minuet: Any, spawn: Any, *arguments: str) -> Program:
    """A worker that is on the list."""
    before = len(workers(minuet))
    child = start_worker(spawn, *HANDLERS, *arguments)
    until(lambda: workers(minuet), lambda found: len(found) > before)
    return child


@pytest.mark.shows("H-25", "S-46", "S-52", "W-11")
def test_nodes_go_to_the_workers_that_may_run_them_and_who_looks_is_told(
    folder: Any, minuet: Any, spawn: Any, finish: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.write("gpu.yaml", GPU)
    run_id = minuet("start", "gpu.yaml", "--json").json["run_id"]

    assert "nobody" in minuet("queues").out
    assert minuet("runs", "why", run_id, "twice").out.startswith(
        "'twice' is queued, and no registered worker serves the queue 'task:double': "
        "it needs gpu ≥ 1, labels with ssd; no worker is registered"
    )
    assert "No worker is registered" in minuet("workers", "list").out

    plain = hire(minuet, spawn, "--name", "plain")
    why = minuet("runs", "why", run_id, "twice")
    (queue,) = minuet("queues", "--json").json
    assert "1 worker is known, and does not qualify" in why.out
    assert (queue["queue"], queue["ready"], queue["running"]) == ("task:double", 1, 0)
    assert (queue["needs"], queue["served_by"]) == ("gpu ≥ 1, labels with ssd", [])
    assert (queue["workflow"], queue["node"], queue["limit"]) == ("gpu", "twice", 1)

    # A worker is added by configuration alone.
    monkeypatch.setenv("MINUET_WORKER_NAME", "gpu-1")
    monkeypatch.setenv("MINUET_WORKER_CAPABILITIES", "gpu=2, zone=eu")
    monkeypatch.setenv("MINUET_WORKER_LABELS", "ssd,fast")
    monkeypatch.setenv("MINUET_WORKER_EXECUTORS", "docker_executor")
    gpu = hire(minuet, spawn)
    result = until(
        lambda: minuet("runs", "show", run_id, "--json").json,
        lambda shown: shown["status"] != "RUNNING",
    )
    listed = {worker["name"]: worker for worker in workers(minuet)}
    table = minuet("workers", "list").out

    assert result["output"] == {"twice": 42}
    assert (
        listed["gpu-1"]["capabilities"].items()
        >= {
            "gpu": 2,
            "zone": "eu",
            "labels": ["fast", "ssd"],
        }.items()
    )
    assert "docker_executor" in listed["gpu-1"]["executors"]
    assert listed["plain"]["capabilities"].keys() == {"cpu_cores", "memory_gb"}
    assert {worker["status"] for worker in listed.values()} == {"healthy"}
    assert (listed["gpu-1"]["pid"], listed["plain"]["pid"]) == (gpu.pid, plain.pid)
    assert "gpu=2 labels=fast,ssd" in table
    assert stop(gpu, finish).code == stop(plain, finish).code == 0
    assert workers(minuet) == []


@pytest.mark.shows("H-26")
def test_a_drained_worker_finishes_what_it_has_and_exits_with_0(
    folder: Any, minuet: Any, spawn: Any, finish: Any, release: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.write("hold.yaml", HOLD)
    monkeypatch.setenv("WORKER_HEARTBEAT_INTERVAL", "0.1")
    worker = hire(minuet, spawn, "--name", "one")
    run_id = minuet("start", "hold.yaml", "--json").json["run_id"]
    read_until(worker, "held")

    asked = minuet("workers", "drain", "one")
    read_until(worker, "asked to drain")
    (listed,) = until(lambda: workers(minuet), lambda found: found[0]["draining"])
    late = minuet("start", "hold.yaml", "--json").json["run_id"]
    early = minuet("workers", "drain", "one", "--wait", "--timeout", "0.1", "--json")
    release()
    stopped = finish(worker)

    assert (asked.code, early.code) == (0, 3)
    assert "takes nothing more after its next heartbeat" in asked.err
    assert (listed["name"], listed["busy"]) == ("one", 1)
    assert early.json["ended"] is False
    assert stopped.code == 0
    assert node_status(minuet, run_id, "held") == "COMPLETED"
    assert node_status(minuet, late, "before") == "QUEUED"
    assert workers(minuet) == []


def test_drain_waits_for_the_end_of_the_worker(
    folder: Any, minuet: Any, spawn: Any, finish: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORKER_HEARTBEAT_INTERVAL", "0.1")
    worker = hire(minuet, spawn, "--name", "one")
    (listed,) = workers(minuet)

    drained = minuet("workers", "drain", listed["id"][:8], "--wait", "--json")

    assert drained.json == {"id": listed["id"], "name": "one", "draining": True, "ended": True}
    assert finish(worker).code == 0


def test_a_worker_that_is_not_there_or_not_the_only_one_is_not_drained(
    folder: Any, minuet: Any, spawn: Any, finish: Any
) -> None:
    children = [hire(minuet, spawn, "--name", "same") for _ in range(2)]

    absent = minuet("workers", "drain", "other")
    several = minuet("workers", "drain", "same")

    assert (absent.code, several.code) == (2, 2)
    assert "there is no worker 'other'; known are: same" in absent.err
    for listed in workers(minuet):
        assert listed["id"] in several.err
        assert listed["draining"] is False
    assert [stop(child, finish).code for child in children] == [0, 0]


def test_a_capability_that_makes_no_sense_is_refused(folder: Any, minuet: Any) -> None:
    called = minuet("worker", "--capability", "gpu")

    assert called.code == 2
    assert "a capability is written KEY=VALUE, such as gpu=1, not 'gpu'" in called.err


def test_run_says_what_its_own_worker_lacks(folder: Any, minuet: Any) -> None:
    folder.write("gpu.yaml", GPU)

    lacking = minuet("run", "gpu.yaml", *HANDLERS, "--label", "ssd", "--timeout", "0.1")
    enough = minuet("run", "gpu.yaml", *HANDLERS, "--label", "ssd", "--capability", "gpu=1")

    assert lacking.code == 3
    assert "node twice waits for another worker: this one lacks gpu ≥ 1" in lacking.err
    assert enough.code == 0
    assert "lacks" not in enough.err
