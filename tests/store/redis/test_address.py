"""The URL of a Redis store."""

from __future__ import annotations

import pytest

from minuet.errors import ConfigError
from minuet.store.redis.address import RETENTION_S, parse_address


def test_a_url_names_server_database_and_prefix() -> None:
    address = parse_address("redis://:secret@example.org:7000/3?prefix=mine")

    assert address.url == "redis://:secret@example.org:7000/3"
    assert (address.prefix, address.retention_ms) == ("mine", RETENTION_S * 1000)
    assert address.shown == "example.org:7000, database 3"


def test_what_is_left_out_has_a_default() -> None:
    address = parse_address("redis://example.org")

    assert address.shown == "example.org:6379, database 0"
    assert (address.prefix, address.accept_loss) == ("minuet", False)


def test_options_are_read() -> None:
    address = parse_address("redis://h?retention_s=60&accept_loss=1")

    assert (address.retention_ms, address.accept_loss) == (60_000, True)
    assert parse_address("redis://h?retention_s=0").retention_ms is None


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("http://h", "redis://"),
        ("redis://:secret@h:port/0", "port"),
        ("redis://:secret@h/name", "database is a number"),
        ("redis://:secret@h?retention=1", "unknown option 'retention'"),
        ("redis://:secret@h?retention_s=soon", "number of seconds"),
        ("redis://:secret@h?prefix={x}", "braces"),
        ("redis://:secret@h?prefix=", "prefix"),
    ],
)
def test_a_wrong_url_is_refused_without_showing_its_password(url: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        parse_address(url)

    assert "secret" not in str(caught.value)
