"""`SyncApp`: the App without `await`, for any number of threads."""

from __future__ import annotations

import asyncio
import copy
import inspect
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import minuet
from minuet.app.app import App, Facade
from minuet.app.audit import Audit
from minuet.app.blobs import Blobs
from minuet.app.doctor import Doctor
from minuet.app.handle import RunHandle
from minuet.app.keys import Keys
from minuet.app.retention import Retention
from minuet.app.runs import Runs
from minuet.app.sync import SyncApp, SyncFacade, SyncRunHandle
from minuet.app.sync_nouns import (
    SyncAudit,
    SyncBlobs,
    SyncDoctor,
    SyncKeys,
    SyncRetention,
    SyncRuns,
    SyncWorkers,
    SyncWorkflows,
)
from minuet.app.workers import Workers
from minuet.app.workflows import Workflows
from minuet.errors import (
    InputError,
    NotOpenError,
    RunConflictError,
    RunFailed,
    RunTimeoutError,
    StartError,
)

from ..scenario.harness import module_of, task, workflow

#: Each class of the facade, its twin, and what only an event loop can use.
TWINS: list[tuple[type[Any], type[Any], set[str]]] = [
    (App, SyncApp, {"store", "worker", "working"}),
    (Facade, SyncFacade, {"store", "worker", "working"}),
    (Runs, SyncRuns, {"watch"}),
    (Workflows, SyncWorkflows, set()),
    (Workers, SyncWorkers, set()),
    (Retention, SyncRetention, set()),
    (Blobs, SyncBlobs, set()),
    (Keys, SyncKeys, set()),
    (Audit, SyncAudit, set()),
    (Doctor, SyncDoctor, set()),
    (RunHandle, SyncRunHandle, set()),
]


def public(kind: type[Any]) -> dict[str, Any]:
    ours = [base for base in kind.__mro__ if base.__module__.startswith("minuet")]
    names = {name for base in ours for name in vars(base) if not name.startswith("_")}
    return {name: inspect.getattr_static(kind, name) for name in names}


def parameters(function: Callable[..., Any]) -> list[tuple[str, Any, Any]]:
    found = inspect.signature(function).parameters.values()
    return [(one.name, one.kind, one.default) for one in found]


@pytest.mark.parametrize(("kind", "twin", "left_out"), TWINS, ids=[t[1].__name__ for t in TWINS])
def test_the_two_sides_have_the_same_names_and_arguments(
    kind: type[Any], twin: type[Any], left_out: set[str]
) -> None:
    theirs, ours = public(kind), public(twin)

    assert theirs.keys() - ours.keys() == left_out
    assert ours.keys() <= theirs.keys()
    for name, member in ours.items():
        assert isinstance(member, property) == isinstance(theirs[name], property), name
        if not isinstance(member, property):
            assert parameters(member) == parameters(theirs[name]), name
            assert not inspect.iscoroutinefunction(inspect.unwrap(member)), name
            assert member.__doc__, name
            # A twin is made of the method of its name.
            made_of = getattr(member, "twin_of", theirs[name])
            assert made_of.__name__ == name
    assert parameters(SyncApp.__init__) == parameters(App.__init__)


@pytest.mark.parametrize(("kind", "twin", "left_out"), TWINS, ids=[t[1].__name__ for t in TWINS])
def test_what_is_iterated_there_is_iterated_here(
    kind: type[Any], twin: type[Any], left_out: set[str]
) -> None:
    for name, member in public(kind).items():
        function = inspect.unwrap(member) if callable(member) else None
        if function is not None and "AsyncIterator" in str(function.__annotations__.get("return")):
            assert "iterating" in getattr(twin, name).__code__.co_qualname, name


# ── using it ────────────────────────────────────────────────────────────────────────────


def double(number: int) -> int:
    return 2 * number


async def triple(number: int) -> int:
    return 3 * number


def fail() -> None:
    raise LookupError("nothing there")


DOUBLE = workflow(
    task("double", config={"number": "{{ input.n }}"}),
    task("triple", "double", config={"number": "{{ double.output }}"}),
    input={"type": "object", "required": ["n"]},
    output="{{ triple.output }}",
)
FAIL = workflow(task("fail", retry=1))
WAIT = workflow({"id": "wait", "type": "wait", "config": {"signal": "go"}})


@pytest.fixture
def handlers() -> Any:
    return module_of({"double": double, "triple": triple, "fail": fail})


@pytest.fixture
def app(tmp_path: Path, handlers: Any) -> Iterator[SyncApp]:
    with SyncApp(f"sqlite:///{tmp_path}/a.db", handlers=[handlers]) as app:
        yield app


