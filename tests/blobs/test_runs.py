"""Runs whose large contents are kept in a blob store."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.s3 import s3_server
from tests.scenario.harness import module_of, task, workflow
from tests.small_disk import SmallDisk
from tests.store.conftest import FACTORIES, ONE_OF_EACH

import minuet
from minuet.app.app import App
from minuet.app.stores import make_store
from minuet.blobs.address import make_blob_store
from minuet.blobs.base import UNFINISHED
from minuet.blobs.folder import FolderBlobs
from minuet.clock import ManualClock
from minuet.errors import BlobError, ConfigError, StoreUnavailableError, StoreUnusableError
from minuet.store.blob import blob_ref
from minuet.store.changes import Cancel
from minuet.store.outside import MARK, KeepsOutside, keep_outside

LARGE = "x" * 200_000
REF = blob_ref(f'"{LARGE}"'.encode())
HOUR_MS = 3_600_000
TWO_TASKS = workflow(task("make"), task("measure", "make"))


async def make() -> str:
    return LARGE


async def measure(ctx: minuet.Context) -> int:
    return len(ctx.inputs["make"])


HANDLERS: dict[str, Any] = {"make": make, "measure": measure}


@asynccontextmanager
async def opened(
    store: str, blobs: str | None, handlers: dict[str, Any] | None = None, **options: Any
) -> AsyncIterator[App]:
    module = module_of(HANDLERS if handlers is None else handlers)
    async with App(store, blobs=blobs, handlers=[module], **options) as app:
        yield app


@pytest.fixture
def store(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/store.db"


async def names(url: str) -> list[str]:
    blobs = make_blob_store(url)
    await blobs.open()
    return sorted([name async for name, _ in blobs.list() if name != MARK])


async def collect(app: App, grace_ms: int = HOUR_MS) -> int:
    found = 0
    async for deleted in app.retention.collect(grace=grace_ms / 1000):
        found = deleted.contents
    return found


@pytest.mark.shows("G-12", "G-13")
async def test_large_contents_of_a_run_are_outside_and_are_deleted_with_it(
    store: str, url: str
) -> None:
    async with opened(store, url) as app:
        result = await app.run(TWO_TASKS, LARGE)
        kept = await names(url)
        stored = await app.store.get_blob(REF, run=result.run_id)

        assert result.output == {"measure": len(LARGE)}
        assert result.nodes["make"].output == LARGE
        # The input is created with the run in one step, and stays inside.
        assert [name.split("/")[1] for name in kept] == [f"r-{result.run_id}"]
        assert stored == f'"{LARGE}"'.encode()
        await app.runs.delete([result.run_id])
        assert await names(url) == []


@pytest.mark.parametrize("kind", ONE_OF_EACH)
async def test_every_store_can_keep_contents_outside(kind: str, tmp_path: Path) -> None:
    inner = FACTORIES["sqlite" if kind == "outside" else kind](tmp_path, ManualClock())
    contents = FolderBlobs(tmp_path / "contents")
    async with App(keep_outside(inner, contents), handlers=[module_of(HANDLERS)]) as app:
        result = await app.run(TWO_TASKS)

        assert result.output == {"measure": len(LARGE)}
        assert len([n async for n, _ in contents.list("t-default/")]) == 1
        assert "large contents in file:///" in app.durability


@pytest.mark.parametrize("kind", ONE_OF_EACH)
@pytest.mark.parametrize("outside", [True, False])
async def test_files_go_down_to_child_runs_and_come_up_on_every_store(
    kind: str, outside: bool, tmp_path: Path
) -> None:
    store = FACTORIES["sqlite" if kind == "outside" else kind](tmp_path, ManualClock())
    if outside:
        store = keep_outside(store, FolderBlobs(tmp_path / "contents"))
    given, made = b"down" * 50_000, b"up" * 100_000

    async def give(ctx: minuet.Context) -> Any:
        return await ctx.blob(given)

    async def exchange(ctx: minuet.Context) -> Any:
        assert await ctx.open(ctx.input).read() == given
        return await ctx.blob(made)

    async def take(ctx: minuet.Context) -> int:
        assert [await ctx.open(file).read() for file in ctx.inputs["child"]] == [made] * 2
        return len(made)

    inner = workflow(task("exchange"), output="{{ exchange.output }}")
    child = {
        "id": "child",
        "type": "workflow",
        "config": {"workflow": inner, "input": "{{ give.output }}"},
        "foreach": {"items": [1, 2]},
        "dependencies": ["give"],
    }
    document = workflow(task("give"), child, task("take", "child"))
    handlers = {"give": give, "exchange": exchange, "take": take}
    async with App(store, handlers=[module_of(handlers)]) as app:
        result = await app.run(document)

        assert result.output == {"take": len(made)}, result.error


async def test_a_blob_store_belongs_to_one_store(store: str, url: str, tmp_path: Path) -> None:
    async with opened(store, url) as app:
        await app.run(TWO_TASKS)
    async with opened(store, url):
        pass
    other = f"sqlite:///{tmp_path}/other.db"
    with pytest.raises(StoreUnusableError, match="contents of another store"):
        async with opened(other, url):
            pass
    blobs = make_blob_store(url)
    await blobs.delete([MARK])
    async with opened(other, url) as app:
        assert (await app.run(TWO_TASKS)).status == "COMPLETED"


async def test_a_process_that_died_before_its_store_knew_the_mark_does_no_harm(
    store: str, url: str
) -> None:
    blobs = make_blob_store(url)
    await blobs.open()
    await blobs.put(MARK, b"left behind")
    for _ in range(2):
        async with opened(store, url) as app:
            assert (await app.run(TWO_TASKS)).status == "COMPLETED"


async def test_gc_keeps_what_a_store_remembers_of_its_blob_store(store: str, url: str) -> None:
    clock = ManualClock()
    async with opened(store, url, clock=clock) as app:
        await app.run(TWO_TASKS)
        clock.advance(30 * 24 * HOUR_MS)
        async for _ in app.retention.collect():
            pass
        assert await app.list_tenants() == ["default"]
    async with opened(store, url) as app:
        assert (await app.run(TWO_TASKS)).status == "COMPLETED"


# ── what is left behind ─────────────────────────────────────────────────────────────────


async def test_a_removal_that_fails_half_way_is_finished_by_gc(
    store: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    with s3_server() as bucket:
        async with opened(store, bucket.url) as app:
            result = await app.run(TWO_TASKS)
            bucket.failing = {"POST": 403, "DELETE": 403}
            await app.runs.delete([result.run_id])
            bucket.failing = {}

            assert len(await names(bucket.url)) == 1
            # It is not old enough: a run that is moved here is put after its contents.
            assert await collect(app) == 0
        async with opened(store, bucket.url, clock=ManualClock(_later())) as app:
            assert await collect(app) == 1
            assert await names(bucket.url) == []


def _later() -> int:
    import time

    return int(time.time() * 1000) + 2 * HOUR_MS


async def test_contents_of_a_run_that_the_store_deleted_by_age_are_found_by_gc(
    store: str, url: str
) -> None:
    async with opened(f"{store}?retention_s=1", url) as app:
        result = await app.run(TWO_TASKS)
    clock = ManualClock(_later())
    async with opened(f"{store}?retention_s=1", url, clock=clock, worker=False) as app:
        await app.doctor.sweep()
        assert await app.store.read_run("default", result.run_id) is None
        assert len(await names(url)) == 1
        assert await collect(app) == 1
        assert await names(url) == []


async def test_gc_leaves_contents_of_runs_that_exist(store: str, url: str) -> None:
    async with opened(store, url) as app:
        result = await app.run(TWO_TASKS)
    async with opened(store, url, clock=ManualClock(_later()), worker=False) as app:
        assert await collect(app) == 0
        assert (await app.runs.result(result.run_id)).nodes["make"].output == LARGE


async def test_a_content_whose_process_died_before_the_exchange_ends_with_its_run(
    store: str, url: str
) -> None:
    async with opened(store, url, worker=False) as app:
        run = await app.start(TWO_TASKS)
        # What a worker does before it hands in a large result; then it dies.
        blobs = make_blob_store(url)
        await blobs.put(f"t-default/r-{run.id}/{'0' * 64}", b"never named")
        await app.store.put_blob(b"y" * 100_000, run=run.id)
        assert len(await names(url)) == 2
        await app.store.change_run("default", run.id, Cancel())
        await app.runs.delete([run.id])
        assert await names(url) == []


DIES_ONCE = """
import os, pathlib, minuet

