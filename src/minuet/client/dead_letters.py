"""The dead letters of a client."""

from __future__ import annotations

from typing import Any

from minuet.app import reading
from minuet.app.dead_letters import (
    DeadLetters,
    DeadLetterView,
    GroupList,
    IdList,
    LetterDetails,
    LetterList,
    Retried,
)
from minuet.app.redrives import Redrive, RedriveList
from minuet.client.base import EVERYTHING, Remote, pages, remote
from minuet.client.transport import Transport, path_of
from minuet.errors import DeadLetterNotFoundError, RedriveNotFoundError
from minuet.types import LetterStatus


@remote
class RemoteDeadLetters(Remote, DeadLetters):
    """The dead letters of a tenant, by a server."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def list(
        self,
        *,
        run_id: str | None = None,
        node_id: str | None = None,
        queue: str | None = None,
        fingerprint: str | None = None,
        status: LetterStatus | None = "pending",
        limit: int = 100,
        after: str | None = None,
    ) -> LetterList:
        """Dead letters, the oldest first."""
        filters = {"run_id": run_id, "node_id": node_id, "queue": queue}
        filters |= {"fingerprint": fingerprint, "status": status or "all"}
        found = await pages(self._get, "/dlq", limit, after, **filters)
        return [reading.read_letter(shape) for shape in found]

    async def ids(
        self,
        *,
        run_id: str | None = None,
        node_id: str | None = None,
        queue: str | None = None,
        fingerprint: str | None = None,
    ) -> IdList:
        """The ids of all pending dead letters of a run, a node or a cause, the oldest first."""
        filters = {"run_id": run_id, "node_id": node_id, "queue": queue}
        filters["fingerprint"] = fingerprint
        return [shape["id"] for shape in await pages(self._get, "/dlq", EVERYTHING, **filters)]

    async def group(
        self,
        *,
        run_id: str | None = None,
        node_id: str | None = None,
        queue: str | None = None,
        fingerprint: str | None = None,
        status: LetterStatus | None = "pending",
    ) -> GroupList:
        """Dead letters by their fingerprints, the largest group first."""
        page = await self._get(
            "/dlq/groups",
            run_id=run_id,
            node_id=node_id,
            queue=queue,
            fingerprint=fingerprint,
            status=status or "all",
        )
        return [reading.read_letter_group(shape) for shape in page["items"]]

    async def get(self, id: str) -> DeadLetterView:
        """The dead letter with this id; DeadLetterNotFoundError when there is none."""
        return (await self.show(id)).letter

    async def show(self, id: str) -> LetterDetails:
        """A dead letter, with what its handler was given and what happened to it."""
        if "." not in id:
            raise DeadLetterNotFoundError(id)
        return reading.read_letter_details(await self._get(path_of("dlq", id)))

    async def _retry_one(self, id: str, by: str) -> Retried:
        (shape,) = (await self._post(path_of("dlq", id, "retry"), {"by": by}))["items"]
        return reading.read_retried(shape)

    async def redrives(self) -> RedriveList:
        """What servers retry at a pace, or have retried, the newest first."""
        page = await self._get("/dlq/redrives")
        return [reading.read_redrive(shape) for shape in page["items"]]

    async def stop_redrive(self, id: str) -> Redrive:
        """Retry no more of a redrive."""
        if not id:
            raise RedriveNotFoundError(id)
        shape = await self._post(path_of("dlq", "redrives", id, "stop"), again=True)
        return reading.read_redrive(shape)

    async def edit(
        self, id: str, config: dict[str, Any], *, by: str = "", why: str = ""
    ) -> DeadLetterView:
        """Give the node of a pending dead letter another config, for all its further attempts."""
        body = {"config": config, "by": by, "why": why}
        return reading.read_letter(await self._post(path_of("dlq", id, "edit"), body))

    async def discard(self, id: str, *, by: str = "", why: str = "") -> DeadLetterView:
        """Mark a pending dead letter as of no further interest."""
        body = {"by": by, "why": why}
        return reading.read_letter(await self._post(path_of("dlq", id, "discard"), body))
