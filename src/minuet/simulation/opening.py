"""How the processes of a world open its store."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from minuet.simulation.contents import Contents
from minuet.simulation.logged import LogServer, SimHotStore, SimLog
from minuet.simulation.parts import Parts
from minuet.simulation.server import Server
from minuet.simulation.store import SimStore
from minuet.store.base import Store
from minuet.store.logged import LoggedStore
from minuet.store.records import Snapshot


class Opening:
    """Opens the store of a world: alone, in two halves, with large contents beside it."""

    def __init__(
        self,
        parts: Parts,
        server: Server,
        log_server: LogServer | None,
        contents: Contents | None,
        rebuilt: Callable[[Snapshot], Snapshot],
    ) -> None:
        self._parts = parts
        self._server = server
        self._log_server = log_server
        self._contents = contents
        self._rebuilt = rebuilt

    def connect(self, name: str) -> Store:
        """The store for a process of this name that works on it from now on."""
        store = self._make_store(name)
        if isinstance(store, LoggedStore):
            store.start()
        return self._outside(store)

    def make(self, name: str) -> Store:
        """The store for a process of this name that opens it."""
        return self._outside(self._make_store(name))

    def _outside(self, store: Store) -> Store:
        """The store, with large contents beside it if the world has a place for them."""
        if self._contents is None:
            return store
        return cast(Store, self._parts.outside(store, self._contents))

    def _make_store(self, name: str) -> SimStore | LoggedStore:
        if self._log_server is None:
            return SimStore(self._server)
        log = SimLog(self._log_server)

        async def make_rows(logged: Snapshot) -> Snapshot:
            return self._rebuilt(logged)

        hot = SimHotStore(self._server)
        return self._parts.logged(hot, log, make_rows, owner=name)
