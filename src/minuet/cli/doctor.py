"""`minuet doctor`: check every invariant on everything that is stored.

With --repair it repairs what can be repaired, and lists every change.
"""

from __future__ import annotations

import sys
import time
from argparse import Namespace
from typing import Any

import msgspec

from minuet import outcomes
from minuet.app.app import Facade
from minuet.app.doctor import Doctor, Finding, Repair
from minuet.cli.output import clean, note, print_json
from minuet.cli.stores import with_app

#: Runs that are examined at once.
AT_ONCE = 100

#: Seconds between two lines of progress.
REPORT_S = 2.0


def doctor(arguments: Namespace) -> int:
    """Check every invariant on every run; with --repair, repair what can be repaired."""

    async def work(app: Facade) -> tuple[Diagnosis, Treatment | None]:
        found = await examine(app.doctor)
        found.stalled = [(one.run.run, one.explain()) for one in await app.runs.stalled()]
        return found, await treat(app.doctor, found) if arguments.repair else None

    found, treatment = with_app(arguments, work)
    left = found.findings if treatment is None else treatment.left
    if arguments.output == "json":
        records = [finding.to_json() for finding in found.findings]
        answer = {"sound": not left, "runs": found.runs, "findings": records, "store": found.store}
        stalled = [{"run_id": run, "why": why} for run, why in found.stalled]
        answer["stalled"] = stalled
        print_json({**answer, "overdue": found.overdue, **_treated(treatment)})
    else:
        note(f"store: {found.store}")
        _print(found, treatment)
        for run, why in found.stalled:
            print(clean(f"run {run} appears stalled: {why}"))
    return outcomes.FAILED if left else outcomes.COMPLETED


class Diagnosis(msgspec.Struct):
    """What was found."""

    runs: int = 0
    findings: list[Finding] = []
    #: Leases and timers that no sweep has handled yet.
    overdue: int = 0
    #: What the store is, and what it can lose.
    store: str = ""
    #: Runs that make no progress, and why: that is not a fault of what is stored.
    stalled: list[tuple[str, str]] = []


class Treatment(msgspec.Struct):
    """What was done about it."""

    #: Leases expired, timers fired, runs whose deadline has passed.
    swept: tuple[int, int, int]
    repairs: list[Repair] = []
    #: What is wrong with deployed workflows: nothing is done about that.
    workflows: list[Finding] = []

    @property
    def left(self) -> list[Finding]:
        """What is still wrong."""
        return [finding for repair in self.repairs for finding in repair.left] + self.workflows


async def treat(doctor: Doctor, found: Diagnosis) -> Treatment:
    """Repair every run with a finding, then do what is overdue."""
    runs = dict.fromkeys(finding.run_id for finding in found.findings if finding.run_id)
    repairs = [await doctor.repair_run(run_id) for run_id in runs]
    # Sweeping writes to runs, and one that is still damaged must not be touched.
    damaged = any(repair.left for repair in repairs)
    swept = await doctor.sweep() if found.overdue and not damaged else None
    counts = (swept.expired, swept.resumed, swept.cancelled) if swept else (0, 0, 0)
    # What is missing of a workflow comes back when it is deployed again.
    workflows = [finding for finding in found.findings if not finding.run_id]
    return Treatment(counts, repairs, workflows)


def _treated(treatment: Treatment | None) -> dict[str, Any]:
    if treatment is None:
        return {}
    expired, resumed, cancelled = treatment.swept
    return {
        "repairs": [repair.to_json() for repair in treatment.repairs],
        "swept": {"leases": expired, "timers": resumed, "deadlines": cancelled},
    }


def _print(found: Diagnosis, treatment: Treatment | None) -> None:
    for finding in found.findings:
        print(clean(f"{finding.about}: [{finding.id}] {finding.message}"))
    print(summary(found.runs, len(found.findings)))
    if treatment is None:
        if found.findings:
            print("`minuet doctor --repair` repairs what follows from a run's history.")
        if found.overdue:
            print(f"{found.overdue} leases or timers are overdue: a worker will handle them.")
        return
    for repair in treatment.repairs:
        for change in repair.changes:
            print(clean(f"repaired run {repair.run_id}: {change}"))
        if repair.refused is not None:
            print(clean(f"run {repair.run_id} cannot be repaired: {repair.refused}"))
        for finding in () if repair.refused else repair.left:
            print(clean(f"still wrong: {finding.about}: [{finding.id}] {finding.message}"))
    for count, what in zip(
        treatment.swept, ("leases ended", "timers fired", "runs timed out"), strict=True
    ):
        if count:
            print(f"swept: {count} {what}")
    if found.findings and not treatment.left:
        print("Sound now: every invariant holds.")


async def examine(doctor: Doctor) -> Diagnosis:
    """Examine all runs: how many there are, and what is wrong."""
    found, reported, before = Diagnosis(), False, None
    reported_at = time.monotonic()
    while True:
        some = await doctor.check(before=before, limit=AT_ONCE)
        found.runs += some.runs
        found.findings += some.findings
        found.overdue += some.overdue
        found.store, before = some.store, some.next
        if before is None:
            break
        if time.monotonic() - reported_at > REPORT_S:
            reported_at, reported = time.monotonic(), True
            end = "\r" if sys.stderr.isatty() else "\n"
            print(f"{found.runs} runs checked …", file=sys.stderr, end=end, flush=True)
    if reported and sys.stderr.isatty():
        note("")
    return found


def summary(count: int, findings: int) -> str:
    """The verdict in one sentence."""
    runs = f"{count} run{'s' if count != 1 else ''}"
    if not findings:
        return f"Sound: every invariant holds on {runs}."
    return f"Not sound: {findings} finding{'s' if findings != 1 else ''} on {runs}."
