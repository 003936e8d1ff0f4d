"""The log of a logged store, in a schema of a PostgreSQL database.

Appending is one transaction: the runs are locked in the order of their names, compared with what
is there, and their events added with the hashes that continue the chain. What continues just what
this process has added before is one statement instead, which adds nothing where that is not what
is there. Committed with `synchronous_commit` on, as all changes of this store are.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import msgspec

from minuet.clock import Clock
from minuet.errors import RunConflictError
from minuet.store.changes import NewRun
from minuet.store.feed import FeedPage
from minuet.store.lenient import DAMAGE, struct_of
from minuet.store.logged.base import CLAIM_MS, Appended, Claim, Logged, LogIdentity, Unlogged
from minuet.store.logged.chain import START, chain
from minuet.store.logged.judge import judge
from minuet.store.logged.submission import created, refusal, submitted
from minuet.store.postgres.address import Address
from minuet.store.postgres.blobs import list_blob_tenants
from minuet.store.postgres.cells import SharedCells
from minuet.store.postgres.changes import put_blob
from minuet.store.postgres.database import Database, Link
from minuet.store.postgres.feed import READ_RECORD_FEED, read_feed
from minuet.store.postgres.migrate import open_schema
from minuet.store.postgres.statements import statement
from minuet.store.records import DEFAULT_TENANT, EventRecord, Run, Snapshot
from minuet.store.rules.shared import key_conflict
from minuet.types import TERMINAL, RunStatus

_log = logging.getLogger("minuet.store.postgres")

#: Events read at once.
PAGE = 5_000

#: Runs of which is known up to where they are recorded.
LAST_MAX = 20_000

_MAKE_IDENTITY = statement("make_record_identity")
_IDENTITY = statement("record_identity")
_SUBMIT = statement("submit_runs")
_FIND_SUBMITTED = statement("find_submitted")
_LIST_SUBMITTED = statement("list_submitted")
_LOCK = statement("lock_record_runs")
_EVENTS_AFTER = statement("record_events_after")
_APPEND = statement("append_record")
_CONTINUE = statement("continue_record")
_READ_RUNS = statement("read_record_runs")
_LIST_LOGGED = statement("list_logged")
_CLAIM_COMPARISON = statement("claim_comparison")
_FIND_COMPARISON = statement("find_comparison")
_FINISH_COMPARISON = statement("finish_comparison")
_RELEASE_COMPARISON = statement("release_comparison")
_READ_RUN = statement("read_record_run")
_LIST_RUNS = statement("list_record_runs")
_READ_EVENTS = statement("read_record_events")
_LIST_TENANTS = statement("list_record_tenants")
_LIST_DELETED = statement("list_record_deleted")
_READ_SUBMITTED = statement("read_submitted")
_FIND_DELETED = statement("find_record_deleted")
_FORGET_RUN = statement("forget_record_run")
_FIND_KEY = statement("find_record_key")
_DELETE_RUNS = statement("delete_record_runs")
_LIST_OUTDATED = statement("list_record_outdated")
_PUT_RECORD_BLOB = statement("put_record_blob")
_GET_RECORD_BLOB = statement("get_record_blob")

_encode = msgspec.msgpack.Encoder().encode
_decode_run = msgspec.msgpack.Decoder(Run).decode
_decode_new = msgspec.msgpack.Decoder(NewRun).decode


class _Notable(msgspec.Struct):
    """The part of a run's state that says whether something was not passed on."""

    notable: int = 0


_decode_notable = msgspec.msgpack.Decoder(_Notable).decode


