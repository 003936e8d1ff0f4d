"""The page with the results: figures, ratios, and whether the targets are met."""

from __future__ import annotations

import statistics
from dataclasses import replace
from typing import Any

from bench.peers.table import BY_NAME, System

Rounds = list[dict[str, Any]]

#: If other programs use more than this share, the page says that the machine was busy.
QUIET_SHARE = 0.1

PYTHON_TARGET = 20.0
RESTATE_TARGET = 4.0
FUNCTION_TARGETS = {"dbos": 20.0, "restate": 3.0}

HEAD = """# Minuet and its peers

Written by `make bench-peers`; do not edit. Every engine does the same work: each node returns
`{"i": n}`, and its result is persisted before the next node starts.

* **ms per hop**: the time of a chain of 50 nodes, divided by 50. Nothing else runs.
* **nodes/s**: many runs of a chain of 10 nodes at once, at the best of a few concurrencies.
* **CPU µs**: processor time per node in the nodes/s case, for all processes including servers.
  Other programs on the machine affect it less than they affect a time.
* **fan ms**: one run of 1 → 100 → 1 nodes. Nothing else runs.
* **idle ms**: from the start of a run of one node until the client sees its result. Nothing else
  runs.
* **MB**: memory of all processes of the engine after the work (PSS), plus that of its database.

A figure is the median over the rounds, with the lowest and the highest in brackets. Each round
runs every system once, in a different order, with its own processes, folder and database.
Compare ratios rather than figures, and ignore differences under 35 %.
"""


def write_report(figures: dict[str, Any]) -> str:
    systems = {BY_NAME[name]: entry for name, entry in figures["systems"].items()}
    rounds = {s.name: entry["rounds"] for s, entry in systems.items() if entry["rounds"]}
    parts = [
        HEAD,
        _machine(figures["machine"], rounds, figures["scale"]),
        _figures(systems),
        _failures(systems),
        _ratios([s for s in systems if not s.ours], rounds),
        _targets([s for s in systems if not s.ours], rounds),
        _notes(systems),
        _versions(rounds),
    ]
    return "\n".join(part for part in parts if part)


def median(rounds: Rounds, figure: str) -> float | None:
    values = [one[figure] for one in rounds if one.get(figure) is not None]
    return statistics.median(values) if values else None


def _machine(machine: dict[str, Any], rounds: dict[str, Rounds], scale: float) -> str:
    share = machine["others_share"]
    lines = [
        "## Machine",
        "",
        f"{machine['processor']}, {machine['cores']} cores, {machine['memory_gib']} GiB; "
        f"{machine['system']}, Python {machine['python']}; "
        f"an fsync takes {machine['fsync_ms']} ms on its disk "
        f"(a fast one makes every engine fast). "
        f"{machine['date']}, {max(map(len, rounds.values()), default=0)} rounds, "
        f"{machine['minutes']:.0f} minutes.",
        "",
    ]
    if share > QUIET_SHARE:
        lines += [
            f"**The machine was busy**: other programs used {share:.0%} of its processors "
            "meanwhile, on average. This affected all systems alike, but the figures are "
            "provisional, and lower than on a quiet machine; the brackets show how much they vary.",
            "",
        ]
    if scale != 1:
        lines += [f"nodes/s with {scale:g} of the usual number of runs.", ""]
    return "\n".join(lines)


def _figures(systems: dict[System, Any]) -> str:
    lines = [
        "## Figures",
        "",
        "| engine | set-up | ms per hop | nodes/s | CPU µs | fan ms | idle ms | MB |",
        "|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {system.title} | {system.setup}{_mode(system)} | {_row(entry)} |"
        for system, entry in systems.items()
        if entry["rounds"]
    ]
    return "\n".join([*lines, ""])


def _mode(system: System) -> str:
    return ", AOF " + system.server.removeprefix("redis-") if "redis-" in system.server else ""


def _row(entry: dict[str, Any]) -> str:
    rounds = entry["rounds"]
    cells = [_spread(rounds, name) for name in ("hop_ms", "nodes_per_s", "cpu_us")]
    cells += [_spread(rounds, name) for name in ("fan_ms", "idle_ms")]
    own, server = median(rounds, "memory_mb") or 0, median(rounds, "server_mb") or 0
    cells.append(f"{own:.0f}" + (f" + {server:.0f}" if server else ""))
    return " | ".join(cells)


def _spread(rounds: Rounds, figure: str) -> str:
    values = sorted(one[figure] for one in rounds if one.get(figure) is not None)
    if not values:
        return "–"
    middle = number(statistics.median(values))
    if len(values) == 1:
        return middle
    return f"{middle} [{number(values[0])}–{number(values[-1])}]"


