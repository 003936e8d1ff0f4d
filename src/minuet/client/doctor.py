"""Examines and repairs the store of a server."""

from __future__ import annotations

import builtins
from collections.abc import AsyncIterator

from minuet.app import reading
from minuet.app.doctor import Checkup, Doctor, Finding, Repair, Swept
from minuet.bridge.repairs import Repaired
from minuet.client.base import Remote, only_local, remote
from minuet.client.transport import Transport, path_of
from minuet.types import RunStatus


@remote
class RemoteDoctor(Remote, Doctor):
    """Whether the store of a server is sound."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.overdue = 0

    async def check(self, *, before: str | None = None, limit: int = 100) -> Checkup:
        """Examine some runs, the newest first."""
        shape = await self._get("/doctor", cursor=before, limit=limit)
        findings = tuple(map(reading.read_finding, shape["findings"]))
        return Checkup(shape["runs"], findings, shape["overdue"], shape["next"], shape["store"])

    async def examine(
        self, *, statuses: tuple[RunStatus, ...] = ()
    ) -> AsyncIterator[tuple[str, builtins.list[Finding]]]:
        """Not possible run by run: `check` examines some at once."""
        only_local("examining runs one by one", "use `doctor.check`")
        yield "", []

    async def examine_run(self, run_id: str) -> builtins.list[Finding]:
        """Not possible run by run: `check` examines some at once."""
        only_local("examining one run", "use `doctor.check`")

    async def examine_workflows(self) -> AsyncIterator[Finding]:
        """Not possible alone: the first page of `check` does it."""
        only_local("examining workflows alone", "use `doctor.check`")
        yield Finding("", "", "")

    async def repair_run(self, run_id: str) -> Repair:
        """Make a run's rows agree with its history."""
        shape = await self._post(path_of("doctor", run_id, "repair"))
        changes = tuple(Repaired(**one) for one in shape["changes"])
        left = tuple(map(reading.read_finding, shape["left"]))
        return Repair(shape["run_id"], changes, shape["refused"], left)

    async def sweep(self) -> Swept:
        """Nothing: the workers of the store do it."""
        return Swept()
