"""Processes that are asked to stop, or killed: what they leave can be gone on with."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from ..programs import Program

HOLD = """
name: hold
nodes:
  - {id: before, handler: double, config: {number: 21}}
  - {id: held, handler: hold, dependencies: [before]}
  - {id: after, type: transform, config: {value: "{{ before.output }}"}, dependencies: [held]}
"""
HANG = "name: hang\nnodes:\n  - {id: stuck, handler: hang}\n"


def read_until(child: Program, text: str) -> str:
    """Read the child's progress up to a line that contains the text."""
    seen = ""
    for line in child.stderr:
        seen += line
        if text in line:
            return seen
    raise AssertionError(f"{text!r} did not come: {seen}")


def times_held(folder: Any) -> int:
    return int((folder.path / "held").read_text().count("held"))


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_drains_says_how_to_go_on_and_resume_completes(
    folder: Any, minuet: Any, spawn: Any, finish: Any, release: Any, number: int, code: int
) -> None:
    folder.write("hold.yaml", HOLD)
    child = spawn("run", "hold.yaml", "--handlers", "work_handlers.py", "--json")
    read_until(child, "held")

    child.send_signal(number)
    told = read_until(child, "Stopping")
    release()
    stopped = finish(child)
    resumed = minuet("resume", "--handlers", "work_handlers.py", "--json")

    assert "Ctrl-C again stops at once" in told
    assert stopped.code == code
    record = stopped.json
    assert record["status"] == "RUNNING"
    assert record["error"]["code"] == "interrupted"
    # The handler that was running was given the time to finish, and its result was kept.
    assert record["nodes"]["held"]["output"] == "released"
    assert f"minuet resume {record['run_id']} --handlers work_handlers.py\n" in stopped.err
    assert resumed.code == 0
    assert resumed.json["output"] == {"after": 42}
    assert resumed.json["nodes"]["held"]["attempts"] == 1
    assert times_held(folder) == 1


def test_a_second_ctrl_c_exits_at_once_even_if_a_handler_hangs(
    folder: Any, minuet: Any, spawn: Any, finish: Any
) -> None:
    folder.write("hang.yaml", HANG)
    child = spawn("run", "hang.yaml", "--handlers", "work_handlers.py")
    read_until(child, "held")

    child.send_signal(signal.SIGINT)
    read_until(child, "Stopping")
    child.send_signal(signal.SIGINT)

    assert finish(child).code == 130
    assert minuet("doctor").code == 0


#: Handlers that do not stop when they are asked to, each in its own way.
STUBBORN = """
import asyncio
import sys
import threading
import time

import minuet


def announce():
    print("held", file=sys.stderr, flush=True)


@minuet.task
async def swallows():
    announce()
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            pass


@minuet.task
async def blocks():
    announce()
    time.sleep(3600)


@minuet.task
def thread():
    announce()
    threading.Event().wait()


@minuet.task
async def helper():
    announce()
    await asyncio.to_thread(threading.Event().wait)


@minuet.task
async def own_thread():
    threading.Thread(target=threading.Event().wait).start()
    announce()
    await asyncio.sleep(3600)
"""
WAYS = ("swallows", "blocks", "thread", "helper", "own_thread")


@pytest.fixture
def stubborn(folder: Any, minuet: Any, spawn: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Start a command whose one handler does not stop; it gets hardly any time to."""
    monkeypatch.setenv("WORKER_GRACEFUL_SHUTDOWN_TIMEOUT", "0.1")
    folder.write("stubborn_handlers.py", STUBBORN)

    def start(command: str, way: str) -> Program:
        folder.write("s.yaml", f"name: s\nnodes:\n  - {{id: stuck, handler: {way}}}\n")
        options = ("--handlers", "stubborn_handlers.py")
        if command == "worker":
            assert minuet("start", "s.yaml").code == 0
            child = spawn("worker", *options)
        else:
            child = spawn("run", "s.yaml", *options)
        read_until(child, "held")
        return child  # type: ignore[no-any-return]

    return start


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_a_worker_ends_after_its_grace_time_whatever_its_handlers_do(
    stubborn: Any, finish: Any, minuet: Any, way: str
) -> None:
    child = stubborn("worker", way)

    child.send_signal(signal.SIGTERM)
    ended = finish(child)

    assert ended.code in (0, 143)
    if way not in ("helper", "own_thread"):
        # The handlers of these do stop; only what they have made does not.
        assert "still running: stuck of run " in ended.err
    assert minuet("doctor").code == 0


@pytest.mark.parametrize("command", ["worker", "run"])
@pytest.mark.parametrize("way", WAYS)
def test_a_second_signal_ends_a_process_at_once_whatever_its_handlers_do(
    stubborn: Any, finish: Any, minuet: Any, command: str, way: str
) -> None:
    child = stubborn(command, way)

    child.send_signal(signal.SIGINT)
    read_until(child, "topping")
    child.send_signal(signal.SIGINT)
    ended = finish(child)

    assert ended.code == 130
    assert "stopped at once" in ended.err
    assert minuet("doctor").code == 0


@pytest.mark.shows("Y-37", "Y-42")
def test_a_killed_run_is_gone_on_with_by_another_process(
    folder: Any, minuet: Any, spawn: Any, finish: Any, release: Any
) -> None:
    folder.write("hold.yaml", HOLD)
    options = ("--handlers", "work_handlers.py", "--lease", "1")
    child = spawn("run", "hold.yaml", *options)
    read_until(child, "held")

    child.kill()
    killed = finish(child)
    run_id = minuet("runs", "list", "--json").json[0]["run_id"]
    second = spawn("resume", *options, "--json")
    release()
    resumed = finish(second)

    assert killed.code == -signal.SIGKILL
    assert resumed.code == 0
    assert resumed.json["run_id"] == run_id
    assert resumed.json["output"] == {"after": 42}
    history = minuet("runs", "events", run_id, "--json").json
    completed = [event["data"]["node"] for event in history if event["type"] == "node.completed"]
    # The node that was running is run again, as the same attempt; what was done is not.
    assert completed == ["before", "held", "after"]
    assert resumed.json["nodes"]["held"]["attempts"] == 1
    assert times_held(folder) == 2
    assert minuet("doctor").code == 0


def test_output_that_nobody_reads_on_is_no_error(folder: Any, spawn: Any) -> None:
    child = spawn("node-types", "--json")

    child.stdout.close()

    assert child.wait(timeout=60) == 0
    assert child.stderr.read() == ""
