"""`make bench`: Minuet beside the floor, in one run, as ratios.

The floor (`../shared/floor/floor_sqlite.py`) moves no-op tokens through SQLite with everything
that must be written and nothing else. Each case and the floor are run in turn, three times,
each in a process of its own; medians are compared. Bare times mean little on another machine,
ratios mean something.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"
FLOOR = SHARED / "floor" / "floor_sqlite.py"

#: What was promised: (case, figure, at least or at most, bound)
TARGETS = {
    "no-op chain, nodes/s against the floor": ("at least", 0.50),
    "chain with handlers, nodes/s against the floor": ("at least", 0.50),
    "ms per hop against the floor": ("at most", 3.0),
    "memory of 20,000 nodes above the interpreter, MB": ("at most", 150.0),
    "nodes/s with 200,000 finished runs against an empty file": ("at least", 0.85),
}


def call(*command: str) -> list[dict[str, Any]]:
    """Run a program and read the JSON lines that it prints."""
    done = subprocess.run(
        [sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def case(*arguments: str) -> dict[str, Any]:
    return call("-m", "bench.case", *arguments)[0]


def floor() -> dict[str, float]:
    """The floor's best nodes/s and its ms per hop, with synchronous=FULL."""
    lines = [line for line in call(str(FLOOR)) if line["setting"] == "FULL"]
    return {
        "nodes_per_s": max(line["nodes_per_s"] for line in lines if "nodes_per_s" in line),
        "hop_ms": next(line["hop_ms"] for line in lines if "hop_ms" in line),
    }


def bare_memory_mb() -> float:
    code = "import resource; print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)"
    return float(subprocess.check_output([sys.executable, "-c", code], text=True))


def measure(rounds: int, finished: int) -> dict[str, Any]:
    """All cases in turn, `rounds` times."""
    cases = {
        "chain task": ("chain", "--runs", "2000", "--length", "10"),
        "chain noop": ("chain", "--runs", "2000", "--length", "10", "--node", "noop"),
        "hop task": ("chain", "--runs", "1", "--length", "500"),
        "hop noop": ("chain", "--runs", "1", "--length", "500", "--node", "noop"),
        "fan 1-1000-1": ("fan", "--length", "1000"),
    }
    for path in sorted((SHARED / "data" / "dags").glob("*.json")):
        cases[f"dag {path.stem}"] = ("dag", "--dag", str(path))
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in cases}
    floors: list[dict[str, float]] = []
    for number in range(rounds):
        say(f"round {number + 1} of {rounds}: floor")
        floors.append(floor())
        for name, arguments in cases.items():
            say(f"round {number + 1} of {rounds}: {name}")
            found[name].append(case(*arguments))
    result: dict[str, Any] = {
        "floor": {key: median(f[key] for f in floors) for key in floors[0]},
        "cases": {name: middle(rows) for name, rows in found.items()},
        "bare_memory_mb": bare_memory_mb(),
    }
    if finished:
        result["full_file"] = measure_full_file(rounds, finished)
    return result


def measure_full_file(rounds: int, finished: int) -> dict[str, Any]:
    """The chain on a file that holds many finished runs, and on an empty one, in turn."""
    arguments = ("chain", "--runs", "500", "--length", "10")
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "full.db")
        batch = 20_000
        for done in range(0, finished, batch):
            say(f"filling a file: {done} of {finished} finished runs")
            case("chain", "--runs", str(batch), "--length", "1", "--node", "noop", "--file", path)
        full, empty = [], []
        for number in range(rounds):
            say(f"round {number + 1} of {rounds}: full file")
            empty.append(case(*arguments)["nodes_per_s"])
            full.append(case(*arguments, "--file", path)["nodes_per_s"])
        size_mb = Path(path).stat().st_size / 2**20
    return {
        "finished_runs": finished,
        "file_mb": round(size_mb),
        "empty_nodes_per_s": median(empty),
        "full_nodes_per_s": median(full),
        "ratio": round(median(full) / median(empty), 3),
    }


def middle(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The row with the median speed."""
    return sorted(rows, key=lambda row: row["nodes_per_s"])[len(rows) // 2]


def median(values: Any) -> float:
    return round(statistics.median(values), 4)


def say(text: str) -> None:
    print(f"… {text}", file=sys.stderr, flush=True)


def report(result: dict[str, Any]) -> list[str]:
    """The table of ratios."""
    lines = ["case                                               nodes/s ÷ floor   ms/hop ÷ floor"]
    base = result["floor"]
    for name, row in result["cases"].items():
        speed = row["nodes_per_s"] / base["nodes_per_s"]
        hop = f"{row['ms_per_hop'] / base['hop_ms']:14.2f}×" if name.startswith("hop") else ""
        lines.append(f"{name:50} {speed:14.2f}× {hop:>16}")
    cases = result["cases"]
    memory = cases["chain task"]["memory_mb"] - result["bare_memory_mb"]
    figures = {
        "no-op chain, nodes/s against the floor": cases["chain noop"]["nodes_per_s"]
        / base["nodes_per_s"],
        "chain with handlers, nodes/s against the floor": cases["chain task"]["nodes_per_s"]
        / base["nodes_per_s"],
        "ms per hop against the floor": cases["hop task"]["ms_per_hop"] / base["hop_ms"],
        "memory of 20,000 nodes above the interpreter, MB": memory,
    }
    if "full_file" in result:
        ratio = result["full_file"]["ratio"]
        figures["nodes/s with 200,000 finished runs against an empty file"] = ratio
    lines.append("")
    for name, figure in figures.items():
        kind, bound = TARGETS[name]
        met = figure >= bound if kind == "at least" else figure <= bound
        verdict = "met" if met else "MISSED"
        lines.append(f"{name:60} {figure:8.2f}   ({kind} {bound:g}: {verdict})")
    result["figures"] = {name: round(figure, 3) for name, figure in figures.items()}
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--finished", type=int, default=200_000, help="0 leaves this case out")
    parser.add_argument("--json", type=Path, help="write the figures to this file as well")
    options = parser.parse_args()
    if not FLOOR.exists():
        sys.exit(f"the floor is not there to compare with: {FLOOR.name} is missing")
    result = measure(options.rounds, options.finished)
    print("\n".join(report(result)))
    print(json.dumps(result))
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
