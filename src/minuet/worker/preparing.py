"""Load what a token needs before its node can run; find outcomes that need no run."""

from __future__ import annotations

from typing import Any

import msgspec

from minuet.bridge.programs import Facts, Programs, config_of
from minuet.bridge.snapshot import read_event
from minuet.errors import DamagedRowError, HandlerError
from minuet.events import Event, NodeEdited, NodeRepaired
from minuet.kernel.settle import AttemptFailed, Outcome, Skipped, Succeeded
from minuet.nodes.catalog import NODE_TYPES
from minuet.plan.plan import Node
from minuet.plan.schema import find_config_problems
from minuet.store.base import Store
from minuet.store.blob import blob_of
from minuet.store.large import get_content
from minuet.types import Json
from minuet.worker.assignment import Assignment
from minuet.worker.failure import crash_loop, failure_of
from minuet.worker.foreach import Chunks
from minuet.worker.undo import is_undo_part

#: Leases of one token that may expire before it counts as killing its workers.
CRASHES_MAX = 3


class Preparing:
    """Loads programs, configs and large values for one worker."""

    def __init__(self, store: Store, tenant: str, programs: Programs, crashes_max: int) -> None:
        self._store = store
        self._tenant = tenant
        self._programs = programs
        self._crashes_max = crashes_max
        self._chunks = Chunks()

    def find_program(self, assignment: Assignment) -> bool:
        """Find the program and the node on the run's present plan, if it is at hand."""
        loaded = self._programs.get(assignment.header.plan)
        if loaded is None:
            return False
        assignment.use(loaded)
        chunk = assignment.missing_chunk() if assignment.facts.is_item else None
        if chunk is not None:
            assignment.chunk = self._chunks.find(chunk)
        return True

    async def load_program(self, assignment: Assignment) -> None:
        """Find the program and the node on the run's present plan, if necessary from the store."""
        loaded = await self._programs.load(
            assignment.header.plan, run=assignment.grant.run, tenant=self._tenant
        )
        assignment.use(loaded)

    async def load_values(self, assignment: Assignment) -> None:
        """Load the blobs that stand for values; InputLimitError if they are too large."""
        missing = assignment.missing_blobs()
        if missing or assignment.grant.oversize:
            assignment.check_size()
        for ref in missing:
            run = assignment.grant.run
            data = await get_content(self._store, ref, run=run, tenant=self._tenant)
            if data is None:
                raise HandlerError(f"the blob {ref} is not in the store")
            assignment.blobs[ref] = data
        node = assignment.node
        # Conditions read the values once more, as they were before the handler had them.
        assignment.drops_blobs = node is not None and node.branch is None and node.loop is None
        chunk = assignment.missing_chunk()
        if chunk is not None:
            assignment.chunk = self._chunks.find(chunk) or await self._load_chunk(assignment, chunk)

    async def _load_chunk(self, assignment: Assignment, ref: str) -> list[Json]:
        """The part of a long list that has the item."""
        run = assignment.grant.run
        data = await get_content(self._store, ref, run=run, tenant=self._tenant)
        if data is None:
            raise HandlerError(f"the blob {ref}, which has the item, is not in the store")
        return self._chunks.keep(ref, data)

    async def load_config(self, assignment: Assignment, node: Node) -> None:
        """Load the node's config if it is kept as a blob."""
        loaded = assignment.loaded
        assert loaded is not None
        if loaded.needs_config(node):
            assert node.config_ref is not None
            run = assignment.grant.run
            data = await get_content(self._store, node.config_ref, run=run, tenant=self._tenant)
            if data is None:
                raise HandlerError(
                    f"the config {node.config_ref} is not in the store: put it there with "
                    "`minuet blobs put FILE`, which prints its reference"
                )
            config = _read_config(node.config_ref, data)
            _check_config(node, {**config, **(node.config or {})})
            loaded.keep_config(node, config)

    async def load_given(self, assignment: Assignment) -> Outcome | None:
        """Load what somebody has set for the node: its output, which is then its outcome; or its
        config."""
        grant = assignment.grant
        if grant.given:
            event = await self._read_event(assignment, grant.given)
            assert isinstance(event, NodeRepaired)
            assignment.output = bytes(event.value)
            return Succeeded(await self._value_of(assignment, assignment.output))
        if grant.edited and assignment.node is not None:
            event = await self._read_event(assignment, grant.edited)
            assert isinstance(event, NodeEdited)
            config = await self._value_of(assignment, bytes(event.config))
            assignment.config = config_of(assignment.node, config)
        return None

    async def _read_event(self, assignment: Assignment, seq: int) -> Event:
        run = assignment.grant.run
        records = await self._store.read_events(self._tenant, run, seq - 1, limit=1)
        if not records:
            raise DamagedRowError(run, f"event {seq}", "it is missing")
        return read_event(records[0])

    async def _value_of(self, assignment: Assignment, data: bytes) -> Json:
        ref = blob_of(data)
        if ref is None:
            return msgspec.json.decode(data)
        run = assignment.grant.run
        content = await get_content(self._store, ref, run=run, tenant=self._tenant)
        if content is None:
            raise HandlerError(f"the blob {ref} is not in the store")
        return msgspec.json.decode(content)

    def known_outcome(self, assignment: Assignment) -> Outcome | None:
        """The outcome, if it is known without running the node; None: the node must run."""
        grant = assignment.grant
        if grant.skip:
            return Skipped()
        if assignment.node is None:
            error = {"code": "unknown_node", "message": f"the plan has no node {grant.node!r}"}
            return AttemptFailed(error)
        try:
            assignment.check_rows()
        except DamagedRowError as error:
            return failure_of(error)
        if grant.cursor:
            assignment.output, value = assignment.own_output()
            return Succeeded(value)
        if grant.oversize:
            return failure_of(assignment.oversize_error())
        if grant.expiry >= self._crashes_max and not is_ours(assignment.node, assignment.facts):
            return crash_loop(grant.expiry)
        return None


def is_ours(node: Node, facts: Facts) -> bool:
    """Whether a node runs no code of users, and cannot have killed its workers."""
    return facts.is_inline or is_undo_part(node)


def _check_config(node: Node, config: dict[str, Json]) -> None:
    """HandlerError unless a config fits the node's type. The compiler checks all other configs."""
    node_type = NODE_TYPES.get(node.type)
    if node_type is None:
        return
    for where, message in find_config_problems(config, node_type.config_schema):
        at = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in where)
        place = f" at {at.lstrip('.')}" if at else ""
        raise HandlerError(
            f"the config {node.config_ref} does not fit a {node.type} node{place}: {message}"
        )


def _read_config(ref: str, data: bytes | bytearray) -> dict[str, Json]:
    """A config that is kept as a blob; HandlerError unless it is a JSON object."""
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise HandlerError(f"the config {ref} is not a JSON object: {error}") from None
