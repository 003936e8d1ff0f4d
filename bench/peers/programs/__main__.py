"""`python -m bench.peers.programs [ENGINE …]`: run the programs in each engine, write the table.

Every engine must print the same. Those that cannot be installed here are left out, and it says so.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tools.services import Redis

from bench.peers.environments import CannotInstall, environment_of
from bench.peers.processes import HOST, Program, free_port, says
from bench.peers.programs.table import CASES, ENGINES, PAGE, PROGRAMS, code_of, page_text

QUIET = {
    "PREFECT_LOGGING_LEVEL": "ERROR",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "1",
}

#: How long one program may take; Prefect starts a server of its own for each.
LIMIT_S = 180.0


class Failed(Exception):
    """What went wrong, in a few lines."""


@contextmanager
def surroundings(engine: str, python: str, folder: Path) -> Iterator[dict[str, str]]:
    """What an engine needs around a program: variables of the environment, perhaps a server."""
    if engine == "prefect":
        home = {
            "PREFECT_HOME": str(folder / "home"),
            "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "90",
        }
        yield {**QUIET, **home}
    elif engine == "temporal":
        port = free_port()
        command = [str(Path(python).parent / "temporal"), "server", "start-dev", "--headless"]
        command += ["--ip", HOST, "--port", str(port), "--http-port", str(free_port())]
        server = Program(
            folder / "server",
            [*command, "--log-level", "error"],
            says("Server"),
            {"TEMPORAL_CLI_SHOW_UPDATE": "0"},
        )
        try:
            server.start()
            yield {"TEMPORAL_ADDRESS": f"{HOST}:{port}"}
        finally:
            server.stop()
    elif engine == "celery":
        with ExitStack() as stack:
            redis = Redis(folder / "redis")
            stack.callback(redis.stop)
            redis.start()
            names = ("CELERY_BROKER_URL", "CELERY_RESULT_BACKEND")
            urls = dict.fromkeys(names, redis.url)
            path = {"PYTHONPATH": str(code_of(engine, "polling").parent), "C_FORCE_ROOT": "1"}
            command = [python, "-m", "celery", "-A", "polling", "worker", "-P", "solo"]
            worker = Program(
                folder / "worker", [*command, "--loglevel=INFO"], says(" ready."), {**urls, **path}
            )
            stack.callback(worker.stop)
            worker.start()
            yield urls
    else:
        yield {}


def run(engine: str, program: str, given: dict[str, object]) -> str:
    """What a program prints."""
    python = environment_of(engine).python
    with tempfile.TemporaryDirectory(prefix="minuet-programs-") as name:
        folder = Path(name)
        with surroundings(engine, python, folder) as environment:
            done = subprocess.run(
                [python, str(code_of(engine, program)), json.dumps(given)],
                cwd=folder,
                env={**os.environ, **environment},
                capture_output=True,
                text=True,
                check=False,
                timeout=LIMIT_S,
            )
    if done.returncode:
        raise Failed(done.stderr[-2000:])
    return done.stdout


def main(engines: list[str]) -> int:
    wrong = 0
    for engine in engines:
        try:
            environment_of(engine)
        except CannotInstall as error:
            print(f"{engine}: cannot be installed: {error}", flush=True)
            wrong += 1
            continue
        for program in (one for one in PROGRAMS if code_of(engine, one).is_file()):
            for given, printed in CASES[program]:
                try:
                    found = run(engine, program, given)
                except (Failed, subprocess.TimeoutExpired, RuntimeError) as error:
                    found = f"failed: {error}"
                is_right = found == printed
                wrong += not is_right
                print(
                    f"{engine} {program} {json.dumps(given)}: {'ok' if is_right else found}",
                    flush=True,
                )
    if not wrong:
        PAGE.write_text(page_text(), "utf-8")
        print(f"wrote {PAGE}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or [*ENGINES, "celery"]))
