"""`minuet demo`: a process is killed in the middle of a run, and another one continues it.

The parts are real: two `minuet` processes on one SQLite file, a SIGKILL between them, and a
ledger outside of the store in which the handlers note that they were started. The command
succeeds only if what it claims holds.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from argparse import Namespace
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec

from minuet import outcomes
from minuet.app.app import App
from minuet.app.results import NumberedEvent, RunResult
from minuet.app.watch import instance_name
from minuet.cli.doctor import examine, summary
from minuet.cli.output import print_json
from minuet.demo import HANDLERS, LEDGER, WORKFLOW
from minuet.errors import ConfigError, MinuetError
from minuet.events import NodeCompleted, NodeSkipped

ORDER = {
    "number": 7,
    "items": [
        {"name": "lamp", "price": 80},
        {"name": "desk", "price": 240},
        {"name": "chair", "price": 95},
    ],
}
EXPECTED = {"parcel": "P-7", "total": 415, "boxes": 3}

#: The process is killed once this many nodes are settled and a handler is running.
KILL_AFTER = 8

#: A node whose process died is given to another one after this many seconds.
LEASE_S = 2

#: Seconds between two polls of what the other process does.
POLL_S = 0.01

#: Seconds that each of the two processes may take.
PATIENCE_S = 60

Place = tuple[str, str]


class Instance(msgspec.Struct, frozen=True):
    """A node instance, seen from the store and from the ledger."""

    name: str
    outcome: str
    #: How often its result is in the history.
    committed: int
    before_kill: bool
    #: How often its handler was started; None: it has none.
    started: int | None


def demo(arguments: Namespace) -> int:
    """Show it, and check it."""
    as_json = arguments.output == "json"
    with tempfile.TemporaryDirectory(prefix="minuet-demo-") as temporary:
        folder = Path(arguments.keep or temporary)
        show_ = Show(folder, out=sys.stderr if as_json else sys.stdout)
        report = asyncio.run(show_.play())
    if as_json:
        print_json(report)
    elif arguments.keep:
        show_.say(f"\nIt is all in {folder}: try minuet runs show latest --store {show_.store}")
    return outcomes.COMPLETED if report["ok"] else outcomes.FAILED


class Show:
    """The demo, act by act."""

    def __init__(self, folder: Path, out: Any) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file = (folder / "demo.db").absolute()
        self._ledger = (folder / "ledger.jsonl").absolute()
        if self._file.exists() or self._ledger.exists():
            raise ConfigError(f"{folder} holds a demo already: name another folder")
        self.store = f"sqlite:///{self._file}"
        self._out = out

    def say(self, text: str) -> None:
        """Print a line for people."""
        print(text, file=self._out, flush=True)

    async def play(self) -> dict[str, Any]:
        """Run, kill, continue, and check the result."""
        self.say("An order is handled by one process:\n")
        run_id, pid = await self._first_act()
        async with App(self.store, worker=False) as app:
            known = (await app.runs.get(run_id)).seq
        self.say(
            f"\nProcess {pid} was killed (SIGKILL) in the middle of it. "
            "A second process continues the run:\n"
        )
        await self._second_act(run_id)
        async with App(self.store, worker=False) as app:
            history = await app.runs.history(run_id)
            result = await app.runs.show(run_id)
            found = await examine(app.doctor)
        verdict = summary(found.runs, len(found.findings))
        return self._epilogue(known, history, result, verdict, not found.findings)

    # ── the acts ────────────────────────────────────────────────────────────────────────

    async def _first_act(self) -> tuple[str, int]:
        """Start the run and kill its process half-way."""
        order = msgspec.json.encode(ORDER).decode()
        child = self._start("run", str(WORKFLOW), "-i", order)
        try:
            async with asyncio.timeout(PATIENCE_S):
                return await self._wait_for_the_middle(child), child.pid
        except TimeoutError:
            raise MinuetError("the first process did not get anywhere") from None
        finally:
            child.kill()
            child.wait()
            if self._out.isatty():
                self._out.write("\x1b[?25h")  # the cursor, which its live picture had hidden

    async def _wait_for_the_middle(self, child: subprocess.Popen[bytes]) -> str:
        while not self._starts():
            _check_alive(child)
            await asyncio.sleep(POLL_S)
        async with App(self.store, worker=False) as app:
            (run,) = await app.runs.list()
            settled = 0
            async for _, _, event in app.follow(run.run):
                settled += isinstance(event, NodeCompleted | NodeSkipped)
                if settled >= KILL_AFTER:
                    break
                _check_alive(child)
            while not self._running():
                _check_alive(child)
                await asyncio.sleep(POLL_S)
            child.kill()
            return run.run

    async def _second_act(self, run_id: str) -> None:
        """Continue in another process."""
        child = self._start("resume", run_id)
        try:
            await asyncio.to_thread(child.wait, PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise MinuetError("the second process did not come to an end") from None
        finally:
            child.kill()
            child.wait()

    def _start(self, *arguments: str) -> subprocess.Popen[bytes]:
        # -P: a folder called minuet in the current one must not replace this package.
        command = [sys.executable, "-P", "-m", "minuet", *arguments]
        command += ["--handlers", HANDLERS, "--store", self.store, "--lease", str(LEASE_S)]
        return subprocess.Popen(
            command,
            env={**os.environ, LEDGER: str(self._ledger)},
            # With JSON for programs, standard output is not for the children.
            stdout=self._out if self._out is sys.stderr else None,
        )

    # ── the ledger ──────────────────────────────────────────────────────────────────────

    def _entries(self, what: str) -> list[Place]:
        if not self._ledger.exists():
            return []
        entries = map(msgspec.json.decode, self._ledger.read_bytes().splitlines())
        return [(entry["node"], entry["scope"]) for entry in entries if entry["what"] == what]

    def _starts(self) -> Counter[Place]:
        return Counter(self._entries("start"))

    def _running(self) -> Counter[Place]:
        return self._starts() - Counter(self._entries("end"))

    # ── what is left ────────────────────────────────────────────────────────────────────

    def _epilogue(
        self, known: int, history: list[NumberedEvent], result: RunResult, verdict: str, sound: bool
    ) -> dict[str, Any]:
        instances = make_instances(history, known, self._starts())
        checks = {
            "the run completed, with the right result": result.status == "COMPLETED"
            and result.output == EXPECTED,
            "each node instance has exactly one committed result": all(
                one.committed == 1 for one in instances
            ),
            "nothing that was committed before the kill ran again": all(
                one.started in (None, 1) for one in instances if one.before_kill
            ),
            "there was work before the kill and after it": len(
                {one.before_kill for one in instances}
            )
            == 2,
            f"minuet doctor: {verdict}": sound,
        }
        self._print(instances, checks)
        return {
            "ok": all(checks.values()),
            "run_id": result.run_id,
            "output": result.output,
            "events_before_kill": known,
            "instances": [msgspec.to_builtins(one) for one in instances],
            "checks": checks,
        }

    def _print(self, instances: list[Instance], checks: dict[str, bool]) -> None:
        width = max(len(one.name) for one in instances)
        self.say(f"\n{'node':<{width}}  result committed          handler started")
        for one in instances:
            if one.name.startswith("$"):
                continue  # renders the run's output; not a node that its author knows
            times = {1: "once", 2: "twice"}.get(one.committed, f"{one.committed} times")
            when = "before the kill" if one.before_kill else "after the kill"
            started = "" if one.started is None else f"{one.started}×"
            cut_off = "  (was running when the process died)" if (one.started or 0) > 1 else ""
            text = f"{times}, {when}" if one.outcome == "completed" else f"skipped, {when}"
            self.say(f"{one.name:<{width}}  {text:<24}  {started}{cut_off}".rstrip())
        self.say("")
        for claim, holds in checks.items():
            self.say(f"  {'ok' if holds else 'NO'}  {claim}")


def make_instances(
    history: list[NumberedEvent], known: int, starts: Counter[Place]
) -> list[Instance]:
    """What became of each node instance, in the order of the results."""
    committed: Counter[Place] = Counter()
    first: dict[Place, tuple[int, str]] = {}
    for seq, _, event in history:
        if isinstance(event, NodeCompleted | NodeSkipped):
            place = (event.node, event.scope)
            outcome = "completed" if isinstance(event, NodeCompleted) else "skipped"
            committed[place] += 1
            first.setdefault(place, (seq, outcome))
    # A handler that was started for a node that never got a result would be missing otherwise.
    for place in starts:
        first.setdefault(place, (known + 1, "missing"))
    return [
        Instance(
            name=instance_name(node, scope),
            outcome=outcome,
            committed=committed[node, scope],
            before_kill=seq <= known,
            started=starts.get((node, scope)),
        )
        for (node, scope), (seq, outcome) in first.items()
    ]


def _check_alive(child: subprocess.Popen[bytes]) -> None:
    if child.poll() is not None:
        raise MinuetError(f"the first process ended before it was killed, with {child.returncode}")
