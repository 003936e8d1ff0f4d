"""Causes faults at random, and then stops them.

`Crew` keeps the workers running: it replaces each worker that dies or is drained. `Nemesis` strikes
at random moments until `heal`, which repairs everything.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

from minuet.simulation.coverage import Coverage
from minuet.simulation.faults import Faults
from minuet.simulation.loop import Process, SimLoop
from minuet.simulation.model import StoreClock
from minuet.simulation.server import Server
from minuet.simulation.streams import Streams
from minuet.worker.worker import Worker

#: Mean seconds between two strikes of a fault at full strength.
GAP = 4.0


class Member:
    """A position in the crew, and the process that currently fills it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.process: Process | None = None
        self.worker: Worker | None = None
        self.count = 0


class Crew:
    """The workers, replaced when they end."""

    def __init__(
        self,
        loop: SimLoop,
        make: Callable[[str], Worker],
        failed: Callable[[str, BaseException], None],
        restart_s: Callable[[], float],
    ) -> None:
        self._loop = loop
        self._make = make
        self._failed = failed
        self._restart_s = restart_s
        self._supervisor = loop.process("supervisor")
        self.members: list[Member] = []

    def hire(self, name: str) -> None:
        """Add a worker."""
        member = Member(name)
        self.members.append(member)
        self._start(member)

    def _start(self, member: Member) -> None:
        member.count += 1
        process = member.process = self._loop.process(f"{member.name}.{member.count}")
        process.killed = lambda: self._replace(member)
        process.spawn(self._run(member, process))

    async def _run(self, member: Member, process: Process) -> None:
        member.worker = self._make(process.name)
        try:
            await member.worker.run()
        except Exception as error:
            self._failed(process.name, error)
        process.kill()

    def _replace(self, member: Member) -> None:
        member.process = None
        self._loop.call_later(
            self._restart_s(), self._start, member, context=self._supervisor.context
        )


class Nemesis:
    """Strikes at random, then heals."""

    def __init__(
        self,
        loop: SimLoop,
        streams: Streams,
        faults: Faults,
        crew: Crew,
        server: Server,
        clock: StoreClock,
        clients: Callable[[], list[Process]],
        coverage: Coverage,
        trace: Callable[[str], None],
        lease_s: float,
        haste: float = 1.0,
    ) -> None:
        self._gap = GAP / haste
        self._loop = loop
        self._streams = streams
        self._faults = faults
        self._crew = crew
        self._server = server
        self._clock = clock
        self._clients = clients
        self._coverage = coverage
        self._trace = trace
        self._lease_s = lease_s
        self._process = loop.process("nemesis")
        self._latest_ms = 0

    def begin(self) -> None:
        """Strike until `heal`."""
        for fault in (
            "kill",
            "pause",
            "drain",
            "refuse",
            "restart",
            "lossy",
            "clock",
            "client",
            "disconnect",
        ):
            strength = self._faults.of(fault)
            if strength:
                strike = getattr(self, "_clock_jump" if fault == "clock" else f"_{fault}")
                self._process.spawn(self._strike(fault, strike, self._gap / (0.3 + strength)))

    async def _strike(
        self, fault: str, strike: Callable[[random.Random], bool], gap: float
    ) -> None:
        # A stream per fault: switching one off leaves the others where they were.
        chance = self._streams.get(f"nemesis/{fault}")
        while True:
            await asyncio.sleep(chance.expovariate(1 / gap))
            if strike(chance):
                self._coverage.hit(f"fault {fault}")

    def heal(self) -> None:
        """Stop, and repair everything."""
        self._process.kill()
        self._server.before_answer = None
        self._server.go("up")
        self._server.cancel_failover()
        for member in self._crew.members:
            if member.process is not None and member.process.paused:
                member.process.proceed()
        if self._streams.get("heal").random() < 0.8:
            # The clock is corrected, or stays wrong, which must work as well.
            self._clock.offset_ms = max(self._latest_ms, self._clock.offset_ms)

    # ── processes ───────────────────────────────────────────────────────────────────────

    def _victim(self, chance: random.Random) -> Process | None:
        living = [m.process for m in self._crew.members if m.process is not None]
        return chance.choice(living) if living else None

    def _kill(self, chance: random.Random) -> bool:
        victim = self._victim(chance)
        if victim is None:
            return False
        self._trace(f"kill {victim.name}")
        victim.kill()
        return True

    def _pause(self, chance: random.Random) -> bool:
        victim = self._victim(chance)
        if victim is None or victim.paused:
            return False
        seconds = self._lease_s * chance.choice((0.2, 0.9, 1.1, 2.0, 4.0))
        self._trace(f"pause {victim.name} for {seconds:g} s")
        victim.pause()
        # Not in the nemesis' context: a paused process continues after the nemesis has stopped.
        self._loop.call_later(seconds, victim.proceed, context=victim.loop.outer)
        return True

    def _drain(self, chance: random.Random) -> bool:
        living = [m for m in self._crew.members if m.process is not None and m.worker is not None]
        if not living:
            return False
        member = chance.choice(living)
        assert member.process is not None
        assert member.worker is not None
        self._trace(f"drain {member.process.name}")
        self._loop.call_soon(member.worker.stop, context=member.process.context)
        return True

    def _client(self, chance: random.Random) -> bool:
        clients = self._clients()
        if not clients:
            return False
        victim = chance.choice(clients)
        self._trace(f"kill {victim.name}")
        victim.kill()
        return True

    def _disconnect(self, chance: random.Random) -> bool:
        victim = self._victim(chance)
        return victim is not None and self._server.disconnect(victim)

    # ── the store ───────────────────────────────────────────────────────────────────────

    def _refuse(self, chance: random.Random) -> bool:
        # Some are longer than a lease: then no worker can renew, and none has died.
        outages = (0.1, 0.5, 1.2 * self._lease_s, 2.5 * self._lease_s, 6.0)
        return self._cut_off("refusing", chance.choice(outages))

    def _restart(self, chance: random.Random) -> bool:
        seconds = chance.choice((0.05, 0.5, 3.0))
        if self._server.state != "up":
            return False
        if chance.random() < 0.5:
            self._die(seconds)
        else:
            # The worst moment: applied, but no caller knows.
            self._server.before_answer = lambda: self._die(seconds)
        return True

    def _die(self, seconds: float) -> None:
        """The store's process ends and comes back."""
        if self._cut_off("down", seconds) and self._faults.of("forget"):
            self._coverage.hit("fault forget")
            self._server.forget_sessions()

    def _cut_off(self, state: str, seconds: float) -> bool:
        if self._server.state != "up":
            return False
        self._server.go(state)
        self._loop.call_later(seconds, self._server.go, "up", context=self._process.context)
        return True

    def _lossy(self, chance: random.Random) -> bool:
        # The fault counts when the standby takes over.
        self._server.fall_behind(chance.choice((1, 1, 2, 5, 10)))
        return False

    def _clock_jump_ms(self, chance: random.Random) -> int:
        lease_ms = int(self._lease_s * 1000)
        return chance.choice((-40_000, -2 * lease_ms, -500, 500, 2 * lease_ms, 60_000))

    def _clock_jump(self, chance: random.Random) -> bool:
        jump_ms = self._clock_jump_ms(chance)
        self._trace(f"the store's clock jumps by {jump_ms} ms")
        self._clock.offset_ms += jump_ms
        self._latest_ms = max(self._latest_ms, self._clock.offset_ms)
        return True
