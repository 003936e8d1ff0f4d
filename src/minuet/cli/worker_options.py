"""What a worker offers, as the command line and the settings say it."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

import msgspec

from minuet.errors import ConfigError


def read_worker_options(arguments: Namespace) -> dict[str, Any]:
    """The name, capabilities and executors of this process's worker, as options of an App.

    An option on the command line wins over the same one in the settings.
    """
    settings = arguments.settings
    capabilities = _capabilities(_listed(settings["MINUET_WORKER_CAPABILITIES"]))
    capabilities |= _capabilities(arguments.capability)
    labels = arguments.label or _listed(settings["MINUET_WORKER_LABELS"])
    if labels:
        capabilities["labels"] = sorted(set(labels))
    return {
        "name": arguments.name or settings["MINUET_WORKER_NAME"],
        "capabilities": capabilities,
        "executors": arguments.executor or _listed(settings["MINUET_WORKER_EXECUTORS"]),
        "heartbeat_seconds": settings["WORKER_HEARTBEAT_INTERVAL"],
    }


def read_liveness(arguments: Namespace) -> dict[str, Any]:
    """When a silent worker is stale, and when it counts as dead, as options of an App."""
    return {
        "stale_seconds": arguments.settings["WORKER_HEARTBEAT_TIMEOUT"],
        "dead_seconds": arguments.settings["MINUET_HEARTBEAT_TIMEOUT_SECONDS"],
    }


def _listed(text: str | None) -> list[str]:
    return [part.strip() for part in (text or "").split(",") if part.strip()]


def _capabilities(pairs: list[str]) -> dict[str, Any]:
    found = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not (key and equals):
            raise ConfigError(f"a capability is written KEY=VALUE, such as gpu=1, not {pair!r}")
        found[key] = _value(value)
    return found


def _value(text: str) -> Any:
    """What is JSON is taken as JSON: numbers compare as minimums, `true` as itself."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
