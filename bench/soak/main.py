"""`make soak STORE=… MINUTES=…`: a mixed load on a real store while workers and servers are struck.

    python -m bench.soak.main --store sqlite --minutes 30 --seed 1

Exit code 0: nothing was wrong and nothing grows; 1: something was, or does; 2: it cannot be run;
130: it was interrupted, and nothing was wrong so far. The page is written then, too.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import shutil
import signal
import statistics
import sys
import tempfile
import time
import traceback
from collections.abc import Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.soak.checks import Checks
from bench.soak.judge import judge
from bench.soak.load import Load
from bench.soak.nemesis import WORKERS, Nemesis, waited
from bench.soak.places import PLACES, Place
from bench.soak.probes import Probes
from bench.soak.report import Outcome, sentence, write
from minuet.app.app import App
from minuet.errors import MinuetError, StoreUnavailableError

ROOT = Path(__file__).resolve().parent.parent.parent

#: The load, as a share of the peak.
SHARE = 0.6

#: Runs kept open to measure the peak.
PEAK_OPEN = 400

#: For how long runs may be open at the offered rate, before no more are started.
OPEN_S = 20.0

#: For everything that a soak does beside its load.
EXTRA_S = 480.0


@dataclass(frozen=True)
class Times:
    """How long everything takes. What is short for a short soak is stretched to its full size."""

    seconds: float

    def _scaled(self, share: float, least: float, most: float) -> float:
        return min(max(self.seconds * share, least), most)

    @property
    def calibrate_s(self) -> float:
        return self._scaled(0.15, 5, 30)

    @property
    def look_s(self) -> float:
        return self._scaled(1 / 120, 1, 5)

    @property
    def check_s(self) -> float:
        return self._scaled(0.1, 4, 60)

    @property
    def retention_s(self) -> int:
        return round(self._scaled(0.1, 6, 30))

    @property
    def blow_s(self) -> float:
        return self._scaled(0.05, 4, 25)

    lease_s: float = 5.0
    #: A run that nobody paused must be over by then.
    bound_s: float = 120.0


class Soak:
    """One soak, from its first run to its last."""

    def __init__(self, place: Place, times: Times, outcome: Outcome) -> None:
        self._place = place
        self._times = times
        self._outcome = outcome
        self._stop = asyncio.Event()
        self.nemesis = Nemesis(place, times.lease_s, times.blow_s, outcome.seed)
        self._load: Load | None = None
        self._probes: Probes | None = None
        self._checks: Checks | None = None

    def interrupt(self, why: str) -> None:
        self._outcome.cut_short = self._outcome.cut_short or why
        self._stop.set()

    async def run(self) -> None:
        times, outcome = self._times, self._outcome
        async with App(self._place.url, worker=False) as app:
            outcome.durability = app.store.durability
            self.nemesis.launch()
            load = self._load = Load(
                app,
                seed=outcome.seed,
                retention_s=times.retention_s,
                store_removes=self._place.retains,
                bound_s=times.bound_s,
            )
            self._checks = Checks(app, load, outcome.seed)
            self._probes = Probes(self._place, load, self.nemesis)
            await self.nemesis.wait_until_all_work(90)
            await self._calibrate(load)
            outcome.began = time.monotonic()
            self._probes.forget()
            await self._soak(load)
            outcome.seconds = time.monotonic() - outcome.began
            say("waiting for the last runs to end")
            await self._finish(load)

    async def _calibrate(self, load: Load) -> None:
        """How much the store can do, without anybody who disturbs it."""
        seconds = self._times.calibrate_s
        say(f"measuring the peak for {seconds:.0f} s")
        enough = asyncio.Event()
        marks: list[tuple[float, int, int]] = []

        async def observe() -> None:
            begin = time.monotonic()
            while (now := time.monotonic()) < begin + seconds and not self._stop.is_set():
                await load.look()
                if now > begin + seconds / 3:
                    marks.append((time.monotonic(), load.ended.runs, load.ended.nodes))
                await asyncio.sleep(0.5)
            enough.set()

        await together(load.keep_open(PEAK_OPEN, enough), observe())
        if len(marks) > 1:
            (begin, runs, nodes), (end, more_runs, more_nodes) = marks[0], marks[-1]
            self._outcome.peak = (more_nodes - nodes) / (end - begin)
            self._outcome.offered_runs = SHARE * (more_runs - runs) / (end - begin)
        until = time.monotonic() + 30
        while load.open > PEAK_OPEN // 10 and time.monotonic() < until and not self._stop.is_set():
            await load.look()
            await asyncio.sleep(0.5)
        if not self._stop.is_set() and not self._outcome.offered_runs:
            raise RuntimeError("nothing ended while the peak was measured")

    async def _soak(self, load: Load) -> None:
        rate = self._outcome.offered_runs
        if self._stop.is_set():
            return
        say(f"soaking: {rate:.1f} runs/s for {self._times.seconds / 60:g} minutes")
        open_max = max(100, round(rate * OPEN_S))
        end = asyncio.get_running_loop().call_later(self._times.seconds, self._stop.set)
        try:
            await together(
                load.offer(rate, open_max, self._stop),
                self.nemesis.strike(self._stop),
                self.nemesis.supervise(self._stop),
                self._look(),
                self._check(),
            )
        finally:
            end.cancel()

    async def _look(self) -> None:
        assert self._load is not None
        assert self._probes is not None
        assert self._checks is not None
        reported = time.monotonic()
        while not await waited(self._stop, self._times.look_s):
            with contextlib.suppress(StoreUnavailableError):
                await self._load.look()
            self._checks.ended.extend(self._probes.sample().names)
            await self._probes.weigh()
            if time.monotonic() > reported + 60:
                reported = time.monotonic()
                self._tell()

    async def _check(self) -> None:
        assert self._checks is not None
        while not await waited(self._stop, self._times.check_s):
            with contextlib.suppress(StoreUnavailableError):
                await self._checks.check()

    async def _finish(self, load: Load) -> None:
        """Every run must end, and all that is left is examined once more."""
        assert self._checks is not None
        assert self._probes is not None
        await load.settle()
        end = time.monotonic() + (20 if self._outcome.cut_short else self._times.bound_s)
        while load.open and time.monotonic() < end:
            with contextlib.suppress(StoreUnavailableError):
                await load.look()
            await asyncio.sleep(0.5)
        if load.open and not self._outcome.cut_short:
            names = [name for name, run in load.runs.items() if run.end is None]
            load.found(f"{len(names)} runs do not end, {names[0]} for one")
        self._checks.ended.extend(self._probes.sample().names)
        await load.insist(self._checks.check)

    def _tell(self) -> None:
        assert self._load is not None
        assert self._probes is not None
        minutes = (time.monotonic() - self._outcome.began) / 60
        recent = [value for _, value in self._probes.series.get("nodes", [])[-12:]]
        speed = statistics.mean(recent) if recent else 0
        wrong = len(self._load.findings) + len(self.nemesis.findings)
        say(
            f"{minutes:.0f} of {self._times.seconds / 60:g} minutes: {speed:.0f} nodes/s, "
            f"{self._load.open} runs open, {len(self.nemesis.blows)} faults, {wrong} findings"
        )

    def conclude(self) -> None:
        """Put all that is known into the outcome, however far it came."""
        outcome, load, probes = self._outcome, self._load, self._probes
        if load is None or probes is None or self._checks is None:
            return
        if not outcome.seconds and outcome.began:
            outcome.seconds = time.monotonic() - outcome.began
        outcome.workers = WORKERS
        outcome.retention_s = self._times.retention_s
        outcome.counts = load.counts
        outcome.checks = (self._checks.made, self._checks.open, self._checks.over)
        outcome.blows = self.nemesis.blows
        outcome.sessions = (probes.sessions_most, self.nemesis.starts)
        outcome.series = probes.series
        outcome.findings += [*load.findings, *self.nemesis.findings]
        if probes.sessions_most > self.nemesis.starts:
            outcome.findings.append(
                f"the store remembers {probes.sessions_most:.0f} sessions, "
                f"and only {self.nemesis.starts} workers were ever started"
            )
        if outcome.began and not outcome.checks[0]:
            outcome.findings.append("nothing was checked")
        end = outcome.began + outcome.seconds
        outcome.verdicts = [
            judge(measure, probes.series[name], outcome.began, end)
            for name, measure in probes.measures.items()
            if probes.series.get(name)
        ]


async def together(*works: Coroutine[Any, Any, None]) -> None:
    """All at once; when one fails, the others are ended."""
    async with asyncio.TaskGroup() as group:
        for work in works:
            group.create_task(work)


async def soak(place: Place, times: Times, outcome: Outcome) -> None:
    """Run it within its time, whatever happens; what goes wrong stands in the outcome."""
    whole = Soak(place, times, outcome)
    loop = asyncio.get_running_loop()
    interrupts = 0
    this = asyncio.current_task()
    assert this is not None

    def interrupt() -> None:
        nonlocal interrupts
        interrupts += 1
        say("interrupted: finishing (once more: at once)")
        whole.interrupt("interrupted")
        if interrupts > 1:
            this.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, interrupt)
    try:
        async with asyncio.timeout(times.seconds + EXTRA_S):
            await whole.run()
    except asyncio.CancelledError:
        outcome.cut_short = "interrupted twice"
    except TimeoutError:
        outcome.findings.append("it did not end in its time")
    except BaseExceptionGroup as group:
        outcome.findings += [f"it broke off: {text(error)}" for error in group.exceptions]
    except Exception as error:
        outcome.findings.append(f"it broke off: {text(error)}")
    finally:
        whole.nemesis.end()
        whole.conclude()


def text(error: BaseException) -> str:
    if isinstance(error, MinuetError | RuntimeError):
        return f"{type(error).__name__}: {error}"
    return " ".join(traceback.format_exception(error)[-3:])


def say(what: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {what}", file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__)
    parser.add_argument("--store", choices=sorted(PLACES), required=True)
    parser.add_argument("--minutes", type=_minutes, default=30.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "soak", help="for the page")
    parser.add_argument("--json", type=Path, help="write all series to this file as well")
    options = parser.parse_args()
    times = Times(options.minutes * 60)
    outcome = Outcome(options.store, "", options.seed, options.minutes)
    folder = Path(tempfile.mkdtemp(prefix="minuet-soak-"))
    # PostgreSQL runs as a user of its own, which must get in.
    os.chmod(folder, 0o755)
    place = PLACES[options.store](folder, times.retention_s)
    try:
        place.start()
        asyncio.run(soak(place, times, outcome))
    except KeyboardInterrupt:
        outcome.cut_short = "interrupted"
    except RuntimeError as error:
        say(f"it cannot be run: {error}")
        return 2
    finally:
        place.stop()
        shutil.rmtree(folder, ignore_errors=True)
    if outcome.began or outcome.findings:
        page = write(outcome, options.out)
        say(f"written: {os.path.relpath(page)}")
    if options.json:
        options.json.write_text(json.dumps(outcome.series))
    for finding in outcome.findings:
        say(f"wrong: {' '.join(finding.split())[:300]}")
    say(sentence(outcome).replace("**", ""))
    if not outcome.is_good:
        return 1
    return 130 if outcome.cut_short else 0


def _minutes(words: str) -> float:
    try:
        minutes = float(words)
    except ValueError:
        minutes = 0.0
    if not 0 < minutes <= 10_000:
        raise argparse.ArgumentTypeError(f"a number of minutes above 0, not {words!r}")
    return minutes


if __name__ == "__main__":
    sys.exit(main())
