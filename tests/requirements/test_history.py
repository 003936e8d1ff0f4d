"""Area O: the event log, what can be read from it, and that it stays as it is."""

from __future__ import annotations

import asyncio
import itertools
import uuid
from typing import Any

import msgspec
import pytest

import minuet
from minuet.clock import ManualClock
from minuet.store.postgres import PostgresStore
from minuet.store.postgres.log import PostgresLog
from minuet.store.records import EventRecord

from .. import servers
from ..scenario.harness import QUICK_RETRY, node, open_scene, task, workflow
from .hand import LEASE_MS, Hand

DIAMOND = workflow(node("a"), node("b", "a"), node("c", "a"), node("d", "b", "c"))


@pytest.mark.shows("O-01", "O-13")
async def test_every_event_leads_back_to_the_creation_of_its_run(scene: Any) -> None:
    tries = 0

    async def flaky() -> None:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise minuet.Retryable("again", after=0)

    document = workflow(*DIAMOND["nodes"], task("e", "d", handler="flaky", retry=QUICK_RETRY))
    async with scene({"flaky": flaky}) as s:
        result = await s.run(document)
        events = {event["seq"]: event for event in await s.events(result.run_id)}
        records = await s.store.read_events("default", result.run_id)
        causes = await s.app.runs.causes(result.run_id)

        # An event is named by its run (a time-ordered UUID) and its number in it.
        assert uuid.UUID(result.run_id).version == 7
        assert [(r.run, r.seq) for r in records] == [
            (result.run_id, number) for number in range(1, len(records) + 1)
        ]
        assert all({"type", "at_ms"} <= event.keys() for event in events.values())
        assert set(causes) == set(events)
        ways = {}
        for seq in events:
            way, at = [], seq
            while at is not None:
                way.append(events[at])
                assert causes[at] is None or causes[at] < at
                at = causes[at]
            assert way[-1]["type"] == "run.created"
            ways[seq] = [told.get("node", told["type"]) for told in way]
        # The join was made ready by the later one of its parents.
        later = [e["node"] for e in events.values() if e.get("node") in ("b", "c")][-1]
        assert ways[len(events)] == [
            *("run.completed", "e", "e", "d", later, "a", "run.started", "run.created"),
        ]


@pytest.mark.shows("O-13")
async def test_what_came_from_outside_has_no_cause_within_its_run(scene: Any) -> None:
    fixed = False

    async def work() -> None:
        if not fixed:
            raise ValueError("broken")

    async with scene({"work": work}) as s:
        run_id = (await s.run(workflow(node("a"), task("work", "a")))).run_id
        fixed = True
        retried = (await s.app.runs.retry(run_id)).seq
        await s.end(run_id)
        causes = await s.app.runs.causes(run_id)
        types = {event["seq"]: event["type"] for event in await s.events(run_id)}

        assert types[retried] == "run.retried"
        assert causes[retried] is None
        assert [types[at] for at, cause in causes.items() if cause == retried] == ["node.completed"]
        assert types[causes[retried - 1]] == "node.failed"


@pytest.mark.shows("O-04")
async def test_every_decision_leaves_an_event(scene: Any) -> None:
    tries = 0

    async def flaky() -> int:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise minuet.Retryable("again", after=0)
        return tries

    document = workflow(
        node("choose", branch={"rules": [{"when": "true", "next_nodes": ["x"]}], "default": ["y"]}),
        task("x", handler="flaky", retry=QUICK_RETRY),
        node("y"),
        node("loop", "x", "y", loop={"while": "iteration < 1", "max_iterations": 3}),
        node("wait", "loop", type="wait", config={"seconds": 0.001}),
        task("bad", "wait", handler="nobody", on_error="continue"),
        node("long", "bad", type="wait", config={"seconds": 60}),
    )

    async def nobody() -> None:
        raise ValueError("never")

    async with scene({"flaky": flaky, "nobody": nobody}) as s:
        run_id = await s.app.start(document)
        await s.until(run_id, lambda run: run.seq == 14)
        await s.app.runs.pause(run_id)
        await s.app.runs.resume(run_id)
        await s.app.cancel(run_id)
        events = await s.events(run_id)
        told = [(e["type"], e.get("node", "")) for e in events]

        assert [told[:3], sorted(told[3:7]), told[7:]] == [
            [("run.created", ""), ("run.started", ""), ("node.completed", "choose")],
            [
                ("node.completed", "x"),
                ("node.retried", "x"),
                ("node.retried", "x"),
                ("node.skipped", "y"),
            ],
            [
                ("node.completed", "loop"),
                ("node.completed", "loop"),
                ("node.waiting", "wait"),
                ("node.resumed", "wait"),
                ("node.completed", "wait"),
                ("node.completed", "bad"),
                ("node.waiting", "long"),
                ("run.paused", ""),
                ("run.resumed", ""),
                ("run.cancelled", ""),
            ],
        ]
        # Where each result went is part of the decision: x was chosen and y was not.
        chosen = {target: bool(live) for target, _, live, *_ in events[2]["to"]}
        assert chosen == {"x": True, "y": False}


