"""The strings inside a JSON value, and whether they are templates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from minuet.types import Path

#: Marks of a template, or of a mistaken one: the template compiler refuses the latter two.
OPENINGS = ("{{", "{%", "{#")


def is_template(text: str) -> bool:
    """Whether the string is a template."""
    return "{" in text and any(opening in text for opening in OPENINGS)


def has_template(value: Any) -> bool:
    """Whether there is a template anywhere in the value."""
    return any(is_template(text) for _, text in strings(value))


def strings(value: Any, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """List every string in a JSON value with its path, in the value's order."""
    waiting: list[tuple[Path, Any]] = [(path, value)]
    while waiting:
        where, found = waiting.pop()
        if isinstance(found, str):
            yield where, found
        elif isinstance(found, dict):
            waiting.extend(((*where, key), found[key]) for key in reversed(found))
        elif isinstance(found, (list, tuple)):
            waiting.extend(
                ((*where, number), found[number]) for number in reversed(range(len(found)))
            )
