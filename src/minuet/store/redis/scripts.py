"""The Lua of the verbs: parts that they share and one file for each, joined at the first use.

A script is called by the hash of its text. A server that does not know it (it was restarted, or
somebody flushed its scripts) is given the text once more.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import NamedTuple

from minuet.store.redis.columns import number_columns

_FOLDER = Path(__file__).parent / "lua"

_CHANGING = ("rows", "event", "transition", "commit")
_FROM_OUTSIDE = (*_CHANGING, "runs")
_REMOVING = (*_FROM_OUTSIDE, "remove")
_WORKERS = ("rows", "workers")

#: The parts that stand before the file of a verb.
_PARTS: dict[str, tuple[str, ...]] = {
    "exchange": ("rows", "event", "transition", "hand_in", "grant", "take", "commit"),
    "create_runs": _FROM_OUTSIDE,
    "change_run": _FROM_OUTSIDE,
    "resolve": _FROM_OUTSIDE,
    "record_step": _CHANGING,
    "sweep": _REMOVING,
    "delete_runs": _REMOVING,
    "discard_dead_letter": _CHANGING,
    "put_run": _REMOVING,
    "read_unrecorded": ("rows", "record"),
    "mark_recorded": ("rows", "record"),
    "read_standings": ("rows", "record"),
    "register_worker": _WORKERS,
    "drain_worker": _WORKERS,
    "remove_worker": _WORKERS,
    "list_workers": _WORKERS,
}

#: Scripts that write nothing: they run where writing is refused.
_READING = frozenset(
    {
        *("read_run", "list_runs", "read_events", "read_rows"),
        *("list_waiting", "list_dead_letters", "list_queues", "find_work"),
        *("read_seq", "list_unrecorded", "read_unrecorded", "read_standings"),
        *("list_workers", "find_queues"),
    }
)


class Script(NamedTuple):
    """A script and the hash by which a server knows it."""

    name: str
    text: bytes
    sha: str


@cache
def script(name: str) -> Script:
    """The script of a verb."""
    return make(name, source(name))


def source(name: str) -> str:
    """The text of a script, with names for columns."""
    # Without flags a script is refused as a whole, before its first write, by a server that is
    # out of memory or a replica.
    head = "#!lua flags=no-writes\n" if name in _READING else "#!lua\n"
    parts = (*_PARTS.get(name, ("rows",)), name)
    files = ((_FOLDER / f"{part}.lua").read_text(encoding="utf-8") for part in parts)
    return head + "\n".join(files)


def make(name: str, source: str) -> Script:
    """A script of this text."""
    text = number_columns(source).encode()
    return Script(name, text, hashlib.sha1(text, usedforsecurity=False).hexdigest())
