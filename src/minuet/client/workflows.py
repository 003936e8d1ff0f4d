"""The workflows of a client: documents are read here, versions are on the server."""

from __future__ import annotations

import builtins
from collections.abc import AsyncIterator
from typing import Any

from minuet.app import reading
from minuet.app.compiling import CompiledWorkflow, compile_source, is_name, read_source
from minuet.app.handlers import make_handlers
from minuet.app.starting import Startable
from minuet.app.workflows import WorkflowList, Workflows, WorkflowView
from minuet.bridge.registry import MAIN
from minuet.client.base import EVERYTHING, Remote, only_local, pages, remote
from minuet.client.transport import Transport, path_of
from minuet.errors import InputError, WorkflowNotFoundError
from minuet.model import dump_document
from minuet.nodes.spec import NodeTypeInfo
from minuet.plan.plan import Plan


@remote
class RemoteWorkflows(Remote, Workflows):
    """Documents are read and checked here; what is deployed is on the server."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.handlers = make_handlers([])

    def compile(self, source: Any) -> CompiledWorkflow:
        """Read and verify a workflow; DocumentError with all its problems. The server does it
        again, with its own node types and settings."""
        return compile_source(source)

    async def node_types(self) -> builtins.list[NodeTypeInfo]:
        """The node types that workflows can use on the server."""
        return [reading.read_node_type(one) for one in (await self._get("/node-types"))["items"]]

    def find_misplaced(self, plan: Plan) -> dict[str, str]:
        """None: a client has no worker."""
        return {}

    async def deploy(
        self, workflow: Any, tag: str = MAIN, message: str = "", *, by: str = ""
    ) -> WorkflowView:
        """Store a workflow as the next version under its name, and have the tag name it."""
        if is_name(workflow):
            raise InputError(
                ["workflow: a document is deployed: pass its path, its text or its data"],
                argument="workflow",
            )
        document = read_source(workflow)
        sent = document.text or dump_document(document.workflow)
        body = {"document": sent, "tag": tag, "message": message, "by": by}
        # The same document again is the same version.
        return reading.read_workflow(await self._post("/workflows", body, again=True))

    async def get(self, name: str) -> WorkflowView:
        """The version that `name`, `name@tag` or `name@version` names."""
        if not name:
            raise WorkflowNotFoundError(name)
        return reading.read_workflow(await self._get(path_of("workflows", name)))

    async def tag(self, name: str, tag: str) -> WorkflowView:
        """Have a tag name the version that `name`, `name@tag` or `name@version` names."""
        version = await self.get(name)
        path = path_of("workflows", version.name, "tags", tag)
        body = {"version": version.version}
        answer = await self._transport.call("PUT", path, body=body, again=True)
        return reading.read_workflow(answer.json())

    async def delete(self, name: str) -> WorkflowView:
        """Delete a workflow with all its versions and tags; what its newest version was."""
        if not name:
            raise WorkflowNotFoundError(name)
        answer = await self._transport.call("DELETE", path_of("workflows", name))
        return reading.read_workflow(answer.json())

    async def list(self, *, after: str = "", limit: int = 100) -> WorkflowList:
        """The deployed workflows by name, each with its newest version."""
        found = await pages(self._get, "/workflows", limit, after or None)
        return [reading.read_workflow(shape) for shape in found]

    async def _find(self, name: str) -> Any:
        return await self.get(name)

    async def _names_with(self, tag: str) -> AsyncIterator[str]:
        for shape in await pages(self._get, "/workflows", EVERYTHING):
            if tag in shape["tags"]:
                yield shape["name"]

    async def startable(self, source: Any) -> Startable:
        """Not possible: the server compiles what is started."""
        only_local("making a plan of a workflow", "start it, or compile it (`workflows.compile`)")
