"""How long names may be. Stores index them, and an index does not take any length.

Names of nodes, workflows and queues are bounded where documents are read. These come from programs
and templates while runs are created and executed. All stores refuse the same ones, in the same
words: `store.check` refuses those of new runs, changes and workers, the rules those of an exchange.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from minuet.store.exchange import Delivery, Slot

#: Longest name, in bytes of UTF-8: 255 characters of any kind.
NAME_BYTES_MAX = 1_020

#: A name of at most this many characters is never too long.
_SHORT = NAME_BYTES_MAX // 4

#: Sorts after every character, and so after every name.
LAST_CHARACTER = "\U0010ffff"

#: Characters of a long name that are shown.
_SHOWN = 100


def is_long(name: str) -> bool:
    """Whether a name is longer than every store can index."""
    return len(name) > _SHORT and len(name.encode()) > NAME_BYTES_MAX


def shown(name: str) -> str:
    """A name as a message shows it."""
    return name if len(name) <= _SHOWN else f"{name[:_SHOWN]}…"


def slot_key(item: Slot) -> str:
    """The stored key of a slot: a long one by its hash. Different keys are stored as
    different ones."""
    if not is_long(item.key):
        return item.key
    return f"{item.key[:_SHOWN]}…sha256:{hashlib.sha256(item.key.encode()).hexdigest()}"


def are_long(deliveries: Sequence[Delivery]) -> bool:
    """Whether a name in these deliveries is too long."""
    for d in deliveries:
        # Almost none is: together they are shorter than one may be.
        if len(d.node) + len(d.scope) + len(d.queue) > _SHORT and (
            is_long(d.node) or is_long(d.scope) or is_long(d.queue)
        ):
            return True
    return False


def too_long(name: str) -> str:
    """Why a name cannot be stored, and what to do."""
    return (
        f"has {len(name.encode())} bytes ({shown(name)!r}), at most {NAME_BYTES_MAX} are possible: "
        "use a shorter one, or a hash of it"
    )
