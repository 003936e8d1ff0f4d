"""The URL of a logged store: `redis://host:port/0?record=postgresql://user@host/database`."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from minuet.errors import ConfigError


def split_record(url: str) -> tuple[str, str | None]:
    """The URL without its record, and the URL of the record, if it has one.

    A record's URL that has an `&` of its own is written with `%26` in its place.
    """
    if "record=" not in url:
        return url, None
    head, _, query = url.partition("?")
    options = parse_qsl(query, keep_blank_values=True)
    records = [value for name, value in options if name == "record"]
    if not records:
        return url, None
    if len(records) > 1 or urlsplit(records[0]).scheme not in ("postgresql", "postgres"):
        raise ConfigError(
            "the record of a store is one PostgreSQL database: "
            "redis://host:port/0?record=postgresql://user:password@host:port/database"
        )
    parts = urlsplit(head)
    others = urlencode([pair for pair in options if pair[0] != "record"])
    return urlunsplit((parts.scheme, parts.netloc, parts.path, others, "")), records[0]
