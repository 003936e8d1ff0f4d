"""`minuet dev`: server and worker in one process, which follows changes of files."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import httpx2

from .test_server_command import Spawn, read_event, spawn

__all__ = ["spawn"]

WORKFLOW = """\
name: greeting
nodes:
  - id: greet
    handler: greet
    config: {name: "{{ input.name }}"}
output: "{{ greet.output }}"
"""

HANDLERS = """\
import minuet

@minuet.task
def greet(name: str) -> str:
    return f"WORD {name}"
"""


def run_it(url: str, **more: Any) -> Any:
    body = {"workflow": "greeting", "inputs": {"name": "Ada"}, **more}
    run = httpx2.post(f"{url}/runs", json=body).json()["run_id"]
    while True:
        found = httpx2.get(f"{url}/runs/{run}").json()
        if found["status"] in ("COMPLETED", "FAILED"):
            return found


def replace(path: Path, text: str) -> None:
    """Write a file in one step, so that nobody sees a half of it."""
    path.with_suffix(".new").write_text(text)
    path.with_suffix(".new").replace(path)


def test_files_are_deployed_and_followed(spawn: Spawn, tmp_path: Path) -> None:
    workflow, handlers = tmp_path / "greeting.yaml", tmp_path / "greeting.py"
    workflow.write_text(WORKFLOW)
    handlers.write_text(HANDLERS.replace("WORD", "Hello"))
    dev = spawn("dev", "greeting.yaml", "--port", "0", "--json", "--no-open")
    url = read_event(dev, "started")["url"]
    first = read_event(dev, "deployed")
    hello = run_it(url)

    replace(handlers, HANDLERS.replace("WORD", "Howdy"))
    read_event(dev, "loaded")
    howdy = run_it(url)

    replace(workflow, WORKFLOW.replace("nodes:", "nodes: ["))
    broken = read_event(dev, "broken")
    same = run_it(url)

    replace(workflow, WORKFLOW + "description: better\n")
    second = read_event(dev, "deployed")

    replace(handlers, "import nothing_like_this\n")
    unloaded = read_event(dev, "broken")
    still = run_it(url)
    dev.send_signal(signal.SIGINT)
    code = dev.wait(60)

    assert [one["version"] for one in (first, second)] == [1, 2]
    assert [one["output"] for one in (hello, howdy, same, still)] == [
        *("Hello Ada", "Howdy Ada", "Howdy Ada", "Howdy Ada")
    ]
    assert (broken["file"], unloaded["file"]) == ("greeting.yaml", "greeting.py")
    assert still["version"] == 2
    assert code == 0


def test_a_workflow_in_python_is_deployed(spawn: Spawn, tmp_path: Path) -> None:
    (tmp_path / "flow.py").write_text(
        "import minuet\n\n"
        "@minuet.task\nasync def shout(name: str) -> str:\n    return name.upper()\n\n"
        "@minuet.workflow\nasync def greeting(ctx: minuet.Flow, name: str) -> str:\n"
        "    return await shout(name)\n"
    )
    dev = spawn("dev", "flow.py", "--port", "0", "--json", "--store", "memory://")
    url = read_event(dev, "started")["url"]
    deployed = read_event(dev, "deployed")
    found = run_it(url)
    dev.send_signal(signal.SIGTERM)
    out = dev.communicate(timeout=60)[0]

    assert (deployed["workflow"], found["output"]) == ("greeting", "ADA")
    assert [json.loads(line)["event"] for line in out.splitlines()] == ["stopping", "stopped"]
