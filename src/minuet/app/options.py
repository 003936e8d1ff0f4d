"""The options of an App and of its worker: names, types and defaults.

`Options` is what an App works with. `OptionArguments` are the same names as keyword arguments,
for the signatures of `App`, `minuet.run` and `minuet.arun`; a test keeps the two equal. Where a
setting has the same meaning, its default is the option's default (`settings/table.py`).

Durations are seconds, as a number or a `timedelta`. Inside, they are milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from types import ModuleType
from typing import Any, TypeAlias, TypedDict

import msgspec

from minuet.nodes.io.egress import Egress, read_rules
from minuet.nodes.io.prices import read_prices
from minuet.nodes.secrets import SecretProvider, read_provider
from minuet.plan.plan import Retry
from minuet.settings import Settings
from minuet.settings.table import (
    EMBEDDED_CONCURRENCY,
    LOG_BYTES,
    default_queue_leases,
    default_seconds,
)
from minuet.store.records import DEFAULT_TENANT
from minuet.telemetry.observer import Observer, Tracer
from minuet.worker.draining import RELEASE_MS
from minuet.worker.identity import Identity, identity_here
from minuet.worker.preparing import CRASHES_MAX

#: A duration in the arguments of Python calls.
Seconds: TypeAlias = float | timedelta


class OptionArguments(TypedDict, total=False):
    """The options as keyword arguments; `Options` says what each means."""

    handlers: Iterable[str | ModuleType]
    secrets: SecretProvider | None
    egress_allow: Iterable[str]
    egress_private: bool
    llm_prices: str | None
    worker: bool
    own_runs_only: bool
    concurrency: int
    lease_seconds: Seconds
    lease_seconds_by_queue: Mapping[str, Seconds]
    drain_seconds: Seconds
    cancel_seconds: Seconds
    crashes_max: int
    retry: Retry | None
    queues: Iterable[str] | None
    name: str | None
    capabilities: Mapping[str, Any] | None
    executors: Iterable[str]
    heartbeat_seconds: Seconds
    stale_seconds: Seconds
    dead_seconds: Seconds
    stall_seconds: Seconds
    log_bytes: int
    log_retention_seconds: Seconds
    watch_runs: bool | None
    tenant: str
    tune_process: bool
    observer: Observer | None
    tracer: Tracer | None
    webhooks: Iterable[str]
    webhook_give_up_seconds: Seconds
    public_url: str


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The options of an App."""

    #: Modules with handlers, or their names.
    handlers: list[str | ModuleType] = []
    #: Gives the values of secrets; None: they are environment variables.
    secrets: SecretProvider | None = None
    #: Hosts and networks that calls of nodes may reach although they are not public.
    egress_allow: list[str] = []
    #: Calls of nodes may reach loopback and private addresses without a list.
    egress_private: bool = False
    #: What language models cost: JSON, or the name of a file with JSON.
    llm_prices: str | None = None
    #: Whether the App has a worker.
    worker: bool = True
    #: The worker works on runs that this App starts, triggers or prepares, and on no other.
    own_runs_only: bool = False
    #: Handlers that run at once.
    concurrency: int = EMBEDDED_CONCURRENCY
    #: A worker that is silent for this long loses the nodes that it holds to other workers.
    lease_seconds: float = default_seconds("MINUET_LEASE")
    #: The same for queues that have their own; one that is shorter counts as `lease_seconds`.
    lease_seconds_by_queue: dict[str, float] = msgspec.field(default_factory=default_queue_leases)
    #: How long running handlers may take to finish when the App is closed.
    drain_seconds: float = default_seconds("WORKER_GRACEFUL_SHUTDOWN_TIMEOUT")
    #: How long a handler that was asked to stop keeps its place.
    cancel_seconds: float = default_seconds("MINUET_CANCEL_SECONDS")
    #: How many leases of a node may expire before the node fails with `crash_loop`.
    crashes_max: int = CRASHES_MAX
    #: The retry policy of nodes that have none.
    retry: Retry | None = None
    #: Take from these queues only, beside nodes that need no handler. None: from the queues of all
    #: handlers and of the workflows that are started here.
    queues: list[str] | None = None
    #: The worker's name; None: the machine's.
    name: str | None = None
    #: What the worker offers to nodes with placement constraints.
    capabilities: dict[str, Any] | None = None
    #: What the worker executes beside its node types and handlers.
    executors: list[str] = []
    #: Time between two heartbeats of the worker.
    heartbeat_seconds: float = default_seconds("WORKER_HEARTBEAT_INTERVAL")
    #: A worker without a heartbeat for this long is listed as stale.
    stale_seconds: float = default_seconds("WORKER_HEARTBEAT_TIMEOUT")
    #: A worker without a heartbeat for this long is listed as dead.
    dead_seconds: float = default_seconds("MINUET_HEARTBEAT_TIMEOUT_SECONDS")
    #: A run that waits for nobody and to which nothing happens for this long is stalled.
    stall_seconds: float = default_seconds("MINUET_STALL_SECONDS")
    #: How many bytes of what an attempt of a node prints and logs are kept; 0: none.
    log_bytes: int = LOG_BYTES
    #: How long what nodes print and log is kept.
    log_retention_seconds: float = default_seconds("MINUET_LOG_RETENTION")
    #: Look for stalled runs and log them. None: if the App has a worker for all runs.
    watch_runs: bool | None = None
    #: Whose runs these are.
    tenant: str = DEFAULT_TENANT
    #: The process exists to run this App: let the garbage collector run less often.
    tune_process: bool = False
    #: Learns what the worker does, for example to count it.
    observer: Observer | None = None
    #: Gives runs and nodes a place in a trace.
    tracer: Tracer | None = None
    #: Who is sent webhooks, as MINUET_WEBHOOKS has them. Only an App with a worker sends any.
    webhooks: list[str] = []
    #: When a webhook that was not accepted is given up.
    webhook_give_up_seconds: float = default_seconds("MINUET_WEBHOOK_GIVE_UP")
    #: Where the HTTP API is reached from outside.
    public_url: str = ""

    @property
    def retry_policy(self) -> Retry:
        """The retry policy of nodes that have none."""
        return self.retry or Retry()

    @property
    def watches_runs(self) -> bool:
        """Whether it looks for stalled runs."""
        if self.watch_runs is None:
            return self.worker and not self.own_runs_only
        return self.watch_runs

    @property
    def grace_s(self) -> float:
        """How long closing an App takes at most, whatever its handlers do."""
        return self.drain_seconds + RELEASE_MS / 1000

    def identity(self) -> Identity:
        """What the worker says about itself when it registers."""
        return identity_here(self.name, self.capabilities, self.executors)

    @property
    def egress(self) -> Egress:
        """What calls may reach."""
        return Egress(self.egress_private, read_rules(self.egress_allow))

    def of_worker(self) -> dict[str, Any]:
        """What a Worker is made with, in its own names and units."""
        return {
            "secrets": self.secrets,
            "prices": read_prices(self.llm_prices),
            "egress": self.egress,
            "concurrency": self.concurrency,
            "lease_ms": to_ms(self.lease_seconds),
            "lease_ms_by_queue": {
                queue: to_ms(seconds)
                for queue, seconds in self.lease_seconds_by_queue.items()
                if seconds > self.lease_seconds
            },
            "drain_ms": to_ms(self.drain_seconds),
            "cancel_ms": to_ms(self.cancel_seconds),
            "crashes_max": self.crashes_max,
            "retry": self.retry_policy,
            "queues": None if self.queues is None else tuple(sorted(set(self.queues))),
            "named_runs_only": self.own_runs_only,
            "identity": self.identity(),
            "heartbeat_ms": to_ms(self.heartbeat_seconds),
            "log_bytes": self.log_bytes,
            "log_retention_ms": to_ms(self.log_retention_seconds),
            "observer": self.observer,
            "tracer": self.tracer,
        }