def test_a_run_from_start_to_end(app: SyncApp) -> None:
    run = app.start(DOUBLE, {"n": 7}, tags={"a": 1})

    assert type(run) is SyncRunHandle
    assert run.wait(timeout=60).output == 42
    assert run.result().status == run.show().status == app.wait(run).status == "COMPLETED"
    assert run.get().tags == {"a": 1}
    assert [one.run for one in app.runs.list(limit=10)] == [run]
    assert app.run(DOUBLE, {"n": 1}).output == 6
    assert "completed" in run.explain("triple").summary
    assert run == run.id == copy.copy(run)
    assert type(copy.copy(run)) is str
    assert repr(run) == f"<run {run.id}>"
    assert app.runs.handle(run.id).wait().output == 42
    assert app.workflows.deploy(DOUBLE).version == 1
    assert app.start(DOUBLE["name"], {"n": 2}).wait().output == 12


def test_events_are_followed_by_an_iterator_that_may_be_left(app: SyncApp) -> None:
    run = app.start(DOUBLE, {"n": 7})

    seqs = [seq for seq, _, _ in run.follow()]
    assert seqs == [event["seq"] for event in run.events()]
    assert [seq for seq, _, _ in app.follow(run, after=2)] == seqs[2:]
    first = next(iter(app.runs.follow(run)))
    assert first[0] == 1
    assert [problems for _, problems in app.doctor.examine()] == [[]]
    reference = app.blobs.put(b"content")
    assert b"".join(app.blobs.read(reference)) == b"content"


def test_a_run_waits_for_a_signal_of_another_thread(app: SyncApp) -> None:
    run = app.start(WAIT)
    sender = threading.Thread(target=app.signal, args=(run, "go", {"a": 1}))
    sender.start()

    assert run.wait().output == {"wait": {"a": 1}}
    sender.join()


def test_errors_are_those_of_the_app(app: SyncApp) -> None:
    with pytest.raises(InputError):
        app.start(DOUBLE, {})
    with pytest.raises(RunFailed) as failed:
        app.run(FAIL)
    assert isinstance(failed.value.__cause__, LookupError)
    waiting = app.start(WAIT)
    with pytest.raises(RunTimeoutError):
        waiting.wait(timeout=0)
    first = app.start(DOUBLE, {"n": 1}, idempotency_key="a")
    with pytest.raises(StartError) as refused:
        app.start_many(DOUBLE, [{"n": 2}, {"n": 3}], idempotency_keys=["a", "b"])
    conflict, started = refused.value.answers
    assert isinstance(conflict, RunConflictError)
    assert conflict.run_id == first
    assert isinstance(started, SyncRunHandle)
    assert started.wait().output == 18
    with pytest.raises(InputError, match="idempotency_key"):
        app.start(DOUBLE, {"n": 1}, idempotency_key=7)  # type: ignore[call-overload]


def test_many_threads_use_one_app_at_once(app: SyncApp) -> None:
    """Real threads on one SQLite file: each starts runs, waits for them and asks about all."""
    together = threading.Barrier(16)

    def work(thread: int) -> list[tuple[str, Any]]:
        together.wait()
        done: list[tuple[str, Any]] = []
        for number in range(5):
            n = thread * 100 + number
            run = app.start(DOUBLE, {"n": n})
            assert run.id in {one.run for one in app.runs.list(limit=1000)}
            done.append((run.id, run.result(timeout=120).output == 6 * n))
        more = app.start_many(DOUBLE, [{"n": thread}] * 3)
        return done + [(run.id, run.wait().output == 6 * thread) for run in more]

    with ThreadPoolExecutor(16) as threads:
        done = [one for found in threads.map(work, range(16)) for one in found]

    assert len({run for run, _ in done}) == len(done) == 16 * 8
    assert all(right for _, right in done)
    assert {one.status for one in app.runs.list(limit=1000)} == {"COMPLETED"}


def test_a_sync_handler_may_use_the_app_it_runs_in(tmp_path: Path, handlers: Any) -> None:
    def start_another(n: int) -> Any:
        return opened.run(DOUBLE, {"n": n}).output

    async def start_in_the_loop(n: int) -> Any:
        return opened.run(DOUBLE, {"n": n}).output

    more = module_of({"start_another": start_another, "start_in_the_loop": start_in_the_loop})
    url = f"sqlite:///{tmp_path}/a.db"
    with SyncApp(url, handlers=[handlers, more]) as opened:
        output = "{{ start_another.output }}"
        document = workflow(task("start_another", config={"n": 4}), output=output)
        assert opened.run(document).output == 24
        with pytest.raises(RunFailed, match=r"use minuet\.App and await it"):
            opened.run(workflow(task("start_in_the_loop", config={"n": 4}, retry=1)))


def test_another_tenant_is_used_in_the_same_way(app: SyncApp) -> None:
    acme = app.for_tenant("acme")
    run = acme.start(DOUBLE, {"n": 1})

    assert run.wait().output == 6
    assert (acme.tenant, app.tenant) == ("acme", "default")
    assert app.runs.list(limit=10) == []
    assert sorted(app.list_tenants()) == ["acme"]


# ── opening and closing ─────────────────────────────────────────────────────────────────


