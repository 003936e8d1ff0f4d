"""The store's machine and the network around it.

The machine applies calls to the model one at a time, lets the checker run after each, and goes
down, comes back or is rolled back when the nemesis decides. A call is a message: it may be
delayed, lost or duplicated, and so may its reply. `SimStore` is the other end of the connection.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from minuet.errors import MinuetError, StoreUnavailableError
from minuet.simulation.checker import Checker
from minuet.simulation.coverage import Coverage
from minuet.simulation.faults import Faults
from minuet.simulation.loop import Process, SimLoop, current_process
from minuet.simulation.model import ModelStore
from minuet.store.exchange import Exchange, Reply
from minuet.store.records import Run

#: Mean seconds that a message takes.
LATENCY = 0.002

#: Seconds that a lossy restart takes.
RESTART = 0.5


class Call(msgspec.Struct, eq=False):
    """One call in flight."""

    verb: str
    operation: Callable[[], Coroutine[Any, Any, Any]]
    process: Process
    reply: asyncio.Future[Any]
    request: Any = None
    #: How often the store had forgotten its sessions when this was sent.
    era: int = 0


class Server:
    """The store's machine and the network around it."""

    def __init__(
        self,
        loop: SimLoop,
        model: ModelStore,
        checker: Checker,
        coverage: Coverage,
        faults: Faults,
        chance: random.Random,
        trace: Callable[[str], None],
    ) -> None:
        self.loop = loop
        self.model = model
        self.faults = faults
        self.calls = 0
        self.checker = checker
        self._coverage = coverage
        self._chance = chance
        self._trace = trace
        self._process = loop.process("store")
        self._era = 0
        #: "up", "refusing" (it replies with an error) or "down" (it does not reply).
        self.state = "up"
        #: What happens after the next results have been handed in, before a caller gets the reply.
        self.before_answer: Callable[[], None] | None = None
        #: Calls whose process dies just before or just after they are applied.
        self.kill_before: int | None = None
        self.kill_after: int | None = None
        self._standby: dict[str, Any] | None = None
        self._standby_grants: Any = None
        self._failover_in = 0
        #: Calls in flight, and the last exchange of each process: session, number
        #: and when it was first sent.
        self._pending: list[Call] = []
        self._rounds: dict[Process, tuple[str, int, float]] = {}
        #: The processes that wait for a hint, and what for.
        self._waiters: dict[asyncio.Future[bool], tuple[Process, Callable[[], bool]]] = {}

    # ── the network ─────────────────────────────────────────────────────────────────────

    def send(self, call: Call) -> None:
        """Send a call. It continues even if its sender dies."""
        call.era = self._era
        if isinstance(call.request, Exchange):
            self._note_round(call)
        self._pending = [known for known in self._pending if not known.reply.done()] + [call]
        if self._strikes("drop_request", 0.12):
            return
        self._deliver_later(call)
        if self._strikes("duplicate", 0.12):
            self._deliver_later(call)

    def _note_round(self, call: Call) -> None:
        """A process that sends its next exchange has processed the reply to the last one."""
        request: Exchange = call.request
        last = self._rounds.get(call.process)
        if last is not None and (last[0], last[1]) == (request.session, request.seq):
            return
        if last is not None:
            self.checker.leases.note_heard(call.process, last[2])
        self._rounds[call.process] = (request.session, request.seq, self.loop.time())

    def disconnect(self, process: Process) -> bool:
        """A process loses its connection: none of its calls gets a reply."""
        cut = [call for call in self._pending if call.process is process and not call.reply.done()]
        for call in cut:
            lost = StoreUnavailableError("the connection is lost")
            self.loop.call_soon(finish, call.reply, None, lost, context=process.context)
        return bool(cut)

    def _deliver_later(self, call: Call) -> None:
        self.loop.call_later(self._latency(), self._deliver, call, context=self._process.context)

    def _latency(self) -> float:
        strength = self.faults.of("latency")
        if strength and self._chance.random() < 0.2 * strength:
            self._coverage.hit("fault latency")
            return self._chance.choice((0.05, 0.3, 1.0, 3.0)) * (0.5 + self._chance.random())
        return self._chance.expovariate(1 / LATENCY)

    def _strikes(self, fault: str, rate: float) -> bool:
        strength = self.faults.of(fault)
        if strength and self._chance.random() < rate * strength:
            self._coverage.hit(f"fault {fault}")
            return True
        return False

    def _answer(self, call: Call, result: Any, error: Exception | None = None) -> None:
        if self._strikes("drop_reply", 0.12):
            return
        if not call.process.alive:
            self._coverage.hit("race killed before the reply")
            return
        self.loop.call_later(
            self._latency(), finish, call.reply, result, error, context=call.process.context
        )

    # ── the machine ─────────────────────────────────────────────────────────────────────

    def _deliver(self, call: Call) -> None:
        if self.state != "up":
            self._trace(f"{call.process.name} {call.verb}: the store is {self.state}")
            if self.state == "refusing":
                self._answer(call, None, StoreUnavailableError("refused"))
            return
        if call.era != self._era and isinstance(call.request, Exchange):
            return
        if call.reply.done():
            self._coverage.hit("race request arrived after its caller gave up")
        self.calls += 1
        if self.calls == self.kill_before:
            self._trace(f"kill {call.process.name} before {call.verb}")
            call.process.kill()
            return
        if self._strikes("conflict", 0.15):
            self._trace(f"{call.process.name} {call.verb}: rolled back because of a conflict")
            self._answer(call, None, StoreUnavailableError("a conflict with other calls"))
            return
        if call.verb == "sweep":
            self.checker.leases.note_sweep(call.process, self.loop.time())
        if call.verb == "put_blob" and self._strikes("lossy", 0.2):
            # Only the blob is lost. What refers to it comes later.
            self.fall_behind(1)
        result, error = apply(call.operation())
        self._note(call, result, error)
        changed = self.checker.after_call(call.process, call.request, result)
        handed_in = isinstance(call.request, Exchange) and call.request.hand_in
        if self.before_answer is not None and handed_in:
            strike, self.before_answer = self.before_answer, None
            self._coverage.hit("race store died before the answer")
            strike()
            return
        self._wake()
        if self.calls == self.kill_after:
            self._trace(f"kill {call.process.name} after {call.verb}")
            call.process.kill()
        if error is None and self._strikes("ambiguous", 0.1):
            error = StoreUnavailableError("nobody knows whether it was done")
        self._answer(call, result, error)
        if changed or call.verb == "put_blob":
            self._maybe_fail_over()

    def _note(self, call: Call, result: Any, error: Exception | None) -> None:
        if error is not None:
            self._coverage.hit(f"error {error.code}" if isinstance(error, MinuetError) else "error")
            self._trace(f"{call.process.name} {call.verb}: {type(error).__name__} {error}")
        else:
            self._trace(f"{call.process.name} {call.verb}: {_brief(call.request, result)}")

    # ── going down, coming back ─────────────────────────────────────────────────────────

    def go(self, state: str) -> None:
        """Switch to "up", "refusing" or "down"."""
        self._trace(f"store: {state}")
        self.state = state
        if state != "up":
            self._waiters.clear()

    def forget_sessions(self) -> None:
        """Lose all sessions.

        A store forgets a session after days of silence, and no network keeps a call for that
        long: calls in flight do not arrive. If they did, a copy of a session's first call would
        begin the session again, and lease tokens again under its old lease.
        """
        self._trace("store: forgets all sessions")
        self._era += 1
        self.model.forget_sessions()

    def fall_behind(self, changes: int) -> None:
        """From now on the standby receives nothing. After some changes it takes over."""
        if self._standby is None:
            self._standby = self.model.copy_tables()
            self._standby_grants = self.checker.leases.copy_grants()
            self._failover_in = changes

    def _maybe_fail_over(self) -> None:
        if self._standby is None:
            return
        self._failover_in -= 1
        if self._failover_in > 0:
            return
        self._trace("store: fails over, and loses what it did since its standby fell behind")
        self._coverage.hit("fault lossy")
        self.model.restore_tables(self._standby)
        self.checker.go_back(self._standby_grants)
        self._standby = None
        self._waiters.clear()
        if self.faults.of("restart") and self.state == "up":
            # This is a restart that lost what was not written yet.
            self.go("down")
            self.loop.call_later(RESTART, self.go, "up", context=self._process.context)

    def lose_everything(self) -> None:
        """The store loses everything."""
        self._trace("store: loses everything")
        self._coverage.hit("fault emptied")
        self._standby = None
        self.model.restore_tables(self.model.no_tables())
        self.checker.go_back({})

    def cancel_failover(self) -> None:
        """The standby has caught up."""
        self._standby = None

    # ── hints ───────────────────────────────────────────────────────────────────────────

    async def wait(self, timeout_ms: float, happened: Callable[[], bool]) -> bool:
        """Wait until something may have happened. False after the timeout."""
        process = current_process()
        future: asyncio.Future[bool] = self.loop.create_future()
        if self.state == "up":
            self._waiters[future] = (process, happened)
            if happened():
                self._hint(future)
        timer = self.loop.call_later(timeout_ms / 1000, finish, future, False, None)
        try:
            return await future
        finally:
            timer.cancel()
            self._waiters.pop(future, None)

    def _wake(self) -> None:
        for future, (process, happened) in list(self._waiters.items()):
            if not process.alive:
                del self._waiters[future]
            elif happened():
                self._hint(future)

    def _hint(self, future: asyncio.Future[bool]) -> None:
        process, _ = self._waiters.pop(future)
        if not self._strikes("lost_hint", 0.5):
            self.loop.call_later(
                self._latency(), finish, future, True, None, context=process.context
            )


def apply(operation: Coroutine[Any, Any, Any]) -> tuple[Any, Exception | None]:
    """Run a verb of the model, which never waits."""
    try:
        operation.send(None)
    except StopIteration as done:
        return done.value, None
    except MinuetError as error:
        return None, error
    raise AssertionError("a verb of the model waited for something")


def finish(reply: asyncio.Future[Any], result: Any, error: Exception | None) -> None:
    """Set the reply, unless there is one already or no caller waits any more."""
    if reply.done():
        return
    if error is not None:
        reply.set_exception(error)
    else:
        reply.set_result(result)


def _brief(request: Any, result: Any) -> str:
    """A call in one line of the trace."""
    if isinstance(result, Reply):
        items = [
            f"{type(item).__name__} {item.node}{item.scope}={answer}"
            for item, answer in zip(request.hand_in, result.results, strict=True)
        ]
        granted = [f"{g.node}{g.scope}{'~' if g.skip else ''}" for g in result.granted]
        return f"#{request.seq} in {items} renew {len(request.renew)} got {granted}"
    if isinstance(result, Run):
        return f"{result.run[-4:]} {result.status} seq {result.seq}"
    return f"{result!r:.120}"
