"""The page that a soak leaves: what was done, what was found, what is flat and what grows."""

from __future__ import annotations

import os
import platform
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from bench.soak.judge import Point, Verdict
from bench.soak.plot import number, plot

#: File, title, series: one plot each, where there is something to show.
PANELS = (
    ("speed", "Finished nodes per second", ("nodes",)),
    ("latency", "From the start to the end of a run, ms", ("p50", "p99")),
    ("workers", "Memory (RSS) of worker processes and of the client, MB", ("worker *", "client")),
    ("servers", "Memory of servers, MB", ("Redis", "PostgreSQL")),
    ("file", "SQLite, MB", ("file", "used", "wal")),
    ("redis", "Redis, MB", ("used_memory", "aof")),
    ("keys", "Redis keys, beside one for each run", ("keys",)),
    ("postgres", "PostgreSQL tables, MB", ("tables", "indexes", "tombstones")),
    ("wal", "PostgreSQL write-ahead log, MB", ("pg_wal",)),
    ("dead", "PostgreSQL, dead rows", ("dead",)),
    ("runs", "Runs in the store", ("kept",)),
    ("sessions", "Sessions that the store remembers", ("sessions",)),
)


@dataclass
class Outcome:
    """All that the page tells."""

    store: str
    durability: str
    seed: int
    minutes: float
    #: "" or why it ended before its time.
    cut_short: str = ""
    began: float = 0.0
    seconds: float = 0.0
    workers: int = 0
    retention_s: float = 0.0
    peak: float = 0.0
    offered_runs: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    checks: tuple[int, int, int] = (0, 0, 0)
    blows: list[tuple[float, str]] = field(default_factory=list)
    sessions: tuple[float, int] = (0.0, 0)
    series: dict[str, list[Point]] = field(default_factory=dict)
    verdicts: list[Verdict] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)

    @property
    def grown(self) -> list[Verdict]:
        return [verdict for verdict in self.verdicts if verdict.is_bad]

    @property
    def is_good(self) -> bool:
        return not (self.findings or self.grown)


def write(outcome: Outcome, folder: Path) -> Path:
    """The page and its plots; the plots of an earlier one are removed."""
    pictures = folder / outcome.store
    pictures.mkdir(parents=True, exist_ok=True)
    for old in pictures.glob("*.svg"):
        old.unlink()
    shown = []
    blows = [(at - outcome.began, kind) for at, kind in outcome.blows]
    for name, title, patterns in PANELS:
        series = {
            key: [(at - outcome.began, value) for at, value in points]
            for key, points in sorted(outcome.series.items(), key=lambda pair: _order(pair[0]))
            if any(Path(key).match(pattern) for pattern in patterns)
        }
        if series:
            picture = plot(title, series, outcome.seconds, blows)
            (pictures / f"{name}.svg").write_text(picture, encoding="utf-8")
            shown.append(f"![{title}]({outcome.store}/{name}.svg)")
    page = folder / f"{outcome.store}.md"
    page.write_text("\n".join([*_text(outcome), *shown, ""]), encoding="utf-8")
    return page


def _order(name: str) -> tuple[int, str]:
    """The client after the workers, as plots have it."""
    return (name == "client", name)


def sentence(outcome: Outcome) -> str:
    """What came of it, in one sentence."""
    if outcome.is_good and outcome.cut_short:
        return f"**Cut short** ({outcome.cut_short}): nothing was wrong so far."
    if outcome.is_good:
        return f"**Passed**: every check held, and {_flat(outcome)}."
    problems = []
    if outcome.findings:
        count = max(outcome.counts["findings"], len(outcome.findings))
        problems.append(f"{count} {'check' if count == 1 else 'checks'} failed")
    problems += [f"{v.measure.name} is {v.says}" for v in outcome.grown]
    return f"**Failed**: {'; '.join(problems)}."


def _flat(outcome: Outcome) -> str:
    flat = sum(verdict.says == "flat" for verdict in outcome.verdicts)
    return (
        f"all {flat} measures are flat"
        if flat
        else "it was too short to judge whether the measures are flat"
    )


