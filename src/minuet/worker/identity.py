"""Who a worker is and what it offers: its name, its machine, its capabilities."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from minuet.nodes.catalog import NODE_TYPES
from minuet.nodes.handler import Handlers
from minuet.plan.placement import Offer


class Identity(msgspec.Struct, frozen=True):
    """What a worker says about itself when it registers."""

    name: str = ""
    #: `cpu_cores`, `memory_gb`, `gpu`, `labels`, and anything else that a node may require.
    capabilities: dict[str, Any] = {}
    #: What it can execute beside its node types and handlers.
    executors: tuple[str, ...] = ()
    host: str = ""
    pid: int = 0
    version: str = ""


def offer_of(identity: Identity, handlers: Handlers, worker: str = "") -> Offer:
    """What a worker with these handlers offers to nodes with placement constraints."""
    types = {name for name, kind in NODE_TYPES.items() if kind.kind != "later"}
    executors = types.union(handlers.names(), handlers.types(), identity.executors)
    return Offer(worker, identity.name, frozenset(executors), identity.capabilities)


def identity_here(
    name: str | None = None,
    capabilities: Mapping[str, Any] | None = None,
    executors: Iterable[str] = (),
) -> Identity:
    """A worker of this process. `capabilities` override its machine's cores and memory."""
    host = socket.gethostname()
    return Identity(
        name or host,
        {**_machine(), **(capabilities or {})},
        tuple(sorted(set(executors))),
        host,
        os.getpid(),
        # The package is loaded, because this module is. An import would break the layers.
        sys.modules["minuet"].__version__,
    )


def _machine() -> dict[str, Any]:
    found: dict[str, Any] = {}
    cores = os.cpu_count()
    if cores is not None:
        found["cpu_cores"] = cores
    try:
        size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        # This system does not report it. Users who need it pass it as a capability.
        return found
    return {**found, "memory_gb": round(size / 2**30, 1)}
