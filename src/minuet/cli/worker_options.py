"""The options of a worker, from the command line and the settings."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import msgspec

from minuet.app.handlers import make_handlers
from minuet.app.options import OptionArguments, worker_settings
from minuet.errors import ConfigError
from minuet.telemetry.setup import make_tracer


def read_worker_options(arguments: Namespace, modules: Sequence[ModuleType]) -> OptionArguments:
    """The options of a worker with these handlers, from the command line and the settings.

    An option on the command line wins over the setting of the same meaning.
    """
    settings = arguments.settings
    capabilities = _capabilities(listed(settings["MINUET_WORKER_CAPABILITIES"]))
    capabilities |= _capabilities(arguments.capability)
    labels = arguments.label or listed(settings["MINUET_WORKER_LABELS"])
    if labels:
        capabilities["labels"] = sorted(set(labels))
    handlers = make_handlers(modules).names()
    return {
        **worker_settings(settings),
        "handlers": modules,
        "tune_process": True,
        "lease_seconds": arguments.lease or settings["MINUET_LEASE"],
        "lease_seconds_by_queue": settings.queue_leases(handlers),
        "name": arguments.name or settings["MINUET_WORKER_NAME"],
        "capabilities": capabilities,
        "egress_allow": listed(settings["MINUET_EGRESS_ALLOW"]),
        "llm_prices": settings["MINUET_LLM_PRICES"],
        "executors": arguments.executor or listed(settings["MINUET_WORKER_EXECUTORS"]),
        "tracer": make_tracer() if settings["MINUET_TRACING"] else None,
    }


def listed(text: str | None) -> list[str]:
    """The entries of a setting that is a list."""
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
    """What is JSON is taken as JSON: numbers compare as minimums, `true` as equal."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
