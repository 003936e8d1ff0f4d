"""Rows that the writer knows without asking, because it has just read or written them.

They equal the file as long as no other connection has written to it and no transaction of ours
was rolled back; in both cases everything is forgotten. What is kept is what the next exchanges
will ask for: tokens that are leased, runs that are open, outputs that were just committed, and
the last call of each session.
"""

from __future__ import annotations

from typing import Any

from minuet.store.records import Key, Run, Token

#: Nothing larger than this is kept, and not more entries than this.
BYTES_MAX = 4096
ENTRIES_MAX = 16_384


class Known:
    """What is known of the file inside a transaction of the writer."""

    def __init__(self) -> None:
        #: Changes when another connection has written to the file.
        self.data_version = -1
        #: Rows with the number that the file has given them.
        self.runs: dict[str, tuple[int, Run]] = {}
        self.tokens: dict[Key, tuple[int, Token]] = {}
        self.outputs: dict[Key, bytes] = {}
        self.sessions: dict[tuple[str, str], tuple[int, str, Any]] = {}

    def clear(self) -> None:
        """Forget everything."""
        for table in (self.runs, self.tokens, self.outputs, self.sessions):
            table.clear()

    def trim(self) -> None:
        """Forget what has become too much; it will be read again."""
        for table in (self.runs, self.tokens, self.outputs, self.sessions):
            if len(table) > ENTRIES_MAX:
                table.clear()
