"""Makes the stores of `data/`: with runs in every state (`work.py`), left by workers that die.

Run it in a checkout of the version that is to have made them:

    .venv/bin/python tests/upgrade/make.py tests/upgrade/data/COMMIT

The workers' leases last for a minute or less: wait that long before you run the tests.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.upgrade import work
from tools.services import Postgres, Redis

import minuet

#: The schema and the prefix that hold the store.
CORNER = "upgrade"

#: For how many seconds a lease of the first worker holds.
SHORT_S = 1.0

LIVE = ("ready", "leased", "waiting")


# ── in a process that dies ──────────────────────────────────────────────────────────────────


async def crash(url: str) -> None:
    """Die in the middle of the one run whose lease has then expired before."""
    async with worker_on(url, lease_seconds=SHORT_S) as app:
        case = work.BY_NAME["crashed"]
        run = await app.start(case.document, case.input, tags={"case": case.name})
        await reached(app, run, case)
        os.kill(os.getpid(), signal.SIGKILL)


async def fill(url: str, facts: Path) -> None:
    """Bring all runs where they are left, write down what this version says of them, and die."""
    async with (
        worker_on(url) as app,
        minuet.App(url, worker=False) as starter,
        minuet.App(url, worker=False, tenant=work.OTHER_TENANT) as other,
    ):
        runs = [(await app.runs.list())[0].run]
        for case in work.CASES[:-1]:
            tenant = other if case.tenant == work.OTHER_TENANT else app
            # An App serves the queues of what it starts.
            by = starter if case.queue else tenant
            runs.append(await leave(case, by, tenant))
        await reached(app, runs[0], work.BY_NAME["crashed"])
        found = [
            await describe(other if case.tenant == work.OTHER_TENANT else app, run)
            for case, run in zip((work.CASES[-1], *work.CASES[:-1]), runs, strict=True)
        ]
        keep(found, facts)
        os.kill(os.getpid(), signal.SIGKILL)


def keep(found: list[dict[str, Any]], facts: Path) -> None:
    facts.write_text(json.dumps(found, sort_keys=True), encoding="utf-8")


def worker_on(url: str, **options: Any) -> minuet.App:
    return minuet.App(url, name="earlier", drain_seconds=0, **options)


async def leave(case: work.Case, by: minuet.App, app: minuet.App) -> str:
    """Start a run and bring it where it is left."""
    tags = {"case": case.name}
    if case.change == "create":
        return await by.runs.create(case.document, tags=tags)
    key = case.idempotency_key
    run = await by.start(case.document, case.input, tags=tags, idempotency_key=key)
    if case.change == "retry":
        await app.runs.wait_ended(run)
        await app.runs.retry(run)
    if case.change == "cancel":
        await app.cancel(run, reason="not wanted")
    if case.change == "pause":
        await reached(app, run, case, lanes=False)
        await app.runs.pause(run)
    if case.left:
        await reached(app, run, case)
    else:
        await app.runs.wait_ended(run)
    return run


async def reached(app: minuet.App, run: str, case: work.Case, *, lanes: bool = True) -> None:
    """Wait until the run has just the live tokens that it is left with."""
    wanted = [left if lanes else left._replace(lane="") for left in case.left]
    while True:
        row = await app.store.read_run(case.tenant, run)
        assert row is not None
        tokens = await app.store.read_tokens(case.tenant, run)
        live = sorted(work.Left(t.node, t.state, t.lane) for t in tokens if t.state in LIVE)
        # A handler that holds has done its step.
        holds = [t for t in tokens if t.state == "leased" and t.node == "hold"]
        steps = [await app.store.read_steps(case.tenant, t.key) for t in holds]
        delayed = case.name != "delayed" or any(t.attempt == 2 for t in tokens)
        if live == wanted and all(steps) and delayed:
            return
        await app.store.wait_for_change(run, row.seq, 100)


async def describe(app: minuet.App, run: str) -> dict[str, Any]:
    """What this version says of a run."""
    return {
        "case": (await app.runs.get(run)).tags["case"],
        "run_id": run,
        "show": (await app.runs.show(run)).to_json(),
        "events": work.plain_events(await app.runs.history(run)),
    }


# ── around it ───────────────────────────────────────────────────────────────────────────────


def run_dying(*arguments: str) -> None:
    """Run this file in a process that kills itself."""
    environment = {**os.environ, work.MAKING: "1"}
    done = subprocess.run([sys.executable, __file__, *arguments], env=environment, check=False)
    assert done.returncode == -signal.SIGKILL, done.returncode


def fill_store(url: str, folder: Path) -> None:
    run_dying("crash", url)
    time.sleep(SHORT_S * 2)
    run_dying("fill", url, str(folder / "facts.json"))


def make_sqlite(folder: Path, scratch: Path) -> None:
    fill_store(f"sqlite:///{folder}/store.db", folder)
    # An index of the log beside it, which the next process makes for itself.
    (folder / "store.db-shm").unlink()


def make_postgres(folder: Path, scratch: Path) -> None:
    server = Postgres(scratch / "postgres")
    server.start()
    fill_store(f"{server.url}?schema={CORNER}", folder)
    dump(server, folder)
    server.stop()


def make_redis(folder: Path, scratch: Path) -> None:
    server = Redis(scratch / "redis", aof_use_rdb_preamble="no")
    server.start()
    fill_store(f"{server.url}?prefix={CORNER}", folder)
    keep_log(server, folder)


def make_logged(folder: Path, scratch: Path) -> None:
    record = Postgres(scratch / "postgres")
    record.start()
    server = Redis(scratch / "redis", aof_use_rdb_preamble="no")
    server.start()
    url = f"{server.url}?prefix={CORNER}&record={record.url}?schema={CORNER}"
    fill_store(url, folder)
    dump(record, folder)
    record.stop()
    keep_log(server, folder)


def dump(server: Postgres, folder: Path) -> None:
    """The schema as SQL that any client can run: without the commands of psql."""
    options = ["--inserts", "--no-owner", f"--schema={CORNER}"]
    command = [str(server._programs / "pg_dump"), *options, server.url]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    lines = [line for line in text.splitlines(keepends=True) if not line.startswith("\\")]
    (folder / "dump.sql").write_text("".join(lines), encoding="utf-8")


def keep_log(server: Redis, folder: Path) -> None:
    """The server's log, rewritten: commands that any server of this kind can read."""
    import redis

    client = redis.Redis.from_url(server.url)
    client.bgrewriteaof()
    while client.info("persistence")["aof_rewrite_in_progress"]:
        time.sleep(0.01)
    client.close()
    server.stop()
    shutil.copytree(server.folder / "appendonlydir", folder / "appendonlydir")


def main(target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    makers = {
        "sqlite": make_sqlite,
        "postgres": make_postgres,
        "redis": make_redis,
        "logged": make_logged,
    }
    for name, make in makers.items():
        with tempfile.TemporaryDirectory() as scratch:
            os.chmod(scratch, 0o755)  # PostgreSQL runs as a user of its own.
            folder = Path(scratch) / "store"
            folder.mkdir()
            make(folder, Path(scratch))
            with tarfile.open(target / f"{name}.tar.xz", "w:xz") as archive:
                archive.add(folder, arcname=".")
        sys.stdout.write(f"{name}: {(target / f'{name}.tar.xz').stat().st_size:,} bytes\n")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["crash", url]:
            asyncio.run(crash(url))
        case ["fill", url, facts]:
            asyncio.run(fill(url, Path(facts)))
        case [target]:
            main(Path(target).resolve())
        case _:
            sys.exit(__doc__)
