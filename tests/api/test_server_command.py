"""`minuet server` as a process."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import httpx2
import pytest

from minuet.api.serving import bind
from minuet.app.app import App

from .. import programs

Spawn: TypeAlias = Callable[..., programs.Program]

DOCUMENT = {"name": "short", "nodes": [{"id": "only", "type": "noop"}]}


@pytest.fixture
def spawn(tmp_path: Path) -> Iterator[Spawn]:
    """Start a command as a process; what still runs at the end is killed."""
    started: list[programs.Program] = []

    def start(*arguments: str, **settings: str) -> programs.Program:
        environment = {**os.environ, **settings}
        child = programs.start("-m", "minuet", *arguments, folder=tmp_path, environment=environment)
        started.append(child)
        return child

    yield start
    for child in started:
        child.kill()
        child.communicate()


def read_event(child: programs.Program, wanted: str) -> dict[str, Any]:
    """The next line about this."""
    for line in child.stdout:
        event: dict[str, Any] = json.loads(line)
        if event["event"] == wanted:
            return event
    raise AssertionError(child.communicate()[1])


def test_a_server_and_a_worker_are_processes_of_their_own(spawn: Spawn) -> None:
    server = spawn("server", "--port", "0", "--json")
    url = read_event(server, "started")["url"]
    run = httpx2.post(f"{url}/runs", json={"document": DOCUMENT}).json()["run_id"]
    worker = spawn("worker", "--json")
    events = httpx2.get(f"{url}/runs/{run}").json()
    while events["status"] == "RUNNING":
        events = httpx2.get(f"{url}/runs/{run}").json()
    server.send_signal(signal.SIGTERM)
    worker.send_signal(signal.SIGTERM)

    assert events["status"] == "COMPLETED"
    assert (server.wait(60), worker.wait(60)) == (0, 0)


def test_an_address_that_others_reach_is_refused_without_a_key(spawn: Spawn) -> None:
    refused = spawn("server", "--host", "0.0.0.0", "--port", "0")
    out, err = refused.communicate(timeout=60)
    server = spawn(
        "server", "--host", "0.0.0.0", "--port", "0", "--json", MINUET_API_KEY="open sesame"
    )
    port = read_event(server, "started")["url"].rpartition(":")[2]
    url = f"http://127.0.0.1:{port}/runs"
    without = httpx2.get(url)
    allowed = httpx2.get(url, headers={"Authorization": "Bearer open sesame"})

    assert (refused.returncode, out) == (2, "")
    assert "MINUET_API_KEY" in err
    assert "--insecure" in err
    assert (without.status_code, allowed.status_code) == (401, 200)


def test_an_address_that_others_reach_is_served_once_there_is_a_key(
    spawn: Spawn, tmp_path: Path
) -> None:
    async def create() -> str:
        async with App(f"sqlite:///{tmp_path}/minuet.db", worker=False) as app:
            return (await app.keys.create("ada", ["viewer"])).text

    key = asyncio.run(create())
    server = spawn("server", "--host", "0.0.0.0", "--port", "0", "--json")
    port = read_event(server, "started")["url"].rpartition(":")[2]
    url = f"http://127.0.0.1:{port}/runs"
    without = httpx2.get(url)
    allowed = httpx2.get(url, headers={"Authorization": f"Bearer {key}"})

    assert (without.status_code, allowed.status_code) == (401, 200)


def test_a_port_that_is_taken_is_an_error_that_says_so(spawn: Spawn) -> None:
    first = spawn("server", "--port", "0", "--json")
    port = read_event(first, "started")["url"].rpartition(":")[2]
    second = spawn("server", "--port", port)
    _, err = second.communicate(timeout=60)

    assert second.returncode == 2
    assert f"port {port} of 127.0.0.1 cannot be used" in err


def test_a_server_has_no_store_in_memory(spawn: Spawn) -> None:
    _, err = (refused := spawn("server", "--store", "memory://")).communicate(timeout=60)

    assert refused.returncode == 2
    assert "minuet dev" in err


def test_a_missing_extra_names_the_install_line(spawn: Spawn, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.modules['fastapi'] = None\n")
    refused = spawn("server", PYTHONPATH=str(tmp_path))
    _, err = refused.communicate(timeout=60)

    assert refused.returncode == 2
    assert "pip install 'minuet[server]'" in err


def test_answers_do_not_wait_for_acknowledgements() -> None:
    with bind("127.0.0.1", 0) as sock:
        # Only then asyncio turns Nagle's algorithm off.
        assert sock.proto == socket.IPPROTO_TCP


@pytest.mark.shows("W-01")
def test_a_server_that_stops_answers_what_waits_and_takes_nothing_more(spawn: Spawn) -> None:
    server = spawn("server", "--port", "0", "--json")
    url = read_event(server, "started")["url"]
    address = (urlsplit(url).hostname or "", urlsplit(url).port or 0)
    waits = {"name": "waits", "nodes": [{"id": "w", "type": "wait", "config": {"seconds": 600}}]}
    run = httpx2.post(f"{url}/runs", json={"document": waits}).json()["run_id"]
    worker = httpx2.post(f"{url}/api/v1/workers", json={"executors": ["x"]}).json()["worker_id"]
    idle = socket.create_connection(address)
    half = socket.create_connection(address)
    half.sendall(b"POST /runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n")
    events, accept = f"{url}/runs/{run}/events", {"Accept": "text/event-stream"}
    with httpx2.stream("GET", events, headers=accept, timeout=60) as stream:
        lines = stream.iter_lines()
        while not next(lines).startswith("id: 2"):
            pass
        body = b'{"seq": 1, "take": 1, "wait_ms": 60000}'
        polling = socket.create_connection(address)
        polling.sendall(
            f"POST /api/v1/workers/{worker}/exchange HTTP/1.1\r\nHost: localhost\r\n"
            f"Content-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        for _ in range(3):
            # What came before it has begun by the time that this is answered.
            httpx2.get(f"{url}/health/live")
        server.send_signal(signal.SIGTERM)
        # It ends as it should: nothing is cut off.
        list(lines)
        polled = polling.recv(10_000)
    code = server.wait(60)
    out = server.communicate()[0]

    assert polled.startswith(b"HTTP/1.1 200 ")
    assert b'"tasks":[]' in polled
    assert [json.loads(line)["event"] for line in out.splitlines()] == ["stopping", "stopped"]
    assert code == 0
    assert idle.recv(1) == b""
    assert half.recv(1_000).startswith(b"HTTP/1.1 503 ")
    for one in (idle, half, polling):
        one.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address)
