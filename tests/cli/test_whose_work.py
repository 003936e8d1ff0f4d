"""Which runs a command works on, and commands that are printed to be pasted into a shell."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .conftest import HANDLERS
from .test_signals import HOLD, read_until

LOAD = "name: {name}\nnodes:\n  - {{id: load, handler: load}}\n"
LOADER = """
import minuet

@minuet.task
def load():
    return "{name}"
"""
POISON = """
import os
import minuet

@minuet.task
def take():
    os._exit(7)

@minuet.task
def good():
    return "good"
"""
#: The last node stays open until the file `go` is there.
TWO = """
name: two
nodes:
  - {id: first, handler: first}
  - {id: second, handler: second, dependencies: [first], retry: 1}
"""
FIRST = "import minuet\n\n@minuet.task\ndef first():\n    return 1\n"
SECOND = """
import os
import minuet

@minuet.task
def second():
    if not os.path.exists("go"):
        raise ValueError("not yet")
    return 2
"""


def in_shell(folder: Any, command: str) -> subprocess.CompletedProcess[str]:
    """Paste a command into a shell that has `minuet`."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    kept = {key: value for key, value in os.environ.items() if key != "MINUET_STORE"}
    return subprocess.run(
        ["sh", "-c", command],
        cwd=folder.path,
        env={**kept, "PATH": path},
        capture_output=True,
        text=True,
        timeout=60,
    )


def printed(text: str) -> str:
    """The `minuet …` command that a text ends its last such line with."""
    found = re.findall(r": (minuet .*)", text)
    assert found, text
    return str(found[-1])


def test_a_run_leaves_other_runs_to_whom_they_belong(
    folder: Any, minuet: Any, spawn: Any, finish: Any
) -> None:
    for name in ("a", "b"):
        folder.write(f"{name}.yaml", LOAD.format(name=name))
        folder.write(f"{name}.py", LOADER.format(name=name))
    left = minuet("start", "a.yaml", "--json").json["run_id"]

    done = finish(spawn("run", "b.yaml", "--json"))
    kept = minuet("runs", "show", left, "--json").json
    resumed = finish(spawn("resume", "--handlers", "a.py", "--json"))

    assert done.json["output"] == {"load": "b"}
    assert "1 other run is open and is left alone; go on with: minuet resume\n" in done.err
    assert (kept["status"], kept["nodes"]["load"]["attempts"]) == ("RUNNING", 0)
    assert resumed.json["output"] == {"load": "a"}


def test_a_run_that_kills_its_worker_does_not_kill_others(
    folder: Any, minuet: Any, spawn: Any, finish: Any
) -> None:
    folder.write("h.py", POISON)
    folder.write("poison.yaml", "name: poison\nnodes:\n  - {id: n, handler: take}\n")
    folder.write("good.yaml", "name: good\nnodes:\n  - {id: n, handler: good}\n")
    minuet("start", "poison.yaml")

    done = finish(spawn("run", "good.yaml", "--handlers", "h.py", "--json"))
    poisoned = finish(spawn("resume", "--handlers", "h.py"))

    assert (done.code, done.json["output"]) == (0, {"n": "good"})
    assert poisoned.code == 7


def test_resume_works_on_the_runs_that_are_named_or_on_all(
    folder: Any, minuet: Any, spawn: Any, finish: Any
) -> None:
    folder.write("a.yaml", LOAD.format(name="a"))
    folder.write("a.py", LOADER.format(name="a"))
    runs = [minuet("start", "a.yaml", "--json").json["run_id"] for _ in range(4)]

    named = finish(spawn("resume", runs[2], runs[0], "--handlers", "a.py", "--json"))
    statuses = [minuet("runs", "show", run, "--json").json["status"] for run in runs]
    every = finish(spawn("resume", "--handlers", "a.py", "--json"))

    assert [record["run_id"] for record in named.json] == [runs[2], runs[0]]
    assert statuses == ["COMPLETED", "RUNNING", "COMPLETED", "RUNNING"]
    assert sorted(record["run_id"] for record in every.json) == [runs[1], runs[3]]


def test_the_handlers_of_nodes_that_are_done_are_not_needed(
    folder: Any, spawn: Any, finish: Any
) -> None:
    folder.write("two.yaml", TWO)
    folder.write("first.py", FIRST)
    folder.write("second.py", SECOND)
    failed = finish(
        spawn("run", "two.yaml", "--handlers", "first.py", "--handlers", "second.py", "--json")
    )
    run = failed.json["run_id"]
    finish(spawn("runs", "retry", run))
    folder.write("go", "")

    lacking = finish(spawn("resume", run, "--handlers", "first.py"))
    done = finish(spawn("resume", run, "--handlers", "second.py", "--json"))

    assert lacking.code == 2
    assert "needs the handler 'second', which is not here" in lacking.err
    assert (done.code, done.json["output"]) == (0, {"second": 2})


@pytest.mark.parametrize("how", ["beside", "named"])
def test_the_command_printed_after_ctrl_c_works(
    folder: Any, spawn: Any, finish: Any, release: Any, how: str
) -> None:
    name = "it's mine.py" if how == "named" else "hold.py"
    folder.write("hold.yaml", HOLD)
    folder.write(name, HANDLERS)
    options = () if how == "beside" else ("--handlers", name, "--store", "sqlite:///a b's.db")
    child = spawn("run", "hold.yaml", *options)
    read_until(child, "held")

    child.send_signal(signal.SIGINT)
    read_until(child, "Stopping")
    release()
    stopped = finish(child)
    done = in_shell(folder, f"{printed(stopped.err)} --json")

    assert stopped.code == 130
    assert done.returncode == 0, done.stderr
    assert '"after": 42' in done.stdout


def test_a_killed_run_is_gone_on_with_by_the_command_that_resume_prints(
    folder: Any, spawn: Any, finish: Any, release: Any
) -> None:
    folder.write("hold.yaml", HOLD)
    folder.write("hold.py", HANDLERS)
    child = spawn("run", "hold.yaml", "--lease", "1")
    read_until(child, "held")

    child.kill()
    finish(child)
    refused = in_shell(folder, "minuet resume")
    resumed = spawn(*shlex.split(printed(refused.stderr))[1:], "--json")
    read_until(resumed, "held")
    release()
    done = finish(resumed)

    assert refused.returncode == 2
    assert "needs the handler 'hold', which is not here" in refused.stderr
    assert done.json["output"] == {"after": 42}


def test_the_commands_printed_after_a_failure_work(folder: Any, spawn: Any, finish: Any) -> None:
    folder.write("two.yaml", TWO)
    folder.write("my handlers.py", FIRST + SECOND)
    store = "sqlite:///my runs.db"
    failed = finish(spawn("run", "two.yaml", "--handlers", "my handlers.py", "--store", store))
    folder.write("go", "")

    retried = in_shell(folder, printed(failed.err))
    done = in_shell(folder, f"{printed(retried.stdout)} --json")

    assert failed.code == 1
    assert retried.returncode == 0, retried.stderr
    assert done.returncode == 0, done.stderr
    assert '"second": 2' in done.stdout
