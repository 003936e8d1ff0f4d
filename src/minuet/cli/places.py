"""How a place is named where a command works: a store by its URL, or a server by its address."""

from __future__ import annotations


def is_server(place: str) -> bool:
    """Whether it is the address of a server, or several."""
    return place.startswith(("http://", "https://"))


def is_memory(place: str) -> bool:
    """Whether the store ends with the process."""
    return place.startswith("memory:")
