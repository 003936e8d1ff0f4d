"""A hot store with a record: fast in memory, durable in the log behind it."""

from minuet.store.recorded.store import RecordedStore

__all__ = ["RecordedStore"]
