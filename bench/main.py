"""`make bench`: Minuet on each store beside that store's floor, in one run, as ratios.

What a condition costs is measured first, beside what we want it to cost.

Each case and the floor are run in turn, three times, each in a process of its own; medians are
compared. Bare times mean little on another machine, ratios mean something.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from bench import conditions
from bench.places import FLOORS, PLACES, SHARED, Place, call, open_place

CHAIN = ("chain", "--runs", "2000", "--length", "10")
HOP = ("chain", "--runs", "1", "--length", "500")
NOOP = ("--node", "noop")


def case(place: Place, *arguments: str, url: str | None = None) -> dict[str, Any]:
    """One measurement on an empty store, or on the one given."""
    return call("-m", "bench.case", *arguments, "--store", url or place.url())[0]


def cases_of(kind: str) -> dict[str, tuple[str, ...]]:
    """What is measured on a store."""
    cases = {
        "chain noop": (*CHAIN, *NOOP),
        "chain task": CHAIN,
        "hop noop": (*HOP, *NOOP),
        "hop task": HOP,
        "fan 1-1000-1": ("fan", "--length", "1000"),
    }
    if kind == "sqlite":
        for path in sorted((SHARED / "data" / "dags").glob("*.json")):
            cases[f"dag {path.stem}"] = ("dag", "--dag", str(path))
    else:
        cases["chain task, two processes"] = (*CHAIN, "--processes", "2")
    return cases


def measure(kind: str, place: Place, rounds: int, finished: int) -> dict[str, Any]:
    """All cases in turn, `rounds` times."""
    cases = cases_of(kind)
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in cases}
    floors: list[dict[str, float]] = []
    for number in range(rounds):
        say(f"{kind}, round {number + 1} of {rounds}: floor")
        floors.append(place.floor())
        for name, arguments in cases.items():
            say(f"{kind}, round {number + 1} of {rounds}: {name}")
            found[name].append(case(place, *arguments))
    result: dict[str, Any] = {
        "setting": place.setting,
        "base": place.base,
        "floor": {key: median(f[key] for f in floors) for key in floors[0]},
        "cases": {name: middle(rows) for name, rows in found.items()},
    }
    say(f"{kind}: foreach")
    each = [call("-m", "bench.foreach", "--store", place.url())[0] for _ in range(rounds)]
    result["foreach"] = {name: median(row[name] for row in each) for name in each[0]}
    if finished:
        result["full"] = measure_full(kind, place, rounds, finished)
    result["figures"] = figures_of(result)
    return result


def measure_full(kind: str, place: Place, rounds: int, finished: int) -> dict[str, Any]:
    """The chain on a store that holds much finished work, and on an empty one, in turn.

    On SQLite that is many runs of one node; on a server, where tables grow by nodes and
    events, as many nodes in runs of ten.
    """
    length = 1 if kind == "sqlite" else 10
    arguments = ("chain", "--runs", "500", "--length", "10")
    url, batch = place.url(), 20_000
    for done in range(0, finished, batch):
        say(f"{kind}, filling a store: {done} of {finished} finished nodes")
        runs = str(batch // length)
        case(place, "chain", "--runs", runs, "--length", str(length), *NOOP, url=url)
    full, empty = [], []
    for number in range(rounds):
        say(f"{kind}, round {number + 1} of {rounds}: full store")
        empty.append(case(place, *arguments)["nodes_per_s"])
        full.append(case(place, *arguments, url=url)["nodes_per_s"])
    return {
        "finished_nodes": finished,
        "empty_nodes_per_s": median(empty),
        "full_nodes_per_s": median(full),
        "ratio": round(median(full) / median(empty), 3),
    }


def figures_of(result: dict[str, Any]) -> dict[str, float]:
    """What the targets speak of."""
    base, cases = result["floor"], result["cases"]
    two = cases.get("chain task, two processes")
    speed = base[result["base"]]
    figures = {
        "no-op chain, nodes/s against the floor": cases["chain noop"]["nodes_per_s"] / speed,
        "chain with handlers, nodes/s against the floor": cases["chain task"]["nodes_per_s"]
        / speed,
        "ms per hop against the floor": cases["hop task"]["ms_per_hop"] / base["hop_ms"],
        "memory of 20,000 nodes above the interpreter, MB": cases["chain task"]["memory_mb"]
        - bare_memory_mb(),
    }
    each = result["foreach"]
    figures["an item of a foreach against a node of a fan-out"] = each["item_ratio"]
    figures["a small run beside a foreach against one alone"] = each["latency_ratio"]
    figures["a small run beside a foreach against one beside a fan-out"] = each[
        "latency_ratio_to_fan"
    ]
    if two is not None:
        ratio = two["nodes_per_s"] / cases["chain task"]["nodes_per_s"]
        figures["two worker processes against one"] = ratio
    if "full" in result:
        figures["nodes/s after much finished work against the start"] = result["full"]["ratio"]
    return {name: round(figure, 3) for name, figure in figures.items()}


def bare_memory_mb() -> float:
    code = "import resource; print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)"
    return float(subprocess.check_output([sys.executable, "-c", code], text=True))


def middle(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The row with the median speed."""
    return sorted(rows, key=lambda row: row["nodes_per_s"])[len(rows) // 2]


def median(values: Any) -> float:
    return round(statistics.median(values), 4)


def say(text: str) -> None:
    print(f"… {text}", file=sys.stderr, flush=True)


def report(kind: str, result: dict[str, Any]) -> list[str]:
    """The table of ratios of one store."""
    title = f"{kind} ({result['setting']})"
    lines = [f"{title:50} nodes/s ÷ floor   ms/hop ÷ floor"]
    base = result["floor"]
    for name, row in result["cases"].items():
        speed = row["nodes_per_s"] / base[result["base"]]
        hop = f"{row['ms_per_hop'] / base['hop_ms']:14.2f}×" if name.startswith("hop") else ""
        lines.append(f"{name:50} {speed:14.2f}× {hop:>16}")
    lines.append("")
    targets = PLACES[kind].targets | PLACES[kind].common
    for name, (direction, bound) in targets.items():
        figure = result["figures"].get(name)
        if figure is None:
            continue
        met = figure >= bound if direction == "at least" else figure <= bound
        verdict = "met" if met else "MISSED"
        lines.append(f"{name:60} {figure:8.2f}   ({direction} {bound:g}: {verdict})")
    return [*lines, ""]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--stores",
        default=",".join(["conditions", *PLACES]),
        help="which, with commas between; `conditions` is what a condition costs, on no store",
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--finished", type=int, help="finished nodes to measure after; 0 leaves this case out"
    )
    parser.add_argument("--json", type=Path, help="write the figures to this file as well")
    options = parser.parse_args()
    if not FLOORS.is_dir():
        sys.exit("the floors are not there to compare with: the folder `shared` is missing")
    results: dict[str, Any] = {}
    for kind in options.stores.split(","):
        if kind == "conditions":
            results[kind] = call("-m", "bench.conditions")[0]
            print("\n".join(conditions.report(results[kind])), flush=True)
            continue
        finished = options.finished
        if finished is None:
            finished = 200_000 if kind == "sqlite" else 1_000_000
        with open_place(kind) as place:
            results[kind] = measure(kind, place, options.rounds, finished)
        print("\n".join(report(kind, results[kind])), flush=True)
    print(json.dumps(results))
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
