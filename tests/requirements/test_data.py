"""Area G: outputs, references and blobs."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
import pytest

import minuet
from minuet.clock import ManualClock

from ..scenario.harness import task, workflow


@pytest.mark.shows("G-09")
async def test_equal_content_has_an_equal_reference(scene: Any) -> None:
    async with scene(worker=False) as s:
        contents = [b"", b"{}", b"{ }", b"\x00\xff", b"x" * 100_000]
        refs = [await s.store.put_blob(content) for content in contents]
        again = [await s.store.put_blob(content) for content in contents]

        assert refs == again
        assert refs == ["cas://sha256:" + hashlib.sha256(c).hexdigest() for c in contents]


@pytest.mark.shows("G-10")
async def test_what_a_reference_stands_for_never_changes(scene: Any) -> None:
    large = "x" * 100_000

    async def grow(text: str) -> str:
        return text + "!"

    document = workflow(
        task("a", handler="grow", config={"text": "{{ input }}"}),
        task("b", "a", handler="grow", config={"text": "{{ a.output }}"}),
    )
    async with scene({"grow": grow}) as s:
        ref = await s.store.put_blob(msgspec.json.encode(large))
        for _ in range(2):
            assert (await s.run(document, large)).output == {"b": large + "!!"}
        await s.store.put_blob(msgspec.json.encode(large + "?"))
        made = [await s.store.put_blob(msgspec.json.encode(large + end)) for end in ("!", "!!")]

        for known in (ref, *made):
            content = await s.store.get_blob(known)
            assert known == "cas://sha256:" + hashlib.sha256(content).hexdigest()
        assert await s.store.get_blob(ref) == msgspec.json.encode(large)


@pytest.mark.shows("G-14", "G-15")
async def test_a_nodes_output_is_kept_with_when_and_where(scene: Any, clock: ManualClock) -> None:
    async def work(ctx: minuet.Context, ms: int) -> dict[str, int]:
        clock.advance(ms)
        return {"took": ms}

    document = workflow(
        task("a", handler="work", config={"ms": 250}),
        task("b", "a", handler="work", config={"ms": 40}),
    )
    async with scene({"work": work}, clock=clock, concurrency=1) as s:
        result = await s.run(document)
        events = {event["seq"]: event for event in await s.events(result.run_id)}

        for name, ms in (("a", 250), ("b", 40)):
            state = result.nodes[name]
            assert state.output == {"took": ms}
            assert state.ended_ms is not None
            assert state.started_ms is not None
            assert state.ended_ms - state.started_ms == ms
            # The reference: the event of the run that holds the output.
            told = events[state.event]
            assert (told["node"], told["output"]) == (name, {"took": ms})
            assert told["at_ms"] == state.ended_ms


@pytest.mark.shows("G-14", "G-15")
def test_show_prints_outputs_with_their_times_and_events(folder: Any, minuet: Any) -> None:
    text = "name: one\nnodes:\n  - {id: a, type: transform, config: {value: 7}}\n"
    folder.write("one.yaml", text)
    run_id = minuet("run", "one.yaml", "--json").json["run_id"]

    shown = minuet("runs", "show", run_id, "--json").json["nodes"]["a"]
    events = minuet("runs", "events", run_id, "--json").json

    assert shown["output"] == 7
    assert events[shown["event"] - 1]["data"]["output"] == 7
    assert events[shown["event"] - 1]["at"] == shown["ended_at"] >= shown["started_at"]
