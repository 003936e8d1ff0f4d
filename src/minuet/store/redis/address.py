"""Where a store is: `redis://[:password@]host:port/database?prefix=minuet`.

Options are ours: `prefix` of all keys, `retention_s` (`minuet.store.retention`),
`accept_loss=1` (go on with a server that keeps nothing on disk), and for `rediss://` the files
`sslrootcert`, `sslcert` and `sslkey`, named as PostgreSQL does. Messages never show a password.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from minuet.errors import ConfigError
from minuet.store.certificate import FILES, check_files
from minuet.store.retention import OPTION, retention_ms

#: Ended runs are kept for a week unless the URL says otherwise: memory is scarcer than disk.
RETENTION_S = 7 * 24 * 3600

_FORM = "a Redis store is given as redis://[:password@]host:port/database?prefix=name"
_OPTIONS = ("prefix", OPTION, "accept_loss", *FILES)


@dataclass(frozen=True)
class Address:
    """A parsed URL."""

    #: For the driver: without our options, with the password.
    url: str
    #: For people: without the password.
    shown: str
    prefix: str = "minuet"
    retention_ms: int | None = RETENTION_S * 1000
    accept_loss: bool = False
    #: For TLS, by the name of the option: whom to trust, and who we are.
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_encrypted(self) -> bool:
        return self.url.startswith("rediss:")


def parse_address(url: str) -> Address:
    """Read a URL; ConfigError says what is wrong with it."""
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise ConfigError(_FORM) from error
    if parts.scheme not in ("redis", "rediss"):
        raise ConfigError(_FORM)
    if "@" in url and "@" not in parts.netloc:
        # The error quotes nothing of it, because the wrong part may be the password.
        raise ConfigError(f"{_FORM}; write / as %2F, ? as %3F and # as %23 in a password")
    try:
        host, port = parts.hostname or "localhost", parts.port or 6379
    except ValueError as error:
        raise ConfigError(f"{_FORM}; its port is not a number") from error
    database = parts.path.strip("/") or "0"
    if not database.isdecimal():
        raise ConfigError(f"{_FORM}; the database is a number, not {database!r}")
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    unknown = sorted(set(options) - set(_OPTIONS))
    if unknown:
        known = ", ".join(_OPTIONS)
        raise ConfigError(f"unknown option {unknown[0]!r} of a Redis store (known: {known})")
    return Address(
        url=urlunsplit((parts.scheme, parts.netloc, f"/{database}", "", "")),
        shown=f"{host}:{port}, database {database}",
        prefix=_prefix(options.get("prefix", "minuet")),
        retention_ms=retention_ms(options.get(OPTION), RETENTION_S * 1000),
        accept_loss=options.get("accept_loss", "0") not in ("", "0"),
        files=_files(options, parts.scheme),
    )


def _files(options: Mapping[str, str], scheme: str) -> dict[str, str]:
    files = {name: options[name] for name in FILES if name in options}
    for name in files:
        if scheme != "rediss":
            raise ConfigError(f"{name} is for Redis over TLS: write rediss:// instead of redis://")
    check_files(files)
    return files


def _prefix(text: str) -> str:
    if not text or not text.isprintable() or set(text) & set("{}"):
        raise ConfigError("the prefix of a Redis store is a name without braces")
    return text