def number(value: float) -> str:
    """Format with at least two significant digits."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _failures(systems: dict[System, Any]) -> str:
    rows = [
        f"| {system.title} | {system.setup} | {len(entry['rounds'])} | {entry['error']} |"
        for system, entry in systems.items()
        if entry["error"]
    ]
    if not rows:
        return ""
    head = ["## What failed or was left out", "", "| engine | set-up | rounds | why |"]
    return "\n".join([*head, "|---|---|---|---|", *rows, ""])


def best(names: tuple[str, ...], rounds: dict[str, Rounds], figure: str) -> float | None:
    """Minuet's best figure among some of its set-ups."""
    found = [median(rounds[name], figure) for name in names if name in rounds]
    values = [value for value in found if value is not None]
    if not values:
        return None
    return max(values) if figure == "nodes_per_s" else min(values)


def ratio(system: System, rounds: dict[str, Rounds], figure: str) -> float | None:
    """How many times better Minuet is."""
    ours = best(system.against, rounds, figure)
    theirs = median(rounds.get(system.name, []), figure)
    if not ours or not theirs:
        return None
    return ours / theirs if figure == "nodes_per_s" else theirs / ours


def _times(value: float | None) -> str:
    return "–" if value is None else f"{number(value)} ×"


def _ratios(peers: list[System], rounds: dict[str, Rounds]) -> str:
    lines = [
        "## How many times better Minuet is",
        "",
        "Each peer is compared with Minuet on the same kind of store, at equal or stronger "
        "durability. An engine with its own files is compared with SQLite. For each figure, the "
        "best of Minuet's set-ups on that store counts. Below 1, Minuet is worse.",
        "",
        "| peer | how durable the peer is | against | hop | nodes/s | CPU | fan | idle |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for system in peers:
        if system.name not in rounds:
            continue
        wanted = ("hop_ms", "nodes_per_s", "cpu_us", "fan_ms", "idle_ms")
        cells = [_times(ratio(system, rounds, figure)) for figure in wanted]
        against = system.against[0].removeprefix("minuet-")
        lines.append(
            f"| {system.title}: {system.setup}{_mode(system)} | {system.durability} "
            f"| {against} | {' | '.join(cells)} |"
        )
    return "\n".join([*lines, ""])


def _targets(peers: list[System], rounds: dict[str, Rounds]) -> str:
    lines = ["## Targets", ""]
    python = [s for s in peers if s.python_only]
    lines += _speed(f"every Python-only peer × {PYTHON_TARGET:g}", python, PYTHON_TARGET, rounds)
    restate = [s for s in peers if s.engine == "restate"]
    lines += _speed(f"Restate × {RESTATE_TARGET:g}", restate, RESTATE_TARGET, rounds)
    lines += _functions(peers, rounds)
    others = [(s, ratio(s, rounds, "hop_ms")) for s in peers]
    slower = [f"{_name(s)} {number(r)} ×" for s, r in others if r is not None and r < 1]
    if any(r is not None for _, r in others):
        verdict = f"MISSED: {'; '.join(slower)}" if slower else "met"
        lines.append(f"* the lowest ms per hop: {verdict}")
    return "\n".join([*lines, ""])


def _functions(peers: list[System], rounds: dict[str, Rounds]) -> list[str]:
    """The targets of durable functions, beside engines whose workflows are functions too."""
    lines = []
    for engine, bound in FUNCTION_TARGETS.items():
        functions = [
            replace(s, against=tuple(f"{name}-function" for name in s.against))
            for s in peers
            if s.engine == engine
        ]
        lines += _speed(f"as durable functions, {engine} × {bound:g}", functions, bound, rounds)
        for system in functions:
            hop = ratio(system, rounds, "hop_ms")
            if hop is not None:
                lines.append(f"* ms per step against {_name(system)}: {number(hop)} × better")
    return lines


def _name(system: System) -> str:
    return f"{system.title} ({system.setup}{_mode(system)})"


def _speed(what: str, peers: list[System], bound: float, rounds: dict[str, Rounds]) -> list[str]:
    found = [(s, ratio(s, rounds, "nodes_per_s")) for s in peers]
    known = [(s, r) for s, r in found if r is not None]
    if not known:
        return []
    missed = [f"{_name(s)} {number(r)} ×" for s, r in known if r < bound]
    verdict = f"MISSED for {len(missed)} of {len(known)}: {'; '.join(missed)}" if missed else "met"
    return [f"* durable nodes/s, {what}: {verdict}"]


def _notes(systems: dict[System, Any]) -> str:
    notes = [
        f"* {_name(s)}: {s.note}." for s, entry in systems.items() if s.note and entry["rounds"]
    ]
    return "\n".join(["## Notes", "", *notes, ""]) if notes else ""


def _versions(rounds: dict[str, Rounds]) -> str:
    versions = dict(
        sorted(item for found in rounds.values() for item in found[-1]["versions"].items())
    )
    listed = ", ".join(f"{name} {version}" for name, version in versions.items())
    return f"## Versions\n\n{listed}\n"
