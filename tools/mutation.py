"""Break the code behind each requirement mark and see whether its test notices.

A test marked `@pytest.mark.shows("B-01")` claims to fail if B-01 does not hold. This tool runs
the marked tests once and records the lines that each executes. Then it breaks those lines one
at a time, the most specific first (lines that few other tests execute), then the constants that
those lines name, then lines anywhere, and runs the test again. A test that survives every break is
listed: its mark may claim too much. At the end each row has a verdict:

    killed      a test of the row noticed a break
    survived    none did
    failing     it fails on unbroken code, so its failing on a break says nothing
    elsewhere   its tests work in other processes: no line is executed here, nothing was broken

    python -m tools.mutation                 all marked tests, the quickest first; takes an hour
    python -m tools.mutation B-01 D-17       the tests of these rows
    python -m tools.mutation --in tests/unit only tests in this folder
    python -m tools.mutation --new           only tests that have no verdict yet
    python -m tools.mutation --survived      only tests that survived
    python -m tools.mutation --breaks 12     try harder before listing a test
    python -m tools.mutation --show          the verdicts so far; nothing is run

Everything is imported once. Each try is a fork of that process, in which the broken functions get
other code: so it costs what the test costs. A test of all stores is tried on the first of them. A
break that a fork does not notice is tried once more in a copy of the source: the test may work in
processes of its own. Verdicts are kept in `docs/mutation.json`.
"""

from __future__ import annotations

import argparse
import atexit
import importlib
import itertools
import json
import os
import pickle
import pkgutil
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tools.breaks import Break, Line, Live, constant_breaks, find_functions, line_breaks, plant
from tools.requirements import collect_marks

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src"
KEPT = ROOT / "docs" / "mutation.json"

#: A broken test may hang: this is far longer than any marked test takes, and how many times as
#: long as before, and how much longer, one may take in a fork.
TIMEOUT_S = 120
SLOWER, LONGER_S = 8, 15

KILLED, SURVIVED, FAILING, ELSEWHERE = "killed", "survived", "failing", "elsewhere"

#: Stores in the names of cases, the one that is tried first.
STORES = ("memory", "sqlite", "postgres", "redis", "valkey", "logged")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("rows", nargs="*", help="ids of rows; all, if none is given")
    parser.add_argument("--breaks", type=int, default=6, help="breaks to try for each test")
    parser.add_argument("--in", dest="folder", default="", help="only tests in this folder")
    parser.add_argument("--new", action="store_true", help="only tests without a verdict")
    parser.add_argument("--survived", action="store_true", help="only tests that survived")
    parser.add_argument("--show", action="store_true", help="say what is known, and run nothing")
    options = parser.parse_args()
    rows: dict[str, set[str]] = {}
    for mark in collect_marks(ROOT):
        rows.setdefault(mark.node_id, set()).add(mark.row)
    known = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    verdicts: dict[str, str] = {test: known[test] for test in sorted(known.keys() & rows.keys())}
    chosen = [
        test
        for test in sorted(rows)
        if test.startswith(options.folder)
        and (not options.rows or rows[test] & set(options.rows))
        and not (options.new and test in verdicts)
        and not (options.survived and verdicts.get(test) != SURVIVED)
    ]
    if not options.show and chosen:
        judge = Judge(chosen, options.breaks, lambda test, verdict: keep(verdicts, test, verdict))
        code = pytest.main(["-q", "-s", "-p", "no:cacheprovider", *chosen], plugins=[judge])
        if code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            return int(code)
    report(rows, verdicts)
    return 0 if {SURVIVED, FAILING}.isdisjoint(verdicts.values()) else 1


def keep(verdicts: dict[str, str], test: str, verdict: str) -> None:
    """Note a verdict at once: the rest may take an hour."""
    verdicts[test] = verdict
    KEPT.write_text(json.dumps(dict(sorted(verdicts.items())), indent=0) + "\n")


def report(rows: dict[str, set[str]], verdicts: dict[str, str]) -> None:
    """Say which rows have a test that noticed something, and which have none."""
    by_row: dict[str, set[str]] = {}
    for test, verdict in verdicts.items():
        for row in rows[test]:
            by_row.setdefault(row, set()).add(verdict)
    marked = {row for shown in rows.values() for row in shown}
    print(f"{len(by_row)} of {len(marked)} marked rows are judged")
    for verdict in (KILLED, SURVIVED, FAILING, ELSEWHERE):
        # A row with several tests has the best of their verdicts.
        found = sorted(row for row, known in by_row.items() if verdict in known)
        for row in found:
            del by_row[row]
        print(f"\n{len(found)} rows {verdict}: {' '.join(found)}")
    survivors = [test for test, verdict in verdicts.items() if verdict == SURVIVED]
    print(f"\n{len(survivors)} of {len(verdicts)} judged tests survived:")
    print("\n".join(f"  {test}" for test in survivors))


@dataclass
class Found:
    """What a test does when nothing is broken."""

    seconds: float = 0.0
    fails: bool = True
    lines: set[Line] = field(default_factory=set)


