"""The store in a schema of a PostgreSQL database: for many workers on many machines.

Each writing verb is one transaction, committed with `synchronous_commit` on: an answer means that
the server has synced it. Without a clock given, the server's clock decides about leases, timers
and deadlines.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from typing import TypeVar

from minuet.clock import Clock
from minuet.errors import RunConflictError, StoreError
from minuet.events import Place
from minuet.store.changes import Change, NewRun, SendSignal
from minuet.store.check import (
    check_change,
    check_new_runs,
    check_resolution,
    check_steps,
    check_worker,
)
from minuet.store.ends import Ends
from minuet.store.exchange import Exchange, Held, NewStep, Refusal, Reply, Swept
from minuet.store.feed import FeedPage, poll_feed
from minuet.store.postgres import changes, reads, workers
from minuet.store.postgres.address import Address
from minuet.store.postgres.cells import SharedCells
from minuet.store.postgres.database import Database, Link
from minuet.store.postgres.exchange import Exchanged, exchange, exchange_known
from minuet.store.postgres.feed import READ_FEED, read_feed
from minuet.store.postgres.hints import Hints
from minuet.store.postgres.known import Known
from minuet.store.postgres.migrate import open_schema
from minuet.store.postgres.statements import statement
from minuet.store.postgres.wanted import MissingRows, Wanted
from minuet.store.records import (
    DEFAULT_TENANT,
    FIRST_PLACE,
    SESSION_MS_MAX,
    DeadLetter,
    EventRecord,
    Forgotten,
    Key,
    LetterPlace,
    QueueDepth,
    Run,
    RunCounts,
    Signal,
    Snapshot,
    Token,
    WorkerEntry,
    WorkerRecord,
)
from minuet.store.retention import DELETED_PER_SWEEP
from minuet.store.wake import Wake
from minuet.types import TERMINAL, RunStatus

Value = TypeVar("Value")

#: Bytes of deleted blobs after which their space is made free at once. Autovacuum runs once a
#: minute, and a store that deletes as fast as it writes would grow by what comes in between.
VACUUM_BYTES = 32 * 1024 * 1024

#: Interval of polls while there are waiters: at first, and after a while.
POLL_MS = 100
POLL_MS_MAX = 1000

#: Sessions of which it is known what they hold; more than that end without saying so.
SESSIONS_KNOWN_MAX = 1000

_log = logging.getLogger("minuet.store.postgres")

_FORGET_SESSIONS = statement("forget_sessions")


class PostgresStore(SharedCells):
    """Runs in a PostgreSQL database: `postgresql://user:password@host:port/database`."""

    # Whether it would gain has not been measured.
    overlaps = False

    def __init__(self, url: str, *, clock: Clock | None = None, read_only: bool = False) -> None:
        self._address = Address(url)
        self.retention_ms = self._address.retention_ms
        self._clock = clock
        self._database = Database(self._address, read_only=read_only)
        self._ends = Ends(self._find_ended)
        self._hints = Hints(self._database, self._ends)
        #: By tenant and session.
        self._known: dict[tuple[str, str], Known] = {}
        #: Bytes of blobs that were deleted since their space was made free.
        self._freed_bytes = 0

    @property
    def durability(self) -> str:
        return self._database.described

    async def open(self) -> None:
        await open_schema(self._database)
        try:
            await self._database.write(
                lambda link: link.run(_FORGET_SESSIONS, self._now_ms(), SESSION_MS_MAX),
                repeatable=True,
            )
        except BaseException:
            await self._database.close()
            raise

    async def close(self) -> None:
        self._known.clear()
        await self._ends.close()
        await self._hints.close()
        await self._database.close()

    async def _step(
        self,
        wanted: Wanted,
        work: Callable[[Link, Wanted], Awaitable[Value]],
        *,
        repeatable: bool = False,
    ) -> Value:
        """Make a change; if it needs more rows than foreseen, make it again with those."""
        while True:
            try:
                return await self._database.write(
                    lambda link: work(link, wanted), repeatable=repeatable
                )
            except MissingRows as missing:
                wanted.add(missing)

    # ── the exchange ────────────────────────────────────────────────────────────────────

    async def exchange(self, request: Exchange) -> Reply:
        name = (request.tenant, request.session)
        # Taken out, so that a call that is interrupted leaves nothing half known behind.
        known = self._known.pop(name, None) or Known()
        answer = await self._exchange_known(request, known)
        if answer is None:
            wanted = Wanted(request.tenant)
            wanted.want_exchange(request)
            answer = await self._step(
                wanted,
                lambda link, wanted: exchange(link, wanted, request, self._now_ms(), known),
                repeatable=True,
            )
        if len(self._known) >= SESSIONS_KNOWN_MAX:
            self._known.clear()
        self._known[name] = known
        if answer.made_ready or request.hand_in:
            self._hints.tell(work=answer.made_ready)
        self._ends.notify(answer.ended)
        return answer.reply

    async def _exchange_known(self, request: Exchange, known: Known) -> Exchanged | None:
        """The answer to a call that can be worked out on what is known; None: it cannot."""
        if not known.covers(request):
            return None
        durability = self._database.durability
        try:
            return await self._database.try_once(
                lambda link: exchange_known(link, request, self._now_ms(), known, durability)
            )
        except Exception as error:
            # Whatever it was, the ordinary way meets it again, or finds that it happened.
            _log.debug("an exchange is made in the ordinary way: %r", error)
            known.forget(request)
            return None

    async def wait_until_durable(self, tenant: str, held: Held) -> bool:
        return True

    async def sweep(self, limit: int = 1000) -> Swept:
        now_ms = self._now_ms()
        due = await self._database.read(lambda link: changes.find_due(link, now_ms, limit))
        swept = Swept()
        if due:
            swept = await self._step(
                due.wanted(), lambda link, wanted: changes.sweep(link, wanted, due, now_ms)
            )
            self._hints.tell(work=True)
        deleted = 0 if self.retention_ms is None else await self._delete_outdated(self.retention_ms)
        next_due_ms = await self._database.read(lambda link: changes.next_due(link, now_ms))
        return Swept(
            swept.expired,
            swept.resumed,
            swept.cancelled,
            next_due_ms=next_due_ms,
            more=due.reaches(limit) or deleted == DELETED_PER_SWEEP,
        )

    async def wait_for_work(
        self,
        tenant: str,
        queues: Sequence[str],
        timeout_ms: int,
        runs: Collection[str] | None = None,
    ) -> bool:
        async def next_work_ms(link: Link) -> int | None:
            return await reads.next_work_ms(link, tenant, queues, runs, self._now_ms())

        return await self._wait(self._hints.work, next_work_ms, timeout_ms)

    async def _wait(
        self, wake: Wake, due_in_ms: Callable[[Link], Awaitable[int | None]], timeout_ms: int
    ) -> bool:
        """Wait for a hint, or until a poll of the database shows that it is due."""
        loop = asyncio.get_running_loop()
        end = loop.time() + timeout_ms / 1000
        poll_ms = POLL_MS
        while True:
            self._hints.listen()
            seen = wake.count
            due_ms = await self._look(due_in_ms)
            if due_ms is not None and due_ms <= 0:
                return True
            left_ms = (end - loop.time()) * 1000
            if left_ms <= 0:
                return False
            if due_ms is not None:
                left_ms = min(left_ms, due_ms)
            if await wake.wait(min(left_ms, poll_ms), seen):
                return True
            poll_ms = min(2 * poll_ms, POLL_MS_MAX)

    async def _look(self, due_in_ms: Callable[[Link], Awaitable[int | None]]) -> int | None:
        """Poll, and finish the query even if the waiter has gone: waiting is often given up, and
        cancelling a statement takes a connection of its own."""
        looking = asyncio.ensure_future(self._database.read(due_in_ms))
        looking.add_done_callback(_forget)
        return await asyncio.shield(looking)

    # ── runs ────────────────────────────────────────────────────────────────────────────

    async def create_runs(self, runs: Sequence[NewRun]) -> list[Run | RunConflictError]:
        check_new_runs(runs)
        created = await self._database.write(
            lambda link: changes.create_runs(link, runs, self._now_ms()), repeatable=True
        )
        self._hints.tell(work=True)
        return created

    async def change_run(
        self, tenant: str, run: str, change: Change, expected_seq: int | None = None
    ) -> Run:
        change = check_change(run, change)
        wanted = Wanted(tenant)
        wanted.want_change(run, change)
        changed = await self._step(
            wanted,
            lambda link, wanted: changes.change_run(
                link, wanted, run, change, expected_seq, self._now_ms()
            ),
            # A run gets a signal of each id once.
            repeatable=isinstance(change, SendSignal),
        )
        self._hints.tell(work=True)
        if changed.status in TERMINAL:
            self._ends.notify([run])
        return changed

    async def resolve(
        self, tenant: str, key: Key, resolution: bytes, *, by: str = "", wait_key: str | None = None
    ) -> bool:
        data = check_resolution(resolution)
        wanted = Wanted(tenant)
        wanted.want_token(key)
        resolved = await self._step(
            wanted,
            lambda link, wanted: changes.resolve(
                link, wanted, key, data, by, wait_key, self._now_ms()
            ),
        )
        if resolved:
            self._hints.tell(work=True)
        return resolved

    async def record_steps(self, tenant: str, steps: Sequence[NewStep]) -> list[bytes | Refusal]:
        check_steps(steps)
        if not await self._record_at_once(tenant, steps):
            wanted = Wanted(tenant)
            wanted.want_steps(steps)
            answers = await self._step(
                wanted,
                lambda link, wanted: changes.record_steps(link, wanted, steps, self._now_ms()),
                repeatable=True,
            )
            self._hints.tell(work=False)
            return answers
        self._hints.tell(work=False)
        return [new.value for new in steps]

    async def _record_at_once(self, tenant: str, steps: Sequence[NewStep]) -> bool:
        """Record steps in one call, as almost all can be; False: these cannot."""
        keys = {(new.run, new.node, new.scope, new.name) for new in steps}
        if len(keys) < len(steps) or not steps or any(new.signal for new in steps):
            return False
        durability = self._database.durability
        try:
            seqs = await self._database.try_once(
                lambda link: changes.record_at_once(link, tenant, steps, self._now_ms(), durability)
            )
        except Exception as error:
            # Whatever it was, the ordinary way meets it again, or finds that it happened.
            _log.debug("steps are recorded in the ordinary way: %r", error)
            return False
        added = Counter(new.run for new in steps)
        for known in self._known.values():
            for run, seq in seqs.items():
                known.advance(run, seq - added[run], seq)
        return bool(seqs)

    async def list_unreported(self, *, after: str = "", limit: int = 1000) -> list[Run]:
        return await self._database.read(lambda link: reads.list_unreported(link, after, limit))

    async def mark_reported(self, tenant: str, run: str, seq: int) -> bool:
        wanted = Wanted(tenant)
        wanted.runs[run] = None
        return await self._step(
            wanted,
            lambda link, wanted: changes.mark_reported(link, wanted, run, seq, self._now_ms()),
        )

    async def list_notable(self, *, after: str = "", limit: int = 1000) -> list[Run]:
        return await self._database.read(lambda link: reads.list_notable(link, after, limit))

    async def mark_noted(self, tenant: str, run: str, upto: int) -> bool:
        wanted = Wanted(tenant)
        wanted.runs[run] = None
        return await self._step(
            wanted,
            lambda link, wanted: changes.mark_noted(link, wanted, run, upto, self._now_ms()),
        )

    async def delete_runs(self, tenant: str, runs: Sequence[str]) -> int:
        return await self._delete(lambda link: changes.delete_runs(link, tenant, runs))

    async def _delete_outdated(self, retention_ms: int) -> int:
        now_ms = self._now_ms()
        return await self._delete(
            lambda link: changes.delete_outdated(link, retention_ms, DELETED_PER_SWEEP, now_ms)
        )

    async def _delete(self, delete: Callable[[Link], Awaitable[tuple[int, int]]]) -> int:
        count, freed = await self._database.write(delete)
        self._freed_bytes += freed
        if self._freed_bytes >= VACUUM_BYTES:
            self._freed_bytes = 0
            # If the server does not permit it, its autovacuum does it later.
            with suppress(StoreError):
                await self._database.read(changes.vacuum_blobs)
        return count

    async def put_run(
        self,
        tenant: str,
        rows: Snapshot,
        expected_seq: int | None,
        *,
        blobs: Sequence[bytes] = (),
    ) -> bool:
        put = await self._database.write(
            lambda link: changes.put_run(link, tenant, rows, expected_seq, blobs)
        )
        self._hints.tell(work=True)
        return put

    async def wait_for_change(self, run: str, after_seq: int, timeout_ms: int) -> bool:
        async def has_more(link: Link) -> int | None:
            return 0 if await reads.run_seq(link, run) > after_seq else None

        return await self._wait(self._hints.changed, has_more, timeout_ms)

    async def wait_for_end(self, run: str, timeout_ms: int) -> bool:
        self._hints.listen()
        return await self._ends.wait(run, timeout_ms)

    async def _find_ended(self, runs: Collection[str]) -> Collection[str]:
        return await self._database.read(lambda link: reads.find_ended(link, runs))

    # ── reads ───────────────────────────────────────────────────────────────────────────

    async def read_run(self, tenant: str, run: str) -> Run | None:
        return await self._database.read(lambda link: reads.read_run(link, tenant, run))

    async def list_runs(
        self,
        tenant: str,
        *,
        statuses: Sequence[RunStatus] = (),
        workflow: str | None = None,
        before: str | None = None,
        limit: int = 100,
    ) -> list[Run]:
        return await self._database.read(
            lambda link: reads.list_runs(link, tenant, statuses, workflow, before, limit)
        )

    async def read_events(
        self, tenant: str, run: str, after_seq: int = 0, limit: int = 1000
    ) -> list[EventRecord]:
        return await self._database.read(
            lambda link: reads.read_events(link, tenant, run, after_seq, limit)
        )

    async def read_feed(
        self, after: str | None, *, limit: int = 1000, wait_ms: int = 0
    ) -> FeedPage:
        self._hints.listen()
        return await poll_feed(
            lambda: self._database.read(lambda link: read_feed(link, READ_FEED, after, limit)),
            self._hints.changed,
            wait_ms if after is not None else 0,
            POLL_MS,
        )

    async def read_tokens(self, tenant: str, run: str) -> list[Token]:
        return await self._database.read(lambda link: reads.read_tokens(link, tenant, run))

    async def read_steps(self, tenant: str, key: Key) -> dict[str, bytes]:
        return await self._database.read(lambda link: reads.read_steps(link, tenant, key))

    async def read_signals(self, tenant: str, run: str) -> list[Signal]:
        return await self._database.read(lambda link: reads.read_signals(link, tenant, run))

    async def read_snapshot(self, tenant: str, run: str) -> Snapshot | None:
        return await self._database.read(lambda link: reads.read_snapshot(link, tenant, run))

    async def find_break(self, tenant: str, run: str) -> int | None:
        return None  # It keeps no hashes.

    async def list_waiting(
        self, tenant: str, kind: str, *, key: str | None = None, limit: int = 100
    ) -> list[Token]:
        return await self._database.read(
            lambda link: reads.list_waiting(link, tenant, kind, key, limit)
        )

    async def list_dead_letters(
        self,
        tenant: str,
        *,
        run: str | None = None,
        status: str | None = "pending",
        after: LetterPlace = FIRST_PLACE,
        limit: int = 100,
    ) -> list[DeadLetter]:
        return await self._database.read(
            lambda link: reads.list_dead_letters(link, tenant, run, status, after, limit)
        )

    async def discard_dead_letter(
        self, tenant: str, run: str, generation: int, why: str = "", held: Place | None = None
    ) -> bool:
        return await self._database.write(
            lambda link: changes.discard_dead_letter(
                link, tenant, run, generation, why, held, self._now_ms()
            )
        )

    async def count_runs(self, tenant: str) -> RunCounts:
        return await self._database.read(lambda link: reads.count_runs(link, tenant))

    async def list_queues(self) -> list[QueueDepth]:
        return await self._database.read(reads.list_queues)

    async def list_tenants(self) -> list[str]:
        return await self._database.read(reads.list_tenants)

    async def find_queues(
        self, tenant: str, prefix: str, *, after: str = "", limit: int = 1000
    ) -> list[str]:
        return await self._database.read(
            lambda link: workers.find_queues(link, tenant, prefix, after, limit)
        )

    # ── workers ─────────────────────────────────────────────────────────────────────────

    async def register_worker(self, record: WorkerRecord) -> bool:
        check_worker(record)
        return await self._database.write(
            lambda link: workers.register_worker(link, record, self._now_ms()), repeatable=True
        )

    async def drain_worker(self, tenant: str, worker: str) -> bool:
        return await self._database.write(
            lambda link: workers.drain_worker(link, tenant, worker), repeatable=True
        )

    async def remove_worker(self, tenant: str, worker: str) -> bool:
        return await self._database.write(lambda link: workers.remove_worker(link, tenant, worker))

    async def list_workers(self, tenant: str, *, limit: int = 10_000) -> list[WorkerEntry]:
        return await self._database.read(
            lambda link: workers.list_workers(link, tenant, limit, self._now_ms())
        )

    async def forget_idle(self) -> Forgotten:
        return await self._database.write(
            lambda link: workers.forget_idle(link, self._now_ms()), repeatable=True
        )

    # ── blobs ───────────────────────────────────────────────────────────────────────────

    async def put_blob(
        self, data: bytes, *, run: str | None = None, tenant: str = DEFAULT_TENANT
    ) -> str:
        return await self._database.write(
            lambda link: changes.put_blob(link, tenant, run, data, self._now_ms()), repeatable=True
        )

    async def get_blob(
        self, ref: str, *, run: str | None = None, tenant: str = DEFAULT_TENANT
    ) -> bytes | None:
        return await self._database.read(lambda link: reads.get_blob(link, tenant, run, ref))


def _forget(looking: asyncio.Future[int | None]) -> None:
    """A waiter gets the error; without one it does not matter."""
    if not looking.cancelled():
        looking.exception()
