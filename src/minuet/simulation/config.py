"""What describes a world, and what came of it."""

from __future__ import annotations

import msgspec

from minuet.simulation.checker import Broken

#: Steps of a world that does not come to an end.
STEPS_MAX = 400_000


class Config(msgspec.Struct, frozen=True, omit_defaults=True):
    """A world, described. Whatever is None is drawn from the seed."""

    seed: int
    #: The kind of store whose faults there are (`profiles`); None: all of them.
    store: str | None = None
    tenants: int | None = None
    workers: int | None = None
    runs: int | None = None
    size: int | None = None
    #: Whether its workers register and some nodes have placement constraints.
    fleet: bool | None = None
    #: Faults that are off, whatever was drawn.
    without: tuple[str, ...] = ()
    #: Faults that are on at full strength, whatever was drawn.
    add: tuple[str, ...] = ()
    #: How much more often the nemesis strikes.
    haste: int = 1
    #: Without interference from clients.
    calm_clients: bool = False
    #: Compare what came of the runs with what comes of them when nothing goes wrong.
    compare: bool = True
    #: The call at which the process that makes it is killed: before it is done, or after.
    kill_before: int | None = None
    kill_after: int | None = None
    steps_max: int = STEPS_MAX
    trace: bool = False

    @property
    def kills(self) -> bool:
        """Whether a process is killed at a certain call."""
        return self.kill_before is not None or self.kill_after is not None


class Outcome(msgspec.Struct, frozen=True):
    """What came of a world."""

    config: Config
    broken: Broken | None
    #: Of everything that happened.
    history: str
    steps: int
    calls: int
    seconds: float
    coverage: dict[str, int]
    faults: dict[str, float]
    trace: tuple[str, ...] = ()
    #: What the nodes of those runs gave that could not have given anything else.
    results: dict[str, dict[str, str]] = {}
