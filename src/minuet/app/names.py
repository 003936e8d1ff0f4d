"""Names that come from outside: tenants, queues, ids of runs.

Documents are read with the same care. Some stores would refuse such a name in words of their own,
others would keep it, and none could keep it apart from another for certain.
"""

from __future__ import annotations

from minuet.errors import ConfigError


def is_storable(name: str) -> bool:
    """Whether every store can hold this name."""
    return "\0" not in name and not any("\ud800" <= character <= "\udfff" for character in name)


def check_name(what: str, name: str) -> str:
    """The name, if it can be used."""
    if not is_storable(name):
        raise ConfigError(
            f"the {what} {name!r} holds a character that no store can hold "
            "(U+0000, or half of a pair): leave it out"
        )
    return name