class PostgresLog(SharedCells):
    """Events of runs in a PostgreSQL database: `postgresql://user:password@host:port/database`."""

    def __init__(self, url: str, *, clock: Clock | None = None) -> None:
        self._address = Address(url)
        self.retention_ms = self._address.retention_ms
        #: Decides how long blobs were not touched; None: the server's clock does.
        self._clock = clock
        self._database = Database(self._address)
        #: Up to where runs were recorded by this process: the number and the hash of an event.
        self._last: dict[str, tuple[int, bytes]] = {}

    @property
    def durability(self) -> str:
        return self._database.described

    async def open(self) -> None:
        await open_schema(self._database)

    async def close(self) -> None:
        await self._database.close()

    async def identity(self) -> LogIdentity:
        async def make(link: Link) -> str:
            await link.run(_MAKE_IDENTITY)
            identity: str = await link.value(_IDENTITY)
            return identity

        found = await self._database.write(make, repeatable=True)
        return LogIdentity(found, f"{self._address.shown}, schema {self._address.schema}")

    # ── submitting ──────────────────────────────────────────────────────────────────────

    async def submit(self, runs: Sequence[NewRun]) -> list[NewRun | Run | RunConflictError]:
        return await self._database.write(lambda link: _submit(link, runs), repeatable=True)

    async def list_submitted(self, age_ms: int, limit: int) -> list[NewRun]:
        found = await self._database.read(lambda link: link.rows(_LIST_SUBMITTED, age_ms, limit))
        return [_decode_new(row[0]) for row in found]

    async def read_submitted(self, run: str) -> NewRun | None:
        found = await self._database.read(lambda link: link.value(_READ_SUBMITTED, run))
        return None if found is None else _decode_new(found)

    # ── the log ─────────────────────────────────────────────────────────────────────────

    async def append(self, found: Sequence[Unlogged]) -> list[Appended]:
        """In one statement what continues just what this process has recorded before; the rest,
        and what turns out otherwise, in a transaction."""
        continued = await self._continue(found)
        rest = [one for one in found if one.run.run not in continued]
        answers: list[Appended] = []
        if rest:
            answers, last = await self._database.write(
                lambda link: _append(link, rest), repeatable=True
            )
            self._remember(last)
        others = iter(answers)
        return ["logged" if one.run.run in continued else next(others) for one in found]

    async def _continue(self, found: Sequence[Unlogged]) -> set[str]:
        """The runs whose events are recorded now."""
        events: list[tuple[Any, ...]] = []
        runs: list[tuple[Any, ...]] = []
        last: dict[str, tuple[int, bytes]] = {}
        for one in found:
            run, before = one.run, self._last.pop(one.run.run, None)
            if before is None or before[0] != one.logged:
                continue
            hashes = list(chain(before[1], one.events))
            events += _event_rows(one.events, hashes)
            last[run.run] = seq, end = one.events[-1].seq, hashes[-1]
            runs.append(
                (run.run, *before, run.workflow, run.status, seq, end, _state(run), run.ended_ms)
            )
        if not runs:
            return set()
        columns = (*zip(*events, strict=True), *zip(*runs, strict=True))
        arguments = (self._database.durability, *(list(column) for column in columns))
        try:
            moved = await self._database.try_once(lambda link: link.rows(_CONTINUE, *arguments))
        except Exception as error:
            # Whatever it was, the ordinary way meets it again, or finds that it happened.
            _log.debug("events are recorded in the ordinary way: %r", error)
            return set()
        names = {row[0] for row in moved}
        self._remember({run: end for run, end in last.items() if run in names})
        return names

    def _remember(self, last: dict[str, tuple[int, bytes]]) -> None:
        if len(self._last) + len(last) > LAST_MAX:
            self._last.clear()
        self._last.update(last)

    async def put_log(
        self, rows: Snapshot, expected_seq: int | None, *, blobs: Sequence[bytes] = ()
    ) -> bool:
        return await self._database.write(lambda link: _put_log(link, rows, expected_seq, blobs))

    async def read_logs(self, runs: Sequence[str]) -> list[Snapshot]:
        return await self._database.read_at_once(lambda link: _read_logs(link, runs))

    async def list_logged(self, after: str, changed_ms: int, limit: int) -> list[Logged]:
        found = await self._database.read(
            lambda link: link.rows(_LIST_LOGGED, after, changed_ms, limit)
        )
        return [
            Logged(tenant, run, seq, status, _is_notable(state))
            for tenant, run, seq, status, state in found
        ]

    async def list_deleted(self, changed_ms: int, limit: int) -> list[tuple[str, str]]:
        found = await self._database.read(lambda link: link.rows(_LIST_DELETED, changed_ms, limit))
        return [(row[0], row[1]) for row in found]

    async def claim_comparison(self, identity: str, owner: str) -> Claim:
        async def claim(link: Link) -> Claim:
            if await link.row(_CLAIM_COMPARISON, identity, owner, CLAIM_MS) is not None:
                return "yours"
            return "done" if await link.value(_FIND_COMPARISON, identity) else "wait"

        return await self._database.write(claim, repeatable=True)

    async def finish_comparison(self, identity: str) -> None:
        await self._database.write(
            lambda link: link.run(_FINISH_COMPARISON, identity), repeatable=True
        )

    async def release_comparison(self, identity: str, owner: str) -> None:
        await self._database.write(
            lambda link: link.run(_RELEASE_COMPARISON, identity, owner), repeatable=True
        )

    # ── reads ───────────────────────────────────────────────────────────────────────────

    async def read_run(self, tenant: str, run: str) -> Run | None:
        row = await self._database.read(lambda link: link.row(_READ_RUN, tenant, run))
        return None if row is None else _run_of(row)

    async def list_runs(
        self,
        tenant: str,
        *,
        statuses: Sequence[RunStatus] = (),
        workflow: str | None = None,
        before: str | None = None,
        limit: int = 100,
    ) -> list[Run]:
        wanted = list(statuses) or None
        found = await self._database.read(
            lambda link: link.rows(_LIST_RUNS, tenant, wanted, workflow, before, limit)
        )
        return [_run_of(row) for row in found]

    async def read_events(
        self, tenant: str, run: str, after_seq: int = 0, limit: int = 1000
    ) -> list[EventRecord]:
        return [event for event, _ in await self._read_events(tenant, run, after_seq, limit)]

    async def _read_events(
        self, tenant: str, run: str, after_seq: int, limit: int
    ) -> list[tuple[EventRecord, bytes]]:
        found = await self._database.read(
            lambda link: link.rows(_READ_EVENTS, tenant, run, after_seq, limit)
        )
        return [(_event_of(row), row[4]) for row in found]

    async def read_feed(self, after: str | None, limit: int) -> FeedPage:
        return await self._database.read(
            lambda link: read_feed(link, READ_RECORD_FEED, after, limit)
        )

    async def list_tenants(self) -> list[str]:
        async def ask(link: Link) -> set[str]:
            with_runs = {row[0] for row in await link.rows(_LIST_TENANTS)}
            return with_runs | await list_blob_tenants(link)

        return sorted(await self._database.read(ask))

    async def find_break(self, tenant: str, run: str) -> int | None:
        before, after = START, 0
        while True:
            page = await self._read_events(tenant, run, after, PAGE)
            for ours, (event, theirs) in zip(
                chain(before, (event for event, _ in page)), page, strict=True
            ):
                after += 1
                if ours != theirs or event.seq != after:
                    return after
                before = theirs
            if len(page) < PAGE:
                break
        row = await self.read_run(tenant, run)
        return after + 1 if row is not None and row.seq != after else None

    async def delete_runs(self, tenant: str, runs: Sequence[str]) -> int:
        return await self._database.write(lambda link: _delete_runs(link, tenant, runs))

    async def list_outdated(self, retention_ms: int, limit: int) -> list[tuple[str, str]]:
        found = await self._database.read(
            lambda link: link.rows(_LIST_OUTDATED, self._now_ms(), retention_ms, limit)
        )
        return [(row[0], row[1]) for row in found]

    # ── blobs ───────────────────────────────────────────────────────────────────────────

    async def put_blob(
        self, data: bytes, *, run: str | None = None, tenant: str = DEFAULT_TENANT
    ) -> str:
        return await self._database.write(
            lambda link: put_blob(link, tenant, run, data, self._now_ms(), _PUT_RECORD_BLOB),
            repeatable=True,
        )

    async def get_blob(
        self, ref: str, *, run: str | None = None, tenant: str = DEFAULT_TENANT
    ) -> bytes | None:
        data: bytes | None = await self._database.read(
            lambda link: link.value(_GET_RECORD_BLOB, tenant, ref, run)
        )
        return data


