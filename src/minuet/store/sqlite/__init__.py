"""The store in one SQLite file."""

from minuet.store.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
