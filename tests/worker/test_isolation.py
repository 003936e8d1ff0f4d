"""`isolation: process`: attempts that are killed, crash or leak, and the worker that lives on."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import minuet
from minuet.errors import DocumentError
from minuet.testing import play
from minuet.worker.isolation import pool as pools
from minuet.worker.isolation.memory import held_mb, peak_mb
from minuet.worker.isolation.process import Process

from ..scenario.harness import PATIENCE, QUICK_RETRY, open_scene, task, workflow
from .isolated import HANDLERS, function, here

ONCE = {"max_attempts": 1}


def isolated(handler: str, **fields: Any) -> Any:
    return task(handler, **{"isolation": "process", "retry": ONCE, **fields})


def scene(**options: Any) -> Any:
    return open_scene("memory://", HANDLERS, **options)


async def until(holds: Callable[[], bool]) -> None:
    """Wait for something that another process does."""
    async with asyncio.timeout(PATIENCE):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def read_pid(path: Path) -> int:
    """The process that has written the file; 0: none has."""
    with contextlib.suppress(FileNotFoundError):
        return int(path.read_text() or 0)
    return 0


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # One that has ended and was not waited for.
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return True


# ── an attempt like any other ───────────────────────────────────────────────────────────


@pytest.mark.parametrize("handler", ["add", "add_async"])
async def test_an_attempt_runs_in_another_process_that_stays_for_the_next(handler: str) -> None:
    async with scene() as s:
        document = workflow(isolated(handler, config={"a": 2}))
        first = (await s.run(document)).nodes[handler].output
        second = (await s.run(document)).nodes[handler].output

        assert first["sum"] == 3
        assert first["pid"] == second["pid"] != os.getpid()
        assert is_alive(first["pid"])
    assert not is_alive(first["pid"])


async def test_the_context_is_the_same_as_in_the_worker(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "hunter2-hunter2")
    caplog.set_level(logging.INFO)
    outputs = []
    async with scene() as s:
        for isolation in ("process", "none"):
            first = task("here", isolation="none")
            second = task(
                "context", "here", isolation=isolation, secrets=["TOKEN"], timeout_seconds=20
            )
            run = await s.app.start(workflow(first, second), {"n": 1}, tags={"t": 1})
            outputs.append((await s.end(run.id)).nodes["context"].output)

    assert outputs[0] == outputs[1]
    assert outputs[0]["inputs"] == {"here": os.getpid()}
    assert (outputs[0]["input"], outputs[0]["tags"]) == ({"n": 1}, {"t": 1})
    assert (outputs[0]["secret"], outputs[0]["read"], outputs[0]["left"]) == ("***", 7000, True)
    lines = [(r.name, r.getMessage()) for r in caplog.records]
    assert lines.count(("minuet.handler", "token ***")) == 2
    assert lines.count(("shop", "seen")) == 2
    marked = [r for r in caplog.records if r.name == "minuet.handler"]
    assert {vars(r)["node_id"] for r in marked} == {"context"}
    assert "hunter2" not in caplog.text


async def test_the_key_of_an_attempt_is_that_of_its_node() -> None:
    async with scene() as s:
        run = await s.app.start(
            workflow(
                isolated("add", id="one", config={"a": 1}),
                isolated("add", id="two", config={"a": 1}),
            )
        )
        result = await s.end(run.id)
        keys = {node.output["key"] for node in result.nodes.values()}

        assert len(keys) == 2
        assert {node.output["run"] for node in result.nodes.values()} == {run.id}


async def test_a_sync_handler_writes_and_reads_blobs() -> None:
    async with scene() as s:
        assert (await s.run(workflow(isolated("context_sync")))).output == {"context_sync": 7000}


async def test_steps_are_kept_if_the_process_dies_between_them(tmp_path: Path) -> None:
    path = tmp_path / "steps"
    async with scene() as s:
        result = await s.run(
            workflow(isolated("steps", config={"path": str(path)}, retry=QUICK_RETRY))
        )

        assert result.output == {"steps": [1, 2]}
        assert path.read_text() == "ab"
        assert result.nodes["steps"].attempts == 2


@pytest.mark.parametrize(
    ("kind", "retry", "attempts"),
    [
        ("value", None, 1),
        ("os", QUICK_RETRY, 3),
        ("os", {**QUICK_RETRY, "no_retry_on": ["OSError"]}, 1),
        ("value", {**QUICK_RETRY, "retry_on": ["Exception"]}, 3),
        ("asked", {**QUICK_RETRY, "retry_on": ["ValueError"]}, 1),
    ],
)
async def test_what_a_handler_raises_is_an_error_like_any_other(
    kind: str, retry: Any, attempts: int
) -> None:
    fields = {} if retry is None else {"retry": retry}
    async with scene() as s:
        result = await s.run(
            workflow(task("fails", isolation="process", config={"kind": kind}, **fields))
        )
        shown = await s.run(
            workflow(task("fails", isolation="none", config={"kind": kind}, **fields))
        )

        assert result.nodes["fails"].attempts == attempts
        assert result.error["traceback"] == shown.error["traceback"]
        assert {**result.error, "traceback": 0} == {**shown.error, "traceback": 0}


async def test_secrets_are_masked_in_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "hunter2-hunter2")
    async with scene() as s:
        result = await s.run(workflow(isolated("secret_error", secrets=["TOKEN"])))

        assert result.error["message"] == "refused ***"
        assert "hunter2" not in str(result.error)


async def test_arguments_that_do_not_fit_fail_the_node_at_once() -> None:
    async with scene() as s:
        wrong = await s.run(
            workflow(task("add", isolation="process", config={"a": "x"}, retry=QUICK_RETRY))
        )

        assert (wrong.status, wrong.nodes["add"].attempts) == ("FAILED", 1)
        assert "argument 'a'" in wrong.error["message"]


async def test_a_handler_that_no_other_process_can_find_is_refused() -> None:
    def local() -> int:
        return 1

    async with open_scene("memory://", {"local": local}) as s:
        result = await s.run(workflow(isolated("local")))

        assert result.status == "FAILED"
        assert "it is defined inside a function" in str(result.error)


@pytest.mark.parametrize(("written", "elsewhere"), [(None, True), ("none", False)])
async def test_the_document_wins_over_the_handlers_author(
    written: str | None, elsewhere: bool
) -> None:
    fields = {} if written is None else {"isolation": written}
    async with scene() as s:
        result = await s.run(workflow(task("isolated_by_author", **fields)))

        assert (result.output["isolated_by_author"] != os.getpid()) is elsewhere


async def test_instances_run_at_once_in_as_many_processes() -> None:
    async with scene(concurrency=3) as s:
        nodes = [isolated("add", id=f"n{n}", config={"a": n}) for n in range(6)]
        result = await s.run(workflow(*nodes))

        pids = {node.output["pid"] for node in result.nodes.values()}
        assert result.status == "COMPLETED"
        assert 1 <= len(pids) <= 3


# ── what it is for ──────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("handler", "config", "how"),
    [
        ("leave", {"code": 0}, "it ended with exit code 0"),
        ("leave", {"code": 3}, "it ended with exit code 3"),
        ("crash", {}, "it was ended by signal 11 (SIGSEGV)"),
    ],
)
async def test_a_handler_that_kills_its_process_has_failed_and_the_worker_lives(
    handler: str, config: dict[str, Any], how: str
) -> None:
    async with scene() as s:
        poison = await s.app.start(workflow(isolated(handler, config=config, retry=QUICK_RETRY)))
        others = [
            await s.run(workflow(task("here", id="n"), isolated("add", config={"a": 1})))
            for _ in range(3)
        ]
        died = await s.end(poison.id)

    assert (died.status, died.nodes[handler].attempts) == ("FAILED", 3)
    assert (died.error["code"], died.error["type"]) == ("process_died", "ProcessDied")
    assert how in died.error["message"]
    assert {one.status for one in others} == {"COMPLETED"}


@pytest.mark.parametrize("lists", [{"no_retry_on": ["process_died"]}, {"retry_on": ["OSError"]}])
async def test_a_policy_may_name_the_death_of_a_process(lists: dict[str, Any]) -> None:
    async with scene() as s:
        retry = {**QUICK_RETRY, **lists}
        result = await s.run(workflow(isolated("leave", config={"code": 1}, retry=retry)))

        assert result.nodes["leave"].attempts == 1


@pytest.mark.shows("K-14", "K-13", "K-25")
@pytest.mark.parametrize("handler", ["spin", "block"])
async def test_an_endless_handler_is_killed_at_its_hard_limit(handler: str, tmp_path: Path) -> None:
    path = tmp_path / "pid"
    async with scene() as s:
        endless = await s.app.start(
            workflow(isolated(handler, config={"path": str(path)}, timeout_seconds=0.5))
        )
        await until(lambda: read_pid(path) > 0)
        other = await s.run(workflow(isolated("add", config={"a": 1}), task("here")))
        result = await s.end(endless.id)

        assert (result.status, result.error["code"]) == ("FAILED", "timeout")
        assert "its process was killed" in result.error["message"]
        assert not is_alive(read_pid(path))
        assert other.status == "COMPLETED"
        assert s.app.worker.unfinished() == []


@pytest.mark.parametrize("shared", [False, True])
async def test_a_handler_that_leaks_is_ended_at_its_limit_of_memory(shared: bool) -> None:
    limits = {"max_memory_mb": 192}
    async with scene() as s:
        leaking = await s.app.start(
            workflow(isolated("leak", config={"shared": shared}, limits=limits))
        )
        other = await s.run(workflow(task("here")))
        result = await s.end(leaking.id)
        after = await s.run(workflow(isolated("add", config={"a": 1}, limits=limits)))

        assert (result.status, result.error["type"]) == ("FAILED", "MemoryError")
        assert result.error["code"] == "memory_limit"
        assert "max_memory_mb (192 MiB)" in result.error["message"]
        assert (other.status, after.status) == ("COMPLETED", "COMPLETED")


def test_a_process_knows_its_memory() -> None:
    held, peak = held_mb(), peak_mb()

    # The kernel counts pages in batches, and each figure is rounded down.
    assert 0 < held <= peak + 1 < 10_000


async def test_what_a_handler_has_started_is_killed_with_it(tmp_path: Path) -> None:
    path = tmp_path / "pid"
    async with scene() as s:
        run = await s.app.start(
            workflow(isolated("parent", config={"path": str(path)}, timeout_seconds=1))
        )
        await until(lambda: read_pid(path) > 0)
        assert (await s.end(run.id)).error["code"] == "timeout"
        await until(lambda: not is_alive(read_pid(path)))


# ── cancellation ────────────────────────────────────────────────────────────────────────


async def test_a_process_that_is_given_up_while_it_starts_is_killed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = []
    create = asyncio.create_subprocess_exec

    async def remember(*arguments: Any, **named: Any) -> Any:
        made.append(await create(*arguments, **named))
        return made[0]

    async def give_up(**named: Any) -> Any:
        raise asyncio.CancelledError

    monkeypatch.setattr(asyncio, "create_subprocess_exec", remember)
    monkeypatch.setattr(asyncio, "open_connection", give_up)

    with pytest.raises(asyncio.CancelledError):
        await Process.start()

    assert made[0].returncode is not None


@pytest.mark.shows("K-19")
@pytest.mark.parametrize("obeys", [True, False])
async def test_a_handler_whose_run_is_cancelled_may_end_and_is_killed_if_it_does_not(
    tmp_path: Path, obeys: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pools, "GRACE_S", PATIENCE if obeys else 0.1)
    path = tmp_path / "pid"
    async with scene() as s:
        run = await s.app.start(
            workflow(isolated("waits", config={"path": str(path), "obeys": obeys}))
        )
        await until(lambda: read_pid(path) > 0)
        await s.app.cancel(run.id)
        assert (await s.end(run.id)).status == "CANCELLED"
        await until(lambda: s.app.worker.unfinished() == [])

        assert (tmp_path / "pid.cancelled").exists() is obeys
        assert is_alive(read_pid(path)) is obeys


async def test_a_handler_whose_lease_is_lost_is_killed_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pools, "GRACE_S", 1000.0)
    path = tmp_path / "pid"
    async with scene() as s:
        run = await s.app.start(
            workflow(isolated("waits", config={"path": str(path), "obeys": False}))
        )
        await until(lambda: read_pid(path) > 0)
        (token,) = (await s.store.read_snapshot("default", run.id)).tokens
        # As the store says it: another worker has the token.
        s.app.worker._workload.revoke(token.key, token.lease)
        await until(lambda: not is_alive(read_pid(path)))
        await s.app.cancel(run.id)


async def test_a_worker_that_stops_kills_what_does_not_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pools, "GRACE_S", 0.1)
    path = tmp_path / "pid"
    async with scene(drain_seconds=0.1) as s:
        await s.app.start(workflow(isolated("spin", config={"path": str(path)})))
        await until(lambda: read_pid(path) > 0)
        await s.app.close()

        assert not is_alive(read_pid(path))
        await s.app.open()
        (run,) = await s.app.runs.list()
        await s.app.cancel(run.run)


SCRIPT = """
import os, sys, time
import minuet

