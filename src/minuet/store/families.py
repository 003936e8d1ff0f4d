"""Which run is the child of a node instance.

The id of a child run follows from the instance that starts it, so that there is one child an
instance however often it is started, and anybody can find it. An instance of a durable function
has several: the id also follows from which of them it is. It is the same in all stores, so
runs that are moved to another one find their children there.
"""

from __future__ import annotations

import binascii
import hashlib
import json
from itertools import count

from minuet.events import Place
from minuet.scopes import encode
from minuet.store.records import CHILD_SIGNAL, FLOW_WAIT, Key, Run, Snapshot
from minuet.types import UNDO

#: Partitions of a store that spreads its runs over several servers (`redis.partitions`). A family
#: lies in one of them, where one step can read and change all its runs. The number is part of
#: where runs lie: it never changes.
PARTITIONS = 16


def partition_of(run: str) -> int:
    """The partition of a run."""
    return binascii.crc32(run.encode()) % PARTITIONS


def child_id(instance: Key, number: int = 0) -> str:
    """The id of the run that a node instance starts: in the form of a run id, beside its parent
    in the order of ids, and in its partition.

    A durable function starts several, and numbers them from 1 on.
    """
    run, node, scope = instance
    home = partition_of(run)
    which = f"\nchild {number}" if number else ""
    for guess in count():
        digest = hashlib.sha256(f"{run}\n{node}\n{scope}\n{guess}{which}".encode()).hexdigest()
        # A parent's id that is not a UUID has no time at its beginning.
        time = run[:13] if _is_uuid(run) else f"{digest[20:28]}-{digest[28:32]}"
        variant = "89ab"[int(digest[3], 16) & 3]
        found = f"{time}-7{digest[:3]}-{variant}{digest[4:7]}-{digest[7:19]}"
        if partition_of(found) == home:
            return found
    raise AssertionError("one of sixteen fits")


def end_signal(run: Run) -> str:
    """The id of the signal by which a durable function learns that a child run of it is over. Each
    generation has its own."""
    return f"{CHILD_SIGNAL}{run.run}:{run.generation}"


def undo_place(run: Run, parent: Run) -> Place:
    """The instance of a parent that undoes one of its child runs, in the parent's latest undo: of
    the node that an author wrote, also where a foreach has made hidden ones of it."""
    node = run.parent_node.partition("$")[0] + UNDO
    return node, run.parent_scope + encode((parent.undos,))


def named_children(wait: str, key: str) -> list[str]:
    """The child runs whose ends a token waits for, by the kind and the key of its wait. If a
    function waits for any of its own, they have no names there."""
    if wait == "child":
        return [key]
    if wait != FLOW_WAIT or CHILD_SIGNAL not in key:
        return []
    ends = [name for name in json.loads(key) if name.startswith(CHILD_SIGNAL)]
    return [name.removeprefix(CHILD_SIGNAL) for name in ends if name != CHILD_SIGNAL]


def awaited_children(rows: Snapshot) -> list[str]:
    """The child runs whose ends tokens of a run wait for; if a function waits for any of its own,
    those that it may have started."""
    found = []
    for token in rows.tokens:
        found += named_children(token.wait, token.wait_key)
        if token.wait == FLOW_WAIT and f'"{CHILD_SIGNAL}"' in token.wait_key:
            found += [child_id(token.key, n) for n in range(1, rows.run.children + 1)]
    return found


def _is_uuid(run: str) -> bool:
    return len(run) == 36 and [at for at, one in enumerate(run) if one == "-"] == [8, 13, 18, 23]
