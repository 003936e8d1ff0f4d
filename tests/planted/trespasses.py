"""Wrong versions of the store in which tenants reach each other's runs, and runs go wrongly.

As `mistakes`: for `tests.planted.bugs`, and nothing else uses them.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from minuet.simulation.model import ModelStore
from minuet.store.changes import Change
from minuet.store.exchange import Exchange, Held, Item, NewStep, Refusal, Reply, Result, Take
from minuet.store.memory.exchange import Taken
from minuet.store.records import Key, Run, Snapshot
from minuet.store.reply import Room
from minuet.store.rules.transition import Transition


def _tenant_of(step: Transition, run: str, tenant: str) -> str:
    row = step.run(run)
    return tenant if row is None else row.tenant


class TakesFromEverybody(ModelStore):
    def _take(
        self, request: Exchange, take: Take, now_ms: int, room: Room, taken: list[Taken]
    ) -> bool:
        most = len(taken) + take.limit
        super()._take(request, take, now_ms, room, taken)
        for tenant in ("default", "second", "third"):
            other = msgspec.structs.replace(request, tenant=tenant)
            rest = msgspec.structs.replace(take, limit=most - len(taken))
            super()._take(other, rest, now_ms, room, taken)
        return True


class AcceptsResultsOfEverybody(Transition):
    def hand_in(self, exchange: Exchange, item: Item) -> Result:
        tenant = _tenant_of(self, item.run, exchange.tenant)
        return super().hand_in(msgspec.structs.replace(exchange, tenant=tenant), item)


class RenewsForEverybody(Transition):
    def renew(self, exchange: Exchange, held: Held) -> bool:
        tenant = _tenant_of(self, held.run, exchange.tenant)
        return super().renew(msgspec.structs.replace(exchange, tenant=tenant), held)


class ChangedByEverybody(Transition):
    def change_run(self, tenant: str, run_id: str, change: Change, expected: int | None) -> Run:
        return super().change_run(_tenant_of(self, run_id, tenant), run_id, change, expected)


class ResolvedByEverybody(Transition):
    def resume(
        self,
        tenant: str,
        key: Key,
        resolution: bytes | None,
        *,
        by: str = "",
        wait_key: str | None = None,
    ) -> bool:
        owner = _tenant_of(self, key[0], tenant)
        return super().resume(owner, key, resolution, by=by, wait_key=wait_key)


class StepsOfEverybody(Transition):
    def record_step(self, tenant: str, new: NewStep) -> bytes | Refusal:
        return super().record_step(_tenant_of(self, new.run, tenant), new)


class ConflictsTellTooMuch(Transition):
    """A run id that another tenant has is refused with that run's state."""

    def check_same(self, known: Run, new: object) -> object:  # type: ignore[override]
        return self._conflict(known, "exists")


class ShownToEverybody(ModelStore):
    async def read_snapshot(self, tenant: str, run: str) -> Snapshot | None:
        row = self._runs.get(run)
        return await super().read_snapshot(tenant if row is None else row.tenant, run)


class RepeatsForEverybody(ModelStore):
    """A session is known by its name alone, so its last call can be had by anybody."""

    async def exchange(self, request: Exchange) -> Reply:
        for tenant, session in list(self._sessions):
            if session == request.session:
                request = msgspec.structs.replace(request, tenant=tenant)
                break
        return await super().exchange(request)


class DeletesOpenRuns(ModelStore):
    async def delete_runs(self, tenant: str, runs: Sequence[str]) -> int:
        doomed = {run for run in runs if run in self._runs and self._runs[run].tenant == tenant}
        for run in doomed:
            del self._runs[run]
        self._events = {k: v for k, v in self._events.items() if k not in doomed}
        self._remove_rows(doomed)
        return len(doomed)


class DeletesForEverybody(ModelStore):
    async def delete_runs(self, tenant: str, runs: Sequence[str]) -> int:
        owners = {self._runs[run].tenant for run in runs if run in self._runs}
        return sum([await super(DeletesForEverybody, self).delete_runs(o, runs) for o in owners])


class DeletesLeaveArrivals(ModelStore):
    async def delete_runs(self, tenant: str, runs: Sequence[str]) -> int:
        arrivals = dict(self._arrivals)
        count = await super().delete_runs(tenant, runs)
        self._arrivals.update(arrivals)
        return count