@minuet.task(isolation="process")
def endless(path: str) -> None:
    with open(path, "w") as file:
        file.write(str(os.getpid()))
    while True:
        pass

@minuet.task(isolation="process")
def where() -> str:
    return __name__

def main():
    if len(sys.argv) > 1:
        minuet.run({"name": "w", "nodes": [
            {"id": "a", "handler": "endless", "config": {"path": sys.argv[1]}}]}, store="memory://")
    else:
        result = minuet.run({"name": "w", "nodes": [{"id": "a", "handler": "where"}]},
            store="memory://")
        print(result.output["a"])

if __name__ == "__main__":
    main()
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent(SCRIPT))
    return path


def test_a_handler_of_a_script_is_found_and_the_script_does_not_start_again(script: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=PATIENCE
    )

    assert (done.stdout, done.returncode) == ("__mp_main__\n", 0)


def start(*arguments: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, *map(str, arguments)])


async def test_the_processes_of_a_worker_that_is_killed_end_too(
    script: Path, tmp_path: Path
) -> None:
    path = tmp_path / "pid"
    worker = start(script, path)
    try:
        await until(lambda: read_pid(path) > 0)
        worker.send_signal(signal.SIGKILL)
        await until(lambda: not is_alive(read_pid(path)))
    finally:
        worker.kill()
        worker.wait()


