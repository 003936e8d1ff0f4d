"""Webhooks reach their receivers at least once and in order, whatever happens to these."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.services import open_service, reply, silence
from tests.waiting import until, until_waiting
from tests.webhooks.sent import Inbox, make_notifier, send

from minuet.app.app import App
from minuet.app.links import Links
from minuet.clock import ManualClock
from minuet.errors import StoreUnavailableError
from minuet.store.memory import MemoryStore
from minuet.store.records import CellChange
from minuet.webhooks import sending
from minuet.webhooks.notifier import LEASE_MS
from minuet.webhooks.outbox import GONE, OUT

HOUR = 3_600_000

ASK = {
    "name": "ask",
    "nodes": [
        {
            "id": "gate",
            "type": "human",
            "human_config": {
                "title": "Pay {{ input.n }}?",
                "approvers": ["ada", "eve"],
                "timeout_hours": 48,
            },
        }
    ],
}


class Scene:
    """A store with an App, and a server that gets webhooks."""

    def __init__(self, app: App, inbox: Inbox, other: Inbox, clock: ManualClock) -> None:
        self.app, self.inbox, self.other, self.clock = app, inbox, other, clock
        self.store = app.store

    async def ask(self, count: int = 1) -> list[str]:
        """Runs that wait for people."""
        before = len(await self.store.list_waiting("default", "approval"))
        runs = [str(await self.app.start(ASK, {"n": n})) for n in range(count)]
        await until_waiting(self.store, "approval", before + count)
        return runs

    def notifier(self, *urls: str, **options: Any) -> Any:
        return make_notifier(self.store, self.clock, *(urls or (self.inbox.url,)), **options)

    async def outbox(self, folder: str = OUT) -> int:
        return len(await self.store.list_cells(folder))


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    clock = ManualClock()
    async with (
        open_service() as first,
        open_service() as second,
        App(MemoryStore(clock), clock=clock) as app,
    ):
        yield Scene(app, Inbox(first, clock), Inbox(second, clock), clock)


@pytest.mark.shows("M-08")
async def test_an_approval_is_sent_with_all_that_a_service_for_approvals_needs(
    scene: Scene,
) -> None:
    (run,) = await scene.ask()

    await send(scene.notifier(public_url="https://minuet.example.com/"))

    ((id, kind, data),) = scene.inbox.got
    assert (id, kind) == (f"{run}.3.approval.created", "approval.created")
    assert data["ApprovalID"] == f"{run}:gate"
    assert (data["RunID"], data["Title"], data["Approver"]) == (run, "Pay 0?", "ada, eve")
    assert data["Deadline"] == "2023-11-16T22:13:20.000Z"
    url, _, link = data["CallbackURL"].partition("?link=")
    assert url == f"https://minuet.example.com/api/v1/approvals/{run}:gate/decide"
    assert (await Links(scene.app).find(link, f"{run}:gate")) is not None
    assert (data["workflow"], data["payload"], data["status"]) == ("ask", {"n": 0}, "pending")
    assert await scene.outbox() == 0


async def test_the_decision_and_the_end_of_the_run_follow_in_their_order(scene: Scene) -> None:
    (run,) = await scene.ask()
    notifier = scene.notifier()
    await send(notifier)
    await scene.app.approvals.reject(f"{run}:gate", by="ada", comments="no")
    assert (await scene.app.wait(run, timeout=60)).status == "FAILED"

    await send(notifier)

    assert scene.inbox.kinds == ["approval.created", "approval.decided", "run.failed"]
    decided, failed = scene.inbox.got[1][2], scene.inbox.got[2][2]
    assert (decided["decision"], decided["decisions"][0]["by"]) == ("reject", "ada")
    assert (failed["node_id"], failed["error"]["code"]) == ("gate", "rejected")


async def test_a_receiver_gets_the_events_that_it_wants(scene: Scene) -> None:
    (run,) = await scene.ask()
    await scene.app.cancel(run)

    await send(scene.notifier(f"{scene.inbox.url}#events=run.*", scene.other.url))

    assert scene.inbox.kinds == ["run.cancelled"]
    assert scene.other.kinds == ["approval.created", "run.cancelled"]


async def test_a_receiver_that_fails_is_asked_again_later_and_gets_all_in_order(
    scene: Scene,
) -> None:
    runs = await scene.ask(3)
    for run in runs:
        await scene.app.cancel(run)
    notifier = scene.notifier()
    # It is down: of several runs each is tried once, and then one alone, less and less often.
    scene.inbox.decide = lambda content: reply(status=503)
    await send(notifier)
    tried = scene.inbox.asked
    for _ in range(20):
        scene.clock.advance(60_000)
        await send(notifier)
    assert scene.inbox.asked - tried <= 8
    assert await scene.outbox() == 6

    scene.inbox.decide = lambda content: None
    scene.clock.advance(HOUR)
    await send(notifier)

    assert scene.inbox.counts == {id: 1 for id, _, _ in scene.inbox.got}
    assert len(scene.inbox.got) == 6
    for run in runs:
        own = [kind for id, kind, _ in scene.inbox.got if id.startswith(run)]
        assert own == ["approval.created", "run.cancelled"]
    assert await scene.outbox() == 0


async def test_a_webhook_that_is_refused_delays_its_own_run_only(scene: Scene) -> None:
    bad, good = await scene.ask(2)
    for run in (bad, good):
        await scene.app.cancel(run)
    scene.inbox.decide = lambda content: (
        reply(status=400) if content["data"]["run_id"] == bad else None
    )
    notifier = scene.notifier()

    await send(notifier)

    assert [id.partition(".")[0] for id, _, _ in scene.inbox.got] == [good, good]
    scene.inbox.decide = lambda content: None
    scene.clock.advance(HOUR)
    await send(notifier)
    assert [id.partition(".")[0] for id, _, _ in scene.inbox.got] == [good, good, bad, bad]


async def test_a_receiver_that_is_silent_or_dead_delays_nobody_else(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    (run,) = await scene.ask()
    scene.inbox.decide = lambda content: silence
    dead = "http://127.0.0.1:1/"
    notifier = scene.notifier(scene.inbox.url, dead, scene.other.url)

    await notifier.look()

    async def is_there() -> bool:
        return bool(scene.other.got and scene.inbox.asked)

    await until(scene.store, is_there)

    # The silent one has not answered, and what it is about goes on: it can be decided.
    assert scene.inbox.got == []
    await scene.app.approvals.approve(f"{run}:gate", by="ada")
    assert (await scene.app.wait(run, timeout=60)).status == "COMPLETED"

    async def is_told() -> bool:
        await notifier.look()
        return len(scene.other.got) == 2

    await until(scene.store, is_told)
    monkeypatch.setattr("minuet.webhooks.notifier.CLOSE_S", 0.01)
    await notifier.stop()

    # The next process sends what is left, in order.
    scene.inbox.decide = lambda content: None
    scene.clock.advance(HOUR)
    await send(scene.notifier(scene.inbox.url, dead, scene.other.url, seed=1))
    assert scene.inbox.kinds == ["approval.created", "approval.decided"]
    assert scene.other.kinds == ["approval.created", "approval.decided"]
    assert await scene.outbox() == 2


async def test_a_receiver_that_takes_too_long_counts_as_down(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "CALL_S", 0.05)
    await scene.ask()
    scene.inbox.decide = lambda content: silence
    notifier = scene.notifier()
    await send(notifier)
    assert scene.inbox.got == []

    scene.inbox.decide = lambda content: None
    await send(notifier)
    assert scene.inbox.got == []
    scene.clock.advance(HOUR)
    await send(notifier)
    assert scene.inbox.kinds == ["approval.created"]


async def test_of_several_processes_one_sends_until_it_is_silent(scene: Scene) -> None:
    first, second = scene.notifier(seed=1), scene.notifier(seed=2)
    await send(first)
    await scene.ask()
    await send(second)
    assert scene.inbox.asked == 0
    await send(first)
    assert scene.inbox.asked == 1

    # The first one dies; the next one waits until it can be sure.
    await scene.ask()
    scene.clock.advance(LEASE_MS - 1)
    await send(second)
    assert scene.inbox.asked == 1
    scene.clock.advance(LEASE_MS)
    await send(second)
    assert scene.inbox.asked == 2

    # One that closes lets another go on at once.
    await second.stop()
    await scene.ask()
    await send(scene.notifier(seed=3))
    assert scene.inbox.asked == 3


async def test_a_webhook_that_nobody_accepts_is_given_up_and_kept(scene: Scene) -> None:
    (run,) = await scene.ask()
    await scene.app.cancel(run)
    scene.inbox.decide = lambda content: reply(status=500)
    notifier = scene.notifier(give_up_ms=24 * HOUR)
    for _ in range(26):
        await send(notifier)
        scene.clock.advance(HOUR)
    await send(notifier)

    assert (await scene.outbox(), await scene.outbox(GONE)) == (0, 2)
    asked = scene.inbox.asked
    await send(notifier)
    assert scene.inbox.asked == asked


async def test_what_happened_before_there_were_receivers_is_not_sent_if_it_is_old(
    scene: Scene,
) -> None:
    await scene.ask()
    scene.clock.advance(4 * 24 * HOUR)
    notifier = scene.notifier()
    await send(notifier)
    assert scene.inbox.asked == 0
    assert await scene.store.list_notable() == []


@pytest.mark.parametrize("fails", ["write_cells", "mark_noted"])
async def test_a_process_that_dies_while_it_passes_on_loses_nothing(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    (run,) = await scene.ask()
    first = scene.notifier(seed=1)
    await send(first)
    await scene.app.cancel(run)

    async def fail(*arguments: Any) -> bool:
        raise StoreUnavailableError("it is gone")

    with monkeypatch.context() as broken:
        broken.setattr(scene.store, fails, fail)
        await send(first)
    scene.clock.advance(LEASE_MS)
    second = scene.notifier(seed=2)
    await send(second)
    scene.clock.advance(LEASE_MS)
    await send(second)

    assert scene.inbox.kinds == ["approval.created", "run.cancelled"]


async def test_a_process_that_dies_after_sending_sends_the_same_again(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    await scene.ask()
    first = scene.notifier(seed=1)
    await first.look()

    async def fail(*arguments: Any) -> bool:
        raise StoreUnavailableError("it is gone")

    with monkeypatch.context() as broken:
        broken.setattr(scene.store, "write_cells", fail)
        await first.settle()
    assert len(scene.inbox.got) == 1
    second = scene.notifier(seed=2)
    await send(second)
    scene.clock.advance(LEASE_MS)
    await send(second)

    # At least once: the id says that it is the same.
    assert list(scene.inbox.counts.values()) == [2]


async def test_a_run_that_does_not_move_is_reported_once_for_each_standstill(scene: Scene) -> None:
    here = {"requires_capabilities": {"gpu": 8}}
    stuck = {"id": "a", "type": "wait", "config": {"seconds": 1}, "placement_constraints": here}
    run = str(await scene.app.start({"name": "stuck", "nodes": [stuck]}))
    watch, other = (scene.app.runs._behind.stall_watch() for _ in range(2))
    notifier = scene.notifier()

    async def look() -> list[str]:
        scene.clock.advance(LEASE_MS * 10)
        await asyncio.gather(watch.look(), other.look(), watch.look())
        await send(notifier)
        return scene.inbox.kinds

    assert await look() == ["run.stalled"]
    assert await look() == ["run.stalled"]
    ((id, _, data),) = scene.inbox.got
    assert (id, data["run_id"], data["workflow"]) == (f"{run}.3.run.stalled", run, "stuck")
    assert (data["why"], data["since"]) == (
        "no worker takes 'a' in the queue 'inline'",
        "2023-11-14T22:13:20.000Z",
    )
    await scene.app.runs.pause(run)
    await scene.app.runs.resume(run)
    assert await look() == ["run.stalled", "run.stalled"]


async def test_a_receiver_inside_the_network_must_be_allowed(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINUET_WEBHOOK_SECRET", "of the tests")
    name = f"{scene.inbox.url}#name=inside"
    async with App(scene.store, worker=False, clock=scene.clock, webhooks=[name]) as app:
        refused = await app.webhooks.test("inside")
    allowed: dict[str, Any] = {"egress_allow": ["127.0.0.1"], "webhooks": [name]}
    async with App(scene.store, worker=False, clock=scene.clock, **allowed) as app:
        assert await app.webhooks.test("inside") is None

    assert refused is not None
    assert "MINUET_EGRESS_ALLOW" in refused
    assert scene.inbox.kinds == ["test"]


async def test_an_app_sends_what_its_runs_lead_to_and_says_who_is_behind(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINUET_WEBHOOK_SECRET", "of the tests")
    hooks = [f"{scene.inbox.url}#name=up http://127.0.0.1:1/#name=down"]
    options: dict[str, Any] = {"webhooks": hooks, "egress_private": True}
    async with App(scene.store, clock=scene.clock, **options) as app:
        await scene.ask()

        async def is_settled() -> bool:
            down, up = await app.webhooks.list()
            return bool(up.sent_ms and down.failures)

        await until(scene.store, is_settled)
        down, up = await app.webhooks.list()

    assert (up.name, up.waiting, up.failures, up.sent_ms) == ("up", 0, 0, scene.clock.now_ms())
    assert (down.name, down.waiting, down.failures) == ("down", 1, 1)
    assert "could not be called" in down.error
    assert down.due_ms is not None


async def test_a_damaged_cell_is_put_aside_and_the_rest_is_sent(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    await scene.ask()
    notifier = scene.notifier(f"{scene.inbox.url}#name=ops")
    await scene.store.write_cells([CellChange(f"{OUT}ops/0/0000000001.x", b"\xc1")])

    await send(notifier)

    assert scene.inbox.kinds == ["approval.created"]
    assert (await scene.outbox(), await scene.outbox(GONE)) == (0, 1)
    assert "damaged" in caplog.text


class Counting:
    """Counts the calls to a store."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.calls: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)

        def call(*arguments: Any, **named: Any) -> Any:
            self.calls[name] += 1
            return method(*arguments, **named)

        return call


async def test_a_webhook_costs_the_same_however_much_has_happened_before(scene: Scene) -> None:
    counted = []
    for seed in range(3):
        store: Any = Counting(scene.store)
        await scene.ask()
        notifier = make_notifier(store, scene.clock, scene.inbox.url, seed=seed)
        await send(notifier)
        await notifier.stop()
        counted.append(store.calls)
        for number in range(20):
            await scene.app.run({"name": "other", "nodes": [{"id": "a", "type": "noop"}]}, number)

    assert len(scene.inbox.got) == 3
    assert counted[0] == counted[1] == counted[2]
    # It neither takes part in the exchange of workers nor reads what has completed.
    assert not counted[0].keys() & {"exchange", "list_runs", "read_tokens", "read_snapshot"}
    assert counted[0]["read_events"] == 1
