"""The comparison with other engines: its driver with Minuet alone, and what its page says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest
from bench.peers import main
from bench.peers.plot import draw
from bench.peers.processes import processor_s
from bench.peers.report import write_report
from bench.peers.table import BY_NAME, System, choose

ROOT = Path(__file__).parents[2]
MACHINE = {
    "date": "2026-01-01",
    "processor": "a processor",
    "cores": 2,
    "memory_gib": 24,
    "system": "Linux 6",
    "python": "3.11.7",
    "fsync_ms": 0.1,
    "minutes": 9.0,
    "others_share": 0.02,
}


def entry(*speeds: float, hop_ms: float = 1.0, **others: Any) -> dict[str, Any]:
    """What the driver keeps of a system that ran so often."""
    same: dict[str, Any] = {
        "hop_ms": hop_ms,
        "fan_ms": 9.0,
        "idle_ms": 2.0,
        "cpu_us": 90.0,
        "concurrency": 10,
    }
    same |= {"memory_mb": 40.0, "server_mb": 0.0, "versions": {"one": "1.2"}, **others}
    return {"rounds": [{**same, "nodes_per_s": speed} for speed in speeds], "error": None}


def page(**systems: dict[str, Any]) -> str:
    named = {name.replace("_", "-"): found for name, found in systems.items()}
    return write_report({"machine": MACHINE, "scale": 1.0, "systems": named})


def row(text: str, start: str) -> list[str]:
    """The cells of the first row of a table that starts so."""
    line = next(line for line in text.splitlines() if line.startswith(f"| {start}"))
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_the_driver_measures_minuet_and_writes_figures_page_and_plot(tmp_path: Path) -> None:
    paths = {name: tmp_path / name for name in ("figures", "results", "plot")}
    options = [part for name, path in paths.items() for part in (f"--{name}", str(path))]
    command = [sys.executable, "-m", "bench.peers.main", "--peers", "none", "--stores", "sqlite"]
    subprocess.run(
        [*command, "--rounds", "2", "--scale", "0.01", *options],
        cwd=ROOT,
        check=True,
        capture_output=True,
        timeout=120,
    )
    systems = json.loads(paths["figures"].read_text())["systems"]
    assert list(systems) == ["minuet-sqlite", "minuet-sqlite-function"]
    for system in systems.values():
        assert system["error"] is None
        assert len(system["rounds"]) == 2
        for figures in system["rounds"]:
            wanted = ("hop_ms", "nodes_per_s", "cpu_us", "fan_ms", "idle_ms", "memory_mb")
            assert all(figures[name] > 0 for name in wanted), figures
    assert row(paths["results"].read_text(), "**Minuet**")[1] == "SQLite WAL FULL, 1 process"
    assert ElementTree.fromstring(paths["plot"].read_text()).tag.endswith("svg")


def test_processor_time_is_counted_exactly() -> None:
    """The kernel's hundredths of a second are too coarse for a short measurement."""
    own = time.process_time()
    before = processor_s(os.getpid())
    sum(range(10_000))

    assert own < before < processor_s(os.getpid())


def test_what_cannot_be_installed_is_reported_and_the_others_are_measured() -> None:
    absent = System("absent", "Absent", "absent", "none")
    systems = [absent, BY_NAME["minuet-sqlite"]]
    found = main.measure(systems, rounds=1, scale=0.01, minutes=5)
    assert found["absent"] == {
        "rounds": [],
        "error": "cannot be installed: there are no pins for `absent`",
    }
    assert len(found["minuet-sqlite"]["rounds"]) == 1


def test_what_does_not_run_is_reported_with_its_last_words() -> None:
    broken = System("broken", "Minuet", "minuet", "none", mode={"processes": "many"})
    found = main.measure([broken], rounds=1, scale=0.01, minutes=5)
    assert found["broken"]["rounds"] == []
    assert found["broken"]["error"].startswith("TypeError: ")


def test_what_failed_is_a_row_of_the_page() -> None:
    failed = {"rounds": [], "error": "cannot be installed: no network"}
    text = page(minuet_sqlite=entry(9000), restate=failed)
    assert row(text, "Restate")[2:] == ["0", "cannot be installed: no network"]


def test_a_figure_is_the_median_with_the_lowest_and_the_highest() -> None:
    text = page(minuet_sqlite=entry(9000, 30_000, 20_000))
    assert row(text, "**Minuet**")[3] == "20,000 [9,000–30,000]"


def test_a_peer_is_held_against_minuet_on_its_kind_of_store() -> None:
    text = page(
        minuet_sqlite=entry(50_000),
        minuet_postgres=entry(10_000),
        minuet_postgres_2=entry(12_000),
        dbos_postgres=entry(300, hop_ms=4.0),
    )
    cells = row(text, "DBOS: ")
    assert cells[2:5] == ["postgres", "4.00 ×", "40.0 ×"]


@pytest.mark.parametrize(
    ("speed", "verdict"),
    [(1000, "met"), (1001, "MISSED for 1 of 1: DBOS")],
)
def test_a_target_is_met_at_its_bound_and_not_below(speed: float, verdict: str) -> None:
    text = page(minuet_sqlite=entry(20_000), dbos_sqlite=entry(speed))
    line = next(line for line in text.splitlines() if "every Python-only peer" in line)
    assert line.partition(": ")[2].startswith(verdict)


def test_the_page_says_who_has_a_shorter_hop() -> None:
    text = page(minuet_sqlite=entry(20_000, hop_ms=2.0), restate=entry(900, hop_ms=1.0))
    line = next(line for line in text.splitlines() if "the lowest ms per hop" in line)
    assert "MISSED: Restate" in line
    assert line.endswith("0.50 ×")


def test_the_page_says_when_the_machine_was_busy() -> None:
    figures: dict[str, Any] = {"scale": 1.0, "systems": {"minuet-sqlite": entry(9000)}}
    quiet = write_report({**figures, "machine": MACHINE})
    busy = write_report({**figures, "machine": {**MACHINE, "others_share": 0.4}})
    assert "busy" not in quiet
    assert "other programs used 40%" in busy


def test_the_plot_has_a_bar_for_each_system_with_figures() -> None:
    systems = {"minuet-sqlite": entry(9000), "restate": entry(900), "celery": entry()}
    drawn = draw({"machine": MACHINE, "scale": 1.0, "systems": systems})
    bars = ElementTree.fromstring(drawn).findall("{http://www.w3.org/2000/svg}rect")
    assert [bar.get("class") for bar in bars] == ["ours", "theirs"]
    assert float(bars[0].get("width", 0)) > float(bars[1].get("width", 0))


def test_an_unknown_peer_is_refused_with_the_names_of_the_known() -> None:
    with pytest.raises(ValueError, match=r"no such peer: airflow; there are .*celery"):
        choose("celery,airflow")
