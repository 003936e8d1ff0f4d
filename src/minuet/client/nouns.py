"""The other nouns of a client: the verbs of those in `app`, by a server."""

from __future__ import annotations

import builtins
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any

from minuet.api.errors import NotFoundError
from minuet.app import reading
from minuet.app.approvals import Approval, Approvals, ApprovalStatus
from minuet.app.audit import Audit, AuditEntry
from minuet.app.blobs import Blobs
from minuet.app.compiling import CompiledWorkflow, compile_source, is_name, read_source
from minuet.app.dead_letters import (
    DeadLetters,
    DeadLetterView,
    GroupList,
    IdList,
    LetterDetails,
    LetterList,
    LetterStatus,
    Retried,
)
from minuet.app.doctor import Checkup, Doctor, Finding, Repair, Swept
from minuet.app.handlers import make_handlers
from minuet.app.keys import Keys, NewKey, StoredKey, id_in
from minuet.app.leases import Leases
from minuet.app.options import Seconds, duration_ms
from minuet.app.retention import GRACE_S, Deleted, Retention
from minuet.app.roles import Role
from minuet.app.starting import Startable
from minuet.app.webhooks import WebhookReceiver, Webhooks
from minuet.app.workers import HandlerList, NameList, QueueList, TaskList, WorkerList, Workers
from minuet.app.workflows import WorkflowList, Workflows, WorkflowView
from minuet.approvals import Verdict
from minuet.bridge.registry import MAIN
from minuet.bridge.repairs import Repaired
from minuet.client.base import PAGE_MAX, Remote, only_local, pages, remote
from minuet.client.runs import RemoteRuns
from minuet.client.transport import Transport, path_of
from minuet.errors import (
    DeadLetterNotFoundError,
    InputError,
    RunConflictError,
    WorkflowNotFoundError,
)
from minuet.model import dump_document
from minuet.nodes.spec import NodeTypeInfo
from minuet.nodes.stream import BlobReference, pieces_of, reference_of
from minuet.plan.plan import Plan
from minuet.types import RunStatus

#: More than a list has.
EVERYTHING = 1_000_000_000

#: Runs that are looked through at once.
PAGE = 500

_OVER: tuple[RunStatus, ...] = ("COMPLETED", "FAILED", "CANCELLED")


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
        document = dump_document(read_source(workflow).workflow)
        body = {"document": document, "tag": tag, "message": message, "by": by}
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


@remote
class RemoteApprovals(Remote, Approvals):
    """The approvals of a tenant, by a server."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def list(
        self,
        run_id: str | None = None,
        *,
        status: ApprovalStatus | None = "pending",
        limit: int = 100,
        after: str | None = None,
    ) -> builtins.list[Approval]:
        """Approvals of a run, or of all runs."""
        params = {"run_id": run_id, "status": status or "all"}
        found = await pages(self._get, "/approvals", limit, after, **params)
        return [reading.read_approval(shape) for shape in found]

    async def show(self, id: str) -> Approval:
        """An approval by its id."""
        return reading.read_approval(await self._get(path_of("approvals", id)))

    async def decide(
        self,
        id: str,
        decision: Verdict,
        *,
        by: str,
        comments: str = "",
        data: Any = None,
        groups: Sequence[str] = (),
    ) -> Approval:
        """Decide an approval, and return it once the decision is durable."""
        body = {
            "decision": decision,
            "decided_by": by,
            "comments": comments,
            "data": data,
            "groups": builtins.list(groups),
        }
        # The same decision of the same person again changes nothing.
        found = await self._post(path_of("approvals", id, "decide"), body, again=True)
        return await self.show(found["approval_id"])


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


@remote
class RemoteBlobs(Remote, Blobs):
    """Contents that documents and inputs name by their references, on a server."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def put(self, source: Any) -> BlobReference:
        """Store bytes, a file (by its path, or open) or an async iterator of bytes; its reference.

        The content is held in memory on the way, so that it can be sent again.
        """
        content = b"".join([piece async for piece in pieces_of(source)])
        answer = await self._transport.call("PUT", "/blobs", content=content, again=True)
        found: BlobReference = answer.json()
        return found

    async def read(self, reference: Any, *, run_id: str | None = None) -> AsyncIterator[bytes]:
        """The bytes of a blob, piece by piece; BlobError if it is missing or damaged."""
        path = path_of("blobs", reference_of(reference).removeprefix("cas://"))
        async for piece in self._transport.download(path, run_id=run_id):
            yield piece


