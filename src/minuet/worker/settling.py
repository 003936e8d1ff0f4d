"""From a node's outcome to the item that is handed in."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import msgspec

from minuet.bridge.snapshot import metadata_of
from minuet.bridge.values import needs_blob
from minuet.errors import DamagedRowError, StoreUnavailableError
from minuet.ids import Ids
from minuet.kernel.settle import (
    AttemptFailed,
    Items,
    Succeeded,
    is_undo,
    pass_on,
    settle,
)
from minuet.plan.plan import Node
from minuet.store.base import Store
from minuet.store.blob import blob_value
from minuet.store.large import get_content, put_content
from minuet.types import Json
from minuet.worker.assignment import Assignment
from minuet.worker.failure import Failures
from minuet.worker.foreach import cut, is_long_list, list_output
from minuet.worker.policy import Policies
from minuet.worker.rendering import condition_variables

if TYPE_CHECKING:
    from minuet.store.exchange import Item

#: Shortest and longest pause before a call that the result waits for is tried again, and how often
#: to warn.
KEEP_S = (0.05, 5.0)
WARN_S = 60.0

T = TypeVar("T")

_log = logging.getLogger("minuet.worker")


class Settling:
    """Settles the tokens of one worker."""

    def __init__(
        self, store: Store, tenant: str, ids: Ids, policies: Policies, failures: Failures
    ) -> None:
        self._store = store
        self._tenant = tenant
        self._ids = ids
        self._policies = policies
        self._failures = failures

    def settle_now(self, assignment: Assignment) -> Item | None:
        """Settle; None when something must be awaited first, by `settle_later`: a large output is
        stored, or a condition needs a blob or another process."""
        outcome = assignment.outcome
        if isinstance(outcome, Succeeded) and (
            (needs_blob(assignment.output) and not assignment.is_kept)
            or (assignment.facts.decides and self._decides_later(assignment))
        ):
            assignment.unsettled = outcome
            return None
        return self.settle(assignment)

    def _decides_later(self, assignment: Assignment) -> bool:
        """Whether a node that decides where to go on must wait for something first."""
        node = assignment.node
        assert node is not None
        if node.foreach is not None and is_long_list(assignment):
            return True
        return (node.branch is not None or node.loop is not None) and self._needs_time(
            assignment, node
        )

    async def settle_later(self, assignment: Assignment) -> Item:
        """Store the output as a blob if it is large, then settle."""
        data = assignment.output
        if is_long_list(assignment):
            assignment.output = await self._keep_list(assignment)
        elif not assignment.is_kept and needs_blob(data):
            ref = await self._keep_output(assignment, data)
            assignment.output = blob_value(ref, len(data))
        assignment.unsettled = None
        return await self.settle_in_time(assignment)

    @staticmethod
    def _needs_time(assignment: Assignment, node: Node) -> bool:
        """Whether a node's conditions need a blob that is not at hand, or another process."""
        if assignment.loaded is None:
            return False
        program = assignment.loaded.program
        needs = program.needs(node)
        return needs.time or needs.metadata or bool(program.missing_blobs(node))

    async def settle_in_time(self, assignment: Assignment) -> Item:
        """Settle without holding up the event loop, however long the conditions take."""
        loaded, node = assignment.loaded, assignment.node
        if loaded is None or node is None or not isinstance(assignment.outcome, Succeeded):
            return self.settle(assignment)
        program = loaded.program
        for ref in program.missing_blobs(node):
            data = await self._read(assignment, ref)
            if data is not None:
                # One that is missing is an error of the condition, which says so.
                program.keep_blob(ref, bytes(data))
        if node.branch is not None or node.loop is not None:
            # What its conditions read may have been dropped: in the former plan it had none.
            for ref in assignment.missing_blobs():
                data = await self._read(assignment, ref)
                if data is not None:
                    assignment.blobs[ref] = data
        if program.needs(node).metadata:
            await self._read_metadata(assignment)
        if program.needs(node).time:
            return await asyncio.to_thread(self.settle, assignment)
        return self.settle(assignment)

    def settle(self, assignment: Assignment) -> Item:
        """Route the outcome on the assignment's program; again after the run got a new plan."""
        try:
            return self._pass_on(assignment) or self._settle(assignment)
        except Exception as error:
            if isinstance(assignment.outcome, AttemptFailed):
                raise
            return self.settle_error(assignment, error)

    @staticmethod
    def _pass_on(assignment: Assignment) -> Item | None:
        """What to hand in if the node always leads to the same nodes; None: it must be decided."""
        loaded, node, grant = assignment.loaded, assignment.node, assignment.grant
        if node is None or loaded is None or grant.scope:
            return None
        if type(assignment.outcome) is not Succeeded:
            return None
        sends = pass_on(loaded.program, node, grant.hop)
        if sends is None:
            return None
        assignment.forget_values()
        return loaded.translator.pass_on(grant, sends, assignment.output)

    def settle_error(self, assignment: Assignment, error: Exception) -> Item:
        """Work on the token raised: make this its node's outcome."""
        assignment.outcome = self._failures.outside_handler(assignment, error)
        return self._settle(assignment)

    def _settle(self, assignment: Assignment) -> Item:
        loaded, node, outcome = assignment.loaded, assignment.node, assignment.outcome
        assert loaded is not None
        assert outcome is not None
        grant = assignment.grant
        if node is None:
            node = Node(id=grant.node)
        if isinstance(outcome, AttemptFailed):
            node = msgspec.structs.replace(node, retry=self._policies.of(node).retry)
        program, scope = loaded.program, assignment.scope
        variables: dict[str, Json] = {}
        if isinstance(outcome, Succeeded) and (node.branch is not None or node.loop is not None):
            variables = condition_variables(assignment, node)
        settlement = settle(
            program,
            node,
            scope,
            outcome,
            variables=variables,
            attempt=grant.attempt,
            hop=grant.hop,
            cursor=grant.cursor,
            fraction=self._ids.fraction(),
            items=None if node.foreach is None else _items_of(assignment),
            undos=assignment.undo_list() if is_undo(grant.node) else None,
        )
        # Decoded values are many times as large as their bytes, and items wait for the store.
        assignment.forget_values()
        return loaded.translator.item(grant, settlement, assignment.output)

    async def _read(self, assignment: Assignment, ref: str) -> bytes | bytearray | None:
        run = assignment.grant.run
        return await self._insist(
            partial(get_content, self._store, ref, run=run, tenant=self._tenant),
            f"the result of {assignment} needs {ref}, which cannot be read",
        )

    async def _read_metadata(self, assignment: Assignment) -> None:
        """Read when and how the nodes ran whose outputs came with the token."""
        for output in assignment.grant.reads:
            if output.event and output.node not in assignment.metadata:
                records = await self._insist(
                    partial(
                        self._store.read_events,
                        *(self._tenant, assignment.grant.run, output.event - 1),
                        limit=1,
                    ),
                    f"the result of {assignment} needs an event, which cannot be read",
                )
                found = metadata_of(records[0]) if records else None
                if found is not None:
                    assignment.metadata[output.node] = found

    async def _keep_list(self, assignment: Assignment) -> bytes:
        """Store a long list in chunks; the output that names them."""
        outcome = assignment.unsettled or assignment.outcome
        assert isinstance(outcome, Succeeded)
        chunks = [
            (first, await self._keep_output(assignment, data))
            for first, data in cut(outcome.output, len(assignment.output))
        ]
        assert assignment.items is not None
        return list_output(assignment.items, chunks)

    async def _keep_output(self, assignment: Assignment, data: bytes) -> str:
        run = assignment.grant.run
        return await self._insist(
            partial(put_content, self._store, data, run=run, tenant=self._tenant),
            f"the output of {assignment} ({len(data)} bytes) cannot be stored",
        )

    async def _insist(self, call: Callable[[], Awaitable[T]], problem: str) -> T:
        """Call the store, and do not give up: the handler has run, and would run again.

        It ends when the store answers, when the lease is lost, and when the worker has drained
        for long enough; the last two cancel it.
        """
        pause_s, warned_s = KEEP_S[0], None
        while True:
            try:
                return await call()
            except StoreUnavailableError as error:
                now_s = asyncio.get_running_loop().time()
                if warned_s is None or now_s - warned_s >= WARN_S:
                    warned_s = now_s
                    _log.warning("%s (%s); it is kept in memory and tried again", problem, error)
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, KEEP_S[1])


def _items_of(assignment: Assignment) -> Items | None:
    """The items of the list, or those that this is one of. None: it is neither, or its list is
    damaged."""
    if assignment.items is not None:
        return assignment.items
    try:
        found = assignment.item_list()
    except DamagedRowError:
        return None
    return None if found is None else Items(found.count, found.window)