# ── in one transaction ──────────────────────────────────────────────────────────────────────


async def _submit(link: Link, runs: Sequence[NewRun]) -> list[NewRun | Run | RunConflictError]:
    names, tenants = [new.run for new in runs], [new.tenant for new in runs]
    keys = [None if new.idempotency_key is None else new.idempotency_key.encode() for new in runs]
    # Of several with one key in one call, the first is the one to create.
    await link.run(
        _SUBMIT,
        names,
        tenants,
        [new.workflow for new in runs],
        [submitted(new) for new in runs],
        keys,
        [_encode(msgspec.structs.replace(new, blobs=())) for new in runs],
        START,
    )
    found: dict[int, Any] = {}
    for row in await link.rows(_FIND_SUBMITTED, names, tenants, keys):
        found.setdefault(row["place"], row)
    for place, new in enumerate(runs, 1):
        row = found[place]
        known = (row["run"], row["tenant"], row["content"])
        if known == (new.run, new.tenant, submitted(new)):
            await _keep_blobs(link, new.tenant, new.run, new.blobs)
    return [_answer(new, found[place]) for place, new in enumerate(runs, 1)]


def _answer(new: NewRun, row: Any) -> NewRun | Run | RunConflictError:
    known = _run_of(row) if row["seq"] else None
    if row["tenant"] != new.tenant:
        return RunConflictError(new.run, "this id cannot be used")
    if row["content"] != submitted(new):
        return refusal(row["run"], known)
    return known if known is not None else _decode_new(row["submission"])


