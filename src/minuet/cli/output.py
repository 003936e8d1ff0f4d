"""What people and programs read: JSON, tables, times. No colours unless a terminal wants them."""

from __future__ import annotations

import os
import shutil
import sys
import time
import unicodedata
from collections.abc import Sequence
from typing import Any, TextIO

import msgspec

from minuet.errors import trace_lines
from minuet.types import Json

#: Longest text in a table's cell, and the least that is left of one in a narrow terminal.
CELL_LENGTH_MAX = 100
CELL_LENGTH_MIN = 8

#: The least of a last column that can be read; columns between columns; the narrowest terminal.
PROSE_LENGTH_MIN = 20
GAP = 2
WIDTH_MIN = 40

#: Seconds between two lines of progress: on a terminal, and elsewhere.
PROGRESS_S = 0.2
PROGRESS_PLAIN_S = 5.0

_COLOURS = {
    "COMPLETED": "32",
    "RUNNING": "36",
    "QUEUED": "36",
    "WAITING": "33",
    "PAUSED": "33",
    "COMPENSATING": "33",
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
    """Print a line to standard error."""
    print(clean(text), file=sys.stderr)


class ProgressLine:
    """Progress: one line that changes on a terminal, a line now and then elsewhere."""

    def __init__(self) -> None:
        self._shown = time.monotonic()
        self._live = sys.stderr.isatty()

    def show(self, text: str) -> None:
        """Show how things stand, if it is time again."""
        now = time.monotonic()
        if now - self._shown >= (PROGRESS_S if self._live else PROGRESS_PLAIN_S):
            self._shown = now
            end = "\x1b[K\r" if self._live else "\n"
            print(text, file=sys.stderr, end=end, flush=True)

    def close(self) -> None:
        """Remove the line."""
        if self._live:
            print(end="\x1b[K", file=sys.stderr, flush=True)


def clean(text: str) -> str:
    """The text without control characters, which a terminal would obey."""
    return "".join(c if c.isprintable() or c in "\n\t" else f"\\x{ord(c):02x}" for c in text)


def brief(value: Json, length_max: int = CELL_LENGTH_MAX) -> str:
    """A value in one short line."""
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    text = clean(text.replace("\n", " "))
    return text if len(text) <= length_max else f"{text[: length_max - 1]}…"


def wants_colour(stream: TextIO) -> bool:
    """Whether the stream is a terminal that shows colours."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def paint(status: str) -> str:
    """A status, in its colour on a terminal."""
    if status in _COLOURS and wants_colour(sys.stdout):
        return f"\x1b[{_COLOURS[status]}m{status}\x1b[0m"
    return status


def print_table(
    titles: Sequence[str], rows: Sequence[Sequence[str]], *, names: Sequence[str] = ()
) -> None:
    """Print columns that fit the terminal; statuses in their colours.

    Where there is too little room, the columns `names` and the last one are cut in the middle,
    the widest first. When even then too little is left for the last one, it goes below its row.
    """
    limit = table_width()
    lines = [list(row) for row in rows]
    widths = [max(map(width_of, column)) for column in zip(titles, *lines, strict=True)]
    last = len(titles) - 1
    below = False
    if limit is not None and sum(widths) + GAP * last > limit:
        floors = [
            min(width, max(width_of(title), CELL_LENGTH_MIN))
            if title in names or at == last
            else width
            for at, (title, width) in enumerate(zip(titles, widths, strict=True))
        ]
        # The last column is prose: it is given what is left, if that is enough to be read.
        left = limit - sum(floors[:last]) - GAP * last
        below = last > 0 and left < min(widths[last], PROSE_LENGTH_MIN)
        shown = last if below else last + 1
        _shrink(widths, floors, shown, limit - GAP * (shown - 1))
    shown = last if below else last + 1
    print(_line(titles[:shown], widths[:shown], paint_it=False))
    for row in lines:
        if limit is not None:
            row[last] = cut(row[last], limit - 4 if below else widths[last], middle=False)
        print(_line(row[:shown], widths[:shown], paint_it=True))
        if below and row[last]:
            print(f"    {row[last]}")


def _line(cells: Sequence[str], widths: Sequence[int], *, paint_it: bool) -> str:
    padded = []
    for cell, width in zip(cells, widths, strict=True):
        text = cut(cell, width)
        space = " " * (width - width_of(text))
        padded.append((paint(text) if paint_it else text) + space)
    return (" " * GAP).join(padded).rstrip()


def _shrink(widths: list[int], floors: Sequence[int], count: int, limit: int) -> None:
    """Take from the widest of the first columns until they fit, or none can give any more."""
    while sum(widths[:count]) > limit:
        able = [at for at in range(count) if widths[at] > floors[at]]
        if not able:
            return
        widths[max(able, key=lambda at: widths[at])] -= 1


def table_width() -> int | None:
    """How wide a table may be; None: it is not printed on a terminal."""
    if os.environ.get("COLUMNS", "").isdecimal() or sys.stdout.isatty():
        return max(shutil.get_terminal_size().columns, WIDTH_MIN)
    return None


def width_of(text: str) -> int:
    """The columns that a terminal needs for a text."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


def cut(text: str, width: int, *, middle: bool = True) -> str:
    """A text cut to this many columns, in the middle or at its end."""
    if width_of(text) <= width:
        return text
    end = (width - 1) // 2 if middle else 0
    begin = width - 1 - end
    head, tail = "", ""
    for character in text:
        if width_of(head + character) > begin:
            break
        head += character
    for character in reversed(text):
        if width_of(character + tail) > end:
            break
        tail = character + tail
    return f"{head}…{tail}"


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


def format_short_age(at_ms: int) -> str:
    """How long ago a moment was, in its largest unit: 3.2 s, 4 min, 2 d."""
    number, unit = format_duration(time.time_ns() // 1_000_000 - at_ms).split()[:2]
    return f"{number} {unit}"


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


def workflow_text(workflow: str, version: int | None) -> str:
    """A run's workflow, and its version if it was deployed."""
    return clean(workflow if version is None else f"{workflow}@{version}")


def trace_text(error: dict[str, Any] | None) -> str:
    """Where an error came from, in lines; "" if it is not known."""
    return clean("\n".join(trace_lines(error)))


def error_text(error: dict[str, Any] | None) -> str:
    """A stored error in one line: `node pay: ValueError: no card`."""
    if not error:
        return ""
    message = str(error.get("message") or error.get("code") or "")
    kind = error.get("type")
    text = f"{kind}: {message}" if kind and kind not in message else message
    node = str(error.get("node") or "")
    # The hidden node that renders the document's `output`: its stored name, or the one for people.
    where = "output" if node.startswith(("$", "(")) else f"node {node}"
    return f"{where}: {text}" if node else text
