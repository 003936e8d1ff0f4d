"""What a store URL says: where the server is, which schema, how to treat a pooler."""

from __future__ import annotations

import re
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit, urlunsplit

from minuet.errors import ConfigError
from minuet.store.certificate import check_files
from minuet.store.retention import OPTION, retention_ms

DEFAULT_SCHEMA = "minuet"

#: Connections that a store opens at most.
DEFAULT_CONNECTIONS = 8

_FORM = "a PostgreSQL store is given as postgresql://[user[:password]@]host[:port]/database"
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,49}")


class Address:
    """A parsed store URL.

    `?schema=`, `?connections=`, `?pooler=transaction` and `?retention_s=` are ours; all other
    parameters are PostgreSQL's own, such as `sslmode`.
    """

    def __init__(self, url: str) -> None:
        parts = _split(url)
        ours = {
            "schema": DEFAULT_SCHEMA,
            "connections": str(DEFAULT_CONNECTIONS),
            "pooler": "",
            OPTION: "0",
        }
        theirs = []
        for name, value in parse_qsl(parts.query, keep_blank_values=True):
            if name in ours:
                ours[name] = value
            else:
                theirs.append((name, value))
        check_files(dict(theirs))
        if "," in parts.netloc and "target_session_attrs" not in dict(theirs):
            # Several servers are one that can be written to and its standbys, in any order.
            theirs.append(("target_session_attrs", "primary"))
        #: As PostgreSQL's own programs take it. It may hold a password: never print it.
        self.dsn = urlunsplit(("postgresql", parts.netloc, parts.path, urlencode(theirs), ""))
        self.schema = _schema(ours["schema"])
        self.connections = _connections(ours["connections"])
        #: Every transaction may run on another connection of the server.
        self.pooled = _pooled(ours["pooler"])
        self.retention_ms = retention_ms(ours[OPTION])
        place = parts.netloc.rpartition("@")[2]
        #: For messages: no user, no password.
        self.shown = f"postgresql://{place}{parts.path}"


def _split(url: str) -> SplitResult:
    """Parse a URL; the error quotes nothing of it, because the wrong part may be the password."""
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise ConfigError(_FORM) from error
    if "@" in url and "@" not in parts.netloc:
        raise ConfigError(f"{_FORM}; write / as %2F, ? as %3F and # as %23 in a password")
    for host in parts.netloc.rpartition("@")[2].split(","):
        port = "" if host.endswith("]") else host.partition("]")[2] or host
        port = port.rpartition(":")[2] if ":" in port else "5432"
        if not port.isdecimal() or int(port) > 65_535:
            raise ConfigError(f"{_FORM}; its port is not a number up to 65535")
    return parts


def _schema(text: str) -> str:
    if not _SCHEMA.fullmatch(text) or text.startswith("pg_"):
        raise ConfigError(
            f"schema {text!r} cannot be used: write up to 50 small letters, digits and "
            "underscores, such as ?schema=minuet"
        )
    return text


def _connections(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 1000:
        raise ConfigError(f"connections={text!r}: write a number from 1 to 1000")
    return int(text)


def _pooled(text: str) -> bool:
    if text not in ("", "transaction"):
        raise ConfigError(f"pooler={text!r}: write ?pooler=transaction, or leave it out")
    return text == "transaction"
