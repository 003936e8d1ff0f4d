"""`fold(events) == stored state`, compared after every call that changes a run, in every process.

`install` has each `App` put a `FoldingStore` around its store. The tests' own process does so
in `tests/conftest.py`; the processes that tests start do so by `tests/children/sitecustomize.py`,
which Python imports when it starts. What was compared goes to a folder that all of them share
(`FOLDER` in the environment), one write at a time, so that it is there though its process is
killed the moment after. The tests' process reads it there and fails the test.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache, wraps
from pathlib import Path
from typing import Any

from minuet.bridge.snapshot import state_of
from minuet.errors import InvariantError, RunConflictError, StoreUnavailableError
from minuet.events import NodeCompleted, decode_event
from minuet.kernel.fold import Fold
from minuet.kernel.invariants import differences
from minuet.store.base import Store
from minuet.store.changes import Change, NewRun
from minuet.store.exchange import Exchange, NewStep, Refusal, Reply, Swept
from minuet.store.records import DEFAULT_TENANT, EventRecord, Key, Run, Snapshot

#: In the environment: where to write down what was compared.
FOLDER = "MINUET_TEST_FOLDING"

#: Folders in it.
COMPARED, DIFFERENCES = "compared", "differences"

#: How a process that a test has started ends when it finds a difference.
DIFFERS = 86

#: Runs that are looked for in a store.
RUNS_MAX = 1_000


# ── what was compared ───────────────────────────────────────────────────────────────────────


class Journal:
    """What this process has compared: a line for each comparison, a file for each difference."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._pid = 0
        self._file = -1
        self._numbers = itertools.count()

    def note(self, run: str, seq: int) -> None:
        if self._pid != os.getpid():  # A fork has files of its own.
            self._pid = os.getpid()
            name = self._folder / COMPARED / str(self._pid)
            self._file = os.open(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        os.write(self._file, f"{run} {seq}\n".encode())

    def differ(self, text: str) -> None:
        path = self._folder / DIFFERENCES / f"{os.getpid()}-{next(self._numbers)}"
        path.write_text(text, encoding="utf-8")


@cache
def journal_in(folder: str) -> Journal:
    """The journal of this process."""
    return Journal(Path(folder))


class Findings:
    """What all processes have written into a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        for name in (COMPARED, DIFFERENCES):
            (folder / name).mkdir()
        self._read: dict[Path, int] = {}
        self._compared: Counter[str] = Counter()

    def compared(self) -> Counter[str]:
        """How often each run was compared."""
        for path in (self._folder / COMPARED).iterdir():
            with path.open("rb") as file:
                file.seek(self._read.get(path, 0))
                lines = file.readlines()
            # A process may have been killed in its last line.
            whole = [line for line in lines if line.endswith(b"\n")]
            self._read[path] = self._read.get(path, 0) + sum(map(len, whole))
            self._compared.update(line.split(b" ")[0].decode() for line in whole)
        return self._compared

    def take_differences(self) -> list[str]:
        """Every difference that was found; they are not told again."""
        found = []
        for path in sorted((self._folder / DIFFERENCES).iterdir()):
            found.append(path.read_text(encoding="utf-8"))
            path.unlink()
        return found

    def assert_compared(self, folder: Path) -> None:
        """Every run in the SQLite files of a folder has been compared: nobody looked away."""
        compared = self.compared()
        for path in folder.rglob("*.db"):
            missing = [run for run in runs_in(path) if not compared[run]]
            assert not missing, f"{path.name}: never compared with their events: {missing}"


def runs_in(path: Path) -> list[str]:
    """The runs that a SQLite file has; none when it is not a store."""
    import apsw

    try:
        db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            return [run for (run,) in db.execute("SELECT run FROM runs")]
        finally:
            db.close()
    except apsw.Error:
        return []


# ── comparing ───────────────────────────────────────────────────────────────────────────────


class History:
    """What a run's events say, as far as they were read."""

    def __init__(self) -> None:
        self._fold = Fold()
        self._outputs: dict[int, bytes] = {}
        self._last: EventRecord | None = None

    def is_of(self, snapshot: Snapshot) -> bool:
        """Whether the snapshot goes on where this ends."""
        seq = self._fold.state.seq
        return seq == 0 or (len(snapshot.events) >= seq and snapshot.events[seq - 1] == self._last)

    def compare(self, snapshot: Snapshot) -> list[str]:
        """Fold the events that are new; say where the stored rows differ from all of them."""
        try:
            for record in snapshot.events[self._fold.state.seq :]:
                event = decode_event(record.data)
                self._fold.apply(record.seq, record.at_ms, event)
                self._last = record
                if isinstance(event, NodeCompleted):
                    self._outputs[record.seq] = bytes(event.output)
        except InvariantError as error:
            return [f"the events cannot be folded: {error}"]
        stored = state_of(snapshot, self._outputs)
        if stored == self._fold.state:
            return []
        return [*differences(self._fold.state, stored)] or ["the numbers of events differ"]


class FoldingStore:
    """Any store, with every run compared to its events after every call that changes it.

    The calls of one process are made one after the other, so that each of the states between
    them is seen. Other processes may be faster; a snapshot is one moment all the same.
    """

    #: Whoever stands around this store passes it on.
    is_compared = True

    def __init__(self, store: Store, *, ends_process: bool = False) -> None:
        self._store = store
        #: Where the rows are. A logged store would answer only when its log has them too; a worker
        #: that waits for this after each of its calls loses its leases.
        self._looked_at = getattr(store, "_hot", store)
        self._journal = journal_in(os.environ[FOLDER])
        self._ends_process = ends_process
        self._histories: dict[str, History] = {}
        self._seqs: dict[str, int] = {}
        self._tenants = {DEFAULT_TENANT}
        self._lock = asyncio.Lock()
        #: How many comparisons have been made.
        self.checks = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def open(self) -> None:
        # A store may be opened again on another event loop.
        self._lock = asyncio.Lock()
        await self._store.open()
        is_simulated = type(asyncio.get_running_loop()).__module__.startswith("minuet.simulation")
        if self._ends_process and not is_simulated:
            # Somebody may have been killed before he could look; in a simulated world nobody is,
            # and looking would be a call that changes its course.
            await self._compare_moved()

    async def exchange(self, request: Exchange) -> Reply:
        async with self._lock:
            reply = await self._store.exchange(request)
            touched = [item.run for item in request.hand_in] + [g.run for g in reply.granted]
            await self._compare(request.tenant, touched)
        return reply

    async def sweep(self, limit: int = 1000) -> Swept:
        async with self._lock:
            swept = await self._store.sweep(limit)
        if swept.expired or swept.resumed or swept.cancelled:
            await self._compare_moved()
        return swept

    async def create_runs(self, runs: Sequence[NewRun]) -> list[Run | RunConflictError]:
        async with self._lock:
            answers = await self._store.create_runs(runs)
            for answer in answers:
                if isinstance(answer, Run):
                    await self._compare(answer.tenant, [answer.run])
        return answers

    async def change_run(
        self, tenant: str, run: str, change: Change, expected_seq: int | None = None
    ) -> Run:
        async with self._lock:
            changed = await self._store.change_run(tenant, run, change, expected_seq)
            await self._compare(tenant, [run])
        return changed

    async def resolve(self, tenant: str, key: Key, resolution: bytes, **options: Any) -> bool:
        async with self._lock:
            resolved = await self._store.resolve(tenant, key, resolution, **options)
            await self._compare(tenant, [key[0]])
        return resolved

    async def record_steps(self, tenant: str, steps: Sequence[NewStep]) -> list[bytes | Refusal]:
        async with self._lock:
            answers = await self._store.record_steps(tenant, steps)
            await self._compare(tenant, [new.run for new in steps])
        return answers

    async def put_run(
        self, tenant: str, rows: Snapshot, expected_seq: int | None, **options: Any
    ) -> bool:
        async with self._lock:
            put = await self._store.put_run(tenant, rows, expected_seq, **options)
            await self._compare(tenant, [rows.run.run])
        return put

    # ── looking ─────────────────────────────────────────────────────────────────────────

    async def _compare(self, tenant: str, runs: Iterable[str]) -> None:
        self._tenants.add(tenant)
        for run in dict.fromkeys(runs):
            try:
                snapshot = await self._looked_at.read_snapshot(tenant, run)
            except StoreUnavailableError:
                continue  # It was closed, or its disk is full: there is nothing to look at.
            if snapshot is not None:
                await self.look_at(snapshot)

    async def _compare_moved(self) -> None:
        """Compare every run that has events which were not looked at.

        There may be a thousand. Other calls are made between two of them: the leases of a worker
        must not expire because it is looking.
        """
        for tenant in sorted(self._tenants):
            for row in await self._store.list_runs(tenant, limit=RUNS_MAX):
                if row.seq != self._seqs.get(row.run):
                    async with self._lock:
                        await self._compare(tenant, [row.run])

    async def look_at(self, snapshot: Snapshot) -> None:
        """Compare one moment of a run with its events."""
        run = snapshot.run
        history = self._histories.setdefault(run.run, History())
        if not history.is_of(snapshot):  # A copy of the file was put in its place.
            history = self._histories[run.run] = History()
        found = history.compare(snapshot)
        self.checks += 1
        self._seqs[run.run] = run.seq
        if found:
            del self._histories[run.run]
            self._tell(f"{run.run} at event {run.seq}: " + "\n  ".join(found))
        self._journal.note(run.run, run.seq)

    def _tell(self, text: str) -> None:
        self._journal.differ(text)
        if self._ends_process:
            sys.stderr.write(f"fold(events) != stored state: {text}\n")
            sys.stderr.flush()
            os._exit(DIFFERS)


def _is_simulated() -> bool:
    """Whether this is a simulated world, which compares after every call (I6).

    More calls would give its seeds another meaning, so that a seed that fails in a test could not
    be repeated by a command.
    """
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return False
    return type(loop).__module__ == "minuet.simulation.loop"


def install(app: Any, *, ends_process: bool = False) -> None:
    """Have every App compare, whatever its store is, unless its store does so already."""
    original = app.__init__

    @wraps(original)
    def __init__(self: Any, store: Any = None, **options: Any) -> None:
        from minuet.app.stores import chosen_blobs, chosen_store, make_store

        store = chosen_store() if store is None else store
        if isinstance(store, str):
            blobs = options.pop("blobs", None) or chosen_blobs()
            store = make_store(store, blobs=blobs, clock=options.get("clock"))
        if not (getattr(store, "is_compared", False) or _is_simulated()):
            store = FoldingStore(store, ends_process=ends_process)
        original(self, store, **options)

    app.__init__ = __init__