# ── soft limits ─────────────────────────────────────────────────────────────────────────


@pytest.mark.shows("K-14")
@pytest.mark.parametrize("isolation", ["process", "none"])
@pytest.mark.parametrize("handler", ["soft", "soft_async"])
async def test_a_handler_learns_of_its_soft_limit_before_the_hard_one(
    handler: str, isolation: str
) -> None:
    async with scene() as s:
        result = await s.run(
            workflow(
                task(
                    handler,
                    isolation=isolation,
                    soft_timeout_seconds=0.05,
                    timeout_seconds=PATIENCE,
                )
            )
        )

        assert result.output == {handler: False}


@pytest.mark.shows("K-14")
async def test_a_handler_that_ignores_its_soft_limit_is_ended_by_the_hard_one() -> None:
    async with scene() as s:
        fields = {"soft_timeout_seconds": 0.01, "timeout_seconds": 0.2}
        result = await s.run(workflow(isolated("spin", **fields)))

        assert result.error["code"] == "timeout"


async def test_without_limits_a_handler_has_time() -> None:
    found: list[Any] = []

    async def work(ctx: minuet.Context) -> None:
        found.extend((ctx.time_left, ctx.out_of_time))

    async def limited(ctx: minuet.Context) -> None:
        found.extend((ctx.time_left, ctx.out_of_time))

    handlers: dict[str, Any] = {
        "work": work,
        "limited": minuet.Task(limited, timeout=50, soft_timeout=40),
    }
    async with open_scene("memory://", handlers) as s:
        await s.run(workflow(task("work"), task("limited", "work")))

    assert found[:2] == [None, False]
    assert 0 < found[2] <= 50
    assert found[3] is False


