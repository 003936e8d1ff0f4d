"""How the position of a node instance is written.

A scope is a tuple of numbers, one per construct that encloses the node. Encoded, it is text
that sorts like the tuple: each number is its decimal digits after a letter for the number of
digits (a = one, b = two, …), so (0, 12) is "a0b12". Sorting makes "the latest
iteration" a range query, and an encoded prefix is a prefix of the text.

The kernel gives instances their scopes. Stores only compare the texts, with one exception: a join
that issues the items of a foreach appends their numbers.
"""

from __future__ import annotations

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
