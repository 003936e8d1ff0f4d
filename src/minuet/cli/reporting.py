"""What a command that goes on until it is stopped reports meanwhile: servers and workers."""

from __future__ import annotations

import os
import sys
import time
from argparse import Namespace
from typing import Any

import msgspec

from minuet.cli.output import clean, format_duration, note
from minuet.cli.process import StopSignals

#: Seconds between two checks for something to report of a worker.
REPORT_S = 5.0

#: Names printed in one line; of more, how many there are, the first and the last.
NAMES_MAX = 20


class Reporter:
    """Reports what happens: a line for people, or with `-o json` an object on a line of its own."""

    def __init__(self, arguments: Namespace) -> None:
        self.as_json: bool = arguments.output == "json"
        # Kept, because what handlers print may be sent elsewhere later.
        self._out = sys.stdout

    def __call__(self, event: str, text: str, **facts: Any) -> None:
        if self.as_json:
            record = {"event": event, "at_ms": time.time_ns() // 1_000_000, **facts}
            print(msgspec.json.encode(record).decode(), file=self._out, flush=True)
        else:
            note(f"{time.strftime('%H:%M:%S')} {text}")


class WorkReporter(Reporter):
    """Reports what a worker does, from its start to its end."""

    def __init__(self, arguments: Namespace, signals: StopSignals) -> None:
        super().__init__(arguments)
        self._signals = signals
        self._reported: dict[str, int] = {}

    def progress(self, done: msgspec.Struct) -> None:
        """Report what has been done, if that has changed."""
        counts = msgspec.structs.asdict(done)
        if counts != self._reported and any(counts.values()):
            self._reported = counts
            self("progress", _counts_text(counts), **counts)

    def stopping(self, drain_s: float) -> None:
        """Report that it stops, and how long that may take."""
        number = self._signals.number
        why = "stopping" if number is not None else "asked to drain"
        text = (
            f"{why}: running handlers get up to {drain_s:g} s to finish; "
            "a second signal stops at once"
        )
        self("stopping", text, signal=number, drain_seconds=drain_s)

    def end(self, done: msgspec.Struct, seconds: float) -> None:
        """Report what was done in all."""
        counts = msgspec.structs.asdict(done)
        took = format_duration(int(seconds * 1000))
        text = f"worker {os.getpid()} stopped after {took}: {_counts_text(counts)}"
        self("stopped", text, seconds=round(seconds, 3), **counts)


def _counts_text(counts: dict[str, int]) -> str:
    parts = [f"{count} {name}" for name, count in counts.items() if count]
    return f"nodes: {', '.join(parts)}" if parts else "no nodes"


def names_text(names: list[str]) -> str:
    """Names in one line."""
    if len(names) > NAMES_MAX:
        return f"{len(names)}, from {clean(names[0])} to {clean(names[-1])}"
    return ", ".join(clean(name) for name in names)
