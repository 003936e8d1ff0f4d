"""What goes wrong in a seed.

Seeds take turns: nothing goes wrong; the surroundings fail; one node's handler fails (each time
another one); handlers have temporary troubles; everything at once. So a few dozen seeds cover
every node, and what a seed shows can still be understood.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from minuet.simulation.faults import Faults
from minuet.simulation.streams import Streams

#: Everything that can go wrong. Each can be left out. The first four are troubles of stubs.
TROUBLES = {
    "fail": "handlers fail permanently, or until their attempts are used up",
    "retry": "handlers fail, and succeed when they are retried",
    "slow": "handlers take longer than their timeout",
    "crash": "handlers kill their worker",
    "kill": "workers die, also between a handler's end and the commit of its result",
    "pause": "workers freeze for longer than a lease",
    "network": "calls to the store are delayed, lost, duplicated or cut off",
    "store": "the store refuses calls, is down, or does not know whether it applied one",
    "clock": "clocks jump and disagree",
}

_FAULTS = {
    "kill": ("kill", "drain"),
    "pause": ("pause",),
    "network": ("latency", "drop_request", "drop_reply", "duplicate", "disconnect", "lost_hint"),
    "store": ("refuse", "restart", "conflict", "ambiguous"),
    "clock": ("clock", "skew"),
}

MOODS = ("calm", "surroundings", "victim", "passing", "everything")


class Scenario(msgspec.Struct, frozen=True):
    """What goes wrong."""

    mood: str
    #: The node whose handler fails whenever it runs, and how: `fatal` (not retried),
    #: `again` (retried until its attempts are used up), `timeout` or `crash`.
    victim: str = ""
    way: str = ""
    #: Temporary troubles of handlers: `retry`, `slow`, `crash`.
    passing: tuple[str, ...] = ()
    #: Probability that a worker dies after a handler ended, before its result is handed in.
    deaths: float = 0.0
    faults: Faults = Faults()
    #: Probability that a loop continues.
    again: float = 0.5


def draw_scenario(
    streams: Streams,
    stubs: Sequence[str],
    timed: Collection[str],
    without: Collection[str] = (),
) -> Scenario:
    """Draw the scenario of a seed. `stubs` are the nodes whose handlers can be made to fail,
    `timed` those of them that have a timeout."""
    chance = streams.get("scenario")
    seed = streams.seed
    mood = MOODS[seed % len(MOODS)]
    again = chance.choice((0.2, 0.5, 1.0))
    if mood == "calm" or (mood == "victim" and stubs):
        victim = stubs[seed // len(MOODS) % len(stubs)] if mood == "victim" else ""
        ways = [("fail", "fatal"), ("fail", "again"), ("slow", "timeout"), ("crash", "crash")]
        left = [way for name, way in ways if name not in without]
        if victim not in timed and "timeout" in left:
            left.remove("timeout")
        if victim and left:
            # In turn, so that even a few seeds cover all ways.
            way = left[seed // len(MOODS) // len(stubs) % len(left)]
            return Scenario(mood, victim, way, again=again)
        return Scenario("calm", again=again)
    passing = []
    if mood in ("passing", "everything") and stubs:
        passing = [name for name in ("retry", "slow", "crash") if name not in without]
        if mood == "everything":
            passing = [name for name in passing if chance.random() < 0.5]
    strength: dict[str, float] = {}
    if mood != "passing" or not passing:
        for name, faults in _FAULTS.items():
            for fault in faults:
                is_on, strong = chance.random() < 0.4, chance.choice((0.1, 0.3, 1.0))
                if is_on and name not in without:
                    # Clocks that jump all the time hide everything else.
                    strength[fault] = 0.1 if name == "clock" else strong
    deaths = chance.choice((0.0, 0.1, 0.3)) if mood != "passing" and "kill" not in without else 0.0
    return Scenario(mood, "", "", tuple(passing), deaths, Faults(strength), again)
