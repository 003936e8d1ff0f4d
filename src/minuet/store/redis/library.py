"""The Lua of the store: one library of functions, a function for each verb.

A library is loaded once and lives in the server, where the parts that its functions share are ready
for every call; a script would create them again each time. It has the digest of its text in its
name, so that versions of it can be in use side by side. A server that does not know it (it is new,
or its functions were flushed) is sent the text again.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import NamedTuple

from minuet.store.redis.script import expand_names

_FOLDER = Path(__file__).parent / "lua"

#: The rules: `store/rules` again, in files and functions of the same names.
RULES = (
    *("slots", "tokens", "joins", "leases", "signals", "steps", "runs", "repairs", "items"),
    "workflows",
)

#: What the verbs share; each part uses those before it.
_PARTS = (
    *("server", "keys", "event", "rows", "changes", "dead_letters", "request"),
    *(f"rules/{name}" for name in RULES),
    *("grant", "take", "commit", "remove", "logged", "workers", "workflows", "shared_blobs"),
    "verb",
)

#: Verbs that write nothing: they run where writing is refused.
_READING = frozenset(
    {
        *("read_run", "list_runs", "read_events", "read_rows", "read_signals"),
        *("list_waiting", "list_dead_letters", "list_queues", "find_work"),
        *("read_seq", "list_unlogged", "read_unlogged", "read_standings"),
        *("list_unreported", "list_workers", "find_queues", "find_ended", "list_blobs"),
        *("read_workflow", "list_workflows", "list_versions", "list_notable", "list_cells"),
        *("count_runs", "read_feed"),
    }
)


class Library(NamedTuple):
    """The functions of all verbs, as a server is given them."""

    name: str
    text: bytes

    def function(self, verb: str) -> str:
        """The name of a verb's function on the server."""
        return f"{self.name}_{verb}"


@cache
def library() -> Library:
    """The library of this version."""
    return make(source())


def source() -> str:
    """The text of the library, with names for columns and without its own name."""
    parts = [(_FOLDER / f"{part}.lua").read_text(encoding="utf-8") for part in _PARTS]
    verbs = [
        _function(path.stem, path.read_text(encoding="utf-8"))
        for path in sorted((_FOLDER / "verbs").glob("*.lua"))
    ]
    return "\n".join([*parts, *verbs])


def _function(verb: str, text: str) -> str:
    # A function without flags is refused as a whole, before its first write, by a server that is
    # out of memory or a replica.
    flags = "{ 'no-writes' }" if verb in _READING else "{}"
    return f"verb('{verb}', {flags}, function(request)\n{text}end)\n"


def make(source: str) -> Library:
    """A library of this text."""
    text = expand_names(source)
    digest = hashlib.sha256(text.encode()).hexdigest()
    name = f"minuet_{digest[:16]}"
    return Library(name, f"#!lua name={name}\nlocal LIBRARY = '{name}'\n{text}".encode())