@remote
class RemoteWebhooks(Remote, Webhooks):
    """Who is sent webhooks by the servers and workers of a store."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def list(self) -> builtins.list[WebhookReceiver]:
        """All receivers that the server knows, and how they do."""
        return [reading.read_receiver(one) for one in (await self._get("/webhooks"))["items"]]

    async def test(self, name: str) -> str | None:
        """Have a receiver sent a webhook of the type `test`; why it was not accepted, or None."""
        answer = await self._post(path_of("webhooks", name, "test"))
        error: str | None = answer["error"]
        return error


@remote
class RemoteKeys(Remote, Keys):
    """The API keys of the tenant that the client's own key belongs to."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def create(
        self,
        name: str,
        roles: Sequence[Role],
        *,
        groups: Sequence[str] = (),
        trusted: bool = False,
        expires_seconds: float | None = None,
        by: str = "",
    ) -> NewKey:
        """Create a key for a person or a service. Its text is returned, and never again. Who
        creates it is known from the client's own key."""
        body = {
            "name": name,
            "roles": builtins.list(roles),
            "groups": builtins.list(groups),
            "trusted": trusted,
            "expires_seconds": expires_seconds,
        }
        made = await self._post("/keys", body)
        return NewKey(reading.read_key(made), made["key"])

    async def list(self) -> builtins.list[StoredKey]:
        """All keys of the tenant, the newest first."""
        return [reading.read_key(one) for one in (await self._get("/keys"))["items"]]

    async def revoke(self, id: str) -> StoredKey:
        """End a key; `id` is its id, or the whole key."""
        path = path_of("keys", id_in(id) or id)
        answer = await self._transport.call("DELETE", path, again=True)
        return reading.read_key(answer.json())


@remote
class RemoteAudit(Remote, Audit):
    """Who has changed what of a tenant, over HTTP."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def list(
        self, *, limit: int = 100, after: str | None = None
    ) -> builtins.list[AuditEntry]:
        """Entries, the newest first; `after` is the id of the last one of the previous page."""
        found = await pages(self._get, "/audit", limit, after)
        return [reading.read_audit_entry(shape) for shape in found]


@remote
class RemoteRetention(Remote, Retention):
    """Deletes runs that are over, by a server."""

    def __init__(self, transport: Transport, runs: RemoteRuns) -> None:
        self._transport = transport
        self._runs = runs

    async def delete(self, run_ids: Sequence[str], *, dry_run: bool = False) -> Deleted:
        """Delete runs that are over."""
        return await self._runs.delete(run_ids, dry_run=dry_run)

    async def delete_older(
        self,
        older_than: Seconds,
        *,
        statuses: Iterable[RunStatus] = (),
        tenants: Sequence[str] | None = None,
        dry_run: bool = False,
    ) -> AsyncIterator[Deleted]:
        """Delete runs that ended longer ago than that, by the clock of this machine; yields the
        counts after each page. Only those of the client's own tenant."""
        if tenants is not None:
            only_local("deleting runs of other tenants", "use `minuet gc --store URL`")
        latest_ms = int(time.time() * 1000) - duration_ms(older_than)
        wanted = tuple(statuses) or _OVER
        deleted = Deleted()
        before = None
        while page := await self._runs.list(statuses=wanted, before=before, limit=PAGE):
            for run in page:
                if (run.ended_ms or 0) <= latest_ms:
                    try:
                        deleted.runs += (await self._runs.delete([run.run], dry_run=dry_run)).runs
                    except RunConflictError:
                        deleted.named += 1
            yield deleted
            before = page[-1].run

    async def collect(
        self,
        *,
        grace: Seconds = GRACE_S,
        audit_older_than: Seconds | None = None,
        dry_run: bool = False,
    ) -> AsyncIterator[Deleted]:
        """Not possible: it needs the store."""
        only_local("removing plans and sessions", "use `minuet gc --store URL` beside the store")
        yield Deleted()


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
