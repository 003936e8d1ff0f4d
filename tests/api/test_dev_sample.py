"""`minuet dev` without files: a sample that fails once, asks, and survives a killed worker."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import httpx2
import pytest

from .conftest import Serve
from .test_server_command import Spawn, read_event, spawn

__all__ = ["spawn"]


def get(url: str, path: str) -> Any:
    return httpx2.get(f"{url}/api/v1{path}").raise_for_status().json()


def post(url: str, path: str, body: Any = None) -> Any:
    return httpx2.post(f"{url}/api/v1{path}", json=body).raise_for_status().json()


def wait_until_ended(url: str, run: str) -> None:
    events = f"{url}/api/v1/runs/{run}/events"
    accept = {"Accept": "text/event-stream"}
    with httpx2.stream("GET", events, headers=accept, timeout=60) as stream:
        for _ in stream.iter_lines():
            pass


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # One that nobody has waited for is not alive.
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
def test_the_first_minute(spawn: Spawn, tmp_path: Path) -> None:
    dev = spawn("dev", "--port", "0", "--json", "--no-open")
    url = read_event(dev, "started")["url"]
    run = read_event(dev, "sample")["run_id"]

    while not (asked := get(url, f"/approvals?run_id={run}")["items"]):
        pass
    charged = get(url, f"/runs/{run}/nodes/charge/attempts")
    post(url, f"/approvals/{asked[0]['id']}/decide", {"decision": "approve"})
    while not (
        held := [x for x in get(url, "/leases")["items"] if x["node"] == "pack" and x["scope"]]
    ):
        pass
    pid = post(url, "/dev/kill-worker")["pid"]
    wait_until_ended(url, run)
    ended = get(url, f"/runs/{run}")
    first = get(url, f"/runs/{run}/nodes/pack[{held[0]['scope'][0]}]/attempts")
    sample = get(url, "/dev")["sample"]
    again = sample["pid"]
    dev.send_signal(signal.SIGINT)
    code = dev.wait(60)

    assert [one["outcome"] for one in charged["attempts"]] == ["failed", "completed"]
    assert ended["status"] == "COMPLETED"
    assert ended["output"]["ship"] == {"parcel": "P-7"}
    assert [one["outcome"] for one in first["attempts"]] == ["lost", "completed"]
    assert held[0]["worker_name"] == "sample-worker"
    assert (sample["kills"], pid != again) == (1, True)
    assert code == 0
    assert not is_alive(again)


def test_a_store_with_other_runs_gets_no_sample(spawn: Spawn, tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text("name: own\nnodes:\n  - {id: a, type: noop}\n")
    first = spawn("dev", "own.yaml", "--port", "0", "--json", "--no-open")
    read_event(first, "deployed")
    first.send_signal(signal.SIGINT)
    first.wait(60)
    second = spawn("dev", "--port", "0", "--json", "--no-open")
    url = read_event(second, "started")["url"]
    found = get(url, "/dev")
    refused = httpx2.post(f"{url}/api/v1/dev/kill-worker")

    assert found == {"is_dev": True, "sample": None}
    assert refused.status_code == 404


async def test_another_server_has_no_sample(serve: Serve) -> None:
    async with serve() as site:
        found = await site.get("/dev")
        refused = await site.post("/dev/kill-worker", None, 404)

    assert found == {"is_dev": False, "sample": None}
    assert "minuet dev" in refused["detail"]
