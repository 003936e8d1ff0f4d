"""The workers that a client asks its server about; `worker` is one that works."""

from __future__ import annotations

from minuet.api.errors import NotFoundError
from minuet.app import reading
from minuet.app.leases import Leases
from minuet.app.workers import HandlerList, NameList, QueueList, TaskList, WorkerList, Workers
from minuet.client.base import PAGE_MAX, Remote, only_local, remote
from minuet.client.transport import Transport, path_of


@remote
class RemoteWorkers(Remote, Workers):
    """The workers of a tenant, by a server."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def list(self) -> WorkerList:
        """All that are known, by name; dead ones are forgotten after an hour."""
        return [reading.read_worker(one) for one in (await self._get("/workers"))["items"]]

    async def queues(self) -> QueueList:
        """What waits and what runs, and who serves it."""
        return [reading.read_queue(one) for one in (await self._get("/queues"))["items"]]

    async def tasks(self, worker: str, *, limit: int = 100) -> TaskList:
        """What a worker, by its id, could take now, without taking it."""
        id = (await self.find(worker)).id
        page = await self._get(path_of("workers", id, "tasks"), limit=limit)
        return [reading.read_ready_task(shape) for shape in page["items"]]

    async def leases(self, worker: str | None = None, *, limit: int = 1_000) -> Leases:
        """What workers hold at this moment, or what one of them holds, by its id."""
        id = None if worker is None else (await self.find(worker)).id
        page = await self._get("/leases", worker=id, limit=min(limit, PAGE_MAX))
        return reading.read_leases(page)

    async def handlers(self) -> HandlerList:
        """The handlers that workers have, by name."""
        return [reading.read_handler(one) for one in (await self._get("/handlers"))["items"]]

    def _may_serve(self, queue: str) -> bool:
        return False  # A client has no worker.

    async def left_to_others(self) -> NameList:
        """Not possible: a client has no worker."""
        only_local("asking what a worker leaves to others", "a client has no worker")

    def serve_functions(self) -> None:
        """Nothing: a client has no worker."""

    async def drain(self, worker: str) -> bool:
        """Ask a worker, by its id, to take nothing more, to finish what it has, and to end."""
        path = path_of("workers", worker, "drain")
        return await self._found("POST", path)

    async def remove(self, worker: str) -> bool:
        """Deregister a worker; if it still lives, it drains. False: there is no such worker."""
        return await self._found("DELETE", path_of("workers", worker))

    async def _found(self, method: str, path: str) -> bool:
        try:
            await self._transport.call(method, path, again=True)
        except NotFoundError:
            return False
        return True
