"""Scopes as people write and read them; `minuet.scopes` says how they are stored."""

from __future__ import annotations

import re

from minuet.scopes import decode, encode
from minuet.types import Scope

__all__ = ["decode", "encode", "read_reference", "show"]

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
