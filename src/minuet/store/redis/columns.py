"""Rows as the scripts hold them: arrays, whose columns have names only here.

In the scripts `token[T_STATE]` is the state of a token and `run[R_SEQ]` the last event number of a
run; before a script is sent, each such name becomes a number. A row with a field for each column
would cost a server three times the time. What is stored of a row comes last in its array, as
`rows` reads it; before it stands what only one call needs.
"""

from __future__ import annotations

import re

from minuet.store.redis.rows import RUN_COLUMNS, TOKEN_COLUMNS

#: Name and key; fields to write, and how many values they are; outputs of this call's events by
#: number; whether it has changed; whether it is new; what it was before; what never changes of it
#: and its input, where they are known.
_RUN = (
    *("name", "key", "out", "count", "outputs", "changed", "new"),
    *("old_status", "old_deadline", "old_ended", "cold", "input"),
)

#: Name in sorted sets; its run's row; whether it has changed, is new, was leased.
_TOKEN = ("member", "run", "node", "scope", "changed", "new", "was_leased")


def _numbers(prefix: str, of_the_call: tuple[str, ...], stored: tuple[str, ...]) -> dict[str, str]:
    names = (*of_the_call, *stored)
    numbers = {f"{prefix}{name.upper()}": str(place) for place, name in enumerate(names, 1)}
    bounds = {"FIRST": len(of_the_call) + 1, "LAST": len(names)}
    return numbers | {f"{prefix}{name}": str(place) for name, place in bounds.items()}


_NUMBERS = {
    **_numbers("R_", _RUN, RUN_COLUMNS),
    **_numbers("T_", _TOKEN, TOKEN_COLUMNS),
}

_NAME = re.compile(r"\b[RT]_[A-Z_]+\b")


def number_columns(text: str) -> str:
    """A script with numbers in place of the names of columns."""
    return _NAME.sub(lambda name: _NUMBERS[name.group()], text)