class Judge:
    """A plugin of pytest that judges the tests it has collected instead of running them."""

    def __init__(self, tests: Sequence[str], most: int, judged: Callable[[str, str], None]) -> None:
        self._tests = tests
        self._most = most
        self._judged = judged
        self._live: Live = {}

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        # Forks share the folder, and this process removes it.
        session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        _import_everything()
        self._live = find_functions(SOURCE)
        groups = {test: _cases(session.items, test) for test in self._tests}
        found = {test: _measure(items) for test, items in groups.items()}
        common = Counter(line for one in found.values() for line in one.lines)
        quickest = sorted(self._tests, key=lambda test: (found[test].seconds, test))
        for number, test in enumerate(quickest, 1):
            began = time.monotonic()
            lines = sorted(found[test].lines, key=lambda line: (common[line], line))
            verdict = FAILING
            if not found[test].fails:
                limit_s = min(TIMEOUT_S, int(SLOWER * found[test].seconds) + LONGER_S)
                verdict = self._judge(test, groups[test], lines, limit_s)
            took = time.monotonic() - began
            print(f"{number}/{len(quickest)} {verdict:9} {took:5.1f} s {test}", flush=True)
            self._judged(test, verdict)
        return True

    def _judge(self, test: str, items: list[pytest.Item], lines: list[Line], limit_s: int) -> str:
        """Break what a test executes, at most so many times, until it notices."""
        tried: list[Break] = []
        # The lines of some tests are all executed by many: the first ones say little about these.
        anywhere = random.Random(test).sample(lines, len(lines))
        for kind in (line_breaks(lines), constant_breaks(lines), line_breaks(anywhere)):
            for one in itertools.islice(kind, self._most):
                tried.append(one)
                if self._notices(items, one, limit_s):
                    return KILLED
        if any(notices_in_copy(test, one) for one in tried):
            return KILLED
        return SURVIVED if tried else ELSEWHERE

    def _notices(self, items: list[pytest.Item], found: Break, limit_s: int) -> bool:
        """Whether the test fails in a fork with broken code, or takes too long."""
        return _fork(lambda: plant(found, self._live) and _fails(items), limit_s) != 0


def _import_everything() -> None:
    """Import what tests import later, so that its functions are there to be broken."""
    package = importlib.import_module("minuet")
    for module in pkgutil.walk_packages(package.__path__, "minuet."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)


def _cases(items: list[pytest.Item], test: str) -> list[pytest.Item]:
    """The cases of a test, or of the tests of a module; on one store."""
    own = [
        item
        for item in items
        if (name := item.nodeid.partition("[")[0]) == test or name.startswith(f"{test}::")
    ]
    for store in STORES:
        if any(store in _words(item) for item in own):
            others = set(STORES) - {store}
            return [item for item in own if others.isdisjoint(_words(item))]
    return own


def _words(item: pytest.Item) -> list[str]:
    return item.nodeid.partition("[")[2].rstrip("]").split("-")


def _measure(items: list[pytest.Item]) -> Found:
    """Run a test in a fork, and see which lines it executes."""
    from coverage import Coverage

    def measure() -> bool:
        coverage = Coverage(data_file=None, source=[str(SOURCE)], config_file=False)
        coverage.start()
        began = time.monotonic()
        fails = _fails(items)
        seconds = time.monotonic() - began
        coverage.stop()
        data = coverage.get_data()
        lines = {(path, line) for path in data.measured_files() for line in data.lines(path) or ()}
        Path(file.name).write_bytes(pickle.dumps(Found(seconds, fails, lines)))
        return fails

    with tempfile.NamedTemporaryFile() as file:
        _fork(measure)
        data = Path(file.name).read_bytes()
        found: Found = pickle.loads(data) if data else Found()
        return found


def _fails(items: list[pytest.Item]) -> bool:
    from _pytest.runner import runtestprotocol

    for item, following in itertools.zip_longest(items, items[1:]):
        if any(report.failed for report in runtestprotocol(item, log=False, nextitem=following)):
            return True
    return not items


def _fork(run: Callable[[], bool], limit_s: int = TIMEOUT_S) -> int:
    """Run something in a fork; 0: it returned False. What hangs is ended."""
    pid = os.fork()
    if pid == 0:
        code = 2
        try:
            # A group of its own: what it has started ends with it.
            os.setsid()
            atexit._clear()
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(limit_s)
            silence = os.open(os.devnull, os.O_RDWR)
            for number in (0, 1, 2):
                os.dup2(silence, number)
            code = 1 if run() else 0
            atexit._run_exitfuncs()
        finally:
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
    return status


def notices_in_copy(test: str, found: Break) -> bool:
    """Whether the test fails, in all its cases, on a copy of the source with the break."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "src"
        # With what is compiled: only the broken module has to be compiled again.
        shutil.copytree(SOURCE, copy)
        (copy / found.path.relative_to(SOURCE)).write_text(found.text, encoding="utf-8")
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
        command += [f"--timeout={TIMEOUT_S}", test]
        paths = os.pathsep.join(filter(None, [str(copy), os.environ.get("PYTHONPATH", "")]))
        environment: dict[str, Any] = {**os.environ, "PYTHONPATH": paths}
        finished = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True)
        return finished.returncode != 0


if __name__ == "__main__":
    sys.exit(main())
