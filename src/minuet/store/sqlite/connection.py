"""Opening a SQLite file, and what its errors mean for callers.

A file that cannot be used is refused when it is opened, with a message that says what is wrong
and what to do. Errors of later calls are sorted into "repeat it" and "repeating does not help".
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from minuet.errors import StoreError, StoreUnavailableError, StoreUnusableError
from minuet.store.retention import split_retention

if TYPE_CHECKING:
    import apsw

Durability: TypeAlias = Literal["full", "normal"]

#: Older versions can damage a file when two connections write and checkpoint at one moment
#: (sqlite.org/wal.html#walresetbug).
OLDEST_SQLITE = (3, 51, 3)

#: How long a writer waits for another process to finish its transaction.
BUSY_TIMEOUT_MS = 10_000

#: Statements that the connection that writes keeps prepared. Each execution moves its statement to
#: the next place and drops what was there, so this is much more than it has.
STATEMENTS_MAX = 256

#: How often to look whether another process has finished creating the file.
_LOOK_SECONDS = 0.005

#: Marks a file as ours ("mnet").
APPLICATION_ID = 0x6D6E6574

#: File systems on which locks and shared memory do not work between machines.
_NETWORK_FILE_SYSTEMS = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "fuse.sshfs"})


def options_of(url: str | os.PathLike[str]) -> tuple[str, int | None]:
    """A store URL or a plain path without its option, and how long runs are kept.

    Only a URL has options; in a plain path, a question mark is part of the name.
    """
    text = os.fspath(url)
    return split_retention(text) if text.startswith("sqlite:") else (text, None)


def path_of(url: str | os.PathLike[str]) -> Path:
    """The file that a store URL or a plain path names.

    `sqlite:///name.db` is relative to the current folder, `sqlite:////name.db` is absolute.
    """
    text = os.fspath(url)
    if text.startswith("sqlite:"):
        if not text.startswith("sqlite:///"):
            raise StoreUnusableError(
                f"{text!r} names no file: write sqlite:///file.db for a file in this folder, "
                "or sqlite:////folder/file.db for one elsewhere"
            )
        text = text.removeprefix("sqlite:///")
    if not text or text == ":memory:":
        raise StoreUnusableError(
            "a SQLite store needs a file; for a store that is gone afterwards use memory://"
        )
    return Path(text)


def check_version(version: str) -> None:
    """Refuse a SQLite library that can damage files."""
    if tuple(int(part) for part in version.split(".")) < OLDEST_SQLITE:
        oldest = ".".join(map(str, OLDEST_SQLITE))
        raise StoreUnusableError(
            f"SQLite {version} can damage a file that several connections write to; "
            f"at least {oldest} is needed: pip install --upgrade apsw"
        )


def check_path(path: Path) -> None:
    """Refuse what cannot become a store, in words."""
    if path.is_dir():
        raise StoreUnusableError(f"{path} is a folder: name a file in it, such as {path}/minuet.db")
    folder = path.absolute().parent
    if not folder.is_dir():
        raise StoreUnusableError(f"the folder {folder} does not exist: create it first")
    if path.exists() and not _may(path, os.R_OK | os.W_OK):
        raise StoreUnusableError(f"{path} cannot be read and written by this user: change its mode")
    if not _may(folder, os.W_OK):
        raise StoreUnusableError(
            f"the folder {folder} cannot be written, and SQLite keeps its log beside the file"
        )
    kind = _file_system(folder)
    if kind in _NETWORK_FILE_SYSTEMS:
        raise StoreUnusableError(
            f"{path} is on a network file system ({kind}), where SQLite's locks do not work: "
            "use a local disk, or a PostgreSQL store"
        )


def _may(path: Path, mode: int) -> bool:
    """Whether this process may: as the user that it acts for, where that can be asked."""
    return os.access(path, mode, effective_ids=os.access in os.supports_effective_ids)


def _file_system(folder: Path) -> str:
    """The type of the file system a folder is on; "" where this cannot be known."""
    try:
        mounts = Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    resolved, best, kind = f"{folder.resolve()}/", "", ""
    for mount in mounts:
        _, place, name, *_ = mount.split(" ")
        prefix = place.rstrip("/") + "/"
        if resolved.startswith(prefix) and len(prefix) >= len(best):
            best, kind = prefix, name
    return kind


def connect(path: Path, durability: Durability) -> apsw.Connection:
    """The connection that writes: it alone moves the log into the file."""
    import apsw

    check_version(apsw.sqlite_lib_version())
    check_path(path)
    try:
        db = apsw.Connection(str(path), statementcachesize=STATEMENTS_MAX)
        db.set_busy_timeout(BUSY_TIMEOUT_MS)
        _check_content(db, path)
        _switch_to_log(db, path)
        db.pragma("synchronous", durability)
        db.wal_autocheckpoint(0)
        _tune(db)
    except apsw.Error as error:
        raise unusable(error, path) from error
    return db


def _switch_to_log(db: apsw.Connection, path: Path) -> None:
    """Have the file keep a write-ahead log, which is remembered in the file.

    While another process does the same to a new file, SQLite reports that the file is locked
    at once instead of waiting as it does everywhere else.
    """
    import apsw

    give_up = time.monotonic() + BUSY_TIMEOUT_MS / 1000
    while True:
        try:
            mode = db.pragma("journal_mode", "wal")
        except apsw.BusyError:
            if time.monotonic() > give_up:
                raise
            time.sleep(_LOOK_SECONDS)
        else:
            break
    if mode != "wal":
        raise StoreUnusableError(f"{path} cannot be used with a write-ahead log")


def connect_to_read(path: Path) -> apsw.Connection:
    """A connection that only reads."""
    import apsw

    # Opened for writing all the same: a reader must be able to create the shared memory file.
    db = apsw.Connection(str(path), statementcachesize=100)
    db.set_busy_timeout(BUSY_TIMEOUT_MS)
    db.wal_autocheckpoint(0)
    db.pragma("query_only", True)
    _tune(db)
    return db


def _tune(db: apsw.Connection) -> None:
    # Small: pages of the file are read in place, so this only has those of the log, and those that
    # are being written.
    db.pragma("cache_size", -16_000)
    db.pragma("temp_store", "memory")
    db.pragma("mmap_size", 256 << 20)


def _check_content(db: apsw.Connection, path: Path) -> None:
    tables = db.execute("SELECT count(*) FROM sqlite_schema").get
    if db.pragma("application_id") != APPLICATION_ID and tables:
        raise StoreUnusableError(f"{path} is a database of another program: name another file")


def unusable(error: apsw.Error, path: Path) -> StoreError:
    """What an error while opening means."""
    import apsw

    if isinstance(error, (apsw.BusyError, apsw.LockedError)):
        return StoreUnavailableError(f"{path} is locked by another process")
    if isinstance(error, apsw.NotADBError):
        return StoreUnusableError(f"{path} is not a SQLite file: name another one, or move it away")
    if isinstance(error, apsw.CorruptError):
        return StoreUnusableError(
            f"{path} is damaged ({error}): restore a backup, or save what can be read with "
            f"sqlite3 {path} .recover"
        )
    if isinstance(error, (apsw.FullError, apsw.IOError)):
        return StoreUnavailableError(f"{path}: {error}: is the disk full?")
    return StoreUnusableError(f"{path} cannot be opened: {error}")


def failure(error: apsw.Error, path: Path) -> StoreError | None:
    """What an error of a call means; None: it is the call's own fault."""
    import apsw

    if isinstance(error, (apsw.BusyError, apsw.LockedError)):
        return StoreUnavailableError(
            f"{path} was locked by another process for {BUSY_TIMEOUT_MS} ms"
        )
    if isinstance(error, (apsw.FullError, apsw.IOError, apsw.NoMemError)):
        return StoreUnavailableError(f"{path}: nothing was written: {error}")
    if isinstance(
        error, (apsw.CorruptError, apsw.NotADBError, apsw.ReadOnlyError, apsw.CantOpenError)
    ):
        return StoreUnusableError(f"{path} can no longer be used: {error}")
    return None
