"""Deployed workflows of a schema.

The runs of a store and those of a record may lie in one schema, and share its workflows.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from minuet.store.check import check_version
from minuet.store.fields import decoder, encoder, to_json
from minuet.store.postgres.blobs import SharedBlobs
from minuet.store.postgres.columns import DIALECT, LISTS
from minuet.store.postgres.database import Link
from minuet.store.postgres.statements import statement
from minuet.store.records import Deployed, DeployedWorkflow, WorkflowVersion
from minuet.store.rules.workflows import Named, compared, deploy, number_of

_LOCK_WORKFLOW = statement("lock_workflow")
_READ_NAMED = statement("read_named")
_READ_VERSIONS = statement("read_versions")
_TIME_OF_DEPLOYMENT = statement("time_of_deployment")
_WRITE_NAMED = statement("write_named")
_INSERT_VERSION = statement("insert_version")
_REPLACE_SOURCE = statement("replace_source")
_DELETE_NAMED = statement("delete_named")
_DELETE_VERSIONS = statement("delete_versions")
_LIST_WORKFLOWS = statement("list_workflows")
_LIST_VERSIONS = statement("list_versions")

_version_of = decoder(WorkflowVersion, LISTS["workflow_version"], DIALECT)
_version_row = encoder(WorkflowVersion, LISTS["workflow_version"], DIALECT)
_tags_of = msgspec.json.Decoder(dict[str, int]).decode


async def deploy_workflow(
    link: Link, new: WorkflowVersion, tags: Sequence[str], now_ms: int | None
) -> Deployed | None:
    await link.value(_LOCK_WORKFLOW, new.tenant, new.name)
    named = await _read_named(link, new.tenant, new.name)
    known = await _read_versions(link, new.tenant, new.name, compared(named, new, tags))
    made = deploy(named, known, new, tags, await link.value(_TIME_OF_DEPLOYMENT, now_ms))
    if made is None:
        return None
    if made.deployed.is_new:
        await link.run(_INSERT_VERSION, *_version_row(made.deployed.version))
    elif made.deployed.source_changed:
        number = made.deployed.version.version
        await link.run(_REPLACE_SOURCE, new.tenant, new.name, number, new.source)
    if made.named != named:
        row = (made.named.newest, to_json(made.named.tags))
        await link.run(_WRITE_NAMED, new.tenant, new.name, *row)
    return made.deployed


async def _read_named(link: Link, tenant: str, name: str) -> Named:
    row = await link.row(_READ_NAMED, tenant, name)
    return Named() if row is None else Named(row[0], _tags_of(row[1]))


async def _read_versions(
    link: Link, tenant: str, name: str, numbers: Sequence[int]
) -> dict[int, WorkflowVersion]:
    found = [_version_of(row) for row in await link.rows(_READ_VERSIONS, tenant, name, numbers)]
    return {version.version: version for version in found}


async def read_workflow(
    link: Link, tenant: str, name: str, at: int | str | None
) -> DeployedWorkflow | None:
    named = await _read_named(link, tenant, name)
    number = number_of(named, at)
    if number is None:
        return None
    version = (await _read_versions(link, tenant, name, [number])).get(number)
    # None: it was deleted between the two reads.
    return None if version is None else DeployedWorkflow(version, named.newest, named.tags)


async def delete_workflow(link: Link, tenant: str, name: str) -> bool:
    await link.value(_LOCK_WORKFLOW, tenant, name)
    await link.run(_DELETE_VERSIONS, tenant, name)
    return await link.value(_DELETE_NAMED, tenant, name) is not None


async def list_workflows(link: Link, tenant: str, after: str, limit: int) -> list[DeployedWorkflow]:
    rows = await link.rows(_LIST_WORKFLOWS, tenant, after, max(limit, 0))
    return [
        DeployedWorkflow(_version_of(row), newest, _tags_of(tags)) for newest, tags, *row in rows
    ]


async def list_versions(
    link: Link, tenant: str, after: tuple[str, int], limit: int
) -> list[WorkflowVersion]:
    rows = await link.rows(_LIST_VERSIONS, tenant, *after, max(limit, 0))
    return [_version_of(row) for row in rows]


class SharedWorkflows(SharedBlobs):
    """The verbs of deployed workflows, beside those of the blobs that they name: the same in a
    store and in a log."""

    async def deploy_workflow(
        self, new: WorkflowVersion, tags: Sequence[str] = ()
    ) -> Deployed | None:
        check_version(new, tags)
        return await self._database.write(
            lambda link: deploy_workflow(link, new, tags, self._now_ms()), repeatable=True
        )

    async def read_workflow(
        self, tenant: str, name: str, at: int | str | None = None
    ) -> DeployedWorkflow | None:
        return await self._database.read(lambda link: read_workflow(link, tenant, name, at))

    async def delete_workflow(self, tenant: str, name: str) -> bool:
        return await self._database.write(lambda link: delete_workflow(link, tenant, name))

    async def list_workflows(
        self, tenant: str, *, after: str = "", limit: int = 100
    ) -> list[DeployedWorkflow]:
        return await self._database.read(lambda link: list_workflows(link, tenant, after, limit))

    async def list_versions(
        self, tenant: str, *, after: tuple[str, int] = ("", 0), limit: int = 1000
    ) -> list[WorkflowVersion]:
        return await self._database.read(lambda link: list_versions(link, tenant, after, limit))
