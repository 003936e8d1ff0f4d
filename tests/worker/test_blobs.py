"""Contents that handlers store and read piece by piece: `ctx.blob` and `ctx.open`."""

from __future__ import annotations

import asyncio
import hashlib
import io
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import minuet
from minuet.store import large
from minuet.store.changes import Cancel

from ..scenario.harness import PATIENCE, task, workflow

PART_BYTES = 100_000
CONTENT = bytes(range(256)) * 1_000
REF = "cas://sha256:" + hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large, "PART_BYTES", PART_BYTES)


async def stream() -> AsyncIterator[bytes]:
    for first in range(0, len(CONTENT), 70_000):
        yield CONTENT[first : first + 70_000]


class Reader:
    """A stream whose `read` is awaited, as those of HTTP libraries."""

    def __init__(self) -> None:
        self._file = io.BytesIO(CONTENT)

    async def read(self, size: int) -> bytes:
        return self._file.read(size)


@pytest.mark.shows("G-09", "G-13")
@pytest.mark.parametrize("kind", ["bytes", "path", "file", "iterator", "reader"])
async def test_what_one_handler_stores_the_next_one_reads(
    scene: Any, kind: str, tmp_path: Path
) -> None:
    path = tmp_path / "content"
    path.write_bytes(CONTENT)
    sources: dict[str, Any] = {
        "bytes": lambda: CONTENT,
        "path": lambda: path,
        "file": lambda: io.BytesIO(CONTENT),
        "iterator": stream,
        "reader": Reader,
    }

    async def make(ctx: minuet.Context) -> Any:
        return {"file": await ctx.blob(sources[kind]())}

    async def read(ctx: minuet.Context) -> list[Any]:
        digest, largest = hashlib.sha256(), 0
        async for piece in ctx.open(ctx.inputs["make"]["file"]):
            digest.update(piece)
            largest = max(largest, len(piece))
        return [digest.hexdigest(), largest]

    async with scene({"make": make, "read": read}) as s:
        result = await s.run(workflow(task("make"), task("read", "make")))

        assert result.nodes["make"].output == {"file": {"cas_ref": REF, "bytes": len(CONTENT)}}
        assert result.output == {"read": [REF.rpartition(":")[2], PART_BYTES]}


async def test_a_sync_handler_gets_a_file(scene: Any, tmp_path: Path) -> None:
    path = tmp_path / "content"
    path.write_bytes(CONTENT)

    def make(ctx: minuet.Context) -> Any:
        return ctx.blob(str(path))

    def read(ctx: minuet.Context) -> list[Any]:
        with ctx.open(ctx.inputs["make"]["cas_ref"]) as file:
            return [file.read(3).hex(), len(file.read()), file.read()[:1].hex()]

    async with scene({"make": make, "read": read}) as s:
        result = await s.run(workflow(task("make"), task("read", "make")))

        assert result.output == {"read": ["000102", len(CONTENT) - 3, ""]}


async def test_an_async_handler_may_read_some_bytes_at_a_time(scene: Any) -> None:
    async def make(ctx: minuet.Context) -> Any:
        file = ctx.open(await ctx.blob(CONTENT))
        some = [await file.read(size) for size in (0, 1, PART_BYTES, 5)]
        rest = await file.read()
        assert b"".join(some) + rest == CONTENT
        return [len(part) for part in some] + [len(await file.read())]

    async with scene({"make": make}) as s:
        assert (await s.run(workflow(task("make")))).output == {"make": [0, 1, PART_BYTES, 5, 0]}


def inner(*nodes: dict[str, Any], levels: int = 1) -> dict[str, Any]:
    """A node that runs these in a child run, so many levels down; it passes its input on."""
    last = nodes[-1]["id"]
    document = workflow(*nodes, output=f"{{{{ {last}.output }}}}")
    for _ in range(levels):
        config = {"workflow": document, "input": "{{ input }}"}
        called = {"id": "call", "type": "workflow", "config": config}
        document = workflow(called, output="{{ call.output }}")
    return called


