"""`app.dead_letters`: node instances that failed for good: see, edit, retry or discard them.

A run fails at one node in each generation, so a run and a generation name a dead letter. Retrying
one retries its run: the node that failed, and what was cut off when it did. If the node is held
(`on_dlq: hold`), its run has not failed: the id of the dead letter also names the instance, and
retrying it retries the node alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any, TypeAlias

import msgspec

from minuet.app.argument_rules import is_storable
from minuet.app.arguments import checked
from minuet.app.given import find_given
from minuet.app.redrives import Redrive, RedriveList, list_redrives, stop_redrive
from minuet.app.repairing import change_run, keep_value
from minuet.app.results import TaskEvent
from minuet.app.runs import Runs
from minuet.app.tenant import Tenant
from minuet.app.watch import instance_name
from minuet.bridge.letters import letter_pages
from minuet.errors import (
    DeadLetterNotFoundError,
    RedriveNotFoundError,
    RunConflictError,
    RunNotFoundError,
)
from minuet.plan.placement import base_queue
from minuet.plan.plan import author_of
from minuet.scopes import decode
from minuet.store.changes import Repair, RepairAction
from minuet.store.records import DeadLetter
from minuet.types import TERMINAL, UNDO, Json, LetterStatus, Scope

#: Dead letters read at once.
PAGE = 1_000


class DeadLetterView(msgspec.Struct, frozen=True):
    """A node instance that failed for good and is kept."""

    #: The run and the generation: `0198….1`; of a node that was held, the instance as well:
    #: `0198….1.charge[2]`; of a compensator, which undo of the run it was, and what was to be
    #: undone: `0198….1.undo1:charge`.
    id: str
    run_id: str
    node_id: str
    scope: Scope
    workflow: str
    queue: str
    generation: int
    reason: str
    error: dict[str, Any]
    #: The same for errors that have the same cause.
    fingerprint: str
    attempts: int
    at_ms: int
    status: LetterStatus
    #: When it was reprocessed or discarded.
    settled_ms: int | None
    #: Why it was discarded.
    why: str
    #: Whether the node was held: its run did not fail.
    held: bool = False


class LetterDetails(msgspec.Struct, frozen=True):
    """A dead letter, with what its handler was given and what happened to it."""

    letter: DeadLetterView
    #: `config`, `inputs` and `input` as the handler saw them, and `item` in a foreach. Secrets are
    #: hidden. None: it cannot be made again.
    input: dict[str, Json] | None
    history: list[TaskEvent]


class LetterGroup(msgspec.Struct, frozen=True):
    """Dead letters with the same cause."""

    fingerprint: str
    count: int
    #: How many there are in each queue.
    queues: dict[str, int]
    first_ms: int
    last_ms: int
    #: The newest of them.
    example: DeadLetterView


class Retried(msgspec.Struct, frozen=True):
    """What became of a dead letter that was to be retried."""

    id: str
    run_id: str
    is_retried: bool
    #: Why it was not.
    why: str = ""


#: Inside the class, `list` is one of its methods.
LetterList: TypeAlias = list[DeadLetterView]
IdList: TypeAlias = list[str]
GroupList: TypeAlias = list[LetterGroup]
Letters: TypeAlias = list[DeadLetter]


class DeadLetters:
    """The dead letters of a tenant."""

    def __init__(self, tenant: Tenant, runs: Runs) -> None:
        self._behind = tenant
        self._store, self._tenant = tenant.store, tenant.name
        self._runs = runs

    # ── asking ──────────────────────────────────────────────────────────────────────────

    @checked
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
        """Dead letters, the oldest first. An item of a foreach has the name of its node, and its
        number ends the scope. `after` is the id of the last one of the previous page."""
        found: LetterList = []
        last = None if after is None else await self._find(after)
        async for page in self._pages(run_id, node_id, queue, fingerprint, status, last):
            found += [await self._view(letter) for letter in page[: limit - len(found)]]
            if len(found) == limit:
                break
        return found

    @checked
    async def ids(
        self,
        *,
        run_id: str | None = None,
        node_id: str | None = None,
        queue: str | None = None,
        fingerprint: str | None = None,
    ) -> IdList:
        """The ids of all pending dead letters of a run, a node, a queue or a cause, the oldest
        first: for `retry`."""
        pages = self._pages(run_id, node_id, queue, fingerprint, "pending")
        return [_id(letter) async for page in pages for letter in page]

    @checked
    async def group(
        self,
        *,
        run_id: str | None = None,
        node_id: str | None = None,
        queue: str | None = None,
        fingerprint: str | None = None,
        status: LetterStatus | None = "pending",
    ) -> GroupList:
        """Dead letters by their fingerprints, the largest group first. All of them are read, by
        the thousand."""
        groups: dict[str, _Group] = {}
        async for page in self._pages(run_id, node_id, queue, fingerprint, status):
            for letter in page:
                group = groups.get(letter.fingerprint)
                if group is None:
                    group = groups[letter.fingerprint] = _Group(letter)
                group.add(letter)
        found = [group.view(await self._view(group.last)) for group in groups.values()]
        return sorted(found, key=lambda one: (-one.count, one.first_ms))

    @checked
    async def get(self, id: str) -> DeadLetterView:
        """The dead letter with this id; DeadLetterNotFoundError when there is none. The run in it
        may be the beginning of its id."""
        return await self._view(await self._find(id))

    async def _find(self, id: str) -> DeadLetter:
        # Neither the id of a run nor the name of a node has a dot.
        run, generation, name = (*id.split("."), "", "", "")[:3]
        if generation.isdecimal() and generation.isascii() and len(generation) < 10:
            try:
                run = await self._runs.find(run)
            except RunNotFoundError:
                raise DeadLetterNotFoundError(id) from None
            async for page in letter_pages(self._store, self._tenant, run, None, PAGE):
                for letter in page:
                    if letter.generation == int(generation) and _held_name(letter) == name:
                        return letter
        raise DeadLetterNotFoundError(id)

    @checked
    async def show(self, id: str) -> LetterDetails:
        """A dead letter, with what its handler was given and what happened to it."""
        stored = await self._find(id)
        letter = await self._view(stored)
        events = await self._runs.task_events(letter.run_id)
        return LetterDetails(
            letter,
            await find_given(self._behind, (stored.run, stored.node, stored.scope)),
            [
                one
                for one in events
                if (author_of(one.node), one.scope, one.node.endswith(UNDO))
                == (letter.node_id, letter.scope, stored.node.endswith(UNDO))
            ],
        )

    async def _pages(
        self,
        run_id: str | None,
        node_id: str | None,
        queue: str | None,
        fingerprint: str | None,
        status: LetterStatus | None,
        behind: DeadLetter | None = None,
    ) -> AsyncIterator[Letters]:
        self._behind.check_open()
        if run_id is not None and not is_storable(run_id):
            return
        async for page in letter_pages(self._store, self._tenant, run_id, status, PAGE, behind):
            yield [
                letter
                for letter in page
                if fingerprint in (None, letter.fingerprint)
                and node_id in (None, author_of(letter.node))
                and queue in (None, base_queue(letter.queue))
            ]

    async def _view(self, letter: DeadLetter) -> DeadLetterView:
        workflow = letter.workflow
        if not workflow:
            run = await self._store.read_run(self._tenant, letter.run)
            workflow = "" if run is None else run.workflow
        undoing, scope = letter.node.endswith(UNDO), decode(letter.scope)
        return DeadLetterView(
            _id(letter),
            letter.run,
            author_of(letter.node),
            scope[:-1] if undoing else scope,
            workflow,
            base_queue(letter.queue),
            letter.generation,
            letter.reason,
            letter.error,
            letter.fingerprint,
            letter.attempts,
            letter.at_ms,
            letter.status,
            letter.settled_ms,
            letter.why,
            letter.held,
        )

    # ── changing ────────────────────────────────────────────────────────────────────────

    @checked
    async def retry(
        self, ids: Iterable[str], *, per_second: float | None = None, by: str = ""
    ) -> AsyncIterator[Retried]:
        """Retry the runs of these dead letters one after the other, at most so many in a second,
        and say of each what became of it.

        Attempts begin at 1 again; the idempotency key of the instance stays the same. A dead letter
        that is not pending any more, because somebody else was faster, is left alone. If a
        compensator failed, what is left to undo in its run is tried again.
        """
        loop = asyncio.get_running_loop()
        due = loop.time()
        for id in ids:
            if per_second is not None:
                await asyncio.sleep(due - loop.time())
                due = max(due, loop.time() - 1) + 1 / per_second
            yield await self._retry_one(id, by)

    async def _retry_one(self, id: str, by: str) -> Retried:
        return await self._retry(await self._find(id), by)

    async def _retry(self, letter: DeadLetter, by: str) -> Retried:
        id = _id(letter)
        if letter.status != "pending":
            return Retried(id, letter.run, False, f"it is {letter.status}")
        try:
            if letter.node.endswith(UNDO):
                await self._undo_again(letter)
            elif await self._is_on_hold(letter):
                await change_run(self._behind, letter.run, _repair(letter, "retry", by=by))
                self._behind.work_on([letter.run])
            else:
                await self._runs.retry(letter.run, generation=letter.generation)
        except (RunConflictError, RunNotFoundError) as error:
            return Retried(id, letter.run, False, str(error))
        return Retried(id, letter.run, True)

    @checked
    async def redrives(self) -> RedriveList:
        """What servers retry at a pace, or have retried, the newest first."""
        self._behind.check_open()
        return await list_redrives(self._store, self._tenant, self._behind.engine.clock.now_ms())

    @checked
    async def stop_redrive(self, id: str) -> Redrive:
        """Retry no more of a redrive. The server that works on it stops within a second or so.
        RedriveNotFoundError when there is none with this id."""
        self._behind.check_open()
        if not is_storable(id):
            raise RedriveNotFoundError(id)
        now_ms = self._behind.engine.clock.now_ms()
        return await stop_redrive(self._store, self._tenant, id, now_ms)

    async def _undo_again(self, letter: DeadLetter) -> None:
        """Undo what is left of a run; this dead letter is then of no further interest."""
        await self._runs.rollback(letter.run)
        why = "its run is undone again"
        held = (letter.node, letter.scope)
        await self._store.discard_dead_letter(
            self._tenant, letter.run, letter.generation, why, held
        )

    @checked
    async def edit(
        self, id: str, config: dict[str, Any], *, by: str = "", why: str = ""
    ) -> DeadLetterView:
        """Give the node of a pending dead letter another config, for all its further attempts.
        Templates in it are filled in, as in a document. It stays pending until it is retried.

        RunConflictError when it is not pending.
        """
        letter = await self._find_pending(id)
        value = await keep_value(self._behind, letter.run, config, "config")
        await change_run(
            self._behind, letter.run, _repair(letter, "edit", value=value, by=by, why=why)
        )
        return await self._view(letter)

    @checked
    async def discard(self, id: str, *, by: str = "", why: str = "") -> DeadLetterView:
        """Mark a pending dead letter as of no further interest. Its run stays FAILED. If its node
        is held, its run fails now.

        RunConflictError when it is not pending.
        """
        letter = await self._find_pending(id)
        if await self._is_on_hold(letter):
            fail = _repair(letter, "fail", by=by, why=why, error=letter.error)
            await change_run(self._behind, letter.run, fail)
            return await self.get(id)
        held = (letter.node, letter.scope) if _held_name(letter) else None
        if not await self._store.discard_dead_letter(
            self._tenant, letter.run, letter.generation, why, held
        ):
            await self._find_pending(id)
        return await self.get(id)

    async def _find_pending(self, id: str) -> DeadLetter:
        letter = await self._find(id)
        if letter.status != "pending":
            raise RunConflictError(letter.run, f"has no pending dead letter: {letter.status}")
        return letter

    async def _is_on_hold(self, letter: DeadLetter) -> bool:
        """Whether its node is held. If its run has ended since, it is not any more."""
        if not letter.held:
            return False
        run = await self._runs.get(letter.run)
        return run.generation == letter.generation and run.status not in TERMINAL


def _held_name(letter: DeadLetter) -> str:
    """The instance of a dead letter after whose failure its run went on: what its id ends with."""
    if letter.node.endswith(UNDO):
        *scope, number = decode(letter.scope)
        return f"undo{number}:{instance_name(author_of(letter.node), tuple(scope))}"
    return instance_name(letter.node, letter.scope) if letter.held else ""


def _id(letter: DeadLetter) -> str:
    name = _held_name(letter)
    return f"{letter.run}.{letter.generation}{f'.{name}' if name else ''}"


def _repair(letter: DeadLetter, action: RepairAction, **fields: Any) -> Repair:
    return Repair(letter.node, letter.scope, action, **fields)


class _Group:
    """Counts the dead letters of one fingerprint."""

    def __init__(self, first: DeadLetter) -> None:
        self._first = self.last = first
        self._queues: dict[str, int] = {}

    def add(self, letter: DeadLetter) -> None:
        self.last = letter
        self._queues[letter.queue] = self._queues.get(letter.queue, 0) + 1

    def view(self, example: DeadLetterView) -> LetterGroup:
        queues: dict[str, int] = {}
        for queue, count in self._queues.items():
            queue = base_queue(queue)
            queues[queue] = queues.get(queue, 0) + count
        return LetterGroup(
            example.fingerprint,
            sum(queues.values()),
            queues,
            self._first.at_ms,
            example.at_ms,
            example,
        )
