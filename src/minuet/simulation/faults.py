"""Which faults a world has, and how strong: each seed draws its own mixture.

This is swarm testing: a world with every fault at once mostly shows the loudest one; a world with
a few faults shows how they interact. So each class is on or off, with its own strength.
"""

from __future__ import annotations

import random

import msgspec

#: The classes of faults, in the order in which they are drawn.
FAULTS = (
    "latency",  #: calls are delayed and overtake each other
    "drop_request",  #: a call never arrives
    "drop_reply",  #: a call is applied, but the reply is lost
    "duplicate",  #: a call arrives twice
    "refuse",  #: the store refuses everything for a while
    "restart",  #: the store's process dies and comes back, with what it had committed
    "forget",  #: … and has forgotten all sessions
    "lossy",  #: the store is rolled back to an earlier state: a failover that loses a suffix
    "clock",  #: the store's clock jumps, forward or backward
    "skew",  #: the workers' clocks are wrong
    "kill",  #: a worker dies without notice
    "pause",  #: a worker freezes, perhaps for longer than its leases
    "drain",  #: a worker is asked to stop, and another takes its place
    "slow",  #: handlers take longer than a lease
    "fail",  #: handlers fail
    "crash",  #: handlers kill their process
    "lost_hint",  #: a hint that there is work is lost
    "client",  #: clients die during a call and start again
    "conflict",  #: a call is rolled back because of others, and the error says so: repeat it
    "ambiguous",  #: a call is applied, but an error says that its outcome is unknown
    "disconnect",  #: a process loses its connection, and all its calls with it
    "contents",  #: the blob store loses puts, is late, and reads come out damaged
)


#: Faults that do not cost a working worker its lease.
BENIGN = ("duplicate", "skew", "drain", "slow", "fail", "lost_hint", "client")

#: How often a class is on.
LIKELIHOOD = 0.4


class Faults(msgspec.Struct, frozen=True):
    """Strengths in [0, 1] by class. An absent class is off."""

    strength: dict[str, float] = {}

    def of(self, fault: str) -> float:
        """The strength of a fault."""
        return self.strength.get(fault, 0.0)

    @property
    def are_benign(self) -> bool:
        """Whether all workers can reach the store and none dies."""
        return self.strength.keys() <= set(BENIGN)

    def without(self, *faults: str) -> Faults:
        """The same world with some faults off."""
        return Faults({name: s for name, s in self.strength.items() if name not in faults})


def draw_faults(chance: random.Random) -> Faults:
    """Draw a mixture. Losing what was acknowledged is rare: it excuses too much."""
    found: dict[str, float] = {}
    for fault in FAULTS[:-1]:
        on = chance.random() < (LIKELIHOOD * 0.35 if fault == "lossy" else LIKELIHOOD)
        strength = chance.choice((0.1, 0.3, 1.0))
        if on:
            found[fault] = strength
    if "forget" in found:
        found.setdefault("restart", found["forget"])
    drawn = Faults(found)
    if chance.random() < 0.2:
        # A healthy world: here no lost lease is excused.
        return drawn.without(*(fault for fault in FAULTS if fault not in BENIGN))
    # Drawn last, so that a seed has the other faults that it always had.
    if chance.random() < LIKELIHOOD:
        drawn = Faults({**drawn.strength, FAULTS[-1]: chance.choice((0.1, 0.3, 1.0))})
    return drawn