def test_it_says_when_it_is_not_open(tmp_path: Path, handlers: Any) -> None:
    app = SyncApp(f"sqlite:///{tmp_path}/a.db", handlers=[handlers])
    with pytest.raises(NotOpenError, match=r"was not opened: use it inside `with SyncApp"):
        app.start(DOUBLE, {"n": 1})
    with pytest.raises(NotOpenError):
        app.runs.handle("01")
    # What needs no store works.
    assert app.workflows.compile(DOUBLE).plan.name == DOUBLE["name"]
    app.close()
    with app:
        with pytest.raises(NotOpenError, match="open already"):
            app.open()
        run = app.start(DOUBLE, {"n": 1})
    with pytest.raises(NotOpenError, match="is closed"):
        run.wait()
    app.close()
    with app:
        assert app.wait(run).output == 6
    assert not [one for one in threading.enumerate() if one.name == "minuet-sync-app"]


def test_a_store_that_cannot_be_opened_leaves_no_thread(tmp_path: Path) -> None:
    app = SyncApp(f"sqlite:///{tmp_path}/none/a.db")
    for _ in range(2):
        with pytest.raises(minuet.StoreError):
            app.open()

    assert not [one for one in threading.enumerate() if one.name == "minuet-sync-app"]


def test_closing_ends_the_calls_of_other_threads(app: SyncApp) -> None:
    run = app.start(WAIT)
    following = iter(run.follow())
    assert next(following)[0] == 1
    with ThreadPoolExecutor(2) as threads:
        waiting = threads.submit(run.wait)
        rest = threads.submit(list, following)
        app.close()
        with pytest.raises(NotOpenError):
            waiting.result()
        with pytest.raises(NotOpenError):
            rest.result()


def test_several_threads_may_close_it(app: SyncApp) -> None:
    with ThreadPoolExecutor(8) as threads:
        for closed in [threads.submit(app.close) for _ in range(8)]:
            closed.result()

    with pytest.raises(NotOpenError, match="is closed"):
        app.runs.list()


async def test_where_a_loop_runs_it_says_to_use_the_other_app(tmp_path: Path) -> None:
    app = SyncApp(f"sqlite:///{tmp_path}/a.db")
    with pytest.raises(RuntimeError, match=r"use minuet\.App and await it"):
        app.open()
    with pytest.raises(RuntimeError, match=r"use await minuet.arun\(…\)"):
        minuet.run(DOUBLE, {"n": 1})


async def test_an_app_is_used_by_many_tasks_at_once(tmp_path: Path, handlers: Any) -> None:
    async with App(f"sqlite:///{tmp_path}/a.db", handlers=[handlers]) as app:
        results = await asyncio.gather(*(app.run(DOUBLE, {"n": n}) for n in range(50)))

    assert [result.output for result in results] == [6 * n for n in range(50)]


async def test_an_app_of_a_loop_says_so_to_other_threads(tmp_path: Path) -> None:
    async with App(f"sqlite:///{tmp_path}/a.db") as app:
        with pytest.raises(NotOpenError, match=r"use minuet\.SyncApp"):
            await asyncio.to_thread(lambda: app.runs)


FORKED = """
import os, sys, minuet
app = minuet.SyncApp("sqlite:///a.db")
app.open()
if os.fork() == 0:
    try:
        app.runs.list()
    except minuet.NotOpenError as error:
        print(error, flush=True)
    app.close()
    try:
        app.open()
    except minuet.NotOpenError as error:
        print(error, flush=True)
    os._exit(0)
os.wait()
app.close()
"""

INTERRUPTED = """
import signal, sys, threading, time, traceback, minuet

DOCUMENT = {"name": "w", "nodes": [{"id": "wait", "type": "wait", "config": {"signal": "go"}}]}
main = threading.main_thread().ident
over = threading.Event()

def once(*_):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise KeyboardInterrupt

def interrupt():
    while "result" not in [f.name for f in traceback.extract_stack(sys._current_frames()[main])]:
        time.sleep(0.01)
    # Python does not notice a signal that comes right before a thread falls asleep on a lock.
    while not over.wait(0.1):
        signal.pthread_kill(main, signal.SIGINT)

signal.signal(signal.SIGINT, once)
with minuet.SyncApp("memory://") as app:
    run = app.start(DOCUMENT)
    threading.Thread(target=interrupt).start()
    try:
        run.wait()
    except KeyboardInterrupt:
        over.set()
        run.signal("go")
        print(run.wait().status)
"""


def run_program(text: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", text],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_after_a_fork_it_says_to_open_another_in_the_child(tmp_path: Path) -> None:
    called, opened = run_program(FORKED, tmp_path).splitlines()

    assert "make one in each process, after the fork" in called
    assert opened == called


def test_a_wait_can_be_interrupted_and_the_app_still_used(tmp_path: Path) -> None:
    assert run_program(INTERRUPTED, tmp_path) == "COMPLETED\n"