# ── documents ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"type": "noop", "isolation": "process"}, "isolation-without-handler"),
        ({"handler": "here", "limits": {"max_memory_mb": 100}}, "memory-without-isolation"),
        (
            {"handler": "here", "soft_timeout_seconds": 2, "timeout_seconds": 2},
            "soft-timeout-late",
        ),
        (
            {"handler": "here", "isolation": "process", "limits": {"max_memory_mb": 1}},
            "wrong-value",
        ),
        ({"handler": "here", "isolation": "thread"}, "wrong-value"),
    ],
)
def test_a_document_that_asks_for_what_cannot_be_is_refused(
    fields: dict[str, Any], code: str
) -> None:
    app = minuet.App("memory://", worker=False)
    with pytest.raises(DocumentError) as caught:
        app.workflows.compile({"name": "w", "nodes": [{"id": "a", **fields}]})

    assert [one.code for one in caught.value.diagnostics] == [code]


@pytest.mark.parametrize(
    "named",
    [
        {"isolation": "thread"},
        {"max_memory_mb": 100},
        {"isolation": "process", "max_memory_mb": 1},
    ],
)
def test_a_task_that_asks_for_what_cannot_be_is_refused(named: dict[str, Any]) -> None:
    with pytest.raises(minuet.ConfigError):
        minuet.Task(here, **named)


# ── steps of durable functions ──────────────────────────────────────────────────────────


async def test_steps_of_a_durable_function_run_in_processes_of_their_own() -> None:
    async with scene() as s:
        first, second, timeout, declined = (await s.app.run(function)).output

        assert first["pid"] != os.getpid()
        assert (second["number"], second["attempt"]) == (2, 2)
        assert timeout == "the attempt did not finish within 0.3 s; its process was killed"
        assert declined == "card 4"


def test_a_play_runs_everything_in_its_own_process() -> None:
    document = {"name": "w", "nodes": [{"id": "a", "handler": "isolated_by_author"}]}

    assert play(document).output == {"a": os.getpid()}
