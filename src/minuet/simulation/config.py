"""The description of a world, and its outcome."""

from __future__ import annotations

import msgspec

from minuet.simulation.checker import BrokenRule

#: A world with more steps does not end.
STEPS_MAX = 400_000


class Config(msgspec.Struct, frozen=True, omit_defaults=True):
    """The description of a world. Fields that are None are drawn from the seed."""

    seed: int
    #: The kind of store whose faults occur (`profiles`). None: all faults.
    store: str | None = None
    tenants: int | None = None
    workers: int | None = None
    runs: int | None = None
    size: int | None = None
    #: Whether its workers register and some nodes have placement constraints.
    fleet: bool | None = None
    #: Whether some nodes start child runs.
    families: bool | None = None
    #: Whether workflows are deployed, and some runs are started by name.
    registry: bool | None = None
    #: Whether it has durable functions.
    functions: bool | None = None
    #: Whether some runs are of agents.
    agents: bool | None = None
    #: Whether clerks retry and discard dead letters.
    letters: bool | None = None
    #: Whether some nodes ask people.
    approvals: bool = False
    #: Whether some nodes have compensators, and clients undo runs.
    undo: bool = False
    #: Whether webhooks are sent.
    webhooks: bool = False
    #: Whether processes look for stalled runs.
    stalls: bool = False
    #: Whether the outputs of some runs may have only so many bytes.
    volume: bool = False
    #: Whether documents hold what fails, and people repair runs.
    repairs: bool = False
    #: Faults that are off, regardless of the draw.
    without: tuple[str, ...] = ()
    #: Faults that are on at full strength, regardless of the draw.
    add: tuple[str, ...] = ()
    #: How much more often the nemesis strikes.
    haste: int = 1
    #: Without interference from clients.
    calm_clients: bool = False
    #: Compare the results with those of the same world without faults.
    compare: bool = True
    #: The call whose process is killed, before or after the call is applied.
    kill_before: int | None = None
    kill_after: int | None = None
    steps_max: int = STEPS_MAX
    trace: bool = False

    @property
    def kills(self) -> bool:
        """Whether a process is killed at a certain call."""
        return self.kill_before is not None or self.kill_after is not None


class Outcome(msgspec.Struct, frozen=True):
    """The outcome of a world."""

    config: Config
    broken: BrokenRule | None
    #: A hash of everything that happened.
    history: str
    steps: int
    calls: int
    seconds: float
    coverage: dict[str, int]
    faults: dict[str, float]
    trace: tuple[str, ...] = ()
    #: The outputs of deterministic nodes.
    results: dict[str, dict[str, str]] = {}
