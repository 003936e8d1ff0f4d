"""The egress guard: which addresses outgoing calls may reach.

A document chooses where an `http` or `llm` node connects to, and must not be able to choose the
inside of the worker's network. The rule is about addresses, never about how a URL is spelt: a host
is resolved once, every address that it has is judged, and the connection goes to a judged address.
So it does not matter how an address is written, or what the name's server answers next time.

An address that belongs to the public internet may be reached. Any other one needs permission:

* `private` permits loopback and private addresses: the author of the document is the operator.
* `allow` lists hosts, addresses and networks, each with a port or without.
* Addresses of cloud metadata services give out credentials. Each must be listed itself: neither
  `private`, nor its network, nor a host name that leads to it is enough.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import TypeAlias

import msgspec

from minuet.errors import ConfigError, EgressError

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network

#: The addresses of a host, as text. Raises OSError when it has none.
Resolver: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]

#: Addresses at which clouds give credentials and configuration to their machines.
METADATA = frozenset(
    map(
        ip_address,
        (
            "169.254.169.254",  # most clouds
            "169.254.170.2",  # AWS containers
            "169.254.170.23",  # AWS pods
            "fd00:ec2::254",  # AWS, over IPv6
            "fd00:ec2::23",  # AWS pods, over IPv6
            "fd20:ce::254",  # Google, over IPv6
            "100.100.100.200",  # Alibaba
            "168.63.129.16",  # Azure, in public address space
            "192.0.0.192",  # Oracle
            "169.254.42.42",  # Scaleway
            "fd00:42::42",  # Scaleway, over IPv6
        ),
    )
)

#: IPv4 addresses that are not part of the public internet, and what they are.
_SPECIAL_4: tuple[tuple[IPv4Network, str], ...] = tuple(
    (IPv4Network(network), kind)
    for network, kind in (
        ("0.0.0.0/8", "unspecified"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "shared"),
        ("127.0.0.0/8", "loopback"),
        ("169.254.0.0/16", "link-local"),
        ("172.16.0.0/12", "private"),
        ("192.0.0.0/24", "reserved"),
        ("192.0.2.0/24", "reserved"),
        ("192.88.99.0/24", "reserved"),
        ("192.168.0.0/16", "private"),
        ("198.18.0.0/15", "reserved"),
        ("198.51.100.0/24", "reserved"),
        ("203.0.113.0/24", "reserved"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),
    )
)

#: The public internet, of IPv6; what lies outside of it is special.
_GLOBAL_6 = IPv6Network("2000::/3")

#: The same as `_SPECIAL_4`, of IPv6.
_SPECIAL_6: tuple[tuple[IPv6Network, str], ...] = tuple(
    (IPv6Network(network), kind)
    for network, kind in (
        ("::1/128", "loopback"),
        ("::/128", "unspecified"),
        ("fc00::/7", "private"),
        ("fe80::/10", "link-local"),
        ("ff00::/8", "multicast"),
        # Tunnels that carry an IPv4 address: 6to4, and Teredo in the block of the IETF.
        ("2002::/16", "tunnel"),
        ("2001::/23", "reserved"),
        ("2001:db8::/32", "reserved"),
        ("3fff::/20", "reserved"),
    )
)

#: A gateway turns these into the IPv4 address in their last 32 bits.
_NAT64 = IPv6Network("64:ff9b::/96")

#: What `private` permits.
_PERMITTED = ("loopback", "private")

_HOST_AND_PORT = re.compile(r"(?P<host>\[[^\]]+\]|[^:\[\]]+)(?::(?P<port>\d{1,5}))?")
_NAME = re.compile(r"(\*\.)?[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?")


def kind_of(address: Address) -> str:
    """What an address is: "" if it is part of the public internet."""
    if isinstance(address, IPv4Address):
        return next((kind for network, kind in _SPECIAL_4 if address in network), "")
    if address in _NAT64:
        behind = kind_of(IPv4Address(int(address) & 0xFFFFFFFF))
        return "translated" if behind else ""
    for network, kind in _SPECIAL_6:
        if address in network:
            return kind
    if address not in _GLOBAL_6:
        return "reserved"
    # ISATAP: a tunnel to the IPv4 address in its last 32 bits.
    return "tunnel" if (int(address) >> 32) & 0xFDFFFFFF == 0x00005EFE else ""


def read_address(text: str) -> Address:
    """An address; one of IPv4 that is written as IPv6 becomes IPv4. ValueError if it is none."""
    address = ip_address(text)
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


class Rule(msgspec.Struct, frozen=True):
    """One entry of the list: a host name or a network, on one port or on any."""

    name: str = ""
    network: Network | None = None
    port: int | None = None

    def permits(self, host: str, address: Address, port: int) -> bool:
        """Whether it permits to reach this host at this address and port."""
        if self.port not in (None, port):
            return False
        if self.network is not None:
            return address in self.network and (
                address not in METADATA or self.network.num_addresses == 1
            )
        if address in METADATA:
            return False
        if self.name.startswith("*."):
            return host.endswith(self.name[1:])
        return host == self.name


def read_rules(entries: Iterable[str]) -> tuple[Rule, ...]:
    """The rules that a list of hosts and networks means; ConfigError for one that is neither."""
    return tuple(map(_read_rule, entries))


def _read_rule(text: str) -> Rule:
    try:
        return Rule(network=ip_network(text))
    except ValueError:
        pass
    found = _HOST_AND_PORT.fullmatch(text)
    host = found["host"].strip("[]").lower().rstrip(".") if found is not None else ""
    port = int(found["port"]) if found is not None and found["port"] else None
    try:
        return Rule(network=ip_network(host), port=port)
    except ValueError:
        pass
    # A name that is a number would be an address in one of the old notations.
    is_name = _NAME.fullmatch(host) is not None and not host.rpartition(".")[2].isdecimal()
    if not is_name or (port is not None and not 1 <= port <= 65535):
        raise ConfigError(
            f"{text!r} is not a host, an address or a network: write db.internal, *.internal, "
            "10.1.2.3, 10.0.0.0/8 or fd00::/8; a host or an address may end with a port, as in "
            "localhost:8080 and [::1]:8080"
        )
    return Rule(name=host, port=port)


class Egress(msgspec.Struct, frozen=True):
    """Which addresses outgoing calls may reach."""

    #: Loopback and private addresses need not be listed.
    private: bool = False
    allow: tuple[Rule, ...] = ()

    def check(self, host: str, port: int, addresses: Iterable[str]) -> list[str]:
        """The addresses to connect to; EgressError if one of them may not be reached.

        One is enough: a name with a public and a private address is an attempt, or a mistake.
        """
        name = host.lower().rstrip(".")
        judged = [read_address(text) for text in addresses]
        for address in judged:
            kind = self._refusal(name, address, port)
            if kind:
                raise EgressError(host, port, str(address), kind)
        return [str(address) for address in judged]

    def _refusal(self, name: str, address: Address, port: int) -> str:
        """Why an address may not be reached; "": it may."""
        kind = "cloud metadata" if address in METADATA else kind_of(address)
        if not kind or (self.private and kind in _PERMITTED):
            return ""
        if any(rule.permits(name, address, port) for rule in self.allow):
            return ""
        return kind


async def resolve(host: str, port: int) -> list[str]:
    """The addresses of a host, by the system's resolver."""
    import asyncio
    import socket

    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))