@minuet.task
def make(ctx: minuet.Context) -> dict:
    stored = ctx.blob(b"x" * 200_000)
    mark = pathlib.Path("died")
    if not mark.exists():
        mark.touch()
        os._exit(9)
    return stored

@minuet.task
def measure(ctx: minuet.Context) -> int:
    with ctx.open(ctx.inputs["make"]) as file:
        return len(file.read())
"""


async def test_a_process_killed_between_the_content_and_the_result_costs_nothing(
    store: str, tmp_path: Path
) -> None:
    url = f"file://{tmp_path}/blobs"
    (tmp_path / "w.json").write_text(json.dumps(TWO_TASKS))
    (tmp_path / "dying.py").write_text(DIES_ONCE)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "minuet", *arguments, "--handlers", "dying.py", "--json"],
            cwd=tmp_path,
            env={**os.environ, "MINUET_STORE": store, "MINUET_BLOBS": url},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    assert run("run", "w.json").returncode == 9
    assert len(await names(url)) == 1
    resumed = run("resume")

    assert resumed.returncode == 0, resumed.stderr
    assert '"measure": 200000' in resumed.stdout
    # The content that the dead process left is the one that the next one stored.
    assert len(await names(url)) == 1


async def test_a_file_that_was_never_finished_is_deleted_by_gc(store: str, tmp_path: Path) -> None:
    url = f"file://{tmp_path}/blobs"
    async with opened(store, url):
        left = tmp_path / "blobs" / UNFINISHED / "left"
        left.parent.mkdir(exist_ok=True)
        left.write_bytes(b"half")
        fresh = left.with_name("fresh")
        fresh.write_bytes(b"half")
        os.utime(left, (1, 1))
    async with opened(store, url) as app:
        assert await collect(app) == 1
        assert (left.exists(), fresh.exists()) == (False, True)


# ── what cannot be read ─────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("fault", ["missing", "damaged"])
async def test_a_content_that_is_lost_is_an_error_that_names_it(
    store: str, url: str, fault: str
) -> None:
    async with opened(store, url) as app:
        result = await app.run(TWO_TASKS)
        blobs = make_blob_store(url)
        (name,) = await names(url)
        if fault == "missing":
            await blobs.delete([name])
        else:
            await blobs.put(name, b"another content")

        with pytest.raises(BlobError, match=f"{REF} is {fault} in (file|s3)://"):
            await app.store.get_blob(REF, run=result.run_id)
        (finding,) = await app.doctor.examine_run(result.run_id)
        assert finding.id == "I17"
        assert f"is {fault}: {REF} (is {fault} in " in finding.message


async def test_a_node_that_needs_a_lost_content_fails_and_says_which(store: str, url: str) -> None:
    async def remove(ctx: minuet.Context) -> None:
        await make_blob_store(url).delete(await names(url))

    handlers = {**HANDLERS, "remove": remove}
    document = workflow(
        task("make"),
        {"id": "made", "type": "transform", "dependencies": ["make"], "config": {"value": 1}},
        task("remove", "made"),
        task("measure", "make", "remove"),
    )
    async with opened(store, url, handlers) as app:
        run = await app.start(document)
        ended = await app.runs.wait_ended(run.id, timeout=30)

        assert ended.status == "FAILED"
        assert ended.error is not None
        assert ended.error["code"] == "blob-unreadable"
        assert f"the blob {REF} is missing in" in ended.error["message"]


async def test_a_process_without_the_setting_says_what_it_lacks(store: str, url: str) -> None:
    async with opened(store, url) as app:
        run = await app.run(TWO_TASKS)
    async with opened(store, None, worker=False) as app:
        with pytest.raises(BlobError, match="kept outside the store: set MINUET_BLOBS"):
            await app.runs.result(run.run_id)


# ── trouble ─────────────────────────────────────────────────────────────────────────────


def _fill(disk: SmallDisk, folder: Path) -> Callable[[], None]:
    disk.fill()
    return disk.make_room


def _forbid(disk: SmallDisk, folder: Path) -> Callable[[], None]:
    remount = ["mount", "-o", "remount,ro", str(folder)]
    subprocess.run(remount, check=True)
    return lambda: _allow(folder)


def _allow(folder: Path) -> None:
    subprocess.run(["mount", "-o", "remount,rw", str(folder)], check=True)


@pytest.mark.parametrize("trouble", [_fill, _forbid], ids=["full", "read-only"])
async def test_a_result_is_kept_until_the_folder_takes_it(
    store: str, tmp_path: Path, trouble: Any, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "disk"
    disk = SmallDisk(folder, "2m")
    calls = []
    ends: list[Callable[[], None]] = []

    async def make() -> str:
        calls.append(1)
        ends.append(trouble(disk, folder))
        return LARGE

    try:
        async with opened(store, f"file://{folder}", {"make": make, "measure": measure}) as app:
            run = await app.start(TWO_TASKS)
            async with asyncio.timeout(30):
                while "cannot be stored" not in caplog.text:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            assert (await app.runs.get(run.id)).status == "RUNNING"
            ends[0]()
            result = await run.result(timeout=30)
            assert result.output == {"measure": len(LARGE)}
            assert calls == [1]
            left = [name for name in await names(f"file://{folder}") if "ballast" not in name]
            assert [name.split("/")[0] for name in left] == ["t-default"]
    finally:
        disk.remove()


async def test_two_processes_that_put_the_same_content_agree(store: str, url: str) -> None:
    data = LARGE.encode()
    async with opened(store, url, worker=False) as one, opened(store, url, worker=False) as other:
        run = await one.start(TWO_TASKS)
        refs = await asyncio.gather(
            *(app.store.put_blob(data, run=run.id) for app in (one, other) * 5)
        )

        assert len(set(refs)) == len(await names(url)) == 1
        assert await other.store.get_blob(refs[0], run=run.id) == data


async def test_a_server_that_fails_is_an_outage_and_not_an_error(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    with s3_server() as bucket:
        async with opened(store, bucket.url, worker=False) as app:
            run = await app.start(TWO_TASKS)
            bucket.failing = {"PUT": 403}
            with pytest.raises(
                StoreUnavailableError, match="cannot be written in s3://bucket/some"
            ):
                await app.store.put_blob(LARGE.encode(), run=run.id)
            assert await app.store.get_blob(REF, run=run.id) is None


# ── settings ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("/some/folder", "use file:///FOLDER or s3://"),
        ("ftp://host/x", "use file:///FOLDER or s3://"),
        ("file://folder", "write the whole path"),
        ("file:///", "write the whole path"),
        ("s3://", "write s3://BUCKET/PREFIX"),
        ("s3://key:secret@bucket/x", "credentials come from"),
        ("s3://bucket/x?endpont=http://h", "there is no option 'endpont'"),
    ],
)
def test_a_wrong_url_is_refused_with_a_hint(text: str, hint: str) -> None:
    with pytest.raises(ConfigError, match=hint) as raised:
        make_store("sqlite:///x.db", blobs=text)
    assert "secret" not in str(raised.value)


async def test_a_folder_that_cannot_be_made_is_refused_at_the_start(
    store: str, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(ConfigError, match="cannot be used"):
        async with opened(store, f"file://{tmp_path}/file/blobs"):
            pass


async def test_a_bucket_that_is_not_there_is_an_error_at_the_start(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    with s3_server() as bucket, pytest.raises(StoreUnavailableError, match="s3://absent"):
        async with opened(store, bucket.url.replace("//bucket/", "//absent/")):
            pass


async def test_the_setting_counts_when_a_program_names_no_blob_store(
    store: str, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINUET_BLOBS", url)
    async with opened(store, None) as app:
        assert isinstance(app.store, KeepsOutside)
        await app.run(TWO_TASKS)
    assert len(await names(url)) == 1


def test_a_store_in_memory_keeps_its_contents() -> None:
    assert not isinstance(make_store("memory://", blobs="file:///nowhere"), KeepsOutside)