@pytest.mark.shows("D-59", "O-05", "O-06", "O-15")
async def test_every_change_of_the_counter_can_be_audited(scene: Any) -> None:
    document = workflow(
        *DIAMOND["nodes"],
        node("e", "d", branch={"rules": [{"when": "true", "next_nodes": ["f"]}], "default": ["g"]}),
        node("f"),
        node("g"),
    )
    async with scene() as s:
        result = await s.run(document)
        events = await s.events(result.run_id)
        tokens = await s.store.read_tokens("default", result.run_id)
        arrived = {"d": 0}
        counter = 0
        for event in events[1:-1]:
            emitted = 0
            for target, _, _, _, total in event.get("to", []):
                arrived[target] = arrived.get(target, 0) + 1
                emitted += arrived[target] == max(total, 1)
            consumed = 0 if event["type"] == "run.started" else 1
            # Before and after: one consumed, so many emitted, and nothing else.
            assert event.get("counter", 0) == counter - consumed + emitted
            counter = event.get("counter", 0)
        settled = [e for e in events if e["type"] in ("node.completed", "node.skipped")]

        assert counter == 0
        # Each token was consumed once, on its hop and attempt, and its output is in its event.
        assert sorted((e["node"], e["scope"]) for e in settled) == sorted(
            (token.node, token.scope) for token in tokens
        )
        hops = {e["node"]: e.get("hop", 0) for e in settled}
        assert hops == dict(zip("abcdefg", (0, 1, 1, 2, 3, 4, 4), strict=True))
        assert {e.get("attempt", 1) for e in settled} == {1}
        held = {token.node: token.event for token in tokens}
        assert {e["node"]: e["seq"] for e in settled} == held
        way = {(e["node"], to) for e in settled for to, *_ in e.get("to", [])}
        assert {("a", "b"), ("a", "c"), ("b", "d"), ("c", "d"), ("e", "f"), ("e", "g")} <= way


@pytest.mark.shows("O-11", "I-10")
async def test_what_is_written_in_a_history_stays_as_it_is(scene: Any) -> None:
    fixed = False

    async def work() -> str:
        if not fixed:
            raise ValueError("broken")
        return "ok"

    async with scene({"work": work}) as s:
        run_id = (await s.run(workflow(node("a"), task("work", "a"), node("end", "work")))).run_id
        pages = [await s.store.read_events("default", run_id)]
        stood = [await s.app.runs.replay(run_id)]
        fixed = True
        await s.app.runs.retry(run_id)
        pages.append(await s.store.read_events("default", run_id))
        await s.end(run_id)
        for verb in (s.app.cancel, s.app.runs.pause, s.app.runs.retry):
            with pytest.raises(minuet.MinuetError):
                await verb(run_id)
        pages.append(await s.store.read_events("default", run_id))

        for earlier, later in itertools.pairwise(pages):
            assert len(earlier) < len(later)
            assert later[: len(earlier)] == earlier
        # Processing the old results again gives the old state again.
        assert await s.app.runs.replay(run_id, at=stood[0].seq) == stood[0]
        assert (stood[0].status, (await s.app.runs.replay(run_id)).status) == (
            *("FAILED", "COMPLETED"),
        )


@pytest.mark.shows("O-16")
async def test_a_task_that_changes_hands_is_told_step_by_step(
    scene: Any, clock: ManualClock
) -> None:
    async with scene(worker=False, clock=clock) as s:
        begun = clock.now_ms()
        run_id = await s.app.start(workflow(node("a"), node("b", "a")))
        await Hand(s, "w1").take()
        clock.advance(LEASE_MS)
        await s.store.sweep()
        hand = Hand(s, "w2")
        grant = (await hand.take())["a"]
        clock.advance(10)
        await hand.finish(grant)
        await s.app.cancel(run_id)
        told = [
            (e.node, e.type, e.session, e.at_ms - begun)
            for e in await s.app.runs.task_events(run_id)
        ]

        assert told == [
            ("a", "created", "", 0),
            ("a", "pending", "", 0),
            ("a", "reassigned", "w1", LEASE_MS),
            ("a", "assigned", "w2", LEASE_MS),
            ("a", "started", "w2", LEASE_MS),
            ("a", "completed", "w2", LEASE_MS + 10),
            ("b", "created", "", LEASE_MS + 10),
            ("b", "pending", "", LEASE_MS + 10),
            ("b", "cancelled", "", LEASE_MS + 10),
        ]


