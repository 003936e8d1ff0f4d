"""Runs with contents outside move to other stores, and their contents with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.scenario.harness import module_of, task, workflow

import minuet
from minuet.app.app import App
from minuet.app.move.mover import Mover
from minuet.app.stores import opened
from minuet.blobs.folder import FolderBlobs
from minuet.clock import SystemClock
from minuet.store import large

LARGE = "x" * 200_000
CONTENT = b"".join(bytes([number]) * 70_000 for number in range(1, 8))


async def make(ctx: minuet.Context) -> Any:
    return {"text": LARGE, "file": await ctx.blob(CONTENT)}


async def read(ctx: minuet.Context) -> list[int]:
    made = ctx.inputs["make"]
    return [len(made["text"]), len(await ctx.open(made["file"]).read())]


DOCUMENT = workflow(
    task("make"),
    {"id": "wait", "type": "wait", "dependencies": ["make"], "config": {"seconds": 3600}},
    task("read", "make", "wait"),
)


@pytest.mark.parametrize("is_open", [True, False], ids=["open", "over"])
@pytest.mark.parametrize("come_from", ["inside", "outside"])
@pytest.mark.parametrize("to", ["inside", "outside"])
async def test_contents_move_with_their_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, come_from: str, to: str, is_open: bool
) -> None:
    monkeypatch.setattr(large, "PART_BYTES", 100_000)
    stores = [f"sqlite:///{tmp_path}/{name}.db" for name in ("one", "other")]
    places = [
        f"file://{tmp_path}/{name}" if kind == "outside" else None
        for name, kind in (("here", come_from), ("there", to))
    ]
    module = module_of({"make": make, "read": read})
    async with App(stores[0], blobs=places[0], handlers=[module]) as app:
        run = await app.start(DOCUMENT)
        while (await app.runs.show(run.id)).nodes["wait"].status != "WAITING":
            await app.store.wait_for_change(run.id, (await app.runs.get(run.id)).seq, 20)
        if not is_open:
            await app.cancel(run.id)
    async with (
        opened(stores[0], blobs=places[0]) as source,
        opened(stores[1], blobs=places[1]) as target,
    ):
        mover = Mover(source, target, SystemClock(), come_from="one", to="other")
        outcomes = [outcome.kind async for outcome in mover.move()]

    assert outcomes == ["moved"]
    async with App(stores[1], blobs=places[1], worker=False) as app:
        made = (await app.runs.show(run.id)).nodes["make"].output
        pieces = [piece async for piece in app.blobs.read(made["file"], run_id=run.id)]
        assert (made["text"], b"".join(pieces)) == (LARGE, CONTENT)
        assert await app.doctor.examine_run(run.id) == []
    there = [name async for name, _ in FolderBlobs(tmp_path / "there").list("t-default/")]
    assert bool(there) == (to == "outside")
