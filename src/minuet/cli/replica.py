"""`minuet server --read-only`: a server that only answers questions, from a copy or a standby."""

from __future__ import annotations

import contextlib
from argparse import Namespace
from collections.abc import AsyncIterator
from importlib.util import find_spec
from typing import Any

from minuet.app.app import App
from minuet.app.options import OptionArguments
from minuet.app.replica.copying import Replica
from minuet.app.stores import make_copied
from minuet.cli.server import Served
from minuet.clock import SystemClock
from minuet.errors import ConfigError

#: Where a copy is kept unless another file is named.
FILE = "sqlite:///minuet-replica.db"


def is_copy(arguments: Namespace) -> bool:
    """Whether the server keeps a copy of its own; if not, it reads the store that it is given."""
    return (
        arguments.read_only
        and arguments.primary is not None
        and not arguments.store.startswith(("postgres", "redis", "memory:"))
    )


def make_copy(arguments: Namespace, options: OptionArguments, registry: Any) -> Served:
    """A server of a copy."""
    if find_spec("httpx2") is None:
        raise ConfigError("a replica needs httpx2: pip install 'minuet[server,http]'")
    if arguments.store == "sqlite:///minuet.db":
        # The store of this machine's own runs, unless somebody says otherwise.
        arguments.store = FILE
    store = make_copied(arguments.store)
    app = App(store, **options)
    replica = Replica(
        arguments.primary,
        store,
        app.tenant,
        SystemClock(),
        key=arguments.settings["MINUET_API_KEY"],
    )
    return ServedCopy(app, arguments, registry, replica)


class ServedCopy(Served):
    """Serves a copy, and keeps it."""

    def __init__(self, app: App, arguments: Namespace, registry: Any, replica: Replica) -> None:
        super().__init__(app, arguments, registry)
        self._replica = replica

    @contextlib.asynccontextmanager
    async def _beside(self) -> AsyncIterator[None]:
        await self._replica.open()
        async with self._replica.copying():
            yield

    def _age_ms(self) -> int | None:
        return self._replica.age_ms