@pytest.mark.parametrize("levels", [1, 2])
async def test_child_runs_open_a_content_of_the_run_above_without_a_copy(
    scene: Any, levels: int
) -> None:
    async def make(ctx: minuet.Context) -> Any:
        return await ctx.blob(CONTENT)

    async def measure(ctx: minuet.Context) -> int:
        assert await ctx.open(ctx.input["file"]).read() == CONTENT
        return len(CONTENT)

    call = inner(task("measure"), levels=levels)
    call["config"]["input"] = {"file": "{{ make.output }}"}
    call["foreach"] = {"items": [1, 2, 3]}
    call["dependencies"] = ["make"]
    async with scene({"make": make, "measure": measure}) as s:
        result = await s.run(workflow(task("make"), call))

        assert result.output == {"call": [len(CONTENT)] * 3}, result.error
        owners = {run for run in s.store.runs if await s.store.get_blob(REF, run=run) is not None}
        assert owners == {result.run_id}
        # So can those who work on a child run from outside: workers over HTTP, and people.
        for run in s.store.runs:
            pieces = [piece async for piece in s.app.blobs.read(REF, run_id=run)]
            assert b"".join(pieces) == CONTENT


@pytest.mark.parametrize("levels", [1, 2])
async def test_a_content_that_a_child_run_returns_belongs_to_its_parent_too(
    scene: Any, levels: int
) -> None:
    async def make(ctx: minuet.Context) -> Any:
        return {"files": [await ctx.blob(CONTENT)]}

    async def measure(ctx: minuet.Context) -> int:
        (file,) = ctx.inputs["call"]["files"]
        return len(await ctx.open(file).read())

    call = inner(task("make"), levels=levels)
    async with scene({"make": make, "measure": measure}) as s:
        result = await s.run(workflow(call, task("measure", "call")))

        assert result.output == {"measure": len(CONTENT)}, result.error


async def test_a_content_that_no_run_above_has_is_missing(scene: Any) -> None:
    async def measure(ctx: minuet.Context) -> int:
        return len(await ctx.open(REF).read())

    async with scene({"measure": measure}) as s:
        result = await s.run(workflow(inner(task("measure"))))

        below = result.error["child"]
        assert below["code"] == "blob-unreadable"
        assert f"the blob {REF} is not in the store" in below["message"]


async def test_a_content_belongs_to_its_run_and_ends_with_it(scene: Any) -> None:
    async def make(ctx: minuet.Context) -> Any:
        return await ctx.blob(CONTENT)

    async def steal(ctx: minuet.Context) -> Any:
        return (await ctx.open(ctx.input).read()).hex()

    async with scene({"make": make, "steal": steal}) as s:
        made = await s.run(workflow(task("make")))
        stolen = await s.run(workflow(task("steal")), made.output["make"])

        assert stolen.error["code"] == "blob-unreadable"
        assert f"the blob {REF} is not in the store" in stolen.error["message"]
        assert await s.store.get_blob(REF, run=made.run_id) is not None
        await s.app.runs.delete([made.run_id])
        assert await s.store.get_blob(REF, run=made.run_id) is None
        del s.store.runs[made.run_id]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (7, "expects bytes, the path of a file, an open file or an async iterator"),
        (io.StringIO("text"), "open the file with mode 'rb'"),
        (b"\0minuet parts {}", "cannot begin with"),
    ],
    ids=["number", "text", "stub"],
)
async def test_what_is_no_content_is_refused(scene: Any, source: Any, message: str) -> None:
    async def make(ctx: minuet.Context) -> Any:
        return await ctx.blob(source)

    async with scene({"make": make}) as s:
        result = await s.run(workflow(task("make", retry=1)))

        assert message in result.error["message"]


@pytest.mark.parametrize("reference", [None, {"ref": REF}, "not a reference", 7])
async def test_what_is_no_reference_is_refused(scene: Any, reference: Any) -> None:
    async def read(ctx: minuet.Context) -> Any:
        return await ctx.open(ctx.input).read()

    async with scene({"read": read}) as s:
        result = await s.run(workflow(task("read", retry=1)), reference)

        assert "is not a reference to a blob" in result.error["message"]


async def test_a_handler_that_is_cancelled_stops_storing(scene: Any) -> None:
    stopped: list[str] = []

    async def endless(ctx: minuet.Context) -> AsyncIterator[bytes]:
        yield b"x" * PART_BYTES
        await s.store.change_run("default", ctx.run_id, Cancel())
        while True:
            await asyncio.sleep(0)  # The lease is renewed now and then, and is lost.
            yield b"x"

    def make(ctx: minuet.Context) -> Any:
        try:
            return ctx.blob(endless(ctx))
        except BaseException as error:
            stopped.append(type(error).__name__)
            raise

    async with scene({"make": make}, lease_seconds=1.0) as s:
        result = await s.run(workflow(task("make")))
        # The worker does not wait for a thread whose result is not wanted.
        async with asyncio.timeout(PATIENCE):
            while not stopped:  # noqa: ASYNC110
                await asyncio.sleep(0.001)

        assert result.status == "CANCELLED"
        assert stopped == ["LeaseLost"]
