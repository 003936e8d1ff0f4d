"""What a person sees: `minuet run` is killed, and `minuet resume` goes on at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.fault.outcome import undisturbed
from tests.fault.processes import SECONDS_MAX, until
from tests.fault.workload import LEDGER, MODULE, large, read_ledger

ROOT = Path(__file__).resolve().parent.parent.parent


def command(*arguments: str, ledger: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "minuet", *arguments, "--json"],
        cwd=ROOT,
        env={**os.environ, LEDGER: str(ledger)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


@pytest.mark.shows("I-24", "I-29", "Y-37", "Y-42")
def test_resume_goes_on_at_once_with_what_a_killed_run_left(tmp_path: Path) -> None:
    ledger, file = tmp_path / "ledger", tmp_path / "large.json"
    document = large(4)
    file.write_text(json.dumps(document))
    store = ("--store", f"sqlite:///{tmp_path / 'runs.db'}")
    handlers = ("--handlers", MODULE)

    first = command("run", str(file), "-i", '{"seed": 1}', *store, *handlers, ledger=ledger)
    until(lambda: first.poll() is not None or lines(ledger) >= 30, "the run is under way")
    first.kill()
    first.communicate(timeout=SECONDS_MAX)
    assert first.returncode == -9

    # A lease lasts 30 seconds; this fails if anybody waits for one.
    second = command("resume", "--timeout", "20", *store, *handlers, ledger=ledger)
    answer, _ = second.communicate(timeout=SECONDS_MAX)
    assert second.returncode == 0
    (result,) = [json.loads(answer)] if answer.lstrip().startswith("{") else json.loads(answer)
    assert result["status"] == "COMPLETED"
    assert result["output"] == undisturbed(document).output
    assert len({start.pid for start in read_ledger(ledger)}) == 2

    doctor = command("doctor", *store, ledger=ledger)
    answer, _ = doctor.communicate(timeout=SECONDS_MAX)
    assert doctor.returncode == 0
    report = json.loads(answer)
    assert (report["sound"], report["runs"], report["findings"]) == (True, 1, [])
