"""The memory store, observed: which runs a call changed, and what it held earlier."""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from minuet.bridge.snapshot import facts_of, state_of
from minuet.clock import Clock
from minuet.kernel.fold import State
from minuet.kernel.invariants import RunFacts
from minuet.store.blob import BlobTable
from minuet.store.exchange import Exchange, Take
from minuet.store.logged.hot_memory import HotMemoryStore
from minuet.store.memory.exchange import Taken
from minuet.store.records import DeadLetter, EventRecord, Run, Signal, Token, WorkflowVersion
from minuet.store.reply import Room
from minuet.store.rules.transition import Transition
from minuet.store.rules.workflows import Named
from minuet.store.workflows import MemoryWorkflows

#: What the store would lose in a failover that loses everything.
_TABLES = (
    *("_runs", "_tokens", "_joins", "_arrivals", "_steps", "_signals", "_dead_letters"),
    "_sessions",
    *("_logged", "_unlogged"),
    *("_workers", "_removed"),
    *("_named", "_versions", "_cells"),
)

#: The store's clock at the beginning of virtual time.
START_MS = 1_700_000_000_000


class StoreClock:
    """The store's clock: virtual time and an offset that jumps."""

    def __init__(self, seconds: Any) -> None:
        self._seconds = seconds
        self.offset_ms = 0

    def now_ms(self) -> int:
        return START_MS + self.offset_ms + int(self._seconds() * 1000)


class ShownWorkflows(MemoryWorkflows):
    """Deployed workflows, with a view into them."""

    @property
    def versions(self) -> dict[tuple[str, str, int], WorkflowVersion]:
        """All versions, by tenant, name and number."""
        return dict(self._versions)

    @property
    def named(self) -> dict[tuple[str, str], Named]:
        """Newest version and tags, by tenant and name."""
        return dict(self._named)


