"""What people and programs read: JSON, tables, times. No colours unless a terminal wants them."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from typing import Any, TextIO

import msgspec

from minuet.errors import trace_lines
from minuet.types import Json

#: Longest text in a table's cell.
CELL_LENGTH_MAX = 100

_COLOURS = {
    "COMPLETED": "32",
    "RUNNING": "36",
    "QUEUED": "36",
    "WAITING": "33",
    "PAUSED": "33",
    "FAILED": "31",
    "CANCELLED": "31",
    "SKIPPED": "2",
    "PENDING": "2",
    "healthy": "32",
    "stale": "33",
    "dead": "31",
    "nobody": "31",
}


def print_json(value: Json) -> None:
    """Print JSON for programs; nothing else goes to standard output with it."""
    text = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    sys.stdout.write(text + "\n")


def note(text: str) -> None:
    """Say something beside the output."""
    print(clean(text), file=sys.stderr)


def clean(text: str) -> str:
    """Text in which nothing is left that a terminal would obey."""
    return "".join(c if c.isprintable() or c in "\n\t" else f"\\x{ord(c):02x}" for c in text)


def brief(value: Json, length_max: int = CELL_LENGTH_MAX) -> str:
    """A value in one short line."""
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    text = clean(text.replace("\n", " "))
    return text if len(text) <= length_max else f"{text[: length_max - 1]}…"


def wants_colour(stream: TextIO) -> bool:
    """Whether the stream is a terminal that shows colours."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def paint(status: str, *, width: int = 0) -> str:
    """A status, in its colour if a terminal is there."""
    text = status.ljust(width)
    if status in _COLOURS and wants_colour(sys.stdout):
        return f"\x1b[{_COLOURS[status]}m{text}\x1b[0m"
    return text


def print_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print columns, each as wide as it needs to be; statuses in their colours."""
    widths = [
        max(len(title), *(len(row[at]) for row in rows)) if rows else len(title)
        for at, title in enumerate(titles)
    ]
    print(
        "  ".join(title.ljust(width) for title, width in zip(titles, widths, strict=True)).rstrip()
    )
    for row in rows:
        cells = [paint(cell, width=width) for cell, width in zip(row, widths, strict=True)]
        print("  ".join(cells).rstrip())


def format_duration(ms: int | None) -> str:
    """120 ms, 3.2 s, 4 min 10 s, 3 h 5 min, 2 d 3 h."""
    if ms is None:
        return ""
    ms = max(ms, 0)
    if ms < 1000:
        return f"{ms} ms"
    if ms < 59_950:
        return f"{ms / 1000:.1f} s"
    minutes, seconds = divmod(round(ms / 1000), 60)
    if minutes < 60:
        return f"{minutes} min {seconds} s"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours} h {minutes} min"
    return f"{hours // 24} d {hours % 24} h"


def format_age(at_ms: int) -> str:
    """How long ago a moment was."""
    return f"{format_duration(time.time_ns() // 1_000_000 - at_ms)} ago"


def format_moment(at_ms: int | None) -> str:
    """A moment in local time, to the millisecond."""
    if at_ms is None:
        return ""
    day = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at_ms / 1000))
    return f"{day}.{at_ms % 1000:03d}"


def format_clock(at_ms: int) -> str:
    """The time of day of a moment, in local time."""
    return format_moment(at_ms)[11:]


def trace_text(error: dict[str, Any] | None) -> str:
    """Where an error came from, in lines; "" if nobody knows."""
    return clean("\n".join(trace_lines(error)))


def error_text(error: dict[str, Any] | None) -> str:
    """An error as it was kept, in one line: `node pay: ValueError: no card`."""
    if not error:
        return ""
    message = str(error.get("message") or error.get("code") or "")
    kind = error.get("type")
    text = f"{kind}: {message}" if kind and kind not in message else message
    return f"node {error['node']}: {text}" if error.get("node") else text
