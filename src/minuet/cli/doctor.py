"""`minuet doctor`: everything that must hold, checked on everything that is stored."""

from __future__ import annotations

import asyncio
import sys
import time
from argparse import Namespace
from typing import Any

from minuet.app.app import App
from minuet.cli import codes
from minuet.cli.output import clean, note, print_json
from minuet.cli.stores import open_to_read

#: Seconds between two words about how far it is.
TELL_S = 2.0


def doctor(arguments: Namespace) -> int:
    """Check every invariant on every run."""

    async def work() -> tuple[int, list[Any]]:
        async with open_to_read(arguments.store) as app:
            return await examine(app)

    count, findings = asyncio.run(work())
    if arguments.output == "json":
        records = [finding.to_json() for finding in findings]
        print_json({"sound": not findings, "runs": count, "findings": records})
    else:
        for finding in findings:
            print(clean(f"run {finding.run_id}: [{finding.id}] {finding.message}"))
        print(summary(count, len(findings)))
    return codes.FAILED if findings else codes.COMPLETED


async def examine(app: App) -> tuple[int, list[Any]]:
    """Look at all runs: how many there are, and what is wrong."""
    count, findings, told = 0, [], False
    told_at = time.monotonic()
    async for _, found in app.doctor.examine():
        count += 1
        findings += found
        if time.monotonic() - told_at > TELL_S:
            told_at, told = time.monotonic(), True
            end = "\r" if sys.stderr.isatty() else "\n"
            print(f"{count} runs checked …", file=sys.stderr, end=end, flush=True)
    if told and sys.stderr.isatty():
        note("")
    return count, findings


def summary(count: int, findings: int) -> str:
    """The verdict in one sentence."""
    runs = f"{count} run{'s' if count != 1 else ''}"
    if not findings:
        return f"Sound: every invariant holds on {runs}."
    return f"Not sound: {findings} finding{'s' if findings != 1 else ''} on {runs}."
