"""`minuet worker` as a real process: works on what others start, shares, drains, and says so."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest
from tools.services import Redis

from minuet.app.app import App
from minuet.cli.stores import command_line

from ..fault.processes import until
from ..programs import Program
from ..servers import postgres_url, redis_url
from .test_signals import HANG, HOLD, read_until, times_held

DOUBLE = """
name: double
nodes:
  - {id: first, type: noop}
  - {id: twice, handler: double, config: {number: 21}, dependencies: [first]}
"""

#: Each of the two waits for the other, so they end only if they run at the same time.
MEET = """
name: meet
nodes:
  - {id: one, handler: "meet:read"}
  - {id: two, handler: "meet:write"}
"""
MEET_HANDLERS = """
import os

def read():
    with open("meeting") as pipe:
        assert pipe.read() == "hello"
    return os.getpid()

def write():
    with open("meeting", "w") as pipe:
        pipe.write("hello")
    return os.getpid()
"""

ENDLESS = "name: endless\nnodes:\n  - {id: endless, handler: endless}\n"
ENDLESS_HANDLERS = """
import asyncio
import os
import sys

import minuet

@minuet.task
async def endless():
    if os.path.exists("enough"):
        return "done"
    print("held", file=sys.stderr, flush=True)
    await asyncio.Event().wait()
"""

HANDLERS = ("--handlers", "work_handlers.py")


def sqlite_url() -> str:
    return "sqlite:///shared.db"


def start_worker(spawn: Any, *arguments: str) -> Program:
    """A worker that has begun to work."""
    child: Program = spawn("worker", *arguments)
    read_until(child, "started on")
    return child


def stop(child: Program, finish: Any) -> Any:
    child.send_signal(signal.SIGTERM)
    return finish(child)


def wait_for_node(folder: Any, run_id: str, node: str) -> None:
    """Wait until the run's history says that the node is completed."""

    async def wait() -> None:
        async with App(str(folder.store), worker=False) as app, asyncio.timeout(60):
            async for _, _, event in app.follow(run_id):
                if getattr(event, "node", None) == node and "Completed" in type(event).__name__:
                    return

    asyncio.run(wait())


@pytest.mark.shows("H-01", "H-02", "I-11")
def test_a_worker_completes_the_runs_that_other_processes_start(
    folder: Any, minuet: Any, spawn: Any, finish: Any
) -> None:
    folder.write("double.yaml", DOUBLE)
    worker = start_worker(spawn, *HANDLERS)

    started = minuet("start", "double.yaml", "--json")
    waited = minuet("start", "double.yaml", "--wait", "--timeout", "60", "--json")
    wait_for_node(folder, started.json["run_id"], "twice")
    stopped = stop(worker, finish)

    assert started.code == waited.code == 0
    assert waited.json["output"] == {"twice": 42}
    assert minuet("runs", "show", started.json["run_id"], "--json").json["status"] == "COMPLETED"
    assert stopped.code == 0
    assert stopped.err.splitlines()[-1].endswith("nodes: 4 completed")
    assert minuet("doctor").code == 0


@pytest.mark.shows("U-19")
def test_a_worker_works_for_its_tenant_alone(folder: Any, spawn: Any, finish: Any) -> None:
    folder.write("double.yaml", DOUBLE)

    async def start_and_wait() -> tuple[str, str]:
        async with App(str(folder.store), worker=False) as app, asyncio.timeout(60):
            other = await app.start("double.yaml")
            own = await app.for_tenant("shop").start("double.yaml")
            worker = start_worker(spawn, *HANDLERS, "--tenant", "shop")
            done = await own.wait()
            stop(worker, finish)
            return done.status, (await other.get()).status

    assert asyncio.run(start_and_wait()) == ("COMPLETED", "RUNNING")


def fetch(url: str) -> str:
    with urllib.request.urlopen(url) as answer:
        return str(answer.read().decode())


