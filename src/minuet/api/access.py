"""Who may call: whether a key is needed, and the host that a request must name.

A server on a loopback address needs no key: its callers are on this machine. Two checks keep
pages of other sites from using a visitor's browser to reach it. The request must name a host that
is ours, so that a name that leads here by a trick in the DNS does not count. And a browser says
which site a request comes from (`Origin`), which must be this one.
"""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlsplit

import msgspec
from starlette.datastructures import Headers

from minuet.api.errors import ForbiddenError, ReadOnlyError, UnknownHostError
from minuet.api.identity import RECHECK_S
from minuet.api.local import LOCAL, is_loopback
from minuet.api.provider import Provider
from minuet.errors import ConfigError


def check_bind(host: str, access: Access, *, has_keys: bool, insecure: bool) -> None:
    """ConfigError if others could reach a server that asks nobody for a key, or that has none."""
    if not (is_loopback(host) or has_keys or access.key or access.provider or insecure):
        raise ConfigError(
            f"{host} can be reached from other machines, and there is no API key yet: create one "
            "with `minuet keys create NAME --role admin`, or set MINUET_API_KEY or "
            "MINUET_OIDC_ISSUER; or pass --insecure if something in front of the server checks "
            "who calls"
        )


class Access(msgspec.Struct, frozen=True):
    """What a request needs to be let in."""

    #: A key beside those in the store: it opens everything.
    key: str | None = None
    #: Whether those who send no key are refused.
    is_required: bool = False
    #: Hosts that requests may name, without port; None: any.
    hosts: frozenset[str] | None = frozenset(LOCAL)
    #: Whether it only answers questions, and where changes are made instead.
    read_only: bool = False
    primary: str | None = None
    #: How long a key that was found is taken as valid, in seconds.
    recheck_s: float = RECHECK_S
    #: Host and port under which it is reached from outside; None: as its requests say.
    public_host: str | None = None
    #: Who issues tokens beside the API keys.
    provider: Provider | None = None

    @property
    def is_open(self) -> bool:
        """Whether those who send no key may do everything."""
        return not (self.key or self.is_required or self.provider)

    def check(self, method: str, headers: Headers) -> None:
        """Raise what is wrong with a request, apart from who sends it."""
        if self.read_only and method not in ("GET", "HEAD"):
            raise ReadOnlyError(self.primary)
        host = headers.get("host", "")
        if self.hosts is not None and _name_of(host) not in self.hosts:
            raise UnknownHostError(
                f"this server is not {host!r:.200}; it is known as "
                f"{', '.join(sorted(self.hosts))} (MINUET_ALLOWED_HOSTS adds names)"
            )
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc not in (host, self.public_host):
            raise ForbiddenError(f"pages of {origin!r:.200} may not call this server")


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
    required: bool = False,
    provider: Provider | None = None,
    public_url: str = "",
    insecure: bool = False,
    read_only: bool = False,
    primary: str | None = None,
) -> Access:
    """The access of a server that is bound to this address."""
    given = {name.lower() for name in names}
    public = urlsplit(public_url)
    if public.hostname and (given or is_loopback(host)):
        given.add(_name_of(public.netloc))
    hosts: frozenset[str] | None = frozenset({*LOCAL, *given})
    if not is_loopback(host):
        hosts = frozenset({*LOCAL, host.lower(), *given}) if given else None
    is_required = required or not (is_loopback(host) or insecure)
    return Access(
        key,
        is_required,
        hosts,
        read_only,
        primary,
        public_host=public.netloc.lower() or None,
        provider=provider,
    )
