"""Secrets from the command line: where they come from, and that nothing prints or keeps them."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from ..hostile.canaries import CANARY, files_in, leaks

DOCUMENT = """
name: keyed
nodes:
  - {id: call, handler: call, secrets: [API_KEY], config: {header: "Bearer {{ secrets.API_KEY }}"}}
"""
HANDLERS = """
import sys
import minuet

@minuet.task(retries=1)
async def call(header: str, ctx: minuet.Context) -> dict:
    ctx.log.info("calling with %s", header)
    await ctx.step("called", lambda: header)
    if ctx.attempt == 1:
        raise minuet.Retryable(f"refused: {header}", after=0.01)
    return {"sent": header, "length": len(ctx.secret("API_KEY"))}
"""


@pytest.fixture
def keyed(folder: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    folder.write("keyed.yaml", DOCUMENT)
    folder.write("keyed.py", HANDLERS)
    monkeypatch.setenv("API_KEY", CANARY)
    monkeypatch.delenv("MINUET_SECRETS", raising=False)
    return folder


@pytest.mark.parametrize("options", [["--json"], [], ["--log-level", "debug"]])
def test_run_reads_them_and_nothing_keeps_or_prints_them(
    keyed: Any, minuet: Any, options: list[str]
) -> None:
    called = minuet("run", "keyed.yaml", *options)
    moved = minuet("migrate", "--from", "sqlite:///minuet.db", "--to", "sqlite:///moved.db")
    (run,) = minuet("runs", "list", "--store", "sqlite:///moved.db", "--json").json
    shown = [
        minuet("runs", "show", run["run_id"], "--store", "sqlite:///moved.db", "--json"),
        minuet("runs", "events", run["run_id"], "--store", "sqlite:///moved.db"),
    ]

    assert called.code == 0, called.err
    assert moved.code == 0, moved.err
    assert f'"length": {len(CANARY)}' in called.out or f'"length":{len(CANARY)}' in called.out
    assert "Bearer ***" in called.out
    assert "calling with Bearer ***" in called.err
    assert [one.code for one in shown] == [0, 0]
    for one in (called, moved, *shown):
        assert not leaks((one.out + one.err).encode())
    assert not leaks(b"".join(files_in(keyed.path)))


def test_the_setting_chooses_the_provider(
    keyed: Any, minuet: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (keyed.path / "vault").mkdir()
    keyed.write("vault/API_KEY", "from-the-folder\n")
    monkeypatch.setenv("MINUET_SECRETS", "folder:vault")
    folder = minuet("run", "keyed.yaml", "--json")
    monkeypatch.setenv("MINUET_SECRETS", "env:OTHER")
    refused = minuet("run", "keyed.yaml", "--json")
    monkeypatch.setenv("MINUET_SECRETS", "vault")
    wrong = minuet("run", "keyed.yaml")

    assert folder.json["output"]["call"]["length"] == len("from-the-folder")
    assert refused.code == 1
    assert refused.json["error"]["message"] == (
        "the secret 'API_KEY' is not here: MINUET_SECRETS does not allow it: add it, as in "
        "env:API_KEY"
    )
    assert wrong.code == 2
    assert "MINUET_SECRETS='vault' names no provider of secrets" in wrong.err


def test_a_worker_gives_only_what_the_setting_names(
    keyed: Any, minuet: Any, spawn: Any, finish: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = []
    for setting in ("", "env:API_*"):
        monkeypatch.setenv("MINUET_SECRETS", setting)
        worker = spawn("worker", "--handlers", "keyed.py")
        ended.append(minuet("start", "keyed.yaml", "--wait", "--json").json)
        worker.send_signal(signal.SIGTERM)
        done = finish(worker)
        assert not leaks((done.out + done.err).encode())

    assert [one["status"] for one in ended] == ["FAILED", "COMPLETED"]
    assert ended[0]["error"]["message"] == (
        "the secret 'API_KEY' is not here: this worker has no secrets: set MINUET_SECRETS, for "
        "example to env:API_KEY"
    )
    assert not leaks(b"".join(files_in(keyed.path)))


def test_simulate_needs_no_values(keyed: Any, minuet: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("API_KEY")

    called = minuet("simulate", "keyed.yaml", "--seeds", "10", "--json")

    assert called.json["ends"]["COMPLETED"] > 0
