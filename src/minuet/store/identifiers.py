"""How long names may be. Stores index them, and no index takes just any length.

Names of nodes, workflows and queues are bounded where documents are read. These come from programs
and templates while runs are made and executed. All stores refuse the same ones, in the same words.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from minuet.errors import RunConflictError, StoreError
from minuet.store.records import Change, Delivery, NewPlan, NewRun, Slot, Start

#: Longest name, in bytes of UTF-8: 255 characters of any kind.
NAME_BYTES_MAX = 1_020

#: No name of so many characters has too many bytes.
_SHORT = NAME_BYTES_MAX // 4

#: As much of a long key is kept as it is, for people.
_SHOWN = 100


def is_long(name: str) -> bool:
    """Whether a name is longer than every store can index."""
    return len(name) > _SHORT and len(name.encode()) > NAME_BYTES_MAX


def shown(name: str) -> str:
    """A name as a message shows it."""
    return name if len(name) <= _SHOWN else f"{name[:_SHOWN]}…"


def slot_key(item: Slot) -> str:
    """The key of a slot as it is kept: a long one by its hash. Two keys are the same if and only
    if they are kept as the same."""
    if not is_long(item.key):
        return item.key
    return f"{item.key[:_SHOWN]}…sha256:{hashlib.sha256(item.key.encode()).hexdigest()}"


def check_new_runs(runs: Sequence[NewRun]) -> None:
    """Refuse runs with names that cannot be kept."""
    for new in runs:
        names = {
            "id": new.run,
            "tenant": new.tenant,
            "workflow's name": new.workflow,
            "idempotency key": new.idempotency_key or "",
        }
        for what, name in names.items():
            if is_long(name):
                raise RunConflictError(shown(new.run), f"its {what} {_too_long(name)}")
        check_deliveries(new.run, new.entries or ())


def check_deliveries(run: str, deliveries: Sequence[Delivery]) -> None:
    """Refuse deliveries to nodes and queues with names that cannot be kept."""
    for d in deliveries:
        for what, name in (("node", d.node), ("scope", d.scope), ("queue", d.queue)):
            if is_long(name):
                raise RunConflictError(run, f"the name of a {what} {_too_long(name)}")


def check_change(run: str, change: Change) -> None:
    """Refuse a change that brings names which cannot be kept."""
    if isinstance(change, Start):
        check_deliveries(run, change.entries)
    elif isinstance(change, NewPlan):
        check_deliveries(run, [delivery for _, _, delivery in change.deliveries])


def are_long(deliveries: Sequence[Delivery]) -> bool:
    """Whether one of these names cannot be kept."""
    for d in deliveries:
        if max(len(d.node), len(d.scope), len(d.queue)) > _SHORT and (
            is_long(d.node) or is_long(d.scope) or is_long(d.queue)
        ):
            return True
    return False


def check_name(what: str, name: str) -> None:
    """Refuse the name of a step, a worker or a tenant that cannot be kept."""
    if is_long(name):
        raise StoreError(f"the name of a {what} {_too_long(name)}")


def _too_long(name: str) -> str:
    return (
        f"has {len(name.encode())} bytes ({shown(name)!r}), at most {NAME_BYTES_MAX} are possible: "
        "use a shorter one, or a hash of it"
    )
