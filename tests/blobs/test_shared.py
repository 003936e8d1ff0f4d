"""Blobs that belong to no run: what `app.blobs` stores, and what gc keeps of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.scenario.harness import node, workflow

from minuet.app.app import App
from minuet.clock import ManualClock
from minuet.errors import BlobError, OutputError
from minuet.store import large

DAY_MS = 24 * 3_600_000


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large, "PART_BYTES", 1_000)


async def collect(app: App) -> int:
    count = 0
    async for deleted in app.retention.collect():
        count = deleted.configs
    return count


async def read(app: App, ref: str) -> bytes:
    return b"".join([piece async for piece in app.blobs.read(ref)])


@pytest.mark.shows("F-14")
async def test_what_a_stored_plan_names_is_kept_and_the_rest_is_not() -> None:
    clock = ManualClock()
    config = json.dumps({"value": ["x" * 500] * 9}).encode()
    async with App("memory://", clock=clock) as app:
        stored = {
            "config": await app.blobs.put(config),
            "schema": await app.blobs.put(b'{"type": "array"}'),
            "code": await app.blobs.put(b"def evaluate(output, ctx): return True"),
            "named by nothing": await app.blobs.put(
                b"".join(bytes([n]) * 1_000 for n in range(1, 6))
            ),
        }
        refs = {name: reference["cas_ref"] for name, reference in stored.items()}
        schema = {"type": "schema_validation", "schema_ref": refs["schema"]}
        document = workflow(
            node(
                "a",
                type="transform",
                config_ref=refs["config"],
                branch={"rules": [{"condition": schema, "next_nodes": ["b"]}]},
            ),
            node("b"),
        )
        result = await app.run(document)
        assert result.nodes["b"].status == "COMPLETED"
        clock.advance(DAY_MS)

        # The code, and the stub of the large one; its parts come next, and then nothing is left.
        assert [await collect(app) for _ in range(3)] == [2, 5, 0]
        assert await read(app, refs["config"]) == config
        assert await read(app, refs["schema"]) == b'{"type": "array"}'
        for name in ("code", "named by nothing"):
            with pytest.raises(BlobError, match="is not in the store"):
                await read(app, refs[name])

        await app.runs.delete([result.run_id])
        clock.advance(DAY_MS)
        async for _ in app.retention.collect():
            pass
        with pytest.raises(BlobError, match="is not in the store"):
            await read(app, refs["schema"])


async def test_a_run_that_starts_keeps_what_its_plan_names() -> None:
    clock = ManualClock()
    async with App("memory://", clock=clock, worker=False) as app:
        ref = (await app.blobs.put(b'{"type": "array"}'))["cas_ref"]
        clock.advance(DAY_MS)
        schema = {"type": "schema_validation", "schema_ref": ref}
        rules = {"rules": [{"condition": schema, "next_nodes": ["b"]}]}
        document = workflow(node("a", branch=rules), node("b"))
        (before,) = await app.store.list_blobs("default", idle_ms=0)
        await app.start(document)
        touched = await app.store.list_blobs("default", idle_ms=0)

        assert {b.touched_ms for b in touched if b.ref == ref} == {clock.now_ms()}
        assert before.touched_ms == clock.now_ms() - DAY_MS


async def test_putting_a_content_again_keeps_it_for_another_while() -> None:
    clock = ManualClock()
    async with App("memory://", clock=clock) as app:
        for _ in range(5):
            stored = await app.blobs.put(b"z" * 2_500)
            clock.advance(DAY_MS // 48)
            assert await collect(app) == 0
        assert await read(app, stored["cas_ref"]) == b"z" * 2_500


@pytest.mark.parametrize("data", [b"\0minuet outside {}", b"x" * 1_000 + b"\0minuet parts {}"])
async def test_a_content_that_would_pass_for_another_is_refused(data: Any) -> None:
    async with App("memory://") as app:
        with pytest.raises(OutputError, match="cannot begin with"):
            await app.blobs.put(data)
