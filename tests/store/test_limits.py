"""Limits that stand in more than one language are the same."""

from __future__ import annotations

import re
from pathlib import Path

from minuet.store import postgres
from minuet.store.records import INPUT_BYTES_MAX, REPLY_BYTES_MAX
from minuet.store.redis import library
from minuet.store.sql_files import read_migrations


def test_postgresql_knows_the_limits_of_an_answer() -> None:
    migrations = read_migrations(Path(postgres.__file__).parent / "migrations")
    text = "\n".join(migration.text for migration in migrations)

    assert re.findall(r"(\w+)_bytes_max\(\) RETURNS bigint .*'SELECT (\d+)'", text) == [
        ("reply", str(REPLY_BYTES_MAX)),
        ("input", str(INPUT_BYTES_MAX)),
    ]


def test_redis_knows_the_limits_of_an_answer() -> None:
    text = library.library().text.decode()

    # Names of limits are replaced before a server is given the text.
    assert f"bytes_left, fits = {{}}, 0, {REPLY_BYTES_MAX}, {{}}" in text
    assert f"if total > {INPUT_BYTES_MAX} then" in text
