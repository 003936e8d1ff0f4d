"""`app.workflows`: read, check and compile workflows; deploy them, and find what is deployed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, TypeAlias

import msgspec

from minuet.app.acting import recorded_by
from minuet.app.argument_rules import is_storable
from minuet.app.arguments import checked
from minuet.app.compiling import (
    CompiledWorkflow,
    EncodedInput,
    compile_source,
    encode_input,
    is_name,
)
from minuet.app.handlers import all_types
from minuet.app.move.parcel import refs_in
from minuet.app.starting import Startable, of_document
from minuet.app.tenant import Tenant
from minuet.bridge.registry import MAIN, read_reference
from minuet.errors import InputError, WorkflowNotFoundError
from minuet.model import dump_document
from minuet.nodes.spec import NodeTypeInfo
from minuet.plan.placement import read_placement, unmet
from minuet.plan.plan import Plan
from minuet.store.records import DeployedWorkflow, WorkflowVersion
from minuet.types import Json
from minuet.worker.announcing import list_announced
from minuet.worker.identity import offer_of

#: Documents loaded at once.
AT_ONCE = 16

#: Workflows looked through at once for a tag, and those that a message names.
PAGE = 1_000
TAGGED_SHOWN_MAX = 5

#: If deploying takes longer than this, the blobs of the version are put again.
LATE_MS = 60_000

_encode = msgspec.json.Encoder(order="sorted").encode


class WorkflowView(msgspec.Struct, frozen=True):
    """A version of a deployed workflow."""

    name: str
    version: int
    #: The digest of its plan.
    digest: str
    #: All tags of the workflow, and the versions that they name.
    tags: dict[str, int]
    #: The workflow's newest version.
    newest: int
    message: str
    created_ms: int
    created_by: str
    #: As canonical data. None: the store has lost it.
    document: dict[str, Json] | None
    #: The text that was deployed last for this document, in YAML or JSON. None: it was deployed as
    #: data, or the store has lost it.
    source: str | None = None
    #: Whether deploying made it; if not, it was there.
    is_new: bool = False
    #: Whether it was there, and deploying has replaced its text.
    source_changed: bool = False

    @property
    def description(self) -> str | None:
        found = (self.document or {}).get("description")
        return found if isinstance(found, str) else None


#: Inside the class, `list` is one of its methods.
WorkflowList: TypeAlias = list[WorkflowView]


class Workflows:
    """The workflows that an App can run, and those that are deployed in its store."""

    def __init__(self, tenant: Tenant) -> None:
        self._engine = tenant.engine
        self._store, self._tenant = tenant.store, tenant.name
        self._programs = tenant.programs

    # ── documents: no store is needed ───────────────────────────────────────────────────

    @checked
    def compile(self, source: Any) -> CompiledWorkflow:
        """Read and verify a workflow; DocumentError with all its problems.

        An App with a worker also checks that it has the handlers that the workflow names.
        """
        options = self._engine.options
        handlers = self._engine.handlers if options.worker else None
        return compile_source(source, handlers=handlers, retry=options.retry_policy)

    @checked
    def encode_input(self, workflow: Any, input: Any) -> EncodedInput:
        """Check an input before anything is started; InputError with all its problems.

        The answer can be given to `app.runs.start` as the input.
        """
        return encode_input(self.compile(workflow).plan, input)

    @checked
    async def node_types(self) -> list[NodeTypeInfo]:
        """The node types that workflows can use: those that come with Minuet, and those that
        `@minuet.node_type` has registered, here or where a worker of this store runs."""
        types: dict[str, NodeTypeInfo] = {**all_types(self._engine.handlers)}
        for one in await list_announced(self._store, self._tenant):
            here = types.get(one.name, one)
            if here.version == one.version:
                types[one.name] = msgspec.structs.replace(here, created_ms=one.created_ms)
        return [one for one in types.values() if one.kind != "later"]

    @checked
    def find_misplaced(self, plan: Plan) -> dict[str, str]:
        """Nodes that the worker of this App may not run, and what it lacks, in words."""
        offer = offer_of(self._engine.options.identity(), self._engine.handlers)
        placements = [read_placement(node.queue) for node in plan.nodes]
        return {
            placement.node: ", ".join(lacking)
            for placement in placements
            if placement is not None and (lacking := unmet(placement, offer))
        }

    # ── deployed workflows ──────────────────────────────────────────────────────────────

    @checked
    async def deploy(
        self, workflow: Any, tag: str = MAIN, message: str = "", *, by: str = ""
    ) -> WorkflowView:
        """Store a workflow as the next version under its name, and have the tag name it.

        The same document again is the same version. The text of a document is kept with it: the one
        that was deployed last. Handlers are not checked: workers elsewhere may have them.
        """
        self._engine.check_open()
        if is_name(workflow):
            raise InputError(
                ["workflow: a document is deployed: pass its path, its text or its data"],
                argument="workflow",
            )
        compiled = compile_source(workflow, retry=self._engine.options.retry_policy)
        began_ms = self._engine.clock.now_ms()
        new = await self._keep(compiled)
        new = msgspec.structs.replace(new, message=message, created_by=recorded_by(by))
        deployed = await self._store.deploy_workflow(new, [tag])
        assert deployed is not None  # It asked for no number.
        if not 0 <= self._engine.clock.now_ms() - began_ms < LATE_MS:
            # Nothing named them before, so they may have been removed.
            await self._keep(compiled)
        view = await self.get(f"{new.name}@{deployed.version.version}")
        return msgspec.structs.replace(
            view, is_new=deployed.is_new, source_changed=deployed.source_changed
        )

    async def _keep(self, compiled: CompiledWorkflow) -> WorkflowVersion:
        """Put what a version names; the version, without a number."""
        plans = [compiled.data, *(child.data for child in compiled.children)]
        named = {ref for data in plans for ref in refs_in(data)}
        if named:
            await self._store.touch_blobs(self._tenant, sorted(named))
        for child in compiled.children:
            await self._store.put_blob(child.data, tenant=self._tenant)
        data = _encode(dump_document(compiled.workflow))
        text = compiled.document.text.encode()
        return WorkflowVersion(
            self._tenant,
            compiled.plan.name,
            version=0,
            plan=await self._store.put_blob(compiled.data, tenant=self._tenant),
            document=await self._store.put_blob(data, tenant=self._tenant),
            source=await self._store.put_blob(text, tenant=self._tenant) if text else "",
        )

    @checked
    async def get(self, name: str) -> WorkflowView:
        """The version that `name`, `name@tag` or `name@version` names; a name alone means its tag
        `main`. WorkflowNotFoundError with what there is instead."""
        return await self._view(await self._find(name))

    @checked
    async def tag(self, name: str, tag: str) -> WorkflowView:
        """Have a tag name the version that `name`, `name@tag` or `name@version` names: an older
        one to go back, a tried one to go on. No version is added, and runs keep theirs."""
        # Without its text: somebody may just have replaced it.
        version = msgspec.structs.replace((await self._find(name)).version, source="")
        await self._store.deploy_workflow(version, [tag])
        return await self.get(f"{version.name}@{version.version}")

    @checked
    async def delete(self, name: str) -> WorkflowView:
        """Delete a workflow with all its versions and tags, so that its name can be used again,
        from version 1 on; what its newest version was. Runs stay and go on: they keep their plans.
        """
        self._engine.check_open()
        base, at, _ = name.partition("@")
        if at:
            problem = f"name: all versions are deleted together: write {base!r:.100}"
            raise InputError([problem], argument="name")
        if not is_storable(name):
            raise WorkflowNotFoundError(name)
        found = await self._store.read_workflow(self._tenant, name)
        if found is None:
            raise await self._engine.registry.refusal(self._tenant, name)
        view = await self._view(found)
        await self._store.delete_workflow(self._tenant, name)
        return view

    @checked
    async def list(self, *, after: str = "", limit: int = 100) -> WorkflowList:
        """The deployed workflows by name, each with its newest version; `after` is the last name
        of the previous page."""
        self._engine.check_open()
        if not is_storable(after):
            return []
        listed = await self._store.list_workflows(self._tenant, after=after, limit=limit)
        views: list[WorkflowView] = []
        for first in range(0, len(listed), AT_ONCE):
            views += await asyncio.gather(*map(self._view, listed[first : first + AT_ONCE]))
        return views

    async def _find(self, name: str) -> DeployedWorkflow:
        self._engine.check_open()
        if not is_storable(name):
            raise WorkflowNotFoundError(name)
        found = await self._store.read_workflow(self._tenant, *read_reference(name))
        if found is None:
            raise await self._engine.registry.refusal(self._tenant, name)
        return found

    async def _view(self, found: DeployedWorkflow) -> WorkflowView:
        version = found.version
        data = await self._store.get_blob(version.document, tenant=self._tenant)
        text = None
        if version.source:
            text = await self._store.get_blob(version.source, tenant=self._tenant)
        return WorkflowView(
            name=version.name,
            version=version.version,
            digest=version.plan,
            tags=dict(sorted(found.tags.items())),
            newest=found.newest,
            message=version.message,
            created_ms=version.created_ms,
            created_by=version.created_by,
            document=None if data is None else msgspec.json.decode(data),
            source=None if text is None else text.decode(errors="replace"),
        )

    @checked
    async def find_tagged(self, text: str) -> str:
        """The deployed workflow of this name (`name`, `name@tag`, `name@version`); if there is
        none, the only one that has a tag of this name. WorkflowNotFoundError when there is neither,
        InputError when several workflows have the tag."""
        try:
            await self._find(text)
            return text
        except WorkflowNotFoundError:
            tagged = [name async for name in self._names_with(text)]
            if not tagged:
                raise
        if len(tagged) > 1:
            names = ", ".join(f"{name}@{text}" for name in tagged[:TAGGED_SHOWN_MAX])
            problem = f"tag: several workflows have the tag {text!r}; name one of them: {names}"
            raise InputError([problem], argument="tag")
        return f"{tagged[0]}@{text}"

    async def _names_with(self, tag: str) -> AsyncIterator[str]:
        after = ""
        while page := await self._store.list_workflows(self._tenant, after=after, limit=PAGE):
            for one in page:
                if tag in one.tags:
                    yield one.version.name
            after = page[-1].version.name

    @checked
    async def startable(self, source: Any) -> Startable:
        """What runs are started of: a deployed version by its name, or anything that `compile`
        takes."""
        if not is_name(source):
            return of_document(self.compile(source))
        self._engine.check_open()
        if not is_storable(source):
            raise WorkflowNotFoundError(source)
        found = await self._engine.registry.find(self._tenant, source)
        version = found.version
        loaded = await self._programs.load(version.plan, tenant=self._tenant)
        return Startable(loaded.program.plan, version.plan, version=version.version, tag=found.tag)
