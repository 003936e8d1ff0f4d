"""A hot store with a log: fast in memory, durable in the log behind it."""

from minuet.store.logged.store import LoggedStore

__all__ = ["LoggedStore"]
