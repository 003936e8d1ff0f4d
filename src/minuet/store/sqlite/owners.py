"""Who on this machine works on a file, so that the leases of a process that died end at once.

An open store that serves workers is an *owner*: it keeps a small file in a folder beside the
database, lists its workers' sessions in it, and holds a lock on it. The kernel drops the lock
however the process ends. So a file whose lock can be taken belonged to an owner that is gone,
and the leases of the sessions in it need not run out: no process is left to renew them.

This only makes recovery faster. Leases keep the truth: a lease that is ended too early costs a
second execution and never a second result, and where locks or the folder do not work, leases
simply run out. A live owner is never taken for dead:

* its lock is taken before its first session is written, and a file is removed only under its
  lock, so an owner that is just beginning is never mistaken;
* the lock belongs to the open file, not to the process, so two stores in one process are two
  owners. A forked child closes its copy at once, so it neither keeps the lock nor drops it;
* a deleted folder means that nothing is known, not that all owners are dead.
"""

from __future__ import annotations

import logging
import os
import weakref
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from minuet.store.fields import to_json
from minuet.store.records import Key
from minuet.store.sqlite.statements import statement

if TYPE_CHECKING:
    import apsw

try:
    import fcntl
except ImportError:  # Not on this system: leases run out.
    fcntl = None  # type: ignore[assignment]

_LEASES_OF_SESSIONS = statement("leases_of_sessions")

#: Shortest time between two polls of the other owners. A worker sweeps once a second.
POLL_MS = 500

#: Tries to make a file and lock it before another owner removes it.
_TRIES = 5

_log = logging.getLogger("minuet.store.sqlite")

#: Tenant and name of a session.
Session = tuple[str, str]

_decode_session = msgspec.json.Decoder(Session).decode


class Owner:
    """This store among the owners of its file. Errors of its file are not raised."""

    def __init__(self, database: Path) -> None:
        # Links and the current folder may change; the owners of a file must meet in one place.
        self._database = Path(os.path.realpath(database))
        self._folder = self._database.with_name(f"{self._database.name}-live")
        self._path: Path | None = None
        self._file: int | None = None
        self._sessions: set[Session] = set()
        self._polled_ms: int | None = None
        self._works = fcntl is not None
        _owners.add(self)

    def serve(self, session: Session) -> None:
        """Note a session. Call it before a lease of the session is committed."""
        if session in self._sessions or not self._works:
            return
        try:
            if self._file is None:
                self._begin()
            assert self._file is not None
            os.write(self._file, to_json(session).encode() + b"\n")
            # Once for each worker: after a power cut its leases end at once as well.
            os.fsync(self._file)
        except OSError as error:
            self._works = False
            _log.warning(
                "%s: cannot note who works on it (%s); after a crash leases will have to run out",
                self._database,
                error,
            )
        self._sessions.add(session)

    def find_abandoned(self, db: apsw.Connection, now_ms: int, limit: int) -> list[Key]:
        """Tokens that are leased to sessions of dead owners; call it inside a transaction.

        The file of a dead owner goes when a poll finds nothing leased to it any more. So it
        does not matter whether the transaction that expires its leases is committed.
        """
        if limit <= 0 or not self._works or not self._is_time(now_ms):
            return []
        dead, alive = self._find_dead()
        found: list[Key] = []
        try:
            for owner in dead:
                # A worker that calls through another store by now is alive.
                sessions = sorted(owner.sessions - alive - self._sessions)
                asked = {"sessions": to_json(sessions), "limit": limit - len(found)}
                keys: list[Key] = list(db.execute(_LEASES_OF_SESSIONS, asked)) if sessions else []
                found += keys
                if len(found) >= limit:
                    self._polled_ms = None
                    break
                if not keys:
                    owner.remove()
        finally:
            for owner in dead:
                owner.close()
        return found

    def close(self) -> None:
        """The end of this owner; its file goes, and the folder with the last one."""
        if self._file is None or self._path is None:
            return
        file, self._file = self._file, None
        _unlink(self._path)
        os.close(file)
        try:
            self._folder.rmdir()
        except OSError:
            pass  # Others are there.

    # ── this owner's file ───────────────────────────────────────────────────────────────

    def _begin(self) -> None:
        mode = self._database.stat().st_mode & 0o666
        for _ in range(_TRIES):
            path = self._folder / os.urandom(16).hex()
            try:
                self._folder.mkdir(exist_ok=True)
                file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
            except FileNotFoundError:
                continue  # The last of the others removed the folder just now.
            if _lock(file) and _is_at(file, path):
                os.fchmod(file, mode)
                self._path, self._file = path, file
                return
            # Another owner polled between the two calls and took it for a dead one's.
            os.close(file)
            _unlink(path)
        raise OSError("its file is removed again and again")

    def _drop_in_child(self) -> None:
        """After a fork: the child is not an owner, and must not unlock what the parent holds."""
        if self._file is not None:
            os.close(self._file)
        self._file, self._path, self._works = None, None, False

    # ── the others' files ───────────────────────────────────────────────────────────────

    def _is_time(self, now_ms: int) -> bool:
        if self._polled_ms is not None and abs(now_ms - self._polled_ms) < POLL_MS:
            return False
        self._polled_ms = now_ms
        return True

    def _find_dead(self) -> tuple[list[_Dead], set[Session]]:
        """The owners that are gone, and the sessions of those that are not."""
        dead: list[_Dead] = []
        alive: set[Session] = set()
        try:
            paths = [path for path in sorted(self._folder.iterdir()) if path != self._path]
        except OSError:
            return dead, alive
        for path in paths:
            try:
                file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            except OSError:
                continue  # Gone meanwhile, or not for us to open.
            if not _lock(file):
                alive |= _read_sessions(file)
                os.close(file)
            elif _is_at(file, path):
                dead.append(_Dead(path, file))
            else:
                os.close(file)
        return dead, alive


class _Dead:
    """An owner that is gone. We hold its lock, so no other owner handles it meanwhile."""

    def __init__(self, path: Path, file: int) -> None:
        self._path, self._file = path, file
        self.sessions = _read_sessions(file)

    def remove(self) -> None:
        _unlink(self._path)

    def close(self) -> None:
        os.close(self._file)


def _lock(file: int) -> bool:
    """Take the lock of an open file; False when another has it, or when locks do not work."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _is_at(file: int, path: Path) -> bool:
    """Whether an open file is still the one at this place."""
    try:
        return os.path.samestat(os.fstat(file), os.stat(path))
    except OSError:
        return False


def _read_sessions(file: int) -> set[Session]:
    """The sessions in an owner's file; a line that was cut off does not count."""
    sessions: set[Session] = set()
    data = os.pread(file, os.fstat(file).st_size, 0)
    for line in data.splitlines():
        try:
            sessions.add(_decode_session(line))
        except msgspec.MsgspecError:
            continue
    return sessions


def _unlink(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        _log.warning("%s cannot be removed: %s", path, error)


_owners: weakref.WeakSet[Owner] = weakref.WeakSet()


def _drop_all_in_child() -> None:
    for owner in list(_owners):
        owner._drop_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_drop_all_in_child)
