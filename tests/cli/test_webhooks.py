"""`minuet webhooks`: who is sent webhooks, and how that goes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

import minuet as package

SECRET = "s3cret"


class Receiver(ThreadingHTTPServer):
    """Accepts what is signed."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.got: list[dict[str, Any]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/hook"


class Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.got.append(package.verify_webhook(dict(self.headers), body, SECRET))
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *arguments: Any) -> None:
        pass


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


BROKEN = """
name: broken
nodes:
  - {id: gate, type: human, human_config: {timeout_seconds: 0.01, escalation_policy: fail}}
"""


def test_a_run_tells_receivers_that_it_failed_and_the_list_says_who_is_behind(
    folder: Any, minuet: Any, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.write("broken.yaml", BROKEN)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("MINUET_WEBHOOK_SECRET", SECRET)
    down = "http://127.0.0.1:1/#name=down&events=run.failed"
    monkeypatch.setenv("MINUET_WEBHOOKS", f"{receiver.url}#name=up {down}")

    assert minuet("run", "broken.yaml").code == 1

    kinds = [one["type"] for one in receiver.got]
    assert kinds == ["approval.created", "approval.decided", "dead_letter.created", "run.failed"]
    behind, done = minuet("webhooks", "list", "--json").json
    assert (behind["name"], behind["waiting"], behind["failures"]) == ("down", 1, 1)
    assert (done["name"], done["waiting"], done["error"]) == ("up", 0, None)
    shown = minuet("webhooks", "list").out
    assert "down" in shown
    assert "could not be called" in shown


def test_a_receiver_can_be_tried(
    folder: Any, minuet: Any, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.write("broken.yaml", BROKEN)
    minuet("run", "broken.yaml")
    assert minuet("webhooks", "list").out.startswith("Nobody is sent webhooks.")
    monkeypatch.setenv("MINUET_WEBHOOK_SECRET", SECRET)
    monkeypatch.setenv("MINUET_WEBHOOKS", f"{receiver.url}#name=up")

    refused = minuet("webhooks", "test", "up")
    assert refused.code == 1
    assert "MINUET_EGRESS_ALLOW" in refused.out
    monkeypatch.setenv("MINUET_EGRESS_ALLOW", "127.0.0.1")
    assert minuet("webhooks", "test", "up", "--json").json["accepted"]

    assert [one["type"] for one in receiver.got] == ["test"]
    assert minuet("webhooks", "test", "nobody").code == 2