@pytest.mark.shows("T-14")
def test_a_worker_serves_its_metrics(
    folder: Any, minuet: Any, spawn: Any, finish: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINUET_METRICS", "0")
    folder.write("double.yaml", DOUBLE)
    child: Program = spawn("worker", *HANDLERS, "--json")
    started = json.loads(child.stdout.readline())

    assert minuet("start", "double.yaml", "--wait", "--timeout", "60").code == 0

    # A worker counts what it has handed in as soon as it has the store's answer.
    counted = 'workflow_tokens_consumed_total{node_id="twice",workflow="double"} 1.0'
    until(lambda: counted in fetch(started["metrics"]), "the worker has counted its node")
    assert stop(child, finish).code == 0


@pytest.mark.shows("H-09", "H-11")
def test_a_worker_told_to_stop_hands_in_what_runs_and_takes_nothing_more(
    folder: Any, minuet: Any, spawn: Any, finish: Any, release: Any
) -> None:
    folder.write("hold.yaml", HOLD)
    run_id = minuet("start", "hold.yaml", "--json").json["run_id"]
    first = start_worker(spawn, *HANDLERS)
    read_until(first, "held")

    first.send_signal(signal.SIGTERM)
    read_until(first, "stopping: running handlers get up to 30 s")
    release()
    stopped = finish(first)
    between = minuet("runs", "show", run_id, "--json").json
    second = start_worker(spawn, *HANDLERS)
    wait_for_node(folder, run_id, "after")
    stop(second, finish)

    assert stopped.code == 0
    assert between["nodes"]["held"]["output"] == "released"
    assert between["nodes"]["after"]["status"] == "QUEUED"
    assert minuet("runs", "show", run_id, "--json").json["status"] == "COMPLETED"
    assert times_held(folder) == 1


@pytest.mark.shows("H-10")
def test_what_does_not_finish_in_time_is_given_back_unharmed(
    folder: Any, minuet: Any, spawn: Any, finish: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORKER_GRACEFUL_SHUTDOWN_TIMEOUT", "0.05")
    folder.write("endless.yaml", ENDLESS)
    folder.write("endless.py", ENDLESS_HANDLERS)
    run_id = minuet("start", "endless.yaml", "--json").json["run_id"]
    first = start_worker(spawn, "--handlers", "endless.py")
    read_until(first, "held")

    stopped = stop(first, finish)
    folder.write("enough", "")
    second = start_worker(spawn, "--handlers", "endless.py")
    wait_for_node(folder, run_id, "endless")
    stop(second, finish)

    assert stopped.code == 0
    assert "get up to 0.05 s to finish" in stopped.err
    assert stopped.err.splitlines()[-1].endswith("nodes: 1 released")
    result = minuet("runs", "show", run_id, "--json").json
    assert result["output"] == {"endless": "done"}
    assert result["nodes"]["endless"]["attempts"] == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_stops_at_once(
    folder: Any, minuet: Any, spawn: Any, finish: Any, number: int
) -> None:
    folder.write("hang.yaml", HANG)
    minuet("start", "hang.yaml")
    worker = start_worker(spawn, *HANDLERS)
    read_until(worker, "held")

    worker.send_signal(number)
    read_until(worker, "a second signal stops at once")
    worker.send_signal(number)

    assert finish(worker).code == 128 + number
    assert minuet("doctor").code == 0


@pytest.mark.shows("H-04")
@pytest.mark.parametrize("make_url", [sqlite_url, postgres_url, redis_url])
def test_two_workers_share_a_run(
    folder: Any, minuet: Any, spawn: Any, finish: Any, make_url: Callable[[], str]
) -> None:
    folder.write("meet.yaml", MEET)
    folder.write("meet.py", MEET_HANDLERS)
    os.mkfifo(folder.path / "meeting")
    store = ("--store", make_url())
    options = (*store, "--handlers", "meet.py", "--concurrency", "1")
    workers = [start_worker(spawn, *options) for _ in range(2)]

    met = minuet("start", "meet.yaml", "--wait", "--timeout", "60", "--json", *store).json
    ended = [stop(worker, finish) for worker in workers]

    assert met["status"] == "COMPLETED"
    assert {met["output"]["one"], met["output"]["two"]} == {worker.pid for worker in workers}
    assert all(done.err.splitlines()[-1].endswith("nodes: 1 completed") for done in ended)
    assert minuet("doctor", *store).code == 0


def test_nodes_whose_handlers_a_worker_lacks_are_left_to_others(
    folder: Any, minuet: Any, spawn: Any, finish: Any
) -> None:
    folder.write("double.yaml", DOUBLE)
    run_id = minuet("start", "double.yaml", "--json").json["run_id"]
    without = start_worker(spawn)
    wait_for_node(folder, run_id, "first")
    left = stop(without, finish)
    between = minuet("runs", "show", run_id, "--json").json["nodes"]["twice"]

    having = start_worker(spawn, *HANDLERS)
    wait_for_node(folder, run_id, "twice")
    stop(having, finish)

    assert left.err.splitlines()[-1].endswith("nodes: 1 completed")
    assert between["status"] == "QUEUED"
    assert minuet("runs", "show", run_id, "--json").json["output"] == {"twice": 42}


def test_a_worker_says_what_waits_for_others(
    folder: Any, minuet: Any, spawn: Any, finish: Any
) -> None:
    folder.write("hang.yaml", HANG)
    minuet("start", "hang.yaml")

    worker = start_worker(spawn)
    read_until(worker, "waiting for other workers: task:hang")

    assert stop(worker, finish).err.splitlines()[-1].endswith("no nodes")


@pytest.mark.shows("H-22")
def test_a_worker_with_queues_takes_from_these_alone(
    folder: Any, minuet: Any, spawn: Any, finish: Any
) -> None:
    folder.write("double.yaml", DOUBLE)
    folder.write("special.yaml", f"{DOUBLE}defaults: {{queue: special}}\n")
    common = minuet("start", "double.yaml", "--json").json["run_id"]
    special = minuet("start", "special.yaml", "--json").json["run_id"]

    worker = start_worker(spawn, "--queues", "special", *HANDLERS)
    wait_for_node(folder, special, "twice")
    wait_for_node(folder, common, "first")
    stop(worker, finish)

    assert minuet("runs", "show", special, "--json").json["output"] == {"twice": 42}
    assert minuet("runs", "show", common, "--json").json["nodes"]["twice"]["status"] == "QUEUED"


@pytest.mark.shows("S-10", "S-13", "S-14", "S-15", "S-48")
def test_with_json_every_line_is_an_object(folder: Any, spawn: Any, finish: Any) -> None:
    worker = spawn("worker", "--json", *HANDLERS)
    started = json.loads(worker.stdout.readline())

    lines = [json.loads(line) for line in stop(worker, finish).out.splitlines()]

    assert started["event"] == "started"
    assert started["concurrency"] == 4
    assert started["lease_seconds"] == 30
    assert {"task:input", "task:output", "task:double"} <= set(started["queues"])
    assert [line["event"] for line in lines] == ["stopping", "stopped"]
    assert lines[0]["drain_seconds"] == 30
    assert lines[1]["completed"] == 0


@pytest.mark.shows("H-38")
def test_a_worker_whose_store_goes_away_says_so_once_and_goes_on_when_it_is_back(
    folder: Any, minuet: Any, spawn: Any, finish: Any
) -> None:
    folder.write("double.yaml", DOUBLE)
    server = Redis(folder.path / "redis")
    server.start()
    try:
        store = ("--store", server.url)
        worker = start_worker(spawn, *store, *HANDLERS)

        server.kill()
        away = read_until(worker, "the store is not available")
        server.start()
        back = read_until(worker, "the store is back")
        waited = minuet("start", "double.yaml", "--wait", "--timeout", "60", "--json", *store)
        stopped = stop(worker, finish)
    finally:
        server.kill()

    assert (away + back + stopped.err).count("not available") == 1
    assert waited.json["output"] == {"twice": 42}
    assert stopped.code == 0


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["worker", "--store", "memory://"], "a worker finds nothing in it"),
        (["start", "w.yaml", "--store", "memory://"], "no worker would find the run"),
        (["worker", "--store", "sqlite:///none/x.db"], "does not exist"),
        (["worker", "--store", "postgresql://u:hunter2@127.0.0.1:1/x"], "cannot be reached"),
        (["worker", "--store", "redis://:hunter2@127.0.0.1:1/0"], "does not answer"),
        (["worker", "--handlers", "none.py"], "there is no file 'none.py'"),
        (["start"], "minuet start: missing argument: WORKFLOW"),
    ],
)
def test_what_is_wrong_is_one_sentence(
    folder: Any, minuet: Any, arguments: list[str], told: str
) -> None:
    folder.write("w.yaml", DOUBLE)

    called = minuet(*arguments)

    assert called.code == 2
    assert told in called.err
    assert "Traceback" not in called.err
    assert "hunter2" not in called.err
    assert not folder.store.exists()


