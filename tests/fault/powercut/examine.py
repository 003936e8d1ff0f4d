"""Cut the power at random moments of a trace, switch on again, and look at what is there."""

from __future__ import annotations

import asyncio
import random
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import apsw
import msgspec
from tests.fault import workload
from tests.fault.outcome import final_state
from tests.fault.powercut import child
from tests.fault.powercut.disk import Disk
from tests.fault.powercut.trace import Acknowledged, Committed, Committing, Entry, read_trace

from minuet.app.app import App
from minuet.events import NodeCompleted, NodeSkipped, decode_event
from minuet.store.records import DEFAULT_TENANT
from minuet.store.sqlite import SqliteStore
from minuet.types import TERMINAL

#: Longest time that the traced process may take.
SECONDS_MAX = 120


class Figures(msgspec.Struct):
    """What a number of power cuts came to."""

    cuts: int = 0
    #: Acknowledged before the cut: started, a result applied, ended; and those not found after.
    acknowledged: int = 0
    lost: int = 0
    cuts_that_lost: int = 0
    #: Transactions committed before the cut that the file no longer has; the most of one cut.
    transactions_lost_max: int = 0
    #: Cuts whose log had to be recovered, and cuts that left a state that never was.
    with_log: int = 0
    torn: int = 0
    resumed: int = 0
    problems: list[str] = []


class Moment(msgspec.Struct):
    """A power cut: what had happened before, and the files after."""

    position: int
    #: How many transactions were committed for sure.
    committed: int
    acknowledged: list[Acknowledged]
    files: dict[str, bytes]


#: Before anything has happened.
NOTHING = Moment(0, 0, [], {})


def make_trace(
    folder: Path, durability: str, root: Path, *, after: Moment = NOTHING, writers: int = 1
) -> list[Entry]:
    """Run the traced processes to their ends, on the files that an earlier cut has left."""
    folder.mkdir()
    for name, content in after.files.items():
        (folder / name).write_bytes(content)
    path = folder / "trace"
    command = [sys.executable, "-m", child.__name__, str(folder / "x.db"), str(path), durability]
    pipe = subprocess.PIPE
    with ExitStack() as stack:
        started = [
            stack.enter_context(
                subprocess.Popen([*command, str(n)], cwd=root, stdin=pipe, stdout=pipe, text=True)
            )
            for n in range(writers)
        ]
        for process in started:
            stack.callback(process.kill)
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in started:
            assert process.stdin is not None
            process.stdin.write("begin\n")
            process.stdin.flush()
        assert [process.wait(SECONDS_MAX) for process in started] == [0] * writers
    return read_trace(path)


def cut_power(
    trace: Sequence[Entry],
    positions: Sequence[int],
    chance: random.Random,
    *,
    after: Moment = NOTHING,
    deaf: bool = False,
) -> Iterator[Moment]:
    """Cuts at these positions of a trace, the earliest first."""
    disk = Disk(after.files, deaf=deaf)
    done = committed = 0
    numbers: dict[tuple[int, int], int] = {}
    acknowledged = list(after.acknowledged)
    for position in sorted(positions):
        for entry in trace[done:position]:
            if isinstance(entry, Committing):
                numbers[entry.process, entry.number] = len(numbers) + 1
            elif isinstance(entry, Committed):
                committed = max(committed, numbers[entry.process, entry.number])
            elif isinstance(entry, Acknowledged):
                acknowledged.append(entry)
            else:
                disk.do(entry)
        done = position
        yield Moment(position, committed, list(acknowledged), disk.after_cut(chance))