class ModelStore(ShownWorkflows, HotMemoryStore):
    """The reference store, with a view into it for the checker."""

    def __init__(self, clock: Clock, *, transition: type[Transition] = Transition) -> None:
        super().__init__(clock, transition=transition)
        self.changed: dict[str, None] = {}
        #: Increases with each rollback of the store.
        self.timeline = 0
        #: Whether it has ever lost its sessions.
        self.has_forgotten = False
        #: Whether it is half of a logged store.
        self.is_half = False

    # ── watching ────────────────────────────────────────────────────────────────────────

    def _commit(self, step: Transition) -> None:
        super()._commit(step)
        touched = step.changed_tokens | step.changed_joins
        for run in sorted(step.changed_runs | {key[0] for key in touched}):
            self.changed[run] = None

    def _take(
        self, request: Exchange, take: Take, now_ms: int, room: Room, taken: list[Taken]
    ) -> bool:
        all_fitted = super()._take(request, take, now_ms, room, taken)
        for token, _, _ in taken:
            self.changed[token.run] = None
        return all_fitted

    def drain_changed(self) -> list[str]:
        """The runs that changed since the last call."""
        found, self.changed = list(self.changed), {}
        return found

    # ── looking ─────────────────────────────────────────────────────────────────────────

    def runs(self) -> list[Run]:
        """All runs, in the order of their ids."""
        return [self._runs[run] for run in sorted(self._runs)]

    def run(self, run: str) -> Run | None:
        """A run's row."""
        return self._runs.get(run)

    def unreported(self) -> list[str]:
        """Runs whose relatives have to learn of something."""
        return sorted(self._runs.unreported)

    def notable(self) -> list[str]:
        """Runs of which something has to be passed on."""
        return sorted(self._runs.notable)

    def has_cells(self, prefix: str) -> bool:
        """Whether there are cells whose names begin so."""
        return any(name.startswith(prefix) for name in self._cells)

    def events(self, run: str) -> list[EventRecord]:
        """A run's history."""
        return self._events.get(run, [])

    def tokens(self, run: str) -> list[Token]:
        """A run's tokens, in the order of their keys."""
        return [self._tokens[key] for key in sorted(self._tokens.of("run", run))]

    def token(self, key: tuple[str, str, str]) -> Token | None:
        """A token's row."""
        return self._tokens.get(key)

    def has_blob(self, tenant: str, run: str, ref: str) -> bool:
        """Whether a tenant has a blob, of a run's own or of nobody's."""
        return self.find_blob(tenant, run, ref) is not None

    def find_blob(self, tenant: str, run: str, ref: str) -> bytes | None:
        """A blob of a run's own, or of nobody's."""
        return self._blobs.find(tenant, run, ref)

    def has_own_blob(self, run: str, ref: str) -> bool:
        return self.is_half or self.has_blob(self._runs[run].tenant, run, ref)

    def orphans(self) -> list[str]:
        """Deleted runs that left rows behind."""
        known = {key[0] for table in (self._tokens, self._joins) for key in table}
        known |= {key[0] for table in (self._arrivals, self._steps) for key, _ in table}
        known |= {key[0] for key, _ in self._dead_letters} | set(self._events)
        known |= {run for run, _ in self._signals}
        known |= self._blobs.owners
        return sorted(known - self._runs.keys())

    def signals(self, run: str) -> list[Signal]:
        """The signals that a run was sent."""
        return list(self._signals.of("run", run).values())

    def session(self, tenant: str, session: str) -> tuple[int, str] | None:
        """Number and lease of a session's last call."""
        known = self._sessions.get((tenant, session))
        return None if known is None else known[:2]

    def slot_holders(self) -> list[Token]:
        """Tokens that hold a concurrency slot."""
        return [t for t in self._tokens.values() if t.slot and t.lane != "slot"]

    def stored(self, run: str, outputs: Mapping[int, bytes]) -> tuple[State, RunFacts]:
        """A run's rows in the form that the kernel compares. `outputs` are by event."""
        snapshot = self._snapshot(self._runs[run])
        return state_of(snapshot, outputs), facts_of(snapshot, self._clock.now_ms())

    def letters(self, run: str) -> list[DeadLetter]:
        """The dead letters of a run."""
        return list(self._dead_letters.of("run", run).values())

    def has_work(
        self, tenant: str, queues: Sequence[str], runs: Collection[str] | None = None
    ) -> bool:
        """Whether there is something to take."""
        now_ms = self._clock.now_ms()
        return any(
            t.state == "ready"
            and t.lane == ""
            and t.queue in queues
            and t.tenant == tenant
            and (runs is None or t.run in runs)
            and (t.due_ms or 0) <= now_ms
            for t in self._tokens.values()
        )

    # ── being half of a logged store ──────────────────────────────────────────────────

    async def identity(self) -> str:
        return f"timeline {self.timeline}"

    # ── losing ──────────────────────────────────────────────────────────────────────────

    def forget_sessions(self) -> None:
        """Lose all sessions, and nothing else."""
        self._sessions.clear()
        self.has_forgotten = True

    def copy_tables(self) -> dict[str, Any]:
        """Everything at this moment, as a standby would have it."""
        tables: dict[str, Any] = {
            name: {key: copy.copy(row) for key, row in getattr(self, name).items()}
            for name in _TABLES
        }
        tables["_events"] = {run: list(events) for run, events in self._events.items()}
        tables["_blobs"] = BlobTable(self._blobs)
        return tables

    def no_tables(self) -> dict[str, Any]:
        """Empty tables, as after the server was emptied."""
        return {**{name: {} for name in (*_TABLES, "_events")}, "_blobs": BlobTable()}

    def restore_tables(self, tables: dict[str, Any]) -> None:
        """Roll back to an earlier moment. What was acknowledged since is lost."""
        for name, rows in tables.items():
            table = getattr(self, name)
            table.clear()
            table.update(rows)
        self._feed.begin_again()
        self.timeline += 1
        self.has_forgotten = True
        self.changed = dict.fromkeys(sorted(self._runs))
