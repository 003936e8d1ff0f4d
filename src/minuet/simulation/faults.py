"""Which faults a world has, and how strong: each seed draws its own mixture.

Swarm testing: a world with every fault at once mostly shows the loudest one, and a world with
few of them shows how those few interact. So each class is on or off, with its own strength.
"""

from __future__ import annotations

import random

import msgspec

#: The classes of faults, in the order in which they are drawn.
FAULTS = (
    "latency",  #: calls take their time, and overtake each other
    "drop_request",  #: a call never arrives
    "drop_reply",  #: a call is done, and nobody hears of it
    "duplicate",  #: a call arrives twice
    "refuse",  #: the store refuses everything for a while
    "restart",  #: the store's process dies and comes back, with what it had committed
    "forget",  #: … and has forgotten all sessions
    "lossy",  #: the store is set back to an earlier state: a failover that loses a suffix
    "clock",  #: the store's clock jumps, forward or backward
    "skew",  #: the workers' clocks are wrong
    "kill",  #: a worker dies without a word
    "pause",  #: a worker stands still, perhaps for longer than its leases
    "drain",  #: a worker is asked to stop, and another takes its place
    "slow",  #: handlers take longer than a lease
    "fail",  #: handlers fail
    "crash",  #: handlers kill their process
    "lost_hint",  #: nobody is told that there is work
    "client",  #: clients die in the middle of a call and begin again
    "conflict",  #: a call is undone because of others, and told so: repeat it
    "ambiguous",  #: a call is done, and an error says that nobody knows
    "disconnect",  #: a process loses its connection, and all its calls with it
)


#: Faults that cost no worker a lease, as long as it does its work.
BENIGN = ("duplicate", "skew", "drain", "slow", "fail", "lost_hint", "client")


class Faults(msgspec.Struct, frozen=True):
    """Strengths in [0, 1] by class; a class that is absent is off."""

    strength: dict[str, float] = {}

    def of(self, fault: str) -> float:
        """How strong a fault is."""
        return self.strength.get(fault, 0.0)

    @property
    def are_benign(self) -> bool:
        """Whether every worker that lives can reach the store, and none dies."""
        return self.strength.keys() <= set(BENIGN)

    def without(self, *faults: str) -> Faults:
        """The same world with some faults off."""
        return Faults({name: s for name, s in self.strength.items() if name not in faults})


def draw_faults(chance: random.Random, *, likelihood: float = 0.4) -> Faults:
    """Draw a mixture. Losing what was acknowledged is rare: it excuses too much."""
    found: dict[str, float] = {}
    for fault in FAULTS:
        on = chance.random() < (likelihood * 0.35 if fault == "lossy" else likelihood)
        strength = chance.choice((0.1, 0.3, 1.0))
        if on:
            found[fault] = strength
    if "forget" in found:
        found.setdefault("restart", found["forget"])
    drawn = Faults(found)
    if chance.random() < 0.2:
        # A healthy world: in it, slips are no excuse.
        drawn = drawn.without(*(fault for fault in FAULTS if fault not in BENIGN))
    return drawn
