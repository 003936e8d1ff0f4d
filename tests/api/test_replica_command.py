"""`minuet server --read-only --primary` as a process."""

from __future__ import annotations

import time
from pathlib import Path

import httpx2
import pytest

from .test_server_command import DOCUMENT, Spawn, read_event, spawn

__all__ = ["spawn"]


@pytest.mark.shows("W-07", "W-08", "S-51")
def test_a_replica_outlives_its_primary(spawn: Spawn, tmp_path: Path) -> None:
    primary = spawn("server", "--port", "0", "--json")
    url = read_event(primary, "started")["url"]
    replica = spawn("server", "--read-only", "--primary", url, "--port", "0", "--json")
    started = read_event(replica, "started")
    worker = spawn("worker", "--json")
    run = httpx2.post(f"{url}/runs", json={"document": DOCUMENT}).json()["run_id"]
    copy = f"{started['url']}/runs/{run}"
    while (answer := httpx2.get(copy)).status_code == 404 or answer.json()["status"] != "COMPLETED":
        time.sleep(0.02)
    for child in (primary, worker):
        child.kill()
    first, refused = httpx2.get(copy), httpx2.post(f"{started['url']}/runs", json={})
    # Also a new process has the copy.
    replica.kill()
    replica = spawn("server", "--read-only", "--primary", url, "--port", "0", "--json")
    again = httpx2.get(f"{read_event(replica, 'started')['url']}/runs/{run}")

    assert started["store"] == "sqlite:///minuet-replica.db"
    assert first.json() == again.json()
    ages = [int(one.headers["Minuet-Data-Age-Ms"]) for one in (first, again)]
    assert ages == sorted(ages)
    assert refused.status_code == 405
    assert refused.headers["Minuet-Primary"] == url