def as_seconds(duration: Seconds | None) -> float | None:
    """A duration as a number of seconds."""
    return duration.total_seconds() if isinstance(duration, timedelta) else duration


def to_ms(seconds: float) -> int:
    """Seconds in milliseconds."""
    return round(seconds * 1000)


def duration_ms(duration: Seconds) -> int:
    """A duration in milliseconds."""
    return to_ms(as_seconds(duration) or 0)


def worker_settings(settings: Settings) -> OptionArguments:
    """The options that settings give to the worker of every command.

    What belongs to one kind of command only (how many handlers, how long to drain) is left out.
    """
    return {
        "secrets": read_provider(settings["MINUET_SECRETS"])
        if settings["MINUET_SECRETS"]
        else None,
        "retry": Retry(**settings.retry),
        "webhooks": [settings["MINUET_WEBHOOKS"]] if settings["MINUET_WEBHOOKS"] else [],
        "webhook_give_up_seconds": settings["MINUET_WEBHOOK_GIVE_UP"],
        "public_url": settings["MINUET_PUBLIC_URL"] or "",
        "heartbeat_seconds": settings["WORKER_HEARTBEAT_INTERVAL"],
        "log_bytes": settings["MINUET_LOG_BYTES"],
        "log_retention_seconds": settings["MINUET_LOG_RETENTION"],
        "cancel_seconds": settings["MINUET_CANCEL_SECONDS"],
        **liveness_settings(settings),
    }


def liveness_settings(settings: Settings) -> OptionArguments:
    """When a silent worker is listed as stale, and when as dead; and when a run is stalled."""
    return {
        "stall_seconds": settings["MINUET_STALL_SECONDS"],
        "stale_seconds": settings["WORKER_HEARTBEAT_TIMEOUT"],
        "dead_seconds": settings["MINUET_HEARTBEAT_TIMEOUT_SECONDS"],
    }
