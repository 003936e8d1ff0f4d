"""Deployed workflows: all of a tenant in one partition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minuet.store.check import check_version
from minuet.store.records import Deployed, DeployedWorkflow, WorkflowVersion
from minuet.store.redis.calls import RedisCalls
from minuet.store.redis.rows import version_of


class RedisWorkflows(RedisCalls):
    """The verbs of deployed workflows."""

    async def _ask(self, verb: str, tenant: str, *arguments: Any) -> Any:
        return await self._run(verb, self._partitions.of_run(tenant), *arguments)

    async def deploy_workflow(
        self, new: WorkflowVersion, tags: Sequence[str] = ()
    ) -> Deployed | None:
        check_version(new, tags)
        answer = await self._ask(
            *("deploy_workflow", new.tenant, self._now_ms(), new.tenant, new.name, new.version),
            *(new.plan, new.document, new.message, new.created_ms, new.created_by, tags),
            new.source,
        )
        if answer is None:
            return None
        is_new, source_changed, version = answer
        return Deployed(version_of(new.tenant, version), bool(is_new), bool(source_changed))

    async def read_workflow(
        self, tenant: str, name: str, at: int | str | None = None
    ) -> DeployedWorkflow | None:
        answer = await self._ask("read_workflow", tenant, tenant, name, at)
        return None if answer is None else _workflow_of(tenant, answer)

    async def delete_workflow(self, tenant: str, name: str) -> bool:
        return bool(await self._ask("delete_workflow", tenant, tenant, name))

    async def list_workflows(
        self, tenant: str, *, after: str = "", limit: int = 100
    ) -> list[DeployedWorkflow]:
        found = await self._ask("list_workflows", tenant, tenant, after, max(limit, 0))
        return [_workflow_of(tenant, one) for one in found]

    async def list_versions(
        self, tenant: str, *, after: tuple[str, int] = ("", 0), limit: int = 1000
    ) -> list[WorkflowVersion]:
        found = await self._ask("list_versions", tenant, tenant, *after, max(limit, 0))
        return [version_of(tenant, one) for one in found]


def _workflow_of(tenant: str, answer: Sequence[Any]) -> DeployedWorkflow:
    newest, pairs, version = answer
    tags = {name.decode(): number for name, number in zip(pairs[::2], pairs[1::2], strict=True)}
    return DeployedWorkflow(version_of(tenant, version), newest, tags)
