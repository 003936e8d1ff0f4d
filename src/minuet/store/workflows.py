"""Deployed workflows in memory: for the store and for the log there."""

from __future__ import annotations

from collections.abc import Sequence

from minuet.clock import Clock
from minuet.store.check import check_version
from minuet.store.records import Deployed, DeployedWorkflow, WorkflowVersion
from minuet.store.rules.workflows import Named, compared, deploy, number_of


class MemoryWorkflows:
    """The verbs of deployed workflows, in memory."""

    #: By tenant and name.
    _named: dict[tuple[str, str], Named]
    #: By tenant, name and number.
    _versions: dict[tuple[str, str, int], WorkflowVersion]
    _clock: Clock

    async def deploy_workflow(
        self, new: WorkflowVersion, tags: Sequence[str] = ()
    ) -> Deployed | None:
        check_version(new, tags)
        key = (new.tenant, new.name)
        named = self._named.get(key, Named())
        places = {number: (*key, number) for number in compared(named, new, tags)}
        known = {n: self._versions[place] for n, place in places.items() if place in self._versions}
        made = deploy(named, known, new, tags, self._clock.now_ms())
        if made is None:
            return None
        self._named[key] = made.named
        self._versions[*key, made.deployed.version.version] = made.deployed.version
        return made.deployed

    async def read_workflow(
        self, tenant: str, name: str, at: int | str | None = None
    ) -> DeployedWorkflow | None:
        named = self._named.get((tenant, name), Named())
        number = number_of(named, at)
        if number is None:
            return None
        version = self._versions[tenant, name, number]
        return DeployedWorkflow(version, named.newest, dict(named.tags))

    async def delete_workflow(self, tenant: str, name: str) -> bool:
        named = self._named.pop((tenant, name), Named())
        for number in range(1, named.newest + 1):
            del self._versions[tenant, name, number]
        return named.newest > 0

    async def list_workflows(
        self, tenant: str, *, after: str = "", limit: int = 100
    ) -> list[DeployedWorkflow]:
        names = sorted(name for of, name in self._named if of == tenant and name > after)
        found = [await self.read_workflow(tenant, name) for name in names[: max(limit, 0)]]
        return [one for one in found if one is not None]

    async def list_versions(
        self, tenant: str, *, after: tuple[str, int] = ("", 0), limit: int = 1000
    ) -> list[WorkflowVersion]:
        keys = sorted(key for key in self._versions if key[0] == tenant and key[1:] > after)
        return [self._versions[key] for key in keys[: max(limit, 0)]]
