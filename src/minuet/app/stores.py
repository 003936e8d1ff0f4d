"""Opening a store by its URL."""

from __future__ import annotations

from minuet.clock import Clock
from minuet.errors import ConfigError
from minuet.store.base import Store

DEFAULT_STORE = "sqlite:///minuet.db"

#: URL schemes of stores that come with a later version.
_LATER = ("postgresql", "postgres", "redis", "rediss")


def make_store(url: str, *, clock: Clock | None = None) -> Store:
    """A store that is not open yet; ConfigError for a URL that means nothing."""
    scheme, separator, _ = url.partition("://")
    if not separator:
        scheme = "sqlite"
    if scheme == "memory":
        from minuet.store.memory import MemoryStore

        return MemoryStore(clock)
    if scheme == "sqlite":
        from minuet.store.sqlite import SqliteStore

        return SqliteStore(url, clock=clock)
    if scheme in _LATER:
        raise ConfigError(f"store {url!r}: {scheme} comes in a later version; use sqlite:///FILE")
    raise ConfigError(
        f"store {url!r}: there is no store of kind {scheme!r}; use sqlite:///FILE or memory://"
    )
