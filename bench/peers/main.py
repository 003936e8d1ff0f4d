"""`make bench-peers`: Minuet and its peers at the same work in one run.

Each round runs every system once, each in processes, folder and database of its own, and the
next round begins with another one. What fails is reported in the table and stops nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tools.services import Postgres, Redis, Server

from bench.peers.environments import CannotInstall, environment_of
from bench.peers.harness import Options
from bench.peers.machine import Machine
from bench.peers.plot import draw
from bench.peers.processes import descendants
from bench.peers.report import write_report
from bench.peers.table import BY_NAME, System, choose
from bench.places import ROOT

FIGURES = ROOT / "bench" / "out" / "peers.json"
RESULTS = ROOT / "bench" / "RESULTS.md"
PLOT = ROOT / "docs" / "images" / "peers.svg"

#: The longest that one system may take in one round: twice what the slowest took on a very
#: busy machine.
LIMIT_S = 240.0
#: What it then has to clear away its processes.
GRACE_S = 20.0


class Failed(Exception):
    """Why a system has no figures, in a line."""


@contextmanager
def database(kind: str, folder: Path) -> Iterator[Server | None]:
    """A new server of a kind for one measurement."""
    servers: dict[str, Callable[[], Server]] = {
        "postgres": lambda: Postgres(folder / "server"),
        "redis-everysec": lambda: Redis(folder / "server", appendfsync="everysec"),
        "redis-always": lambda: Redis(folder / "server", appendfsync="always"),
    }
    if not kind:
        yield None
        return
    server: Server = servers[kind]()
    try:
        server.start()
        yield server
    finally:
        server.stop()


@contextmanager
def new_folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="minuet-peers-"))
    # PostgreSQL runs as a user of its own, which must get in.
    os.chmod(folder, 0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run_once(system: System, concurrencies: list[int], scale: float) -> dict[str, Any]:
    """One system, one time."""
    try:
        environment = environment_of(system.engine)
    except CannotInstall as error:
        raise Failed(f"cannot be installed: {error}") from error
    with new_folder() as folder, database(system.server, folder) as server:
        (folder / "work").mkdir()
        options = Options(
            folder=str(folder / "work"),
            url=getattr(server, "url", ""),
            servers=[server.pid] if server is not None else [],
            mode=system.mode,
            tools=environment.tools,
            idle_times=system.idle_times,
            repeats=system.repeats,
            runs=max(2, int(system.runs * scale)),
            concurrencies=concurrencies,
            packages=list(system.packages),
        )
        figures = _harness(environment.python, system.engine, options)
        figures["versions"].update(environment.programs)
        if server is not None:
            figures["versions"].update(version_of(server))
        return figures


def version_of(server: Server) -> dict[str, str]:
    """The name and version of a server's program."""
    program = os.readlink(f"/proc/{server.pid}/exe")
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    number = re.search(r"\d+(\.\d+)+", said.stdout)
    return {Path(program).name: number.group() if number else "unknown"}


def _harness(python: str, engine: str, options: Options) -> dict[str, Any]:
    command = [python, "-m", "bench.peers.harness", engine, json.dumps(asdict(options))]
    errors = Path(options.folder, "errors")
    with errors.open("wb") as log:
        process = subprocess.Popen(
            command,
            cwd=options.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        )
        try:
            output, _ = process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            raise Failed(f"took more than {LIMIT_S:.0f} s") from None
        finally:
            _clear_away(process)
    lines = [line for line in output.splitlines() if line.startswith('{"idle_ms"')]
    if process.returncode or not lines:
        raise Failed(_last_words(errors) or f"ended with code {process.returncode}")
    figures: dict[str, Any] = json.loads(lines[-1])
    return figures


def _last_words(errors: Path) -> str:
    """The last error that a program wrote down, else its last line."""
    lines = errors.read_text(errors="replace").strip().splitlines()
    named = [line for line in lines if re.match(r"[\w.]+(Error|Exception|Expired)\b", line)]
    return (named or lines or [""])[-1][:200]


def _clear_away(process: subprocess.Popen[str]) -> None:
    """End a harness and whatever it started, by number."""
    if process.poll() is not None:
        return
    started = descendants(process.pid)
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(GRACE_S)
    for pid in started:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()


def measure(systems: list[System], rounds: int, scale: float, minutes: float) -> dict[str, Any]:
    """All rounds of all systems: figures by name, or the reason why there are none."""
    end = time.monotonic() + minutes * 60
    found: dict[str, dict[str, Any]] = {s.name: {"rounds": [], "error": None} for s in systems}
    best: dict[str, int] = {}
    for number in range(rounds):
        turn = number * len(systems) // rounds
        for system in systems[turn:] + systems[:turn]:
            entry = found[system.name]
            if entry["error"] and not entry["rounds"]:
                # It did not work in the first round; it will not in the next.
                continue
            if time.monotonic() > end:
                entry["error"] = f"left out of round {number + 1}: {minutes:g} minutes were over"
                continue
            known = best.get(system.name)
            began = time.monotonic()
            try:
                concurrencies = [known] if known else list(system.concurrencies)
                figures = run_once(system, concurrencies, scale)
            except (Failed, RuntimeError) as error:
                entry["error"] = str(error)
                _say(number, rounds, system, f"FAILED: {error}", began)
                continue
            best[system.name] = figures["concurrency"]
            entry["rounds"].append(figures)
            _say(number, rounds, system, _line(figures), began)
    return found


def _line(figures: dict[str, Any]) -> str:
    fan = figures["fan_ms"]
    return (
        f"{figures['hop_ms']:.2f} ms/hop, {figures['nodes_per_s']:.0f} nodes/s, "
        f"fan {'–' if fan is None else f'{fan:.0f}'} ms, idle {figures['idle_ms']:.1f} ms"
    )


def _say(number: int, rounds: int, system: System, text: str, began: float) -> None:
    took = time.monotonic() - began
    line = f"… round {number + 1} of {rounds}: {system.name:18} {text} ({took:.0f} s)"
    print(line, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench-peers", description=__doc__)
    parser.add_argument("--peers", default="", help="which, with commas between; else all")
    parser.add_argument("--stores", default="", help="Minuet's: sqlite, postgres, redis; else all")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--scale", type=float, default=1.0, help="of the usual number of runs for nodes/s"
    )
    parser.add_argument("--minutes", type=float, default=60.0, help="when to leave out the rest")
    parser.add_argument("--figures", type=Path, default=FIGURES, help="where they are kept")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the page to write")
    parser.add_argument("--plot", type=Path, default=PLOT, help="the picture to draw")
    parser.add_argument(
        "--report", action="store_true", help="only write the page and the plot again"
    )
    options = parser.parse_args()
    # As Ctrl-C does, it must reach every `finally`: servers are stopped there.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if not options.report:
        try:
            systems = choose(options.peers, options.stores)
        except ValueError as error:
            parser.error(str(error))
        machine = Machine()
        found = measure(systems, options.rounds, options.scale, options.minutes)
        figures = {"machine": machine.describe(), "scale": options.scale, "systems": found}
        options.figures.parent.mkdir(parents=True, exist_ok=True)
        options.figures.write_text(json.dumps(figures, indent=1) + "\n")
    if not options.figures.is_file():
        parser.error(f"there are no figures in {options.figures}: run without --report first")
    figures = json.loads(options.figures.read_text())
    figures["systems"] = {k: v for k, v in figures["systems"].items() if k in BY_NAME}
    text = write_report(figures)
    for path, content in ((options.results, text), (options.plot, draw(figures))):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    print(text)


if __name__ == "__main__":
    main()