async def _append(
    link: Link, found: Sequence[Unlogged]
) -> tuple[list[Appended], dict[str, tuple[int, bytes]]]:
    """What became of each, and up to where runs are recorded now."""
    names = [one.run.run for one in found]
    known = {row[0]: (row[1], row[2]) for row in await link.rows(_LOCK, names)}
    # A run that is there was not deleted; one that was is not there.
    unknown = [name for name in names if name not in known]
    deleted = {row[0] for row in await link.rows(_FIND_DELETED, unknown)} if unknown else set()
    overlaps = await _overlaps(link, found, known)
    answers: list[Appended] = []
    events: list[tuple[Any, ...]] = []
    runs: list[tuple[Any, ...]] = []
    ends: dict[str, tuple[int, bytes]] = {}
    for one in found:
        name = one.run.run
        if name in deleted:
            answers.append("deleted")
            continue
        seq, last = known.get(name, (0, START))
        appended, new = judge(one, seq, overlaps.get(name, ()))
        answers.append(appended)
        if appended == "logged" and new:
            hashes = list(chain(last, new))
            events += _event_rows(new, hashes)
            runs.append(_row(one, hashes[-1]))
            # Before, it may still get its input; afterwards, nothing follows for long.
            if new[-1].seq >= 2 and one.run.status not in TERMINAL:
                ends[name] = new[-1].seq, hashes[-1]
    if runs:
        columns = (*zip(*events, strict=True), *zip(*runs, strict=True))
        await link.run(_APPEND, *(list(column) for column in columns))
    return answers, ends


