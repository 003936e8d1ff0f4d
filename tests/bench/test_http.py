"""The benchmark of the HTTP API, with small sizes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.shows("Y-19")
@pytest.mark.slow
def test_the_benchmark_of_the_http_api_runs() -> None:
    command = ["-m", "bench.http", "--stores", "sqlite", "--seconds", "0.3", "--rate", "20"]
    command += ["--chains", "2", "--hold", "0.5"]
    done = subprocess.run(
        [sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["sqlite"]

    assert found["starts_per_s"] > 0
    # `--rate 1000 --hold 60` is the load test; here it is small.
    assert (found["steady"]["per_s"], found["steady"]["seconds"]) == (20, 0.5)
    assert found["steady"]["wrong"] == found["end_to_end"]["wrong"] == 0
    assert found["alone"]["http"]["p50_ms"] > 0
    assert found["remote_nodes_per_s"] > 0


@pytest.mark.slow
def test_the_benchmark_beside_other_engines_measures_minuet() -> None:
    command = ["-m", "bench.http_peers", "--seconds", "0.3", "--only", "minuet sqlite"]
    done = subprocess.run(
        [sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["minuet sqlite"]

    assert found["starts_per_s"] > 0
    assert found["end_to_end"]["p50_ms"] > 0
    assert found["end_to_end"]["wrong"] == 0
