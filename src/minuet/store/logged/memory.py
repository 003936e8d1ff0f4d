"""The log as plain dictionaries: for the simulation, and as the reference for the others."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from minuet.clock import Clock, SystemClock
from minuet.errors import RunConflictError, RunNotFoundError
from minuet.store.blob import BlobTable, MemoryBlobs, blob_ref
from minuet.store.cells import MemoryCells
from minuet.store.changes import NewRun
from minuet.store.feed import FeedPage, MemoryFeed
from minuet.store.histories import MemoryHistories
from minuet.store.logged.base import CLAIM_MS, Appended, Claim, Logged, LogIdentity, Unlogged
from minuet.store.logged.chain import START, chain
from minuet.store.logged.judge import judge
from minuet.store.logged.submission import created, refusal, submitted
from minuet.store.records import DEFAULT_TENANT, EventRecord, Run, Snapshot
from minuet.store.rules.shared import key_conflict
from minuet.store.workflows import MemoryWorkflows
from minuet.types import TERMINAL


class MemoryLog(MemoryBlobs, MemoryWorkflows, MemoryCells, MemoryHistories):
    """A log that lives as long as this object."""

    def __init__(
        self,
        clock: Clock | None = None,
        *,
        identity: str = "log",
        retention_ms: int | None = None,
    ) -> None:
        self._clock = clock or SystemClock()
        self.retention_ms = retention_ms
        self._submitted: dict[str, tuple[int, NewRun]] = {}
        self._contents: dict[str, tuple[str, bytes]] = {}
        self._keys: dict[tuple[str, str], str] = {}
        self._runs: dict[str, Run] = {}
        self._changed_ms: dict[str, int] = {}
        self._events: dict[str, list[EventRecord]] = {}
        self._feed = MemoryFeed(self._clock.now_ms())
        self._hashes: dict[str, list[bytes]] = {}
        self._deleted: dict[str, tuple[str, int]] = {}
        #: Identity, owner, until when; "done": the comparison is over.
        self._comparison = ("", "done", 0)
        self._blobs = BlobTable()
        self._named, self._versions, self._cells = {}, {}, {}
        self._identity = LogIdentity(identity, f"memory {identity}")

    @property
    def durability(self) -> str:
        return "memory: everything is lost when the process ends"

    async def open(self) -> None:
        pass

    async def close(self) -> None:
        pass

    async def identity(self) -> LogIdentity:
        return self._identity

    # ── submitting ──────────────────────────────────────────────────────────────────────

    async def submit(self, runs: Sequence[NewRun]) -> list[NewRun | Run | RunConflictError]:
        return [self._submit(new) for new in runs]

    def _submit(self, new: NewRun) -> NewRun | Run | RunConflictError:
        run = new.run
        self._deleted.pop(run, None)
        if run not in self._contents and new.idempotency_key is not None:
            run = self._keys.get((new.tenant, new.idempotency_key), run)
        row = self._runs.get(run)
        known = self._contents.get(run)
        if known is not None and known != (new.tenant, submitted(new)):
            return refusal(run, row if row is not None and row.tenant == new.tenant else None)
        if row is not None:
            return msgspec.structs.replace(row)
        if known is None:
            self._contents[run] = (new.tenant, submitted(new))
            self._blobs.keep(new.tenant, run, new.blobs, self._clock.now_ms())
            new = msgspec.structs.replace(new, blobs=())
            self._submitted[run] = (self._clock.now_ms(), new)
            if new.idempotency_key is not None:
                self._keys[new.tenant, new.idempotency_key] = run
        return self._submitted[run][1]

    async def list_submitted(self, age_ms: int, limit: int) -> list[NewRun]:
        latest = self._clock.now_ms() - age_ms
        found = sorted((at, new.run, new) for at, new in self._submitted.values() if at <= latest)
        return [new for _, _, new in found[:limit]]

    async def read_submitted(self, run: str) -> NewRun | None:
        found = self._submitted.get(run)
        return found[1] if found else None

    # ── the log ─────────────────────────────────────────────────────────────────────────

    async def append(self, found: Sequence[Unlogged]) -> list[Appended]:
        return [self._append(one) for one in found]

    def _append(self, found: Unlogged) -> Appended:
        run = found.run.run
        if run in self._deleted:
            return "deleted"
        events = self._events.setdefault(run, [])
        appended, new = judge(found, len(events), events[found.logged :])
        if appended == "logged":
            content = created(new)
            if content is not None:
                self._contents[run] = (found.run.tenant, content)
            if found.run.idempotency_key is not None:
                self._keys.setdefault((found.run.tenant, found.run.idempotency_key), run)
            hashes = self._hashes.setdefault(run, [])
            hashes += chain(hashes[-1] if hashes else START, new)
            events += new
            self._feed.add(new)
            self._runs[run] = msgspec.structs.replace(found.run, seq=len(events))
            self._changed_ms[run] = self._clock.now_ms()
            self._submitted.pop(run, None)
        return appended

    async def put_log(
        self, rows: Snapshot, expected_seq: int | None, *, blobs: Sequence[bytes] = ()
    ) -> bool:
        run, key = rows.run.run, rows.run.idempotency_key
        if (len(self._events.get(run, ())) or None) != expected_seq:
            return False
        owner = None if key is None else self._keys.get((rows.run.tenant, key))
        if owner not in (None, run):
            raise key_conflict(rows.run, owner)
        self._keys = {k: name for k, name in self._keys.items() if name != run}
        self._events[run] = []
        self._hashes[run] = []
        self._deleted.pop(run, None)
        self._blobs.keep(rows.run.tenant, run, blobs, self._clock.now_ms())
        return self._append(Unlogged(rows.run, 0, rows.events)) == "logged"

    async def read_logs(self, runs: Sequence[str]) -> list[Snapshot]:
        return [
            Snapshot(msgspec.structs.replace(self._runs[run]), events=tuple(self._events[run]))
            for run in runs
            if run in self._runs
        ]

    async def list_logged(self, after: str, changed_ms: int, limit: int) -> list[Logged]:
        since = self._clock.now_ms() - changed_ms
        found = [
            Logged(row.tenant, run, row.seq, row.status, row.notable > 0)
            for run, row in sorted(self._runs.items())
            if run > after and (row.status not in TERMINAL or self._changed_ms[run] >= since)
        ]
        return found[:limit]

    async def list_deleted(self, changed_ms: int, limit: int) -> list[tuple[str, str]]:
        since = self._clock.now_ms() - changed_ms
        found = [(t, run) for run, (t, at) in self._deleted.items() if at >= since]
        return found[:limit]

    async def claim_comparison(self, identity: str, owner: str) -> Claim:
        now_ms = self._clock.now_ms()
        latest, holder, until_ms = self._comparison
        if latest == identity and holder == "done":
            return "done"
        is_held = now_ms <= until_ms <= now_ms + CLAIM_MS
        if latest == identity and holder != owner and is_held:
            return "wait"
        self._comparison = (identity, owner, now_ms + CLAIM_MS)
        return "yours"

    async def finish_comparison(self, identity: str) -> None:
        if self._comparison[0] == identity:
            self._comparison = (identity, "done", 0)

    async def release_comparison(self, identity: str, owner: str) -> None:
        if self._comparison[:2] == (identity, owner):
            self._comparison = (identity, owner, 0)

    # ── reads ───────────────────────────────────────────────────────────────────────────

    async def read_feed(self, after: str | None, limit: int) -> FeedPage:
        return self._feed.read(after, limit, self._find_entry)

    async def list_plans(
        self, tenant: str, *, after: str = "", limit: int = 1000
    ) -> tuple[list[str], str]:
        plans = {run: row.plan for run, row in self._runs.items() if row.tenant == tenant}
        plans |= {
            run: new.plan for run, (_, new) in self._submitted.items() if new.tenant == tenant
        }
        found = sorted(run for run in plans if run > after)
        page = found[:limit]
        return sorted({plans[run] for run in page}), page[-1] if len(page) == limit else ""

    async def find_break(self, tenant: str, run: str) -> int | None:
        if await self.read_run(tenant, run) is None:
            return None
        expected = chain(START, self._events[run])
        for seq, (ours, theirs) in enumerate(zip(expected, self._hashes[run], strict=True), 1):
            if ours != theirs:
                return seq
        return None

    async def delete_runs(self, tenant: str, runs: Sequence[str]) -> int:
        over = [
            run
            for run in dict.fromkeys(runs)
            if (row := await self.read_run(tenant, run)) and row.status in TERMINAL
        ]
        for run in over:
            del self._runs[run], self._events[run], self._hashes[run], self._changed_ms[run]
            self._contents.pop(run, None)
        self._keys = {key: run for key, run in self._keys.items() if run not in over}
        self._blobs.remove(over)
        self._deleted |= {run: (tenant, self._clock.now_ms()) for run in over}
        return len(over)

    async def list_outdated(self, retention_ms: int, limit: int) -> list[tuple[str, str]]:
        latest_ms = self._clock.now_ms() - retention_ms
        ended = sorted(
            (row.ended_ms, row.tenant, run)
            for run, row in self._runs.items()
            if row.ended_ms is not None and row.ended_ms <= latest_ms
        )
        return [(tenant, run) for _, tenant, run in ended[:limit]]

    # ── blobs ───────────────────────────────────────────────────────────────────────────

    async def put_blob(
        self, data: bytes, *, run: str | None = None, tenant: str = DEFAULT_TENANT
    ) -> str:
        if run is not None and self._contents.get(run, ("", b""))[0] != tenant:
            raise RunNotFoundError(run)
        self._blobs.keep(tenant, run, [data], self._clock.now_ms())
        return blob_ref(data)
