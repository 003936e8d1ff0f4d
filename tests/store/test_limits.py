"""Limits that stand in more than one language are the same."""

from __future__ import annotations

from collections import defaultdict

from minuet.store.postgres.functions import definitions
from minuet.store.records import INPUT_BYTES_MAX, REPLY_BYTES_MAX
from minuet.store.redis import library


def test_postgresql_knows_the_limits_of_an_answer() -> None:
    text = definitions(defaultdict(str))

    assert f"v_left bigint := {REPLY_BYTES_MAX};" in text
    assert f"o.bytes > {INPUT_BYTES_MAX}\n" in text


def test_redis_knows_the_limits_of_an_answer() -> None:
    text = library.library().text.decode()

    # Names of limits are replaced before a server is given the text.
    assert f"sent_count, bytes_left = 0, {REPLY_BYTES_MAX}" in text
    assert f"if total > {INPUT_BYTES_MAX} then" in text
