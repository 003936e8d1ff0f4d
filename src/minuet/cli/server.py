"""`minuet server`: serve the HTTP API of a store, until it is stopped."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from argparse import Namespace
from collections.abc import AsyncIterator
from importlib.util import find_spec
from typing import Any

import msgspec

from minuet import outcomes
from minuet.app.app import App
from minuet.app.keys import KeyCells
from minuet.app.options import OptionArguments, worker_settings
from minuet.app.stores import make_reader, read_age_ms
from minuet.cli.log import logging_to_stderr
from minuet.cli.output import note
from minuet.cli.process import StopSignals, run
from minuet.cli.stores import is_memory
from minuet.cli.worker_options import listed
from minuet.errors import ConfigError
from minuet.nodes.secrets import NoSecrets
from minuet.settings import Settings, masked
from minuet.telemetry.setup import make_tracer


def need_server() -> None:
    """ConfigError with the install line if what the server needs is not installed."""
    missing = [
        name for name in ("fastapi", "uvicorn", "prometheus_client") if find_spec(name) is None
    ]
    if missing:
        raise ConfigError(f"the server needs {missing[0]}: pip install 'minuet[server]'")


def serve(arguments: Namespace) -> int:
    """Serve until a signal comes."""
    need_server()
    if is_memory(arguments.store):
        raise ConfigError(
            "memory:// is a new store in every process: no worker would find its runs; "
            "`minuet dev` has a worker of its own"
        )
    options: OptionArguments = {**worker_settings(arguments.settings), "worker": False}
    # Of the workers over HTTP that it stands for.
    options["lease_seconds"] = arguments.settings["MINUET_LEASE"]
    # Its metrics say how many runs are stalled. That is also written into their histories.
    options["watch_runs"] = not arguments.read_only
    options["egress_allow"] = listed(arguments.settings["MINUET_EGRESS_ALLOW"])
    if options["secrets"] is None:
        # As for workers: others may write the documents.
        options["secrets"] = NoSecrets()
    # It starts runs, and stands for workers over HTTP.
    options["tracer"] = make_tracer() if arguments.settings["MINUET_TRACING"] else None
    options["observer"], registry = make_metrics()
    served = _make(arguments, options, registry)
    return run(served.work, served.signals)


def _make(arguments: Namespace, options: OptionArguments, registry: Any) -> Served:
    if not arguments.read_only:
        return Served(App(arguments.store, **options), arguments, registry)
    from minuet.cli.replica import is_copy, make_copy

    if is_copy(arguments):
        return make_copy(arguments, options, registry)
    return Served(App(make_reader(arguments.store), **options), arguments, registry)


def make_metrics() -> tuple[Any, Any]:
    """An observer that counts what workers of this process do, and where it counts."""
    from prometheus_client import CollectorRegistry

    from minuet.telemetry.metrics import WorkerMetrics

    registry = CollectorRegistry()
    return WorkerMetrics(registry), registry


def _read_provider(settings: Settings) -> Any:
    """The OpenID Connect provider of the settings; None: there is none."""
    issuer = settings["MINUET_OIDC_ISSUER"]
    if not issuer:
        return None
    from minuet.api.oidc import TokenChecker
    from minuet.api.provider import Provider

    provider = Provider(
        issuer,
        settings["MINUET_OIDC_AUDIENCE"] or "",
        settings["MINUET_OIDC_NAME_CLAIM"],
        settings["MINUET_OIDC_ROLES_CLAIM"],
        settings["MINUET_OIDC_GROUPS_CLAIM"],
        settings["MINUET_OIDC_TENANT_CLAIM"] or "",
    )
    # A wrong setting stops the start.
    TokenChecker(provider)
    return provider


class Served:
    """From the start of a server to its end."""

    def __init__(self, app: App, arguments: Namespace, registry: Any = None) -> None:
        from minuet.api.access import access_for

        self._app = app
        #: Where the metrics of workers in this process are.
        self._registry = registry
        self._arguments = arguments
        self._as_json: bool = arguments.output == "json"
        # What handlers print goes elsewhere with --json; what we print does not.
        self._out = sys.stdout
        settings = arguments.settings
        self._access = access_for(
            arguments.host,
            settings["MINUET_API_KEY"],
            listed(settings["MINUET_ALLOWED_HOSTS"]),
            required=arguments.require_key or settings["MINUET_REQUIRE_KEY"],
            provider=_read_provider(settings),
            public_url=settings["MINUET_PUBLIC_URL"] or "",
            insecure=arguments.insecure,
            read_only=arguments.read_only,
            primary=arguments.primary,
        )
        self.signals = StopSignals(app.options.grace_s)

    async def work(self) -> int:
        """Open the store, serve, and close it."""
        from minuet.api.application import Api
        from minuet.api.connections import ConnectionLimits, raise_file_limit
        from minuet.api.front import Limits
        from minuet.api.replica import ReplicaApi
        from minuet.api.serving import bind, serving, url_of

        arguments, settings = self._arguments, self._arguments.settings
        sock = bind(arguments.host, arguments.port)
        limits = Limits(
            body_bytes=settings["MINUET_BODY_BYTES_MAX"],
            per_second=settings["MINUET_REQUESTS_PER_SECOND"],
            open_runs=settings["MINUET_OPEN_RUNS_MAX"],
        )
        with logging_to_stderr(arguments), sock:
            self.signals.install()
            async with self._app, self._beside():
                await self._check_bind()
                api: Api
                if arguments.read_only:
                    api = ReplicaApi(
                        self._app, self._access, limits, self._registry, age_ms=self._age_ms
                    )
                else:
                    api = Api(self._app, self._access, limits, self._registry)
                connections = ConnectionLimits(
                    connections=raise_file_limit(), body_bytes=limits.body_bytes
                )
                self._prepare(api)
                async with serving(api, sock, connections):
                    url = url_of(sock, arguments.host)
                    self._report_start(url)
                    await self._until_stopped()
                    self._report("stopping", "stopping: requests get a few seconds to finish")
                    self.signals.watch()
        self._report("stopped", "stopped")
        return outcomes.COMPLETED

    def _prepare(self, api: Any) -> None:
        """What else the server should know."""

    async def _check_bind(self) -> None:
        """ConfigError if others could reach the server and nobody is asked for a key."""
        from minuet.api.access import check_bind

        arguments = self._arguments
        has_keys = await KeyCells.of(self._app).has_valid()
        check_bind(arguments.host, self._access, has_keys=has_keys, insecure=arguments.insecure)

    @contextlib.asynccontextmanager
    async def _beside(self) -> AsyncIterator[None]:
        """What goes on while it serves."""
        yield

    def _age_ms(self) -> int | None:
        """Of a read-only server: how old its data is at most."""
        return read_age_ms(self._app.store)

    async def _until_stopped(self) -> None:
        await self.signals.came.wait()

    def _report_start(self, url: str) -> None:
        store = masked(self._arguments.store)
        key = "no key is needed" if self._access.is_open else "clients need an API key"
        text = f"serving {url}/ui/ and {url}/api/v1 on {store}; {key}"
        self._report("started", text, url=url, store=store, pid=os.getpid())

    def _report(self, event: str, text: str, **facts: Any) -> None:
        """A line for people, or a JSON object on a line of its own."""
        if self._as_json:
            record = {"event": event, "at_ms": time.time_ns() // 1_000_000, **facts}
            print(msgspec.json.encode(record).decode(), file=self._out, flush=True)
        else:
            note(f"{time.strftime('%H:%M:%S')} {text}")
