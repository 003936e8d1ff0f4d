"""The store in Redis or Valkey: every verb one Lua call, rows in hashes, order in sorted sets."""

from __future__ import annotations

from minuet.store.redis.store import RedisStore

__all__ = ["RedisStore"]
