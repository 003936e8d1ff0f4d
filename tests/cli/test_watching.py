"""`minuet runs watch` and `minuet top`."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from typing import Any

import pytest

from .test_worker import DOUBLE, HANDLERS


@pytest.fixture
def ran(folder: Any, minuet: Any) -> str:
    """A run that is over, beside one that nobody works on."""
    folder.write("double.yaml", DOUBLE)
    done: str = minuet("run", "double.yaml", *HANDLERS, "--json").json["run_id"]
    minuet("start", "double.yaml")
    return done


def test_changes_are_lines_where_there_is_no_terminal(minuet: Any, ran: str) -> None:
    watched = minuet("runs", "watch", "--timeout", "0.1", "--interval", "0.05")
    as_json = minuet("runs", "watch", "--timeout", "0.1", "--status", "COMPLETED", "--json")

    assert watched.code == 0
    assert [line.split()[3] for line in watched.out.splitlines()] == ["COMPLETED", "RUNNING"]
    assert as_json.json["run_id"] == ran


def test_one_run_is_watched_until_it_is_over(minuet: Any, ran: str) -> None:
    done = minuet("runs", "watch", ran)
    late = minuet("runs", "watch", "latest", "--timeout", "0.1")

    assert (done.code, late.code) == (0, 3)
    assert "twice" in done.err
    assert f"run {ran} is COMPLETED" in done.err


def test_top_prints_one_picture_where_there_is_no_terminal(minuet: Any, ran: str) -> None:
    shown = minuet("top")
    as_json = minuet("top", "--json").json

    assert shown.code == 0
    assert shown.out.startswith("1 runs open · in the last minute 2 started, 1 ended, 0 failed")
    assert as_json["runs_open"] == 1
    assert as_json["queues"][0]["ready"] == 1


@pytest.mark.parametrize("command", [("top",), ("runs", "watch")])
def test_on_a_terminal_ctrl_c_ends_it_and_lines_fit(
    folder: Any, ran: str, command: tuple[str, ...]
) -> None:
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-m", "minuet", *command, "--interval", "0.1"],
        cwd=folder.path,
        stdin=theirs,
        stdout=theirs,
        stderr=subprocess.PIPE,
        env={**os.environ, "COLUMNS": "80", "LINES": "24", "TERM": "xterm", "NO_COLOR": "1"},
    )
    os.close(theirs)
    seen = b""
    wanted = b"1 runs open" if command == ("top",) else ran.encode()
    while wanted not in seen:
        seen += os.read(ours, 65_536)
    child.send_signal(signal.SIGINT)
    try:
        while True:
            os.read(ours, 65_536)
    except OSError:
        pass  # The other side is closed.
    _, err = child.communicate(timeout=60)
    os.close(ours)

    assert (child.returncode, err) == (0, b"")
