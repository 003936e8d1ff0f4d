"""What is on this machine."""

from __future__ import annotations

import ipaddress

#: Names of this machine, for itself.
LOCAL = ("localhost", "127.0.0.1", "[::1]")


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the address."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"
