"""Which version of keys and rows a store has: written once in each partition, and checked by all.

The number grows with every change that an older Minuet could not read, or would damage.
"""

from __future__ import annotations

from collections.abc import Sequence

from minuet.errors import StoreUnusableError
from minuet.store.redis.address import Address
from minuet.store.redis.connection import Connection

#: 2: blobs that belong to a run. 3: tokens keep the leases that expired. 4: runs name the version
#: of a deployed workflow.
LAYOUT = 4

#: Earlier layouts that this version reads unchanged.
_EARLIER = frozenset({1, 2, 3})


async def check_layout(connection: Connection, partitions: Sequence[str], address: Address) -> None:
    """Refuse keys of a newer version; say in new partitions which one this is."""
    for partition in partitions:
        key = f"{partition}:layout"
        found = await connection.command("GET", key)
        if found is None:
            await connection.command("SET", key, LAYOUT, "NX")
            found = await connection.command("GET", key)
        elif int(found) in _EARLIER:
            await connection.command("SET", key, LAYOUT)
            found = LAYOUT
        if found is not None and int(found) != LAYOUT:
            raise StoreUnusableError(
                f"the Redis server at {address.shown}: the keys of {address.prefix} have layout "
                f"{int(found)}, and this version of Minuet knows {LAYOUT}: use the version that "
                "made them, or another prefix"
            )
