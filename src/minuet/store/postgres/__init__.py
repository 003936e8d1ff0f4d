"""The store in a schema of a PostgreSQL database."""

from minuet.store.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