@pytest.mark.shows("O-16")
async def test_failures_skips_and_joins_are_told_task_by_task(scene: Any) -> None:
    async def flaky(ctx: minuet.Context) -> None:
        raise minuet.Retryable("again", after=0)

    document = workflow(
        node(
            "choose", branch={"default": ["x"], "rules": [{"when": "false", "next_nodes": ["y"]}]}
        ),
        node("x"),
        node("y"),
        node("join", "x", "y"),
        task("flaky", "join", retry={**QUICK_RETRY, "max_attempts": 2}),
    )
    async with scene({"flaky": flaky}) as s:
        result = await s.run(document)
        told: dict[str, list[str]] = {}
        for event in await s.app.runs.task_events(result.run_id):
            told.setdefault(event.node, []).append(event.type)
        last = (await s.app.runs.task_events(result.run_id))[-1]

        done = ["created", "pending", "assigned", "started", "completed"]
        assert told == {
            "choose": done,
            "x": done,
            "y": ["created", "cancelled"],
            "join": done,
            "flaky": [
                *("created", "pending", "assigned", "started", "failed"),
                *("pending", "assigned", "started", "failed"),
            ],
        }
        assert (last.node, last.details["message"]) == ("flaky", "again")


@pytest.mark.shows("O-16")
async def test_a_task_that_a_join_did_not_wait_for_is_told_as_cancelled(scene: Any) -> None:
    async def slow() -> None:
        await asyncio.Event().wait()

    async def fast() -> None: ...

    document = workflow(
        task("slow"), task("fast"), node("first", "slow", "fast", join="any", join_rest="cancel")
    )
    async with scene({"slow": slow, "fast": fast}, drain_seconds=0) as s:
        result = await s.run(document)
        told = await s.app.runs.task_events(result.run_id)
        (cancelled,) = [event for event in told if event.type == "cancelled"]
        done = {e["node"]: e["seq"] for e in await s.events(result.run_id, "node.completed")}

        assert (cancelled.node, cancelled.seq) == ("slow", done["fast"])
        assert [e.type for e in told if e.node == "first"][-1] == "completed"


@pytest.mark.shows("O-19")
async def test_a_run_says_when_something_last_happened(scene: Any, clock: ManualClock) -> None:
    async with scene(worker=False, clock=clock) as s:
        run_id = await s.app.start(workflow(node("a"), node("b", "a")))
        hand = Hand(s, "w")
        seen = [(await s.app.runs.show(run_id)).last_event_ms]
        for name in "ab":
            clock.advance(500)
            await hand.finish((await hand.take())[name])
            seen.append((await s.app.runs.show(run_id)).last_event_ms)
        clock.advance(500)

        assert [ms - seen[0] for ms in seen] == [0, 500, 1000]
        assert (await s.app.runs.show(run_id)).last_event_ms == seen[-1]


@pytest.mark.shows("O-19")
def test_show_prints_when_something_last_happened(folder: Any, minuet: Any) -> None:
    folder.write("one.yaml", "name: one\nnodes:\n  - {id: a, type: noop}\n")
    run_id = minuet("run", "one.yaml", "--json").json["run_id"]

    shown = minuet("runs", "show", run_id, "--json").json
    last = minuet("runs", "events", run_id, "--json").json[-1]

    assert shown["last_event_at"] == last["at"] == shown["ended_at"]


@pytest.mark.shows("O-17")
@pytest.mark.parametrize("kind", ["postgres", "logged"])
async def test_the_history_of_a_run_is_kept_in_postgresql(kind: str) -> None:
    async def work() -> None:
        raise ValueError("refused")

    database = servers.postgres_url()
    recorded = kind == "logged"
    url = f"{servers.redis_url()}&record={database}" if recorded else database
    async with open_scene(url, {"work": work}) as s:
        result = await s.run(workflow(node("a"), task("work", "a")))
        told = [(e["seq"], e["at_ms"], e["type"]) for e in await s.events(result.run_id)]

    # Nobody but PostgreSQL is asked.
    kept = PostgresLog(database) if recorded else PostgresStore(database)
    await kept.open()
    events = await kept.read_events("default", result.run_id)
    await kept.close()

    assert [(e.seq, e.at_ms, decode(e)["type"]) for e in events] == told
    assert [name for _, _, name in told] == [
        *("run.created", "run.started", "node.completed", "node.failed", "run.failed"),
    ]
    assert decode(events[-2])["error"]["message"] == "refused"


def decode(event: EventRecord) -> Any:
    return msgspec.json.decode(event.data)
