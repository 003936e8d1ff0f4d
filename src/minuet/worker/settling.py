"""From a node's outcome to the item that is handed in."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import msgspec

from minuet.bridge.values import needs_blob
from minuet.errors import StoreUnavailableError
from minuet.ids import Ids
from minuet.kernel.settle import AttemptFailed, Succeeded, settle
from minuet.plan.plan import Node
from minuet.store.base import Store
from minuet.store.blob import blob_value
from minuet.worker.assignment import Assignment
from minuet.worker.failure import Failures
from minuet.worker.policy import Policies
from minuet.worker.rendering import condition_variables

if TYPE_CHECKING:
    from minuet.store.records import Item

#: Shortest and longest pause before storing a large output is tried again, and how often to warn.
KEEP_S = (0.05, 5.0)
WARN_S = 60.0

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

    def settle_small(self, assignment: Assignment) -> Item | None:
        """Settle; None when a large output must be stored first, by `settle_large`."""
        outcome = assignment.outcome
        is_first = isinstance(outcome, Succeeded) and not assignment.grant.cursor
        if is_first and needs_blob(assignment.output):
            assert isinstance(outcome, Succeeded)
            assignment.large = outcome
            return None
        return self.settle(assignment)

    async def settle_large(self, assignment: Assignment) -> Item:
        """Store the output as a blob, then settle."""
        data = assignment.output
        ref = await self._keep_output(assignment, data)
        assignment.output, assignment.large = blob_value(ref, len(data)), None
        return self.settle(assignment)

    def settle(self, assignment: Assignment) -> Item:
        """Route the outcome on the assignment's program; again after the run got a new plan."""
        try:
            return self._settle(assignment)
        except Exception as error:
            if isinstance(assignment.outcome, AttemptFailed):
                raise
            return self.settle_error(assignment, error)

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
        is_done = isinstance(outcome, Succeeded)
        settlement = settle(
            loaded.program,
            node,
            assignment.scope,
            outcome,
            variables=condition_variables(assignment, node) if is_done else {},
            attempt=grant.attempt,
            hop=grant.hop,
            cursor=grant.cursor,
            fraction=self._ids.fraction(),
        )
        # Decoded values are many times as large as their bytes, and items wait for the store.
        assignment.forget_values()
        return loaded.translator.item(grant, settlement, assignment.output)

    async def _keep_output(self, assignment: Assignment, data: bytes) -> str:
        """Store a large output, and do not give up: the handler has run, and would run again.

        It ends when the output is stored, when the lease is lost, and when the worker has drained
        for long enough; the last two cancel it.
        """
        run = assignment.grant.run
        pause_s, warned_s = KEEP_S[0], None
        while True:
            try:
                return await self._store.put_blob(data, run=run, tenant=self._tenant)
            except StoreUnavailableError as error:
                now_s = asyncio.get_running_loop().time()
                if warned_s is None or now_s - warned_s >= WARN_S:
                    warned_s = now_s
                    _log.warning(
                        "the output of %s (%d bytes) cannot be stored (%s); it is kept in memory "
                        "and tried again",
                        *(assignment, len(data), error),
                    )
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, KEEP_S[1])