async def _put_log(
    link: Link, rows: Snapshot, expected_seq: int | None, blobs: Sequence[bytes]
) -> bool:
    name = rows.run.run
    known = {row[0]: row[1] for row in await link.rows(_LOCK, [name])}
    if (known.get(name) or None) != expected_seq:
        return False
    key = rows.run.idempotency_key
    if key is not None:
        owner = await link.value(_FIND_KEY, rows.run.tenant, key.encode())
        if owner not in (None, name):
            raise key_conflict(rows.run, owner)
    await link.run(_FORGET_RUN, name)
    await _append(link, [Unlogged(rows.run, 0, rows.events)])
    await _keep_blobs(link, rows.run.tenant, name, blobs)
    return True


async def _delete_runs(link: Link, tenant: str, runs: Sequence[str]) -> int:
    await link.rows(_LOCK, list(runs))
    count: int = await link.value(_DELETE_RUNS, tenant, list(runs))
    return count


async def _keep_blobs(link: Link, tenant: str, run: str, blobs: Sequence[bytes]) -> None:
    for data in blobs:
        await put_blob(link, tenant, run, data, None, _PUT_RECORD_BLOB)


async def _overlaps(
    link: Link, found: Sequence[Unlogged], known: dict[str, tuple[int, bytes]]
) -> dict[str, list[EventRecord]]:
    """What the log has of runs after the event up to which the hot store knows that it does."""
    wanted = [
        (one.run.run, one.logged)
        for one in found
        if known.get(one.run.run, (0, b""))[0] > one.logged
    ]
    overlaps: dict[str, list[EventRecord]] = {}
    if wanted:
        for row in await link.rows(_EVENTS_AFTER, [w[0] for w in wanted], [w[1] for w in wanted]):
            overlaps.setdefault(row[0], []).append(_event_of(row))
    return overlaps


async def _read_logs(link: Link, runs: Sequence[str]) -> list[Snapshot]:
    rows = {row["run"]: _run_of(row) for row in await link.rows(_READ_RUNS, list(runs))}
    events: dict[str, list[EventRecord]] = {run: [] for run in rows}
    for row in await link.rows(_EVENTS_AFTER, list(rows), [0] * len(rows)):
        events[row[0]].append(_event_of(row))
    return [Snapshot(rows[run], events=tuple(events[run])) for run in runs if run in rows]


def _row(found: Unlogged, last: bytes) -> tuple[Any, ...]:
    run = found.run
    key = run.idempotency_key
    # A run gets its input by its first two events, and keeps it.
    return (
        run.run,
        run.tenant,
        run.workflow,
        run.status,
        found.events[-1].seq,
        last,
        _state(run),
        run.input if found.logged < 2 else None,
        created(found.events),
        None if key is None else key.encode(),
        run.created_ms,
        run.ended_ms,
    )


def _event_rows(
    events: Sequence[EventRecord], hashes: Sequence[bytes]
) -> list[tuple[str, int, int, bytes, bytes]]:
    pairs = zip(events, hashes, strict=True)
    return [(event.run, event.seq, event.at_ms, event.data, hash_) for event, hash_ in pairs]


def _state(run: Run) -> bytes:
    return _encode(msgspec.structs.replace(run, input=b""))


def _is_notable(state: bytes) -> bool:
    try:
        return bool(_decode_notable(state).notable)
    except DAMAGE:
        return False


def _run_of(row: Any) -> Run:
    try:
        run = _decode_run(row["state"])
    except DAMAGE:
        run = _damaged_run(row)
    run.input, run.seq = row["input"], row["seq"]
    return run


def _damaged_run(row: Any) -> Run:
    """A run whose state cannot be read: as much of it as there is, and what columns say."""
    try:
        values = msgspec.msgpack.decode(row["state"])
    except DAMAGE:
        values = {"tags": row["state"]}
    run = struct_of(Run, values)
    run.run, run.tenant = row["run"], row["tenant"]
    run.workflow, run.status = row["workflow"], row["status"]
    return run


def _event_of(row: Any) -> EventRecord:
    return EventRecord(row[0], row[1], row[2], row[3])
