"""The remote workers that this process stands for."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from minuet.app.remote.worker import RemoteWorker
from minuet.errors import InputError
from minuet.nodes.catalog import NODE_TYPES
from minuet.types import TYPE_QUEUE
from minuet.worker.identity import Identity

if TYPE_CHECKING:
    from minuet.app.app import Facade


class RemoteWorkers:
    """The remote workers that this process stands for."""

    def __init__(self) -> None:
        self._workers: dict[str, RemoteWorker] = {}

    def __len__(self) -> int:
        self._forget()
        return len(self._workers)

    def register(
        self,
        facade: Facade,
        *,
        name: str,
        host: str,
        executors: Sequence[str],
        queues: Sequence[str],
        capabilities: dict[str, Any],
        concurrency: int,
        retries: Mapping[str, int] | None = None,
        key: str = "",
    ) -> RemoteWorker:
        """Stand for a remote worker from now on."""
        ours = sorted({one for one in executors if one.removeprefix(TYPE_QUEUE) in NODE_TYPES})
        if ours:
            problem = f"executors: {', '.join(ours)} comes with Minuet, and runs in its workers"
            raise InputError([problem], argument="executors")
        self._forget()
        identity = Identity(name or host, capabilities, (), host, 0, "http")
        made = RemoteWorker(
            facade._tenant,
            identity=identity,
            executors=executors,
            queues=queues,
            concurrency=concurrency,
            key=key,
            retries=retries or {},
        )
        self._workers[made.id] = made
        return made

    def _forget(self) -> None:
        self._workers = {id: one for id, one in self._workers.items() if not one.is_over}

    def get(self, id: str) -> RemoteWorker | None:
        """The remote worker of this id; None: this process does not stand for it (any more)."""
        found = self._workers.get(id)
        return None if found is None or found.is_over else found

    async def remove(self, id: str) -> bool:
        """End a remote worker; False: there is none of this id."""
        found = self.get(id)
        if found is None:
            return False
        await found.end()
        self._forget()
        return True

    async def end(self) -> None:
        """End all of them."""
        await asyncio.gather(*(one.end() for one in self._workers.values()))
