"""The steps that take one token through a worker, from the grant to the item that is handed in.

    prepare ─► render ─► run ─► settle

One `Assignment` goes through these steps, each in a module of that name, and never back. Nodes
that await nothing go through at once, on the event loop (`run_now`); the others as a task (`run`).

What a document, an input or a handler raises becomes the node's outcome. What still leaves this
module is a bug of ours, a cancellation by the worker, or a KeyboardInterrupt.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from minuet.errors import LeaseLost, MinuetError, RunNotFoundError, StoreUnavailableError
from minuet.kernel.settle import AttemptFailed, Outcome
from minuet.worker.assignment import Assignment
from minuet.worker.failure import Failures
from minuet.worker.preparing import Preparing
from minuet.worker.rendering import render_slot_key
from minuet.worker.running import Running
from minuet.worker.settling import Settling
from minuet.worker.undo import UndoParts, is_undo_part

if TYPE_CHECKING:
    from minuet.store.exchange import Item


class Pipeline:
    """Turns assignments into items to hand in."""

    def __init__(
        self,
        preparing: Preparing,
        running: Running,
        settling: Settling,
        failures: Failures,
        undo_parts: UndoParts,
    ) -> None:
        self._undo_parts = undo_parts
        self.preparing = preparing
        self._running = running
        self._settling = settling
        self._failures = failures

    # ── at once ─────────────────────────────────────────────────────────────────────────

    def run_now(self, assignment: Assignment) -> Item | None:
        """Settle the token without awaiting anything; None when that cannot be done."""
        try:
            return self._run_now(assignment)
        except Exception as error:
            if assignment.loaded is None:
                raise
            return self._settling.settle_error(assignment, error)

    def _run_now(self, assignment: Assignment) -> Item | None:
        if not self.preparing.find_program(assignment):
            return None
        outcome: Outcome | None
        if not assignment.facts.is_inline and assignment.must_run:
            return None  # It runs as a task, which looks at everything else.
        if assignment.is_ordinary:
            outcome = self._run_ordinary(assignment)
        else:
            outcome = self._run_other(assignment)
        if outcome is None:
            return None
        assignment.outcome = outcome
        item = self._settling.settle_now(assignment)
        if item is None:
            # Something must be awaited first, by `run`.
            assignment.outcome = None
        return item

    def _run_ordinary(self, assignment: Assignment) -> Outcome | None:
        """Run the node of a token that is as almost all are; None: it runs as a task."""
        node, facts = assignment.node, assignment.facts
        if node is None:
            return self.preparing.known_outcome(assignment)
        if not facts.is_inline:
            return None
        if facts.is_hidden:
            return self._running.run_hidden(assignment, node)
        if node.config_ref is not None:
            return None
        if node.concurrency is not None and not assignment.holds_slot:
            return None
        if facts.is_item and assignment.missing_chunk():
            return None
        return self._running.run_inline(assignment, node)

    def _run_other(self, assignment: Assignment) -> Outcome | None:
        """Find the outcome if it is known, or run the node; None: it runs as a task."""
        grant = assignment.grant
        if grant.given or grant.edited or (grant.cursor and assignment.missing_blobs()):
            return None
        known = self.preparing.known_outcome(assignment)
        if known is not None or assignment.missing_blobs():
            return known
        return self._run_ordinary(assignment)

    # ── as a task ───────────────────────────────────────────────────────────────────────

    def run(self, assignment: Assignment) -> Coroutine[Any, Any, Item | None]:
        """The next item for the token: its node's result, or a request for a slot before the node
        may run. None when the token is no longer ours."""
        if assignment.outcome is not None:
            # Its result is known; only the plan is new.
            return self._settle_again(assignment)
        node = assignment.node
        if assignment.loaded is None or (node is not None and node.concurrency is not None):
            return self._run_with_slot(assignment)
        return self._run(assignment)

    async def _run_with_slot(self, assignment: Assignment) -> Item | None:
        return await self._slot_request(assignment) or await self._run(assignment)

    async def _slot_request(self, assignment: Assignment) -> Item | None:
        """What to ask for before the node may run; None: nothing (or `_run` will fail)."""
        try:
            if assignment.loaded is None:
                await self.preparing.load_program(assignment)
        except StoreUnavailableError:
            return assignment.release()
        except Exception:
            return None
        node, grant = assignment.node, assignment.grant
        if node is None or node.concurrency is None or assignment.holds_slot:
            return None
        if grant.skip or grant.cursor or grant.given or grant.is_resumed:
            return None
        try:
            assignment.check_rows()
            await self.preparing.load_values(assignment)
            key = render_slot_key(assignment, node, node.concurrency.key)
        except StoreUnavailableError:
            return assignment.release()
        except Exception as error:
            return self._settling.settle_error(assignment, error)
        # No key, no limit.
        return assignment.ask_for_slot(key, node.concurrency.limit) if key else None

    async def _run(self, assignment: Assignment) -> Item | None:
        # One that is unsettled was run by `run_now`.
        if assignment.unsettled is None:
            await self._find_outcome(assignment)
        else:
            assignment.outcome = assignment.unsettled
        if assignment.abandoned:
            return None
        outcome = assignment.outcome
        if assignment.releasing or outcome is None:
            return assignment.release()
        if assignment.loaded is None and isinstance(outcome, AttemptFailed):
            return assignment.fail_without_plan(outcome.error)
        try:
            item = self._settling.settle_now(assignment) if assignment.unsettled is None else None
            return item or await self._settling.settle_later(assignment)
        except asyncio.CancelledError:
            if not assignment.is_ended:
                raise
            return None if assignment.abandoned else assignment.release()
        except RunNotFoundError:
            return None  # The run has been ended and deleted meanwhile.

    async def _find_outcome(self, assignment: Assignment) -> None:
        """Run the node and note its outcome, or that the token is to be given back."""
        node = assignment.node
        try:
            if node is not None and assignment.facts.is_plain and assignment.is_ordinary:
                assignment.outcome = await self._running.run(assignment, node)
            else:
                assignment.outcome = await self._outcome(assignment)
        except asyncio.CancelledError:
            if not assignment.is_ended:
                raise
        except StoreUnavailableError:
            # Ours: `Running` has turned everything that a handler raised into an outcome.
            assignment.releasing = True
        except LeaseLost as error:
            if assignment.context is not None and assignment.context.cancelled:
                # The worker cancelled it. If the lease is still valid, others can take the token.
                assignment.releasing = True
            else:
                assignment.outcome = self._failures.outside_handler(assignment, error)
        except Exception as error:
            assignment.outcome = self._failures.outside_handler(assignment, error)

    async def _outcome(self, assignment: Assignment) -> Outcome:
        preparing = self.preparing
        if assignment.loaded is None:
            await preparing.load_program(assignment)
        node, facts = assignment.node, assignment.facts
        if node is None or facts.is_item or not assignment.is_ordinary:
            known = await self._prepare(assignment)
            if known is not None:
                return known
        assert node is not None
        if facts.is_hidden:
            return self._running.run_hidden(assignment, node)
        if is_undo_part(node):
            return await self._undo_parts.run(assignment, node)
        if node.config_ref is not None and assignment.config is None:
            await preparing.load_config(assignment, node)
        if facts.is_inline:
            return self._running.run_inline(assignment, node)
        return await self._running.run(assignment, node)

    async def _prepare(self, assignment: Assignment) -> Outcome | None:
        """Load what did not come with the token; its outcome, if it is known by then."""
        preparing, grant = self.preparing, assignment.grant
        if (
            assignment.missing_blobs()
            or grant.oversize
            or (assignment.facts.is_item and assignment.missing_chunk() is not None)
        ):
            await preparing.load_values(assignment)
        if (grant.given or grant.edited) and not (grant.skip or grant.cursor):
            given = await preparing.load_given(assignment)
            if given is not None:
                return given
        return preparing.known_outcome(assignment)

    # ── again ───────────────────────────────────────────────────────────────────────────

    async def _settle_again(self, assignment: Assignment) -> Item:
        """Route a result on the run's new plan, without running the node again."""
        try:
            await self.preparing.load_program(assignment)
        except StoreUnavailableError:
            # Hand in what there is: the store will ask for the new plan again.
            pass
        except MinuetError as error:
            return assignment.fail_without_plan(
                self._failures.outside_handler(assignment, error).error
            )
        return await self._settling.settle_in_time(assignment)

    def settle_as(self, assignment: Assignment, outcome: Outcome) -> Item:
        """Settle with another outcome: the store has refused the first."""
        assignment.outcome = outcome
        return self._settling.settle(assignment)