def test_starting_again_with_the_same_key_gives_the_same_run(folder: Any, minuet: Any) -> None:
    folder.write("double.yaml", DOUBLE)

    first, second, other = [
        minuet("start", "double.yaml", "--idempotency-key", key).out for key in ("a", "a", "b")
    ]

    assert first == second != other


def test_who_waits_for_too_long_is_told_that_the_run_goes_on(folder: Any, minuet: Any) -> None:
    folder.write("double.yaml", DOUBLE)

    called = minuet("start", "double.yaml", "--wait", "--timeout", "0.01", "--json")

    assert called.code == 3
    assert called.json["status"] == "RUNNING"
    assert called.json["error"]["code"] == "run-timeout"


@pytest.mark.parametrize(
    ("url", "library", "extra"),
    [("postgresql://x/y", "asyncpg", "postgres"), ("redis://x", "redis", "redis")],
)
def test_a_store_whose_library_is_missing_says_how_to_get_it(
    minuet: Any, monkeypatch: pytest.MonkeyPatch, url: str, library: str, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, library, None)

    called = minuet("worker", "--store", url)

    assert called.code == 2
    assert called.err == f"minuet: this store needs {library}: pip install 'minuet[{extra}]'\n"


def test_a_command_to_be_pasted_never_holds_a_password(monkeypatch: pytest.MonkeyPatch) -> None:
    url = "postgresql://ann:hunter2@db/runs"

    elsewhere = command_line(url, "resume", "7")
    monkeypatch.setenv("MINUET_STORE", url)
    here = command_line(url, "resume", "7")

    assert elsewhere == "minuet resume 7 --store 'postgresql://ann:***@db/runs'"
    assert here == "minuet resume 7"
