"""Move deployed workflows from one store to another.

They are copied, version by version in their order, each with its blobs first, and then the tags. A
version that the other store has is left alone, so an interrupted move continues; it only gets its
text if it has none there. Where the other store has another version of the same number, the
workflow is left from there on, and people must decide. A workflow that has more versions there has
gone on there, so its tags stay.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec

from minuet.app.move.parcel import refs_in
from minuet.bridge.pages import read_versions
from minuet.errors import StoreUnusableError
from minuet.store.base import Store
from minuet.store.blob import blob_ref
from minuet.store.records import WorkflowVersion
from minuet.store.rules.workflows import is_same


class WorkflowOutcome(msgspec.Struct, frozen=True):
    """What became of one version. With a message, it was left where it was."""

    tenant: str
    name: str
    version: int
    is_new: bool = False
    message: str = ""


class WorkflowCopier:
    """Copies the deployed workflows of all tenants."""

    def __init__(self, source: Store, target: Store, *, dry_run: bool) -> None:
        self._source, self._target, self._dry_run = source, target, dry_run
        #: How many blobs were copied.
        self.blobs = 0

    async def copy(self) -> AsyncIterator[WorkflowOutcome]:
        """Copy all versions; what became of each."""
        for tenant in await self._source.list_tenants():
            refused = ""
            copied: dict[str, None] = {}
            async for version in read_versions(self._source, tenant):
                if version.name == refused:
                    continue
                outcome = await self._copy(version)
                if outcome.message:
                    refused = version.name
                copied[version.name] = None
                yield outcome
            for name in () if self._dry_run else copied:
                await self._copy_tags(tenant, name)

    async def _copy(self, version: WorkflowVersion) -> WorkflowOutcome:
        tenant, name, number = version.tenant, version.name, version.version
        there = await self._target.read_workflow(tenant, name, number)
        if there is not None and not is_same(there.version, version):
            message = "the other store has another version of this number"
            return WorkflowOutcome(tenant, name, number, message=message)
        is_complete = there is not None and (there.version.source or not version.source)
        if self._dry_run or is_complete:
            return WorkflowOutcome(tenant, name, number, is_new=there is None)
        for ref in version.blobs:
            await self._copy_blob(tenant, ref)
        deployed = await self._target.deploy_workflow(version)
        message = "" if deployed else "another version was deployed to the other store meanwhile"
        return WorkflowOutcome(
            tenant, name, number, is_new=deployed is not None and deployed.is_new, message=message
        )

    async def _copy_tags(self, tenant: str, name: str) -> None:
        here = await self._source.read_workflow(tenant, name)
        there = await self._target.read_workflow(tenant, name)
        if here is None or there is None or there.newest > here.newest:
            return
        for tag, number in here.tags.items():
            tagged = await self._source.read_workflow(tenant, name, number)
            if tagged is not None and there.tags.get(tag) != number:
                # If the other store has another version of this number, nothing happens. Its text
                # may be a newer one.
                version = msgspec.structs.replace(tagged.version, source="")
                await self._target.deploy_workflow(version, [tag])

    async def _copy_blob(self, tenant: str, ref: str) -> None:
        """Copy a blob, and the configs that it names. What is not there cannot be copied: `minuet
        doctor` reports it here as well as there."""
        data = await self._source.get_blob(ref, tenant=tenant)
        if data is None:
            return
        if blob_ref(data) != ref:
            raise StoreUnusableError(f"the blob {ref} is damaged: it has another content")
        await self._target.put_blob(data, tenant=tenant)
        self.blobs += 1
        for named in refs_in(data):
            if named != ref:
                await self._copy_blob(tenant, named)
