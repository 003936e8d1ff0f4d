"""Which faults each kind of store can have, by name, so that they can be selected.

By default a seed draws from all faults. What a real store adds (SQL, Lua, drivers, disks) is not
simulated. The conformance suite and the fault tests cover it.
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
        summary="a file: no network; sometimes locked, full or down; nothing acknowledged is lost",
        never=(*_NETWORK, "lossy", "forget", "ambiguous"),
        always=("refuse",),
    ),
    "postgres": Profile(
        summary="strict: transactions rolled back by others, commits with an unknown outcome, "
        "connections lost; nothing acknowledged is lost, including sessions",
        never=("lossy", "forget", "duplicate"),
        always=("conflict", "ambiguous", "disconnect", "restart"),
    ),
    "redis-always": Profile(
        summary="appendfsync always, one node: connections lost, calls repeated, restarts; "
        "nothing acknowledged is lost",
        never=("lossy", "forget", "conflict"),
        always=("disconnect", "duplicate", "restart"),
    ),
    "redis-everysec": Profile(
        summary="appendfsync everysec, or a failover: a restart loses the last acknowledged calls",
        never=("forget", "conflict"),
        always=("lossy", "disconnect", "duplicate", "restart"),
    ),
    "logged": Profile(
        summary="Redis with a record in PostgreSQL: Redis may lose the last acknowledged calls, or "
        "everything, and the record may be down; nothing that was reported is lost",
        never=("forget", "conflict"),
        always=("lossy", "disconnect", "duplicate", "restart"),
        logged=True,
    ),
}
