"""Scopes: the position of a node instance, and how it is written.

A scope is a tuple of numbers, one per construct that encloses the node. Encoded, it is text
that sorts like the tuple: each number is its decimal digits after a letter for the number of
digits (a = one, b = two, …), so (0, 12) is "a0b12". Sorting makes "the latest
iteration" a range query, and an encoded prefix is a prefix of the text.
"""

from __future__ import annotations

import re
from functools import lru_cache

from minuet.types import Scope


@lru_cache(maxsize=65_536)
def encode(scope: Scope) -> str:
    """Write a scope as text that sorts like it."""
    text = ""
    for number in scope:
        digits = str(number)
        text += chr(96 + len(digits)) + digits
    return text


@lru_cache(maxsize=65_536)
def decode(text: str) -> Scope:
    """Read a scope back."""
    numbers, at = [], 0
    while at < len(text):
        end = at + 1 + ord(text[at]) - 96
        numbers.append(int(text[at + 1 : end]))
        at = end
    return tuple(numbers)


#: An instance as people see it: node, node[2], node[2.0], and in messages 'node'[2].
_REFERENCE = re.compile(
    r"(?P<quote>'?)(?P<node>[^'\[\]]+)(?P=quote)(?:\[(?P<scope>\d+(?:\.\d+)*)\])?"
)


def read_reference(text: str) -> tuple[str, Scope | None]:
    """Parse a reference: the node, and the scope of its instance. None: no instance is named."""
    found = _REFERENCE.fullmatch(text.removeprefix("'").removesuffix("'")) or _REFERENCE.fullmatch(
        text
    )
    if found is None:
        return text, None
    scope = found["scope"]
    return found["node"], None if scope is None else tuple(int(n) for n in scope.split("."))


def show(scope: Scope) -> str:
    """Write a scope for people: "" or "[2.0]"."""
    return f"[{'.'.join(str(number) for number in scope)}]" if scope else ""
