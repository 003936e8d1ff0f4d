"""Who may call: the key, the host that a request names, and how often somebody may call.

A server on a loopback address needs no key: its callers are on this machine. Two checks keep
pages of other sites from using a visitor's browser to reach it. The request must name a host that
is ours, so that a name that leads here by a trick in the DNS does not count. And a browser says
which site a request comes from (`Origin`), which must be this one.
"""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Callable, Iterable
from urllib.parse import urlsplit

import msgspec
from starlette.datastructures import Headers

from minuet.api.errors import (
    ForbiddenError,
    ReadOnlyError,
    TooManyRequestsError,
    UnauthenticatedError,
    UnknownHostError,
)
from minuet.errors import ConfigError

#: Names of this machine, for itself.
LOCAL = ("localhost", "127.0.0.1", "[::1]")

#: Callers that are counted; the one that was silent for the longest is forgotten first.
CALLERS_MAX = 10_000


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the address."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def check_bind(host: str, key: str | None, *, insecure: bool) -> None:
    """ConfigError if others could reach a server that asks nobody for a key."""
    if not (is_loopback(host) or key or insecure):
        raise ConfigError(
            f"{host} can be reached from other machines, and everybody who reaches it could start "
            "and cancel runs: set MINUET_API_KEY to a key that clients must send, or pass "
            "--insecure if something in front of the server checks who calls"
        )


class Access(msgspec.Struct, frozen=True):
    """What a request needs to be let in."""

    #: The key that clients send; None: none is needed.
    key: str | None = None
    #: Hosts that requests may name, without port; None: any.
    hosts: frozenset[str] | None = frozenset(LOCAL)
    #: Whether it only answers questions, and where changes are made instead.
    read_only: bool = False
    primary: str | None = None

    def check(
        self, method: str, headers: Headers, path: str, is_worker: Callable[[str, str], bool]
    ) -> None:
        """Let the request in, or raise what is wrong with it."""
        if self.read_only and method not in ("GET", "HEAD"):
            raise ReadOnlyError(self.primary)
        host = headers.get("host", "")
        if self.hosts is not None and _name_of(host) not in self.hosts:
            raise UnknownHostError(
                f"this server is not {host!r:.200}; it is known as "
                f"{', '.join(sorted(self.hosts))} (MINUET_ALLOWED_HOSTS adds names)"
            )
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != host:
            raise ForbiddenError(f"pages of {origin!r:.200} may not call this server")
        if self.key is None:
            return
        given = bearer(headers)
        if not (hmac.compare_digest(given.encode(), self.key.encode()) or is_worker(path, given)):
            raise UnauthenticatedError


def bearer(headers: Headers) -> str:
    """The key that the request sends."""
    scheme, _, given = headers.get("authorization", "").partition(" ")
    return given.strip() if scheme.lower() == "bearer" else ""


def _name_of(host: str) -> str:
    """A host without its port."""
    if host.startswith("["):
        return host.partition("]")[0].lower() + "]"
    return host.partition(":")[0].lower()


def access_for(
    host: str,
    key: str | None,
    names: Iterable[str],
    *,
    insecure: bool = False,
    read_only: bool = False,
    primary: str | None = None,
) -> Access:
    """The access of a server that is bound to this address."""
    check_bind(host, key, insecure=insecure)
    given = {name.lower() for name in names}
    hosts: frozenset[str] | None = frozenset({*LOCAL, *given})
    if not is_loopback(host):
        hosts = frozenset({*LOCAL, host.lower(), *given}) if given else None
    return Access(key, hosts, read_only, primary)


class Pace:
    """How many requests each caller may make in a second; short bursts of as many are let in."""

    def __init__(self, per_second: float) -> None:
        self._per_second = per_second
        #: By caller: requests that it has left, and when that was counted.
        self._left: dict[str, tuple[float, float]] = {}

    def check(self, caller: str, now: float) -> None:
        """Count a request; TooManyRequestsError if it is one too many."""
        most = max(self._per_second, 1.0)
        left, since = self._left.pop(caller, (most, now))
        left = min(most, left + (now - since) * self._per_second)
        is_over = left < 1
        self._left[caller] = (left if is_over else left - 1, now)
        if len(self._left) > CALLERS_MAX:
            del self._left[next(iter(self._left))]
        if is_over:
            wait_s = int((1 - left) / self._per_second) + 1
            raise TooManyRequestsError(
                f"more than {self._per_second:g} requests in a second; try again in {wait_s} s",
                wait_s,
            )
