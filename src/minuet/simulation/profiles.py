"""Which faults each kind of store can have, by name, so that one can ask for just these.

A seed draws from all faults unless it is told which store to be. What a real store does beyond
this (SQL, Lua, drivers, disks) is not simulated; the conformance suite and the fault tests look
at it.
"""

from __future__ import annotations

import msgspec

from minuet.simulation.faults import FAULTS, Faults

_NETWORK = ("latency", "drop_request", "drop_reply", "duplicate", "disconnect")


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of store."""

    summary: str
    #: Faults that it cannot have, and faults that it always has.
    never: tuple[str, ...] = ()
    always: tuple[str, ...] = ()
    #: Whether it is the hot half of a logged store.
    logged: bool = False

    def apply(self, drawn: Faults) -> Faults:
        """The faults of a world on this store, given those that were drawn."""
        strength = {**dict.fromkeys(self.always, 0.3), **drawn.strength}
        return Faults({name: strength[name] for name in FAULTS if name in strength}).without(
            *self.never
        )


PROFILES: dict[str, Profile] = {
    "sqlite": Profile(
        summary="a file: no network; locked, full or away for a while; nothing answered is lost",
        never=(*_NETWORK, "lossy", "forget", "ambiguous"),
        always=("refuse",),
    ),
    "postgres": Profile(
        summary="strict: transactions undone by others, commits with an unknown end, "
        "connections lost; nothing answered is lost, sessions included",
        never=("lossy", "forget", "duplicate"),
        always=("conflict", "ambiguous", "disconnect", "restart"),
    ),
    "redis-always": Profile(
        summary="appendfsync always, one node: connections lost, calls repeated, restarts; "
        "nothing answered is lost",
        never=("lossy", "forget", "conflict"),
        always=("disconnect", "duplicate", "restart"),
    ),
    "redis-everysec": Profile(
        summary="appendfsync everysec, or a failover: a restart loses the last things answered",
        never=("forget", "conflict"),
        always=("lossy", "disconnect", "duplicate", "restart"),
    ),
    "logged": Profile(
        summary="Redis with a record in PostgreSQL: Redis may lose the end of what it has "
        "answered, or everything, and the record may be away; nothing that anybody was told of "
        "is lost",
        never=("forget", "conflict"),
        always=("lossy", "disconnect", "duplicate", "restart"),
        logged=True,
    ),
}
