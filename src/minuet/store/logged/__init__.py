"""A hot store with a record: fast in memory, durable in the log behind it."""

from minuet.store.logged.store import LoggedStore

__all__ = ["LoggedStore"]
