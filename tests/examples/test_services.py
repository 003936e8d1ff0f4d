"""Examples that call services, against real servers of this machine; and what they left behind."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from .. import programs

#: Method, path and body of a request to the answer: status and JSON.
Answer = Callable[[str, str, Any], tuple[int, Any]]


@pytest.fixture
def serve() -> Iterator[Callable[[Answer], str]]:
    """Start a server that answers like this; its address."""
    servers: list[ThreadingHTTPServer] = []

    def start(answer: Answer) -> str:
        class Handler(BaseHTTPRequestHandler):
            def reply(self) -> None:
                size = int(self.headers.get("Content-Length", 0))
                body = json.loads(self.rfile.read(size)) if size else None
                status, value = answer(self.command, self.path, body)
                is_stream = isinstance(value, bytes)
                data = value if is_stream else json.dumps(value).encode()
                self.send_response(status)
                kind = "text/event-stream" if is_stream else "application/json"
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = reply

            def log_message(self, format: str, *arguments: Any) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def run(
    root: Path, folder: Path, name: str, *given: str, code: int = 0, **environment: str
) -> dict[str, Any]:
    finished = programs.run(
        *("-m", "minuet", "run", str(root / "examples" / name), *given, "--json"),
        folder=folder,
        environment={**os.environ, "MINUET_STORE": "sqlite:///examples.db", **environment},
    )
    assert finished.returncode == code, finished.stderr
    ended: dict[str, Any] = json.loads(finished.stdout)
    return ended


# ── etl ─────────────────────────────────────────────────────────────────────────────────────


def test_etl_takes_the_files_that_are_there_when_it_runs(root: Path, tmp_path: Path) -> None:
    for number in range(7):
        (tmp_path / f"{number}.csv").write_text(f"name,amount\na,{number}\nb,\n")
    (tmp_path / "broken.csv").write_text("name,amount\na,many\n")

    ended = run(root, tmp_path, "etl/etl.yaml", "-i", "folder=.")

    assert ended["output"] == {"load": {"files": 7, "broken": 1, "rows": 7, "total": 21}}


def test_etl_adds_up_the_files_that_come_with_it(root: Path, tmp_path: Path) -> None:
    folder = root / "examples/etl/data"

    ended = run(root, tmp_path, "etl/etl.yaml", "-i", f"folder={folder}")

    assert ended["output"] == {"load": {"files": 2, "broken": 1, "rows": 3, "total": 600}}


# ── family ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.shows("C-01")
def test_family_starts_a_child_run_of_the_deployed_workflow_for_each_item(
    root: Path, tmp_path: Path
) -> None:
    folder = root / "examples/family"

    def minuet(*words: str) -> Any:
        finished = programs.run(
            *("-m", "minuet", *words, "--json"),
            folder=tmp_path,
            environment={**os.environ, "MINUET_STORE": "sqlite:///examples.db"},
        )
        assert finished.returncode == 0, finished.stderr
        return json.loads(finished.stdout)

    minuet("deploy", str(folder / "shipment.yaml"), str(folder / "family.yaml"))
    started = minuet("start", "family", "-i", f"@{folder / 'order.json'}")
    ended = minuet("resume", started["run_id"], "--handlers", str(folder / "family.py"))

    assert ended["output"] == {"invoice": {"parcels": 3, "total": 4 + 18 + 4 + 2 + 4}}
    children = minuet("runs", "list", "--workflow", "shipment")
    assert [(run["status"], run["version"]) for run in children] == [("COMPLETED", 1)] * 3
    assert {run["parent"] for run in children} == {started["run_id"]}


# ── saga ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("given", "status", "ledger"),
    [
        (["order=o", "amount=40"], "confirmed", ["reserved", "charged", "shipped"]),
        (["order=o", "amount=4000"], "rejected", ["reserved", "released"]),
        (
            ["order=o", "amount=40", "country=XX"],
            "rejected",
            ["reserved", "charged", "refunded", "released"],
        ),
        (["order=gone-1", "amount=40"], "rejected", []),
    ],
    ids=["all goes well", "the card is declined", "the carrier is down", "out of stock"],
)
def test_the_saga_undoes_what_was_done_the_last_first(
    root: Path, tmp_path: Path, given: list[str], status: str, ledger: list[str]
) -> None:
    ended = run(root, tmp_path, "saga/saga.yaml", "-i", *given)

    (output,) = ended["output"].values()
    assert output["status"] == status
    file = tmp_path / "ledger.txt"
    lines = file.read_text().splitlines() if file.exists() else []
    assert [line.split()[0] for line in lines] == ledger


# ── undo ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.shows("L-01", "L-02", "L-05", "L-07")
@pytest.mark.parametrize(
    ("given", "compensated", "ledger"),
    [
        (["amount=40"], None, ["reserved", "charged", "shipped"]),
        (["amount=40", "country=XX"], "all", ["reserved", "charged", "refunded", "released"]),
        (["amount=13", "country=XX"], "partly", ["reserved", "charged", "released"]),
    ],
    ids=["all goes well", "nobody delivers there", "it cannot be refunded either"],
)
def test_an_order_is_undone_by_its_compensators(
    root: Path, tmp_path: Path, given: list[str], compensated: str | None, ledger: list[str]
) -> None:
    code = 0 if compensated is None else 1
    ended = run(root, tmp_path, "undo/order.yaml", "-i", "order=o", *given, code=code)

    assert ended["compensated"] == compensated
    lines = (tmp_path / "ledger.txt").read_text().splitlines()
    assert [line.split()[0] for line in lines] == ledger


# ── polling ─────────────────────────────────────────────────────────────────────────────────


class Jobs:
    """A service that is down for each second request, and whose job takes some questions."""

    def __init__(self, questions: int) -> None:
        self.questions = questions
        self.requests: list[tuple[str, str, int]] = []
        self._asked = 0

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        status, value = self._answer(method, path)
        self.requests.append((method, path, status))
        return status, value

    def _answer(self, method: str, path: str) -> tuple[int, Any]:
        if len(self.requests) % 2 == 0:
            return 503, {"error": "busy"}
        if method == "POST":
            return 201, {"id": "j7"}
        self._asked += 1
        if self._asked < self.questions:
            return 200, {"state": "running"}
        return 200, {"state": "done", "rows": 12}


def test_polling_retries_what_fails_and_asks_until_the_job_is_done(
    root: Path, tmp_path: Path, serve: Any
) -> None:
    jobs = Jobs(questions=3)

    ended = run(
        root, tmp_path, "polling/polling.yaml", "-i", f"url={serve(jobs.answer)}", "every=0.01"
    )

    assert ended["output"] == {"report": {"rows": 12}}
    answered = [(method, path) for method, path, status in jobs.requests if status != 503]
    assert answered == [("POST", "/jobs"), *[("GET", "/jobs/j7")] * 3]
    assert sum(status == 503 for _, _, status in jobs.requests) == 4
    assert ended["nodes"]["give_up"]["status"] == "SKIPPED"


def test_polling_gives_up_after_its_rounds(root: Path, tmp_path: Path, serve: Any) -> None:
    jobs = Jobs(questions=1000)

    ended = run(
        root, tmp_path, "polling/polling.yaml", "-i", f"url={serve(jobs.answer)}", "every=0.01"
    )

    assert ended["output"] == {"give_up": {"rows": None}}
    assert sum((method, status) == ("GET", 200) for method, _, status in jobs.requests) == 20