def _text(outcome: Outcome) -> list[str]:
    counts, kinds = outcome.counts, Counter(kind for _, kind in outcome.blows)
    made, opened, over = outcome.checks
    machine = f"{os.cpu_count()} cores, Python {platform.python_version()}, {platform.system()}"
    cut = f" ({outcome.cut_short})" if outcome.cut_short else ""
    most, starts = outcome.sessions
    lines = [
        f"# Soak: {outcome.store}",
        "",
        "<!-- Written by `make soak`; see README.md in this folder. -->",
        "",
        sentence(outcome),
        "",
        "| | |",
        "|---|---|",
        f"| store | {outcome.durability} |",
        f"| command | `make soak STORE={outcome.store} MINUTES={outcome.minutes:g} "
        f"SEED={outcome.seed}` |",
        f"| when, where | {time.strftime('%Y-%m-%d')}, {machine} |",
        f"| lasted | {outcome.seconds / 60:.1f} minutes under load{cut} |",
        f"| load | {outcome.offered_runs:.1f} runs/s, 60 % of the peak measured first: "
        f"{outcome.peak:.0f} nodes/s; {outcome.workers} worker processes |",
        f"| runs | {counts['started']:,} started: {counts['completed']:,} completed, "
        f"{counts['failed']:,} failed as intended, {counts['cancelled']:,} cancelled; "
        f"{counts['pauses']:,} paused for a while; {counts['nodes']:,} nodes |",
        f"| ended runs | removed after {outcome.retention_s:g} s: {counts['removed']:,} |",
        f"| faults | {_kinds(kinds)} |",
        f"| checks | {made}: {opened:,} open runs and {over:,} that had ended were examined |",
        f"| sessions | at most {most:.0f} remembered; there were {starts} |",
    ]
    if counts["held back"]:
        lines.append(
            f"| held back | {counts['held back']:,} runs were not started, because too many were "
            "open: the machine was slower than when the peak was measured |"
        )
    lines += ["", "## What must be flat", ""]
    lines += [
        "Judged over the second half. A slope is the median of the slopes between all pairs of "
        "points.",
        "",
        "| measure | median | highest | an hour adds | verdict |",
        "|---|---|---|---|---|",
        *(_row(verdict) for verdict in outcome.verdicts),
    ]
    if outcome.findings:
        lines += ["", "## What was wrong", ""]
        lines += [f"* {' '.join(finding.split())[:600]}" for finding in outcome.findings]
    return [
        *lines,
        *("", "## Plots", ""),
        "Short ticks at the bottom: a worker was killed, drained or stopped. Full-height lines: "
        "a server was killed.",
        "",
    ]


def _kinds(kinds: Counter[str]) -> str:
    names = {"kill": "worker killed", "drain": "drained", "stop": "stopped past its lease"}
    parts = [f"{count} × {names.get(kind, kind)}" for kind, count in sorted(kinds.items())]
    return ", ".join(parts) or "none"


def _row(verdict: Verdict) -> str:
    measure = verdict.measure
    unit = measure.unit
    sign = "+" if verdict.per_hour >= 0 else "−"
    adds = f"{sign}{number(abs(verdict.per_hour))} {unit}"
    if verdict.median:
        adds += f" ({sign}{abs(verdict.per_hour / verdict.median):.0%})"
    says = verdict.says
    if says == "not judged":
        says += f": {measure.why_not or 'too short'}"
        adds = adds if measure.why_not and verdict.per_hour else "–"
    elif verdict.is_bad:
        says = f"**{says}** by {number(abs(verdict.per_hour))} {unit} an hour"
    elif verdict.noise is not None:
        says += f", within its normal variation (± {number(verdict.noise)} {unit})"
    return (
        f"| {measure.name} | {number(verdict.median)} {unit} | {number(verdict.highest)} {unit} "
        f"| {adds} | {says} |"
    )
