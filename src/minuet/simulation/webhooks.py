"""Webhooks in a world: notifiers that die, receivers that fail, and what must hold of both.

Every receiver gets every notice at least once, the notices of a run in their order, and none that
is not in the store for good.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from minuet import events as happened
from minuet.approvals import APPROVAL_WAIT
from minuet.bridge.reporting import MOVED
from minuet.clock import Clock
from minuet.errors import ServiceUnavailableError
from minuet.events import Place
from minuet.ids import SeededIds
from minuet.kernel.fold import NumberedEvent
from minuet.simulation.checker import BrokenRule
from minuet.simulation.coverage import Coverage
from minuet.simulation.loop import Process, SimLoop
from minuet.store.base import Store
from minuet.store.records import EventRecord
from minuet.webhooks.notifier import Notifier
from minuet.webhooks.receivers import read_receivers
from minuet.webhooks.sending import Sender

#: One that always accepts while there are no faults, and one that wants a part.
RECEIVERS = ("http://first/#name=first", "http://second/#name=second&events=run.*,approval.*")

#: How many processes send, and how long the lease of the one that does lasts.
NOTIFIERS = 2
LEASE_MS = 1_500

#: Mean seconds between two deaths of a process that sends.
GAP_S = 2.0

Fail = Callable[[BrokenRule], None]


class Hooks:
    """The notifiers and the receivers of a world."""

    def __init__(
        self,
        loop: SimLoop,
        connect: Callable[[str], Store],
        clock: Clock,
        chance: random.Random,
        coverage: Coverage,
        fail: Fail,
        durable: Callable[[str], list[EventRecord]],
        can_lose: Callable[[], bool],
    ) -> None:
        self._loop, self._connect, self._clock = loop, connect, clock
        self._chance, self._coverage, self._fail = chance, coverage, fail
        #: The events of a run that cannot be lost any more.
        self._durable = durable
        #: Whether the store has lost what it had acknowledged.
        self._can_lose = can_lose
        self._receivers = read_receivers(RECEIVERS)
        self._supervisor = loop.process("hooks")
        self._processes: list[Process] = []
        self._started = 0
        self.faulty = True
        #: By receiver: what it has accepted, by run in the order of their first acceptance.
        self.accepted: dict[str, dict[str, list[tuple[int, str]]]] = {
            one.url: {} for one in self._receivers
        }

    def begin(self) -> None:
        """Start the notifiers, and kill them now and then."""
        for _ in range(NOTIFIERS):
            self._start()
        self._supervisor.spawn(self._kill())

    def heal(self) -> None:
        """Receivers accept everything from now on, and nobody dies."""
        self.faulty = False

    def _start(self) -> None:
        self._started += 1
        process = self._loop.process(f"hook{self._started}")
        self._processes.append(process)
        process.spawn(self._notify(process.name))

    async def _notify(self, name: str) -> None:
        notifier = Notifier(
            self._connect(name),
            self._receivers,
            Sender(self._post, lambda secret: "secret", self._clock),
            clock=self._clock,
            ids=SeededIds(self._started),
            lease_ms=LEASE_MS,
        )
        await notifier.run()

    async def _kill(self) -> None:
        while self.faulty:
            await asyncio.sleep(self._chance.expovariate(1 / GAP_S))
            victim = self._chance.choice([one for one in self._processes if one.alive])
            victim.kill()
            self._coverage.hit("notifier killed")
            await asyncio.sleep(self._chance.choice((0.0, 0.5)))
            self._start()

    # ── receivers ───────────────────────────────────────────────────────────────────────

    async def _post(self, url: str, headers: Mapping[str, str], body: bytes) -> int:
        await asyncio.sleep(self._chance.expovariate(20))
        if self.faulty:
            match self._chance.choice(("accept", "accept", "refuse", "fail", "lose", "die")):
                case "refuse":
                    return 400
                case "fail":
                    return 503
                case "lose":
                    self._accept(url, headers, body)
                    raise ServiceUnavailableError("the answer is lost")
                case "die":
                    await asyncio.sleep(30)
        self._accept(url, headers, body)
        return 200

    def _accept(self, url: str, headers: Mapping[str, str], body: bytes) -> None:
        self._coverage.hit("webhook accepted")
        content: dict[str, Any] = msgspec.json.decode(body)
        run, kind = content["data"]["run_id"], content["type"]
        seq = int(headers["webhook-id"].removeprefix(f"{run}.").partition(".")[0])
        known = self.accepted[url].setdefault(run, [])
        if (seq, kind) in known:
            self._coverage.hit("webhook repeated")
            return
        if self._can_lose():
            return
        if known and known[-1][0] > seq:
            message = f"{url} got event {seq} ({kind}) after event {known[-1][0]}"
            self._fail(BrokenRule("webhook-order", message, run))
        stored = self._durable(run)
        # A run that was deleted meanwhile has no events any more.
        if stored and seq > len(stored):
            message = f"{url} got event {seq} ({kind}), and the store has {len(stored)} for good"
            self._fail(BrokenRule("webhook-commit", message, run))
        known.append((seq, kind))

    # ── the verdict ─────────────────────────────────────────────────────────────────────

    def find_lost(self, run: str, history: list[NumberedEvent]) -> Iterator[str]:
        """What a receiver should have got of a run, and has not."""
        for seq, kind in _expected(history):
            for receiver in self._receivers:
                got = self.accepted[receiver.url].get(run, [])
                if kind in receiver.kinds and (seq, kind) not in got:
                    yield f"{receiver.name} never got event {seq} ({kind})"


def _expected(history: list[NumberedEvent]) -> Iterator[tuple[int, str]]:
    """What is sent to receivers, by the events alone."""
    asked: dict[Place, dict[str, Any]] = {}
    for seq, _, event in history:
        match event:
            case happened.NodeWaiting() if event.kind == APPROVAL_WAIT:
                data = msgspec.json.decode(event.data)
                news = data.get("news", "counted" if data["decisions"] else "created")
                if news != "counted":
                    yield seq, f"approval.{news}"
                asked[event.node, event.scope] = data
            case happened.NodeResumed() if (event.node, event.scope) in asked:
                ended = asked.pop((event.node, event.scope))
                if not event.timed_out or ended.get("at_due", "decide") == "decide":
                    yield seq, "approval.decided"
            case happened.NodeFailed() if event.dead_letter is not None:
                yield seq, "dead_letter.created"
            case happened.RunFailed():
                yield seq, "run.failed"
            case happened.RunStalled():
                yield seq, "run.stalled"
            case happened.RunCancelled() if not event.reason.startswith(MOVED):
                yield seq, "run.cancelled"
