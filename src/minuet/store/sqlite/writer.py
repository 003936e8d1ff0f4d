"""The one connection of this process that writes: group commit and checkpoints.

Calls that wait together are applied in one transaction and share its commit. Each is judged
alone: if one of them fails unexpectedly, the group is rolled back and every call gets a
transaction of its own, so that only the culprit sees the error. No call is answered before the
commit; if it fails, all of them get the error.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from minuet.clock import Clock
from minuet.errors import MinuetError, StoreError, StoreUnavailableError
from minuet.store.exchange import Exchange
from minuet.store.records import SESSION_MS_MAX
from minuet.store.rules.transition import Transition
from minuet.store.sqlite.connection import BUSY_TIMEOUT_MS, Durability, connect, failure, unusable
from minuet.store.sqlite.exchange import ExchangeGroup
from minuet.store.sqlite.known import Known
from minuet.store.sqlite.migrate import migrate
from minuet.store.sqlite.owners import Owner
from minuet.store.sqlite.rows import Rows
from minuet.store.sqlite.statements import statement

if TYPE_CHECKING:
    import apsw

_FORGET_SESSIONS = statement("forget_sessions")

#: Size of the log at which it is moved into the file, at which it is cut off after that, and
#: at which a warning asks what keeps it from shrinking.
CHECKPOINT_BYTES = 4 << 20
TRUNCATE_BYTES = 32 << 20
ALARM_BYTES = 128 << 20

_log = logging.getLogger("minuet.store.sqlite")


class Change:
    """What a call may use inside the transaction."""

    def __init__(
        self, db: apsw.Connection, known: Known, owner: Owner, now_ms: int, *, careful: bool
    ) -> None:
        self.db = db
        self.known = known
        self.owner = owner
        self.now_ms = now_ms
        self.rows = Rows(db, known, careful=careful)
        self.step = Transition(self.rows, now_ms)
        self.made_ready = False

    def write(self) -> None:
        """Write what the transition changed."""
        self.rows.write(self.step)
        self.made_ready = bool(self.step.changed_tokens)


#: A call: an exchange, or a function that makes any other change.
WriteCall: TypeAlias = Exchange | Callable[[Change], Any]


class Writer:
    """Applies calls to the file. All methods run in the writer's thread."""

    def __init__(self, path: Path, clock: Clock, durability: Durability) -> None:
        self._path, self._clock, self._durability = path, clock, durability
        self._db: apsw.Connection
        self._known = Known()
        self._owner = Owner(path)
        self._wal_pages = 0
        self._checkpoint_at = self._alarm_at = 0
        self._made_ready = False
        #: How many commits have made something ready to be taken. It is counted after the
        #: commit, so a reader that sees it change can also see what is ready.
        self.commits_with_work = 0
        #: How often a transaction has found that another connection has written.
        self.changes_by_others = 0
        #: Runs that have ended, once that is committed.
        self.ended: deque[str] = deque()
        self._ended: set[str] = set()

    def open(self) -> None:
        """Connect and bring the file up to date."""
        import apsw

        self._db = connect(self._path, self._durability)
        try:
            now_ms = self._clock.now_ms()
            migrate(self._db, self._path, now_ms)
            self._db.execute(_FORGET_SESSIONS, {"before": now_ms - SESSION_MS_MAX})
        except BaseException as error:
            self._db.close()
            if isinstance(error, apsw.Error):
                raise unusable(error, self._path) from error
            raise
        page_size = self._db.pragma("page_size")
        self._checkpoint_pages = CHECKPOINT_BYTES // page_size
        self._truncate_pages = TRUNCATE_BYTES // page_size
        self._alarm_pages = self._alarm_at = ALARM_BYTES // page_size
        self._checkpoint_at = self._checkpoint_pages
        self._db.set_wal_hook(self._committed)

    def close(self) -> None:
        """Leave the file tidy: the last one to close it also removes the log."""
        self._owner.close()
        self._db.close()

    def work(self, calls: list[WriteCall]) -> list[Any]:
        """Apply a group; an answer, or the exception to raise, for each."""
        answers = self._group(calls)
        if self._wal_pages >= self._checkpoint_at:
            self._checkpoint()
        return answers

    # ── group commit ────────────────────────────────────────────────────────────────────

    def _group(self, calls: list[WriteCall]) -> list[Any]:
        try:
            return self._transaction(calls, careful=False)
        except StoreError as error:
            return [error] * len(calls)
        except Exception:
            return [self._alone(call) for call in calls]

    def _alone(self, call: WriteCall) -> Any:
        try:
            return self._transaction([call], careful=True)[0]
        except Exception as error:
            return error

    def _transaction(self, calls: list[WriteCall], *, careful: bool) -> list[Any]:
        import apsw

        try:
            self._db.execute("BEGIN IMMEDIATE")
            self._check_known()
            self._made_ready = False
            self._ended.clear()
            answers = self._apply(calls, self._clock.now_ms(), careful=careful)
            self._commit()
        except BaseException as error:
            self._known.clear()
            self._roll_back()
            if isinstance(error, apsw.Error):
                known = failure(error, self._path)
                if known is not None:
                    raise known from error
            raise
        self._known.trim()
        if self._made_ready:
            self.commits_with_work += 1
        self.ended.extend(self._ended)
        return answers

    def _commit(self) -> None:
        import apsw

        try:
            self._db.execute("COMMIT")
        except apsw.Error as error:
            # No single call is at fault.
            raise failure(error, self._path) or StoreUnavailableError(
                f"{self._path}: the commit failed: {error}"
            ) from error

    def _check_known(self) -> None:
        """Forget what is known when another connection has written since."""
        version = self._db.execute("PRAGMA data_version").get
        if version != self._known.data_version:
            self._known.clear()
            self._known.data_version = version
            self.changes_by_others += 1

    def _roll_back(self) -> None:
        import apsw

        try:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
        except apsw.Error:
            _log.exception("a transaction could not be rolled back")

    def _apply(self, calls: list[WriteCall], now_ms: int, *, careful: bool) -> list[Any]:
        answers: list[Any] = []
        exchanges: list[Exchange] = []
        sessions: set[tuple[str, str]] = set()

        def apply_exchanges() -> None:
            if exchanges:
                group = ExchangeGroup(
                    self._db, self._known, self._owner, exchanges, now_ms, careful=careful
                )
                answers.extend(group.apply())
                self._made_ready |= group.made_ready
                self._ended |= group.ended
                exchanges.clear()
                sessions.clear()

        for call in calls:
            if isinstance(call, Exchange):
                session = (call.tenant, call.session)
                if session in sessions:
                    apply_exchanges()
                sessions.add(session)
                exchanges.append(call)
            else:
                apply_exchanges()
                answers.append(self._change(call, now_ms, careful=careful))
        apply_exchanges()
        return answers

    def _change(self, call: Callable[[Change], Any], now_ms: int, *, careful: bool) -> Any:
        change = Change(self._db, self._known, self._owner, now_ms, careful=careful)
        try:
            return call(change)
        except MinuetError as error:
            # A refusal comes before the first change, so there is nothing to undo.
            return error
        finally:
            self._made_ready |= change.made_ready
            self._ended |= change.step.ended

    # ── the write-ahead log ─────────────────────────────────────────────────────────────

    def _committed(self, _db: apsw.Connection, _name: str, pages: int) -> int:
        self._wal_pages = pages
        return 0

    def _checkpoint(self) -> None:
        """Move the log into the file, so that the next commit starts it again.

        A reader of an old state can prevent that. Then the log
        grows, and this is tried again after as much has been added.
        """
        import apsw

        mode = apsw.SQLITE_CHECKPOINT_PASSIVE
        if self._wal_pages >= self._truncate_pages:
            mode = apsw.SQLITE_CHECKPOINT_TRUNCATE
        try:
            # Waiting for readers here would hold up all writers.
            self._db.set_busy_timeout(0)
            logged, moved = self._db.wal_checkpoint(mode=mode)
        except apsw.BusyError:
            logged, moved = self._wal_pages, 0
        except apsw.Error as error:
            _log.warning("%s: the log could not be moved into the file: %s", self._path, error)
            logged, moved = self._wal_pages, 0
        finally:
            self._db.set_busy_timeout(BUSY_TIMEOUT_MS)
        if moved >= logged:
            self._wal_pages = 0
            self._checkpoint_at, self._alarm_at = self._checkpoint_pages, self._alarm_pages
            return
        self._checkpoint_at = self._wal_pages + self._checkpoint_pages
        if self._wal_pages >= self._alarm_at:
            self._alarm_at = 2 * self._wal_pages
            _log.warning(
                "%s: the log has grown to %d pages because a reader keeps an old state open",
                self._path,
                self._wal_pages,
            )