class Examiner:
    """Opens what a cut has left with the real store and counts what it finds."""

    def __init__(self, trace: Sequence[Entry], folder: Path, *, resume_every: int = 20) -> None:
        self._folder = folder
        self._resume_every = resume_every
        #: The last commit after which the database was so.
        self._commit_of = {
            digest: number
            for number, digest in enumerate(
                (entry.digest for entry in trace if isinstance(entry, Committing)), start=1
            )
        }
        self._expected: dict[str, Any] = {}
        self.figures = Figures()

    async def examine(self, moment: Moment) -> None:
        figures = self.figures
        figures.cuts += 1
        figures.with_log += bool(moment.files.get("x.db-wal"))
        db = self._restore(moment)
        try:
            async with App(SqliteStore(db), worker=False) as app:
                self._compare(db, moment)
                await self._count_lost(app, moment)
                async for run_id, findings in app.doctor.examine():
                    for finding in findings:
                        self._problem(moment, f"{run_id}: {finding.id} {finding.message}")
            if figures.cuts % self._resume_every == 0:
                await self._resume(db, moment)
        except Exception as error:
            self._problem(moment, f"{type(error).__name__}: {error}")

    def _problem(self, moment: Moment, text: str) -> None:
        self.figures.problems.append(f"cut at {moment.position}: {text}")

    def _restore(self, moment: Moment) -> Path:
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir()
        for name, data in moment.files.items():
            (self._folder / name).write_bytes(data)
        # Shared memory may be there as well, with anything in it.
        if moment.position % 2:
            (self._folder / "x.db-shm").write_bytes(b"\xa5" * 32_768)
        return self._folder / "x.db"

    def _compare(self, path: Path, moment: Moment) -> None:
        """Whether the file is sound and exactly as it was after some commit."""
        db = apsw.Connection(str(path))
        try:
            sound = db.execute("PRAGMA integrity_check").get
            digest = child.digest(db)
        finally:
            db.close()
        if sound != "ok":
            self._problem(moment, f"damaged: {sound}")
        commit = self._commit_of.get(digest)
        if commit is None:
            self.figures.torn += 1
        else:
            lost = moment.committed - commit
            self.figures.transactions_lost_max = max(self.figures.transactions_lost_max, lost)

    async def _count_lost(self, app: App, moment: Moment) -> None:
        found = [entry async for entry in _facts(app)]
        lost = sum(told not in found for told in moment.acknowledged)
        self.figures.acknowledged += len(moment.acknowledged)
        self.figures.lost += lost
        self.figures.cuts_that_lost += lost > 0

    async def _resume(self, db: Path, moment: Moment) -> None:
        """Work on until all runs are over, and compare with runs that nobody disturbed."""
        async with App(SqliteStore(db), handlers=[workload]) as app:
            await app.runs.prepare(await app.runs.list_open())
            for run in await app.store.list_runs(DEFAULT_TENANT, limit=1000):
                result = await app.wait(run.run, timeout=30)
                expected = await self._undisturbed(run.idempotency_key or "")
                if final_state(result) != expected:
                    self._problem(moment, f"{run.run} ended as {final_state(result)}")
        async with App(SqliteStore(db), worker=False) as app:
            async for run_id, findings in app.doctor.examine():
                if findings:
                    self._problem(moment, f"{run_id} after it was resumed: {findings}")
        self.figures.resumed += 1

    async def _undisturbed(self, key: str) -> Any:
        if not self._expected:
            async with App("memory://", handlers=[workload]) as app:
                lives = range(child.WRITERS_MAX * child.LIVES)
                for job in (job for life in lives for job in child.jobs(life)):
                    result = await app.run(job.document, job.input, timeout=60)
                    self._expected[job.key] = final_state(result)
        return self._expected[key]


async def _facts(app: App) -> AsyncIterator[Acknowledged]:
    """What the store holds, in the words in which it was acknowledged."""
    for run in await app.store.list_runs(DEFAULT_TENANT, limit=1000):
        yield Acknowledged("start", run.run)
        if run.status in TERMINAL:
            yield Acknowledged("end", run.run, value=run.status.encode())
        for record in await app.store.read_events(DEFAULT_TENANT, run.run):
            event = decode_event(record.data)
            if isinstance(event, NodeCompleted):
                output = bytes(event.output)
                yield Acknowledged("result", run.run, event.node, event.scope, output)
            elif isinstance(event, NodeSkipped):
                yield Acknowledged("skip", run.run, event.node, event.scope, b"null")


def examine_cuts(
    trace: Sequence[Entry],
    folder: Path,
    cuts: int,
    *,
    after: Moment = NOTHING,
    deaf: bool = False,
    resume_every: int = 20,
) -> Figures:
    """Cut the power at so many random moments; equal traces give equal cuts."""
    examiner = Examiner(trace, folder, resume_every=resume_every)
    chance = random.Random(1)
    positions = [chance.randint(0, len(trace)) for _ in range(cuts)]

    async def go() -> None:
        for moment in cut_power(trace, positions, chance, after=after, deaf=deaf):
            await examiner.examine(moment)

    asyncio.run(go())
    return examiner.figures
