"""The store as plain dictionaries: the reference for all others, and for tests."""

from minuet.store.memory.store import MemoryStore

__all__ = ["MemoryStore"]
